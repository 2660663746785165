//! Maps each PTX opcode to the handler that selects it.

use oriole_ptx::table::{Modifier, Opcode};

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::{
    atomics, barrier, bits, bulk, bulk_tensor, calls, cluster, compare, control, convert, fence, float, integer, launch_control, logic,
    mbarrier, memory, moves, multimem, stack, tensor, tensormap, texture, video, warp,
};

/// Selects one instruction. Opcodes that exist for integers and floating point are distinguished by type; an unknown opcode is an error.
pub(crate) fn select(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    match ptx.opcode() {
        Opcode::Mov => moves::mov(select, ptx),
        Opcode::Cvta => memory::cvta(select, ptx),
        Opcode::Isspacep => memory::isspacep(select, ptx),
        Opcode::Istypep => memory::istypep(select, ptx),
        Opcode::Ld | Opcode::Ldu => memory::load(select, ptx),
        Opcode::St => memory::store(select, ptx),
        Opcode::Prefetch if ptx.has(Modifier::Tensormap) => bulk_tensor::prefetch_map(select, ptx),
        Opcode::Prefetch | Opcode::Prefetchu => memory::prefetch(select, ptx),
        Opcode::Applypriority => memory::applypriority(select, ptx),
        Opcode::Discard => memory::discard(select, ptx),
        Opcode::Createpolicy => memory::createpolicy(select, ptx),
        Opcode::Atom | Opcode::Red => atomics::atomic(select, ptx),
        Opcode::MultimemLdReduce => multimem::load_reduced(select, ptx),
        Opcode::MultimemSt => multimem::store(select, ptx),
        Opcode::MultimemRed => atomics::atomic(select, ptx),
        Opcode::Fence | Opcode::Membar => fence::fence(select, ptx),
        Opcode::Add | Opcode::Sub | Opcode::Mul if float::is_float(ptx.ty()) => float::arithmetic(select, ptx),
        Opcode::Fma => float::fused(select, ptx),
        Opcode::Mad if float::is_float(ptx.ty()) => float::fused(select, ptx),
        Opcode::Abs | Opcode::Neg if float::is_float(ptx.ty()) => float::sign(select, ptx),
        Opcode::Min | Opcode::Max if float::is_float(ptx.ty()) => float::min_max(select, ptx),
        Opcode::Div if float::is_float(ptx.ty()) => float::divide(select, ptx),
        Opcode::Rcp | Opcode::Sqrt | Opcode::Rsqrt | Opcode::Sin | Opcode::Cos | Opcode::Lg2 | Opcode::Ex2 | Opcode::Tanh => {
            float::function(select, ptx)
        }
        Opcode::Copysign => float::copy_sign(select, ptx),
        Opcode::Testp => float::test_class(select, ptx),
        Opcode::Cvt => convert::convert(select, ptx),
        Opcode::CvtPack => convert::pack(select, ptx),
        Opcode::Add | Opcode::Sub if ptx.has(Modifier::Cc) => integer::add_carrying(select, ptx),
        Opcode::Addc | Opcode::Subc => integer::add_carrying(select, ptx),
        Opcode::Mad if ptx.has(Modifier::Cc) => integer::multiply_add_carrying(select, ptx),
        Opcode::Madc => integer::multiply_add_carrying(select, ptx),
        Opcode::Add => integer::add(select, ptx),
        Opcode::Sub => integer::subtract(select, ptx),
        Opcode::Mul => integer::multiply(select, ptx),
        Opcode::Mad => integer::multiply_add(select, ptx),
        Opcode::Mul24 => integer::multiply_24(select, ptx),
        Opcode::Mad24 => integer::multiply_add_24(select, ptx),
        Opcode::Dp2a | Opcode::Dp4a => integer::dot_product(select, ptx),
        Opcode::Sad => integer::difference_sum(select, ptx),
        Opcode::Abs => integer::absolute(select, ptx),
        Opcode::Neg => integer::negate(select, ptx),
        Opcode::Min | Opcode::Max => integer::min_max(select, ptx),
        Opcode::Div | Opcode::Rem => integer::divide(select, ptx),
        Opcode::And | Opcode::Or | Opcode::Xor => logic::binary(select, ptx),
        Opcode::Not => logic::invert(select, ptx),
        Opcode::Cnot => logic::is_zero(select, ptx),
        Opcode::Lop3 => logic::any_of_three(select, ptx),
        Opcode::Shl => logic::shift_left(select, ptx),
        Opcode::Shr => logic::shift_right(select, ptx),
        Opcode::Shf => logic::funnel_shift(select, ptx),
        Opcode::Prmt => logic::permute_bytes(select, ptx),
        Opcode::Popc => bits::count(select, ptx),
        Opcode::Clz => bits::leading_zeros(select, ptx),
        Opcode::Bfind => bits::find_highest(select, ptx),
        Opcode::Fns => bits::find_nth(select, ptx),
        Opcode::Brev => bits::reverse(select, ptx),
        Opcode::Bfe => bits::extract(select, ptx),
        Opcode::Bfi => bits::insert(select, ptx),
        Opcode::Szext => bits::extend_from(select, ptx),
        Opcode::Bmsk => bits::mask(select, ptx),
        Opcode::Vadd | Opcode::Vsub | Opcode::Vabsdiff | Opcode::Vmin | Opcode::Vmax | Opcode::Vshl | Opcode::Vshr | Opcode::Vset => {
            video::scalar(select, ptx)
        }
        Opcode::Vmad => video::multiply_add(select, ptx),
        Opcode::Vadd2
        | Opcode::Vsub2
        | Opcode::Vavrg2
        | Opcode::Vabsdiff2
        | Opcode::Vmin2
        | Opcode::Vmax2
        | Opcode::Vset2
        | Opcode::Vadd4
        | Opcode::Vsub4
        | Opcode::Vavrg4
        | Opcode::Vabsdiff4
        | Opcode::Vmin4
        | Opcode::Vmax4
        | Opcode::Vset4 => video::simd(select, ptx),
        Opcode::Setp => compare::set_predicate(select, ptx),
        Opcode::Set => compare::set(select, ptx),
        Opcode::Selp => compare::select_by_predicate(select, ptx),
        Opcode::Slct => compare::select_by_sign(select, ptx),
        Opcode::Ldmatrix => memory::load_matrix(select, ptx),
        Opcode::Stmatrix => memory::store_matrix(select, ptx),
        Opcode::Movmatrix => memory::transpose_matrix(select, ptx),
        Opcode::Mma => tensor::multiply(select, ptx),
        Opcode::WmmaLoad => tensor::load_fragment(select, ptx),
        Opcode::WmmaStore => tensor::store_fragment(select, ptx),
        Opcode::WmmaMma => tensor::multiply_fragments(select, ptx),
        Opcode::WgmmaMmaAsync | Opcode::WgmmaMmaAsyncSp => tensor::multiply_in_group(select, ptx),
        Opcode::WgmmaFence => tensor::arrive(select),
        Opcode::WgmmaCommitGroup => tensor::commit_products(select),
        Opcode::WgmmaWaitGroup => tensor::wait_for_products(select, ptx),
        Opcode::Tcgen05FenceBeforeThreadSync
        | Opcode::Tcgen05FenceAfterThreadSync
        | Opcode::Tcgen05WaitLd
        | Opcode::Tcgen05WaitSt
        | Opcode::Tcgen05Ld
        | Opcode::Tcgen05LdRed
        | Opcode::Tcgen05St
        | Opcode::Tcgen05Cp
        | Opcode::Tcgen05Shift
        | Opcode::Tcgen05Mma
        | Opcode::Tcgen05MmaSp
        | Opcode::Tcgen05MmaWs
        | Opcode::Tcgen05MmaWsSp
        | Opcode::Tcgen05Alloc
        | Opcode::Tcgen05Dealloc
        | Opcode::Tcgen05RelinquishAllocPermit
        | Opcode::Tcgen05Commit => tensor::tensor_memory(select, ptx),
        Opcode::CpAsync => memory::start_copy(select, ptx),
        Opcode::CpAsyncCommitGroup => memory::commit_copies(select),
        Opcode::CpAsyncWaitGroup | Opcode::CpAsyncWaitAll => memory::wait_for_copies(select, ptx),
        Opcode::CpAsyncMbarrierArrive
        | Opcode::MbarrierArrive
        | Opcode::MbarrierArriveDrop
        | Opcode::MbarrierCompleteTx
        | Opcode::MbarrierExpectTx
        | Opcode::MbarrierInit
        | Opcode::MbarrierInval
        | Opcode::MbarrierPendingCount
        | Opcode::MbarrierTestWait
        | Opcode::MbarrierTryWait => mbarrier::mbarrier(select, ptx),
        Opcode::CpAsyncBulk | Opcode::CpReduceAsyncBulk | Opcode::CpAsyncBulkPrefetch => bulk::bulk_copy(select, ptx),
        Opcode::CpAsyncBulkCommitGroup => bulk::commit_bulk(select),
        Opcode::CpAsyncBulkWaitGroup => bulk::wait_for_bulk(select, ptx),
        Opcode::CpAsyncBulkTensor | Opcode::CpReduceAsyncBulkTensor | Opcode::CpAsyncBulkPrefetchTensor => {
            bulk_tensor::tensor_copy(select, ptx)
        }
        Opcode::TensormapReplace => tensormap::replace(select, ptx),
        Opcode::TensormapCpFenceproxy => tensormap::copy_and_fence(select, ptx),
        Opcode::Tex | Opcode::Tld4 => texture::fetch(select, ptx),
        Opcode::Txq | Opcode::Suq => texture::query(select, ptx),
        Opcode::Suld => texture::load(select, ptx),
        Opcode::Sust => texture::store(select, ptx),
        Opcode::Sured => texture::reduce(select, ptx),
        Opcode::BarrierCluster => cluster::barrier(select, ptx),
        Opcode::Mapa => cluster::map_address(select, ptx),
        Opcode::Getctarank => cluster::rank_of_address(select, ptx),
        // In global memory an access that is complete at once does what the asynchronous one may do later. ptxas does this on sm_120.
        Opcode::StAsync if ptx.has(Modifier::Release) => memory::store(select, ptx),
        Opcode::RedAsync if ptx.has(Modifier::Release) => atomics::atomic(select, ptx),
        Opcode::StAsync | Opcode::RedAsync => cluster::store_async(select, ptx),
        Opcode::StBulk => bulk::fill(select, ptx),
        Opcode::ClusterlaunchcontrolTryCancelAsync => launch_control::try_cancel(select, ptx),
        Opcode::ClusterlaunchcontrolQueryCancel => launch_control::query_cancel(select, ptx),
        Opcode::Setmaxnreg => control::set_register_count(select, ptx),
        Opcode::Griddepcontrol => control::dependent_grids(select, ptx),
        Opcode::Bra => control::branch(select, ptx),
        Opcode::BrxIdx => control::indexed_branch(select, ptx),
        Opcode::Call => calls::call(select, ptx),
        Opcode::Alloca => stack::alloca(select, ptx),
        Opcode::Stacksave => stack::save(select, ptx),
        Opcode::Stackrestore => stack::restore(select, ptx),
        Opcode::Ret => control::ret(select, ptx),
        Opcode::Exit => control::exit(select, ptx),
        Opcode::Trap | Opcode::Brkpt => control::trap(select, ptx),
        Opcode::Nanosleep => control::nanosleep(select, ptx),
        Opcode::Pmevent => control::pmevent(select, ptx),
        Opcode::Bar | Opcode::Barrier => barrier::barrier(select, ptx),
        Opcode::BarWarpSync => warp::warp_barrier(select, ptx),
        Opcode::Shfl | Opcode::ShflSync => warp::shuffle(select, ptx),
        Opcode::Vote | Opcode::VoteSync => warp::vote(select, ptx),
        Opcode::Match => warp::matching(select, ptx),
        Opcode::ReduxSync => warp::reduction(select, ptx),
        Opcode::ElectSync => warp::elect(select, ptx),
        Opcode::Activemask => warp::activemask(select, ptx),
    }
}
