//! What a multiprocessor of each target has.
