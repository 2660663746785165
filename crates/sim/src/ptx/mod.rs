//! PTX by the manual: the reference that everything else is compared with.
