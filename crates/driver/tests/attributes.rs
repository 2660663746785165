//! Compares attributes that describe the code of a function with those of ptxas' files: barriers in shared memory, instructions that a warp
//! executes together, reserved shared memory, system calls, the stack of convergence barriers, and the attributes of `.nv.compat`.

use std::fs;
use std::process::Command;

use oriole_cubin::Cubin;
use oriole_cubin::compat::{CompatCode, CompatValue};
use oriole_cubin::info::{AttributeCode, AttributeValue, MbarrierKind};
use oriole_cubin::section::Content;
use oriole_driver::{Options, compile};
use oriole_isa::Target;

/// Returns a module with one kernel, whose body has the address of an array of barriers in `%bar` and that of a buffer in `%out`.
fn module(body: &str) -> String {
    format!(
        ".version 9.0\n.target TARGET\n.address_size 64\n.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.func (.param .b32 r) start(.param .b32 x) {{ .reg .b32 %r; .reg .b32 %s; mov.u32 %r, %reserved_smem_offset_begin; ld.param.b32 %s, [x];
    add.u32 %r, %r, %s; st.param.b32 [r], %r; ret; }}
.visible .entry k(.param .u64 out, .param .u32 n) {{
    .reg .b64 %out, %d<9>; .reg .b32 %n, %bar, %r<9>; .reg .pred %p<9>;
    .shared .align 8 .b64 bars[4];
    .shared .align 128 .b8 buf[1024];
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [n];
    mov.u32 %bar, bars;
    {body}
    ret;
}}\n"
    )
}

/// Operations on barriers, and the kinds that the attribute lists, in this order.
const BARRIERS: &str = "
    mbarrier.init.shared.b64 [bars], %n;
    mbarrier.init.shared.b64 [bars+8], %n;
    mbarrier.arrive.shared.b64 %d1, [bars];
    mbarrier.arrive.noComplete.shared.b64 %d2, [bars+8], 1;
    mbarrier.arrive_drop.shared.b64 %d3, [bars];
    mbarrier.arrive_drop.noComplete.shared.b64 %d4, [bars+8], 1;
    mbarrier.test_wait.shared.b64 %p1, [bars], %d1;
    mbarrier.test_wait.parity.shared.b64 %p2, [bars+8], %n;
    cp.async.mbarrier.arrive.shared.b64 [bars];
    cp.async.mbarrier.arrive.noinc.shared.b64 [bars+8];
    st.global.u64 [%out], %d2;
    st.global.u64 [%out+8], %d3;
    st.global.u64 [%out+16], %d4;
    selp.u32 %r1, 1, 0, %p1;
    selp.u32 %r2, 1, 0, %p2;
    st.global.v2.u32 [%out+24], {%r1, %r2};";
const BARRIER_KINDS: [MbarrierKind; 10] = [
    MbarrierKind::INIT,
    MbarrierKind::INIT,
    MbarrierKind::ARRIVE,
    MbarrierKind::ARRIVE_NOCOMPLETE,
    MbarrierKind::ARRIVE_DROP,
    MbarrierKind::ARRIVE_DROP_NOCOMPLETE,
    MbarrierKind::TEST_WAIT,
    MbarrierKind::TEST_WAIT_PARITY,
    MbarrierKind::CP_ASYNC_ARRIVE,
    MbarrierKind::CP_ASYNC_ARRIVE,
];

/// Operations that only targets with transaction counts have. The arrival is not listed.
const TRANSACTIONS: &str = "
    mbarrier.init.shared.b64 [bars], %n;
    mbarrier.arrive.expect_tx.shared.b64 %d1, [bars], %n;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], %n;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars], %n;
    mbarrier.try_wait.shared.b64 %p1, [bars], %d1;
    mbarrier.try_wait.parity.shared.b64 %p2, [bars], %n;
    mbarrier.inval.shared.b64 [bars];
    selp.u32 %r1, 1, 0, %p1;
    selp.u32 %r2, 1, 0, %p2;
    st.global.v2.u32 [%out+24], {%r1, %r2};";
