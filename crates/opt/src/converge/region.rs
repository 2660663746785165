//! The regions that convergence barriers enclose.

use oriole_ir::Block;

/// A single-entry region: threads that diverge at or after the end of `entry` reconverge at `exit`. `entry` gets the `BSSY`, `exit` the
/// `BSYNC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConvergenceRegion {
    /// The block that sets the barrier (`BSSY`) at its end.
    pub(crate) entry: Block,
    /// The reconvergence point. Its `BSYNC` waits until the threads that entered the region have arrived.
    pub(crate) exit: Block,
}
