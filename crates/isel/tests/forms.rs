//! Selects every form of the instructions without memory access for every target that supports it, and checks that each resulting
//! instruction has an encoding.

use oriole_ir::{Target, machine};
use oriole_isel::{VariableLayout, select_function};
use oriole_opt::legalize::{self, EncodabilityCache};
use oriole_ptx::ast::Module;
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::{Opcode, ROWS};
use oriole_ptx::types::ScalarType;

/// The opcodes that are tested.
const OPCODES: &[Opcode] = &[
    Opcode::Abs,
    Opcode::Activemask,
    Opcode::Add,
    Opcode::Addc,
    Opcode::And,
    Opcode::Bfe,
    Opcode::Bfi,
    Opcode::Bfind,
    Opcode::Bmsk,
    Opcode::Brev,
    Opcode::Clz,
    Opcode::Cnot,
    Opcode::Div,
    Opcode::Dp2a,
    Opcode::Dp4a,
    Opcode::Fns,
    Opcode::Lop3,
    Opcode::Mad,
    Opcode::Mad24,
    Opcode::Madc,
    Opcode::Max,
    Opcode::Min,
    Opcode::Mov,
    Opcode::Mul,
    Opcode::Mul24,
    Opcode::Neg,
    Opcode::Not,
    Opcode::Or,
    Opcode::Popc,
    Opcode::Prmt,
    Opcode::Rem,
    Opcode::Sad,
    Opcode::Selp,
    Opcode::Set,
    Opcode::Setp,
    Opcode::Shf,
    Opcode::Shl,
    Opcode::Shr,
    Opcode::Slct,
    Opcode::Sub,
    Opcode::Subc,
    Opcode::Szext,
    Opcode::Xor,
];

/// Maximum number of forms tried per table row.
const FORMS_PER_ROW: usize = 60;

/// One target per architecture.
const TARGETS: &[&str] =
    &["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"];

fn is_floating(ty: ScalarType) -> bool {
    matches!(
        ty,
        ScalarType::F16 | ScalarType::F16x2 | ScalarType::F32 | ScalarType::F32x2 | ScalarType::F64 | ScalarType::Bf16 | ScalarType::Bf16x2
    )
}

/// Returns the forms of integer instructions, comparisons and moves; floating-point arithmetic has separate tests.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, row) in ROWS.iter().enumerate() {
        let only_compared = matches!(row.opcode, Opcode::Set | Opcode::Setp | Opcode::Selp | Opcode::Slct | Opcode::Mov);
        if !OPCODES.contains(&row.opcode) {
            continue;
        }
        cases.extend(legal_forms(index, FORMS_PER_ROW).into_iter().filter(|case| {
            let head = case.text.split(' ').next().unwrap_or_default();
            only_compared || !ScalarTypes(head).any(is_floating)
        }));
    }
    cases
}

/// The types named in the opcode and modifiers of an instruction.
struct ScalarTypes<'a>(&'a str);

impl ScalarTypes<'_> {
    fn any(&self, is_wanted: impl Fn(ScalarType) -> bool) -> bool {
        let all =
            [ScalarType::F16, ScalarType::F16x2, ScalarType::F32, ScalarType::F32x2, ScalarType::F64, ScalarType::Bf16, ScalarType::Bf16x2];
        self.0.split('.').any(|part| all.into_iter().any(|ty| ty.spelling() == part && is_wanted(ty)))
    }
}

fn checked(text: &str) -> Option<Module> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    checked.is_valid().then_some(checked.module)
}

/// Selects every kernel of a module. Returns the number of instructions; appends errors to `faults`.
fn try_module(module: &Module, target: Target, texts: &[String], faults: &mut Vec<String>) -> usize {
    let mut count = 0;
    let kernels = module.functions.iter_enumerated().filter(|(_, function)| module.name(function.name).starts_with('k'));
    for ((id, _), text) in kernels.zip(texts) {
        let selected = match select_function(module, id, target, &VariableLayout::default()) {
            Ok(selected) => selected,
            Err(errors) => {
                faults.push(format!("{target}: {text} {}", errors[0]));
                continue;
            }
        };
        let mut function = selected.function;
        oriole_ir::construct_ssa(&mut function);
        if let Err(error) = legalize::run(&mut function, &mut EncodabilityCache::new(target)) {
            faults.push(format!("{target}: {text} {error}"));
            continue;
        }
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                count += 1;
                if function.insts[inst].op.machine().is_some() && !machine::is_encodable(&function, inst, target) {
                    faults.push(format!("{target}: {text} {}", machine::describe(&function, inst)));
                }
            }
        }
    }
    count
}

/// Fails with the first 40 faults, if there are any.
fn report(faults: &[String]) {
    let shown: Vec<&str> = faults.iter().take(40).map(String::as_str).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), shown.join("\n"));
}