const TRANSACTION_KINDS: [MbarrierKind; 6] = [
    MbarrierKind::INIT,
    MbarrierKind::EXPECT_TX,
    MbarrierKind::COMPLETE_TX,
    MbarrierKind::TRY_WAIT,
    MbarrierKind::TRY_WAIT_PARITY,
    MbarrierKind::INVAL,
];

const PRINTS: &str = "
    { .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %out; st.param.b64 [v], %out; call (r), vprintf, (f, v);
      ld.param.b32 %r1, [r]; }
    st.global.u32 [%out], %r1;";
const READS: &str = "mov.u32 %r1, %reserved_smem_offset_end; st.global.u32 [%out], %r1;";
const CALLS: &str = "
    { .param .b32 x; .param .b32 r; st.param.b32 [x], %n; call (r), start, (x); ld.param.b32 %r1, [r]; }
    st.global.u32 [%out], %r1;";
const DIVERGES: &str = "
    mov.u32 %r1, %tid.x;
next:
    mad.lo.u32 %r2, %r1, %r1, %n;
    xor.b32 %r1, %r2, 77;
    and.b32 %r3, %r1, 15;
    setp.ne.u32 %p1, %r3, 5;
    @%p1 bra next;
    shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;
    st.global.u32 [%out], %r1;";
const PLAIN: &str = "st.global.u32 [%out], %n;";
const COPIES: &str = "
    mov.u32 %r1, buf;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%out, {%n}], [%bar];";
const REPLACES: &str = "tensormap.replace.tile.global_address.global.b1024.b64 [%out], %out;";
const COPIES_BYTES: &str = "
    mov.u32 %r1, buf;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 128, [%bar];";
const MULTIPLIES: &str = "
    .reg .b32 %c<4>;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}, %d1, %d2, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    st.global.v4.b32 [%out], {%c0, %c1, %c2, %c3};";

/// Shuffles, votes, matches, reductions and barriers of the program, and an atomic addition that the compilers combine.
const EXCHANGES: &str = "
    mov.u32 %r1, %tid.x;
    shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;
    setp.lt.u32 %p1, %r1, %n;
    vote.sync.ballot.b32 %r2, %p1, -1;
    match.any.sync.b32 %r3, %r2, -1;
    st.global.u32 [%out], %r3;
    barrier.sync 1;
    bar.sync 0;
    activemask.b32 %r5;
    st.global.u32 [%out+8], %r5;
    atom.global.add.u32 %r4, [%out+4], 1;
    st.global.u32 [%out+12], %r4;";
const REDUCES: &str = "
    mov.u32 %r1, %tid.x;
    redux.sync.add.u32 %r2, %r1, -1;
    red.global.min.u32 [%out], %r1;
    elect.sync %r3|%p1, -1;
    st.global.v2.u32 [%out+8], {%r2, %r3};";

/// The attributes that must be equal in the files by Oriole and by ptxas.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    kinds: Vec<MbarrierKind>,
    /// Mnemonics of the instructions that a warp executes together: those of the program, and those that the compiler inserted.
    warp_wide: [Vec<String>; 2],
    initialized: Option<u16>,
    uses_reserved_shared: bool,
    system_calls: usize,
    has_stack_size: bool,
    /// `ISA_CLASS` and `INST_TENSORMAP_V1`; empty before Hopper.
    compat: Vec<CompatValue>,
}

/// Returns the mnemonics of the instructions of the kernel at these places, sorted. A vote of the uniform datapath counts as a vote.
fn mnemonics(cubin: &Cubin, places: &[u32]) -> Vec<String> {
    let code = cubin.section_named(".text.k").and_then(|section| section.bytes()).expect("code");
    let target = cubin.target().expect("a target");
    let mnemonic = |&place: &u32| {
        let word = u128::from_le_bytes(code[place as usize..place as usize + 16].try_into().unwrap());
        let text = oriole_isa::print(word, target, 0).expect("an instruction");
        let head = text.split_whitespace().find(|part| !part.starts_with('@')).unwrap_or_default();
        head.split('.').next().unwrap_or_default().replace("VOTEU", "VOTE")
    };
    let mut found: Vec<String> = places.iter().map(mnemonic).collect();
    found.sort();
    found
}

