//! What a function does with tensor memory, and what all instructions of tensor memory share.

/// What a function does with tensor memory, as the attributes of its kernels declare it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorMemoryUse {
    /// Whether there are instructions that work for one block (`.cta_group::1`), and for two (`.cta_group::2`).
    pub groups: [bool; 2],
    /// Whether it allocates or frees columns, or gives up the right to allocate.
    pub allocates: bool,
    /// Whether it multiplies sparse matrices.
    pub multiplies_sparse: bool,
}