#[test]
fn every_form_has_encodings() {
    let cases = cases();
    assert!(cases.len() > 1500, "only {} forms are enumerated", cases.len());
    let mut faults = Vec::new();
    let (mut selected, mut instructions) = (0, 0);
    for name in TARGETS {
        let target = Target::parse(name).unwrap();
        for chunk in cases.chunk_by(|a, b| a.platform == b.platform && a.independent_textures == b.independent_textures) {
            let mut fitting: Vec<Case> = chunk.to_vec();
            for case in &mut fitting {
                case.platform.target = target;
            }
            let (text, _) = module_text(&fitting);
            if let Some(module) = checked(&text) {
                selected += fitting.len();
                let texts: Vec<String> = fitting.into_iter().map(|case| case.text).collect();
                instructions += try_module(&module, target, &texts, &mut faults);
                continue;
            }
            for case in fitting {
                let (text, _) = module_text(std::slice::from_ref(&case));
                if let Some(module) = checked(&text) {
                    selected += 1;
                    instructions += try_module(&module, target, &[case.text], &mut faults);
                }
            }
        }
    }
    assert!(selected > 15_000 && instructions > 2 * selected, "only {selected} forms gave {instructions} instructions");
    println!("{selected} forms, {instructions} instructions");
    report(&faults);
}

/// Operands that the enumeration does not produce: immediates, discarded elements, special registers, the same register twice.
const MORE: &str = "
add.s16 %s16_1, %s16_2, -5; add.s32 %s32_1, 7, %s32_2; add.s64 %s64_1, %s64_1, -1; add.sat.s32 %s32_1, %s32_2, 0x7fffffff;
sub.u32 %u32_1, 5, %u32_2; sub.u64 %u64_1, %u64_2, 0x123456789abcdef; sub.sat.s32 %s32_1, 3, %s32_2;
mul.lo.u64 %u64_1, %u64_2, 0x123456789abcdef; mul.hi.s64 %s64_1, %s64_2, -3; mul.wide.s32 %s64_1, %s32_1, -7; mul.hi.u16 %u16_1, %u16_1, 40000;
mad.lo.s64 %s64_1, %s64_2, 3, -1; mad.wide.u32 %u64_1, %u32_1, 5, %u64_1; mad.hi.s32 %s32_1, %s32_2, 5, 6; mul24.hi.s32 %s32_1, %s32_2, 77;
add.cc.u32 %u32_1, %u32_2, 1; addc.cc.u32 %u32_1, %u32_2, 0; addc.u64 %u64_1, %u64_2, 0; sub.cc.u64 %u64_1, %u64_2, 0; subc.cc.u32 %u32_1, 0, 0;
madc.lo.cc.u32 %u32_1, %u32_2, 3, 4; mad.hi.cc.s64 %s64_1, %s64_2, 3, 4;
div.u32 %u32_1, %u32_2, 7; div.u32 %u32_1, %u32_2, 8; div.u32 %u32_1, %u32_2, 1; div.u32 %u32_1, %u32_2, 0; div.u32 %u32_1, %u32_2, 0xfffffffe;
div.s32 %s32_1, %s32_2, -7; div.s32 %s32_1, %s32_2, 0x80000000; div.s64 %s64_1, %s64_2, 10; div.u64 %u64_1, %u64_2, 7; rem.s64 %s64_1, %s64_2, -8;
rem.u16 %u16_1, %u16_2, 10; div.s16 %s16_1, %s16_2, -1; rem.u64 %u64_1, %u64_2, 0xffffffffffffffff; div.u64 %u64_1, 5, %u64_2; rem.s32 %s32_1, 5, 0;
min.s32 %s32_1, %s32_2, 5; max.u64 %u64_1, 5, %u64_2; min.u16 %u16_1, 3, %u16_2; sad.s16 %s16_1, %s16_2, -3, %s16_1; abs.s64 %s64_1, -5; neg.s16 %s16_1, 5;
and.b64 %b64_1, %b64_2, 0xff00ff00ff00ff00; or.b16 %b16_1, %b16_2, 0x8000; xor.pred %pred_1, %pred_2, !%pred_3; not.pred %pred_1, 1; and.pred %pred_1, 0, !1;
and.b64 %f64_1, %f64_2, 0d8000000000000000; or.b32 %f32_1, %f32_2, 0f80000000; not.b64 %b64_1, 5;
shl.b32 %b32_1, %b32_2, 40; shr.s64 %s64_1, %s64_2, 70; shr.u16 %u16_1, %u16_2, 20; shl.b64 %b64_1, 1, %u32_1; shf.l.wrap.b32 %b32_1, %b32_2, %b32_3, 33; shf.r.clamp.b32 %b32_1, 1, 2, 33;
prmt.b32 %b32_1, %b32_2, 0, 0x1234; prmt.b32.rc16 %b32_1, 5, %b32_2, 1; lop3.b32 %b32_1, 1, 2, 3, 0x1e8; lop3.or.b32 _|%pred_1, %b32_1, %b32_2, 7, 0x80, !%pred_1;
bfe.s32 %s32_1, %s32_2, 3, 5; bfe.u64 %u64_1, %u64_2, 60, 200; bfe.s64 %s64_1, %s64_2, %u32_1, 7; bfi.b32 %b32_1, 5, %b32_2, 3, 4; bfi.b64 %b64_1, 5, 7, %u32_1, 64; bfind.s64 %u32_1, 12; popc.b64 %u32_1, 12;
fns.b32 %b32_1, 0xff, %b32_2, -3; bmsk.clamp.b32 %u32_1, 3, 5; szext.wrap.s32 %s32_1, %s32_2, 12; clz.b64 %u32_1, 5; brev.b64 %b64_1, 5;
setp.eq.s32 %pred_1, %s32_1, 5; setp.lt.and.f32 %pred_1|%pred_2, %f32_1, 0f3f800000, !%pred_3; setp.gt.xor.s64 %pred_1|%pred_2, %s64_1, 7, %pred_1; setp.ne.or.b16 _|%pred_2, %b16_1, 7, %pred_1;
setp.lt.f64 %pred_1, %f64_1, 0d3ff0000000000000; set.ge.f32.u64 %f32_1, 5, %u64_1; selp.b64 %b64_1, 5, %b64_2, !%pred_1; selp.f32 %f32_1, 0f3f800000, 0f00000000, %pred_1; slct.f64.f32 %f64_1, %f64_2, %f64_3, 0fbf800000;
mov.pred %pred_1, 1; mov.pred %pred_1, !%pred_2; mov.u64 %u64_1, 0x123456789abcdef; mov.f64 %f64_1, 0d3ff0000000000000; mov.b16 %b16_1, -1;
mov.b64 {%b32_1, _}, %b64_1; mov.b64 {_, %b32_1}, %b64_1; mov.b64 %b64_1, {5, %b32_1}; mov.b32 %b32_1, {%b16_1, 3}; mov.b64 %b64_1, {%tid.x, %tid.y}; mov.b64 {%b32_1, %b32_2}, %clock64;
mov.v2.b32 {%b32_1, %b32_2}, {%b32_2, %b32_1}; mov.v4.u32 {%u32_1, %u32_2, _, %u32_4}, %tid; mov.v2.b32 %pair, {%b32_1, %b32_2}; mov.b32 %b32_1, %pair.y; mov.v4.b32 %quad, %ctaid;
@%pred_1 add.cc.u64 %u64_1, %u64_2, %u64_3; @!%pred_1 subc.cc.u32 %u32_1, %u32_2, %u32_3; @%pred_1 div.s64 %s64_1, %s64_2, %s64_3; @%pred_1 setp.lt.s32 %pred_1, %s32_1, %s32_2; @%pred_1 fns.b32 %b32_1, %b32_2, %b32_3, %b32_4;
";