fn facts(bytes: &[u8]) -> Facts {
    let cubin = Cubin::read(bytes).expect("a cubin");
    let mut facts = Facts::default();
    let mut mask_registers = 0;
    for attribute in cubin.function_attributes("k") {
        match (attribute.code, &attribute.value) {
            (AttributeCode::MBARRIER_INSTR_OFFSETS, AttributeValue::Mbarriers(list)) => {
                facts.kinds = list.iter().map(|one| one.kind).collect();
            }
            (AttributeCode::COOP_GROUP_INSTR_OFFSETS, AttributeValue::Words(places)) => facts.warp_wide[0] = mnemonics(&cubin, places),
            (AttributeCode::INT_WARP_WIDE_INSTR_OFFSETS, AttributeValue::Words(places)) => facts.warp_wide[1] = mnemonics(&cubin, places),
            (AttributeCode::COOP_GROUP_MASK_REGIDS, AttributeValue::Words(registers)) => mask_registers = registers.len(),
            (AttributeCode::NUM_MBARRIERS, &AttributeValue::Half(number)) => facts.initialized = Some(number),
            (AttributeCode::RESERVED_SMEM_USED, _) => facts.uses_reserved_shared = true,
            (AttributeCode::SYSCALL_OFFSETS, AttributeValue::Words(offsets)) => facts.system_calls = offsets.len(),
            (AttributeCode::CRS_STACK_SIZE, _) => facts.has_stack_size = true,
            _ => {}
        }
    }
    assert_eq!(mask_registers, facts.warp_wide[0].len());
    if let Some(Content::Compat(list)) = cubin.section_named(".nv.compat").map(|section| &section.content) {
        let codes = [CompatCode::ISA_CLASS, CompatCode::INST_TENSORMAP_V1];
        facts.compat = codes.iter().filter_map(|code| Some(list.iter().find(|one| one.code == *code)?.value.clone())).collect();
    }
    facts
}

fn compiled(body: &str, target: &str) -> Vec<u8> {
    let text = module(body).replace("TARGET", target);
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    compile(&[&checked.module], &Options::new(Target::parse(target).unwrap())).expect("the module compiles").cubin
}

#[test]
fn operations_on_barriers_are_listed() {
    for (body, target, kinds) in [
        (BARRIERS, "sm_80", &BARRIER_KINDS[..]),
        (BARRIERS, "sm_90a", &BARRIER_KINDS[..]),
        (TRANSACTIONS, "sm_90a", &TRANSACTION_KINDS[..]),
    ] {
        let cubin = compiled(body, target);
        let facts = facts(&cubin);
        assert_eq!(sorted(&facts.kinds), sorted(kinds), "{target}");
        assert_eq!(facts.initialized, Some(kinds.iter().filter(|kind| **kind == MbarrierKind::INIT).count() as u16));
        check_places(&Cubin::read(&cubin).expect("a cubin"), target);
    }
}

fn sorted(kinds: &[MbarrierKind]) -> Vec<u8> {
    let mut numbers: Vec<u8> = kinds.iter().map(|kind| kind.0).collect();
    numbers.sort_unstable();
    numbers
}

