//! How many blocks of a kernel fit on a multiprocessor.