/// Special registers by type; the later lines are not supported by all targets.
const SPECIAL: &[(&str, &str)] = &[
    ("u32", "tid.x tid.y tid.z tid.w ntid.x ntid.y ntid.z ntid.w ctaid.x ctaid.y ctaid.z ctaid.w nctaid.x nctaid.y nctaid.z nctaid.w"),
    ("u32", "laneid warpid nwarpid smid nsmid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi"),
    (
        "u32",
        "globaltimer_lo globaltimer_hi total_smem_size dynamic_smem_size pm0 pm1 pm2 pm3 pm4 pm5 pm6 pm7 envreg0 envreg15 envreg16 envreg31",
    ),
    ("u32", "reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap reserved_smem_offset_0 reserved_smem_offset_1"),
    ("u32", "clusterid.x clusterid.y clusterid.z clusterid.w nclusterid.x nclusterid.z cluster_ctaid.x cluster_ctaid.z cluster_nctaid.y"),
    ("u32", "cluster_ctarank cluster_nctarank aggr_smem_size"),
    ("u64", "gridid clock64 globaltimer pm0_64 pm7_64 current_graph_exec"),
    ("u16", "tid.x ntid.x ctaid.y nctaid.z gridid"),
];

#[test]
fn numbers_vectors_and_special_registers_have_encodings() {
    let mut texts: Vec<String> = MORE.split(';').map(|text| format!("{};", text.trim())).filter(|text| text != ";").collect();
    for (ty, names) in SPECIAL {
        texts.extend(names.split(' ').map(|name| format!("mov.{ty} %{ty}_1, %{name};")));
    }
    texts.push("mov.pred %pred_1, %is_explicit_cluster;".to_owned());
    texts.push("mov.pred %pred_1, !%is_explicit_cluster;".to_owned());
    texts.push("@!%is_explicit_cluster mov.u32 %u32_1, 5;".to_owned());
    let row = ROWS.iter().position(|row| row.opcode == Opcode::Activemask).unwrap();
    let sample = legal_forms(row, 1).remove(0);
    let mut faults = Vec::new();
    let mut selected = 0;
    for name in TARGETS {
        let target = Target::parse(name).unwrap();
        for text in &texts {
            let mut case = Case { text: text.clone(), ..sample.clone() };
            case.platform.target = target;
            let (module, _) = module_text(std::slice::from_ref(&case));
            match checked(&module) {
                Some(module) => {
                    selected += 1;
                    try_module(&module, target, std::slice::from_ref(text), &mut faults);
                }
                None if name.starts_with("sm_9") => faults.push(format!("{name}: {text} is not valid PTX")),
                None => {}
            }
        }
    }
    assert!(selected > 2000, "only {selected} instructions were selected");
    report(&faults);
}
