//! Machine code by its bytes.
