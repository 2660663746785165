//! All legal forms of the table.
