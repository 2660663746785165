//! Decodes special registers.

use oriole_ptx::table::SpecialRegister;

use super::{Decode, FunctionDecoder, Missing};
use crate::ptx::program::{PtxAction, PtxSpecialRegister, RegisterSlot};

impl FunctionDecoder<'_> {
    /// Emits a read of a special register into a temporary and returns its slot.
    pub(crate) fn special(&mut self, special: SpecialRegister) -> Decode<RegisterSlot> {
        let register = find(special).ok_or_else(|| Missing::new(format!("the special register {special}")))?;
        let destination = self.temporary();
        self.push_always(PtxAction::Special { destination, register });
        Ok(destination)
    }
}

/// Returns the interpreter's name of a special register; `None` if it is not implemented.
fn find(special: SpecialRegister) -> Option<PtxSpecialRegister> {
    let axis = special.component.index().unwrap_or(0);
    let name = special.row().name;
    if axis == 3 {
        return Some(PtxSpecialRegister::Zero);
    }
    Some(match name {
        "%tid" => PtxSpecialRegister::Thread(axis),
        "%ntid" => PtxSpecialRegister::BlockSize(axis),
        "%ctaid" => PtxSpecialRegister::Block(axis),
        "%nctaid" => PtxSpecialRegister::GridSize(axis),
        "%laneid" => PtxSpecialRegister::Lane,
        "%warpid" => PtxSpecialRegister::Warp,
        "%nwarpid" => PtxSpecialRegister::Warps,
        "%smid" | "%gridid" | "%current_graph_exec" => PtxSpecialRegister::Zero,
        "%nsmid" => PtxSpecialRegister::One,
        "%lanemask_eq" => PtxSpecialRegister::LanesEqual,
        "%lanemask_lt" => PtxSpecialRegister::LanesBelow,
        "%lanemask_le" => PtxSpecialRegister::LanesUpTo,
        "%lanemask_gt" => PtxSpecialRegister::LanesAbove,
        "%lanemask_ge" => PtxSpecialRegister::LanesFrom,
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => PtxSpecialRegister::Clock,
        "%clock_hi" | "%globaltimer_hi" => PtxSpecialRegister::ClockHigh,
        "%total_smem_size" | "%aggr_smem_size" => PtxSpecialRegister::TotalShared,
        "%dynamic_smem_size" => PtxSpecialRegister::DynamicShared,
        "%is_explicit_cluster" => PtxSpecialRegister::IsExplicitCluster,
        "%clusterid" => PtxSpecialRegister::Cluster(axis),
        "%nclusterid" => PtxSpecialRegister::Clusters(axis),
        "%cluster_ctaid" => PtxSpecialRegister::ClusterBlock(axis),
        "%cluster_nctaid" => PtxSpecialRegister::ClusterSize(axis),
        "%cluster_ctarank" => PtxSpecialRegister::ClusterRank,
        "%cluster_nctarank" => PtxSpecialRegister::ClusterBlocks,
        _ if name.starts_with("%pm") || name.starts_with("%envreg") => PtxSpecialRegister::Zero,
        _ => return None,
    })
}
