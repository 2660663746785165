//! Decodes special registers.

use oriole_ptx::table::SpecialRegister;

use super::{Decode, Decoder, Missing};
use crate::ptx::program::{Action, Slot, Special};

impl Decoder<'_> {
    /// Emits a read of a special register into a temporary and returns its slot.
    pub(crate) fn special(&mut self, special: SpecialRegister) -> Decode<Slot> {
        let register = find(special).ok_or_else(|| Missing::new(format!("the special register {special}")))?;
        let destination = self.temporary();
        self.push_always(Action::Special { destination, register });
        Ok(destination)
    }
}

/// Returns the interpreter's name of a special register; `None` if it is not implemented.
fn find(special: SpecialRegister) -> Option<Special> {
    let axis = special.component.index().unwrap_or(0);
    let name = special.row().name;
    if axis == 3 {
        return Some(Special::Zero);
    }
    Some(match name {
        "%tid" => Special::Thread(axis),
        "%ntid" => Special::BlockSize(axis),
        "%ctaid" => Special::Block(axis),
        "%nctaid" => Special::GridSize(axis),
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" | "%gridid" | "%current_graph_exec" => Special::Zero,
        "%nsmid" => Special::One,
        "%lanemask_eq" => Special::LanesEqual,
        "%lanemask_lt" => Special::LanesBelow,
        "%lanemask_le" => Special::LanesUpTo,
        "%lanemask_gt" => Special::LanesAbove,
        "%lanemask_ge" => Special::LanesFrom,
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => Special::Clock,
        "%clock_hi" | "%globaltimer_hi" => Special::ClockHigh,
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalShared,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%is_explicit_cluster" => Special::IsExplicitCluster,
        "%clusterid" => Special::Cluster(axis),
        "%nclusterid" => Special::Clusters(axis),
        "%cluster_ctaid" => Special::ClusterBlock(axis),
        "%cluster_nctaid" => Special::ClusterSize(axis),
        "%cluster_ctarank" => Special::ClusterRank,
        "%cluster_nctarank" => Special::ClusterBlocks,
        _ if name.starts_with("%pm") || name.starts_with("%envreg") => Special::Zero,
        _ => return None,
    })
}