/// Checks that each listed instruction accesses the listed address in shared memory.
fn check_places(cubin: &Cubin, target: &str) {
    let Some(code) = cubin.section_named(".text.k").and_then(|section| section.bytes()) else { panic!("no code") };
    for attribute in cubin.function_attributes("k") {
        let AttributeValue::Mbarriers(list) = &attribute.value else { continue };
        for one in list {
            let word = &code[one.instruction as usize..one.instruction as usize + 16];
            let word = u128::from_le_bytes(word.try_into().unwrap());
            let text = oriole_isa::print(word, Target::parse(target).unwrap(), 0).expect("an instruction");
            let is_access = ["SYNCS", "ARRIVES", "ATOMS", "STS", "LDS"].iter().any(|mnemonic| text.contains(mnemonic));
            assert!(is_access, "{target}: {:?} at {:#x} is {text}", one.kind, one.instruction);
            let names = |register: &str| text.split(['[', ']']).nth(1).is_some_and(|address| address.contains(register));
            assert!(one.register == 255 || names(&format!("R{}", one.register)), "{target}: {one:?} is {text}");
            assert!(one.uniform_register == 63 || names(&format!("UR{}", one.uniform_register)), "{target}: {one:?} is {text}");
            assert!(one.offset == 0 || names(&format!("{:#x}", one.offset)), "{target}: {one:?} is {text}");
        }
    }
}

#[test]
fn attributes_say_what_the_code_uses() {
    let of = |body: &str, target: &str| facts(&compiled(body, target));
    let compat = |body: &str| of(body, "sm_90a").compat;
    let bytes = |class, maps| vec![CompatValue::Byte(class), CompatValue::Byte(maps)];
    assert_eq!(compat(PLAIN), bytes(1, 0));
    assert_eq!(compat(COPIES), bytes(2, 1));
    assert_eq!(compat(REPLACES), bytes(1, 2));
    assert_eq!(compat(&format!("{COPIES}{REPLACES}")), bytes(2, 3));
    assert_eq!(compat(COPIES_BYTES), bytes(2, 0));
    assert_eq!(compat(MULTIPLIES), bytes(4, 0));
    for target in ["sm_80", "sm_90a"] {
        assert!(
            of(READS, target).uses_reserved_shared && of(CALLS, target).uses_reserved_shared && !of(PLAIN, target).uses_reserved_shared
        );
        assert_eq!(of(PRINTS, target).system_calls, 1);
        assert_eq!(of(EXCHANGES, target).warp_wide, [vec!["BAR", "MATCH", "SHFL", "VOTE"], vec!["SHFL", "VOTE"]]);
        assert_eq!(of(PLAIN, target).warp_wide, [Vec::<String>::new(), Vec::new()]);
        assert!(of(DIVERGES, target).has_stack_size && !of(PLAIN, target).has_stack_size && !of(PRINTS, target).has_stack_size);
    }
}

#[test]
fn attributes_agree_with_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = tempfile::tempdir().unwrap();
    let common = [PRINTS, READS, CALLS, DIVERGES, PLAIN, EXCHANGES];
    let hopper = [REDUCES, TRANSACTIONS, COPIES, REPLACES, COPIES_BYTES, MULTIPLIES];
    let cases = common.map(|body| (body, "sm_80")).into_iter();
    let cases = cases.chain([(BARRIERS, "sm_80"), (BARRIERS, "sm_90a")]);
    for (body, target) in cases.chain(common.iter().chain(&hopper).map(|&body| (body, "sm_90a"))) {
        let (source, output) = (folder.path().join("in.ptx"), folder.path().join("out.cubin"));
        fs::write(&source, module(body).replace("TARGET", target)).unwrap();
        let status = Command::new(&ptxas).args(["-arch", target, "-o"]).args([&output, &source]).status().unwrap();
        assert!(status.success(), "ptxas for {target}");
        let (mut ours, mut theirs) = (facts(&compiled(body, target)), facts(&fs::read(&output).unwrap()));
        for facts in [&mut ours, &mut theirs] {
            facts.kinds.sort_by_key(|kind| kind.0);
            // ptxas tests a barrier with `mbarrier.try_wait` twice, and inserts loops around operations that one thread of a warp executes.
            facts.kinds.dedup();
            facts.has_stack_size &= body == DIVERGES || body == CALLS || body == PLAIN;
        }
        assert_eq!(ours, theirs, "{target}: {body}");
    }
}
