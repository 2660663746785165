//! Every statement comes from the code: tests that change a cause see the explanation change.

use oriole_explain::model::{Function, Warning};
use oriole_explain::{Options, explain_ptx};
use oriole_isa::Target;

/// Explains a kernel with this body on sm_90a.
fn explain_body(body: &str, registers: Option<u32>) -> Function {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 n)\n{{\n\
         .reg .f32 %f<80>; .reg .f64 %d<8>; .reg .b32 %r<16>; .reg .b64 %a<8>; .reg .pred %p<4>;\n{body}\nret;\n}}\n"
    );
    let mut options = Options::new(Target::parse("sm_90a").unwrap());
    options.compiler.max_registers = registers;
    explain_ptx("kernel.ptx", text.as_bytes(), &options).unwrap().functions.remove(0)
}

const ADDRESSES: &str = "ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a2, %r0, 4;\n\
                         add.u64 %a0, %a0, %a2; add.u64 %a1, %a1, %a2;\n";

fn of_kind<'a>(function: &'a Function, kind: &str) -> Vec<&'a Warning> {
    function.warnings.iter().filter(|warning| warning.kind == kind).collect()
}

/// `count` values are loaded, live at once, and then added up. The last one is added first, so no order of the additions saves registers.
fn many_values(count: usize) -> String {
    let mut body = ADDRESSES.to_owned();
    for number in 1..=count {
        body += &format!("ld.volatile.global.f32 %f{number}, [%a0+{}];\n", 4096 * number);
    }
    body += "bar.sync 0;\nmov.f32 %f0, 0f00000000;\n";
    for number in (1..=count).rev() {
        body += &format!("fma.rn.f32 %f0, %f0, %f{number}, %f{number};\n");
    }
    body + "st.global.f32 [%a1], %f0;"
}

#[test]
fn a_longer_live_range_raises_the_peak() {
    let (few, more) = (explain_body(&many_values(8), None), explain_body(&many_values(24), None));
    assert!(few.registers.peak_live >= 8 && more.registers.peak_live >= few.registers.peak_live + 16);
    let names: Vec<&str> = more.registers.live_at_peak.iter().filter_map(|value| value.name.as_deref()).collect();
    assert!(names.contains(&"%f1") && names.contains(&"%f20"), "{names:?}");
    // The file starts with four lines and the declarations; the addresses take two lines; then there is one load in a line.
    let first = more.registers.live_at_peak.iter().find(|value| value.name.as_deref() == Some("%f1")).unwrap();
    assert_eq!(first.ptx_line, Some(9));
}

#[test]
fn a_dependence_explains_its_stall() {
    let body = |source: &str| {
        format!(
            "{ADDRESSES}ld.global.f32 %f1, [%a0]; add.f32 %f2, %f1, %f1;\nmul.f32 %f3, {source}, 0f40400000; st.global.v2.f32 [%a1], {{%f2, %f3}};"
        )
    };
    let causes = |function: &Function| -> Vec<String> {
        let add = function.instructions.iter().find(|instruction| instruction.text.starts_with("FADD")).unwrap();
        add.stall_causes.iter().filter(|cause| cause.kind == "register").map(|cause| cause.text.clone()).collect()
    };
    let (dependent, independent) = (explain_body(&body("%f2"), None), explain_body(&body("%f1"), None));
    let reads = causes(&dependent);
    assert!(reads.iter().any(|text| text.contains("reads") && text.contains("of this instruction")), "{reads:?}");
    assert!(!causes(&independent).iter().any(|text| text.contains("the next instruction reads")), "{:?}", causes(&independent));
}

#[test]
fn a_load_is_waited_for_by_its_reader() {
    let function = explain_body(&format!("{ADDRESSES}ld.global.f32 %f1, [%a0]; add.f32 %f2, %f1, %f1; st.global.f32 [%a1], %f2;"), None);
    let load = function.instructions.iter().find(|instruction| instruction.text.starts_with("LDG")).unwrap();
    let add = function.instructions.iter().find(|instruction| instruction.text.starts_with("FADD")).unwrap();
    assert_eq!(load.sets[0].readers, [add.address]);
    assert_eq!(add.waits[0].producers, [load.address]);
    assert!(add.waits[0].text.contains("reads") && add.waiting.cycles > 100 && add.waiting.reason.starts_with("scoreboard"));
}

#[test]
fn fewer_registers_cause_spills_with_names() {
    let body = many_values(60);
    let (free, tight) = (explain_body(&body, None), explain_body(&body, Some(32)));
    assert!(free.spills.slots.is_empty() && free.memory.local_bytes == 0);
    assert!(tight.spills.store_bytes >= 4 * 20 && tight.memory.local_bytes > 0, "{:?}", tight.spills);
    let named = tight.spills.slots.iter().filter(|slot| slot.name.as_deref().is_some_and(|name| name.starts_with("%f"))).count();
    assert!(named >= 20, "{:?}", tight.spills.slots);
    assert!(tight.spills.slots.iter().all(|slot| slot.ptx_line.is_some()));
    assert!(free.registers.count > tight.registers.count);
}

#[test]
fn occupancy_follows_registers() {
    let (few, more) = (explain_body(&many_values(8), None), explain_body(&many_values(60), None));
    let ratio = |function: &Function| function.occupancy.as_ref().unwrap().occupancy;
    assert_eq!(ratio(&few), 1.0);
    // 60 values are more than the 32 registers with which all 64 warps are resident.
    assert!(ratio(&more) < 1.0);
    let below = more.registers.next_below.as_ref().unwrap();
    assert!(below.registers < more.registers.count && below.occupancy > ratio(&more));
    assert!(more.registers.next_above.as_ref().unwrap().registers >= more.registers.count);
    assert_eq!(more.occupancy.unwrap().limited_by, ["registers"]);
}

/// A loop over `body` with a counter in `%r1`, which is not unrolled.
fn loop_over(body: &str) -> String {
    format!(
        "{ADDRESSES}ld.param.u32 %r2, [n]; mov.u32 %r1, 0; mov.f32 %f1, 0f00000000; mov.f64 %d1, 0d0000000000000000;\nagain:\n.pragma \"nounroll\";\n{body}\nadd.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r2; @%p0 bra again;\nst.global.f32 [%a1], %f1; st.global.f64 [%a1], %d1;"
    )
}

#[test]
fn a_chain_through_iterations_bounds_the_loop() {
    let one = explain_body(&loop_over("fma.rn.f32 %f1, %f1, %f1, %f1;"), None);
    let two = explain_body(&loop_over(&"fma.rn.f32 %f1, %f1, %f1, %f1;".repeat(8)), None);
    let bound = |function: &Function| function.loops[0].bounds.iter().find(|bound| bound.kind == "dependence").unwrap().cycles;
    // The latency of FFMA is 4 cycles on sm_90.
    assert_eq!(bound(&two), 32.0);
    assert!(bound(&one) < bound(&two));
    assert!(two.loops[0].cycles >= 32.0 && two.loops[0].bounds[0].kind == "dependence");
    assert!(two.loops[0].bounds[0].addresses.len() >= 8);
    let remark = one.remarks.iter().find(|remark| remark.pass == "unroll").unwrap();
    assert!(!remark.is_done && remark.text.contains("nounroll"), "{remark:?}");
}

#[test]
fn double_precision_is_warned_about_by_its_cost() {
    let outside = explain_body(&format!("{ADDRESSES}ld.global.f64 %d1, [%a0]; add.f64 %d2, %d1, %d1; st.global.f64 [%a1], %d2;"), None);
    let inside = explain_body(&loop_over("fma.rn.f64 %d1, %d1, %d1, %d1;"), None);
    let single = explain_body(&loop_over("fma.rn.f32 %f1, %f1, %f1, %f1;"), None);
    let cycles = |function: &Function| of_kind(function, "double-precision").iter().map(|warning| warning.cycles).sum::<f64>();
    assert!(cycles(&single) == 0.0 && cycles(&outside) > 0.0);
    assert!(cycles(&inside) >= 10.0 * cycles(&outside), "{} {}", cycles(&inside), cycles(&outside));
}

#[test]
fn strided_accesses_are_proven() {
    let body = |stride: u32| {
        format!(
            "ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a2, %r0, {stride}; add.u64 %a0, %a0, %a2; ld.global.f32 %f1, [%a0]; st.global.f32 [%a1], %f1;"
        )
    };
    assert!(of_kind(&explain_body(&body(4), None), "uncoalesced").is_empty());
    let far = explain_body(&body(256), None);
    let warnings = of_kind(&far, "uncoalesced");
    assert_eq!(warnings.len(), 1);
    // 32 threads touch a sector each instead of 128 bytes, which are 4 sectors.
    assert!(warnings[0].text.contains("32 sectors instead of 4"), "{}", warnings[0].text);
    // Two sectors for each pair of threads at a distance of 16 bytes: 16 sectors.
    let near = explain_body(&body(16), None);
    assert!(of_kind(&near, "uncoalesced")[0].text.contains("16 sectors instead of 4"));
    // The index of another load proves nothing.
    let unknown = body(4)
        .replace("mov.u32 %r0, %tid.x;", "mov.u32 %r1, %tid.x; mul.wide.u32 %a3, %r1, 4; add.u64 %a3, %a0, %a3; ld.global.u32 %r0, [%a3];");
    assert!(of_kind(&explain_body(&unknown, None), "uncoalesced").is_empty());
}

#[test]
fn neighbouring_accesses_are_reported_once() {
    let loads = |offsets: &[u32]| {
        let mut body = ADDRESSES.to_owned();
        for (number, offset) in offsets.iter().enumerate() {
            body += &format!("ld.global.f32 %f{}, [%a0+{offset}];", number + 1);
        }
        body + "add.f32 %f5, %f1, %f2; add.f32 %f6, %f3, %f4; add.f32 %f5, %f5, %f6; st.global.f32 [%a1], %f5;"
    };
    let near = explain_body(&loads(&[0, 4, 8, 12]), None);
    let warnings = of_kind(&near, "unvectorized");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].addresses.len() == 4 && warnings[0].text.contains("save 3 of them"), "{}", warnings[0].text);
    assert!(of_kind(&explain_body(&loads(&[0, 400, 800, 1200]), None), "unvectorized").is_empty());
}

#[test]
fn local_arrays_with_computed_index() {
    let text = |index: &str| {
        format!(
            ".local .align 4 .b8 array[256]; {ADDRESSES} mov.u64 %a3, array; and.b32 %r1, %r0, 63; mul.wide.u32 %a4, %r1, 4; add.u64 %a4, %a3, %a4; st.local.u32 [{index}], %r0; ld.local.u32 %r2, [{index}]; st.global.u32 [%a1], %r2;"
        )
    };
    assert_eq!(of_kind(&explain_body(&text("%a4"), None), "dynamic-local").len(), 1);
    assert!(of_kind(&explain_body(&text("array+8"), None), "dynamic-local").is_empty());
}

/// Without `wgmma.wait_group`, the compiler has to insert a wait before the result is read, and the explanation says where.
#[test]
fn serialized_products_are_reported() {
    let path = "../../tests/kernels/warpgroup/wgmma_n8_f16_f16_f16_k_k128.ptx";
    let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let options = Options::new(Target::parse("sm_90a").unwrap());
    let explain = |text: &str| explain_ptx("wgmma.ptx", text.as_bytes(), &options).unwrap().functions.remove(0);
    assert!(of_kind(&explain(&text), "serialized-wgmma").is_empty());
    let without = text.lines().filter(|line| !line.contains("wgmma.wait_group")).collect::<Vec<_>>().join("\n");
    assert!(without.len() < text.len());
    let function = explain(&without);
    let warnings = of_kind(&function, "serialized-wgmma");
    assert!(!warnings.is_empty() && warnings.iter().all(|warning| warning.ptx_line.is_some()), "{:?}", function.remarks);
}

#[test]
fn bank_conflicts_depend_on_the_pitch() {
    let body = |pitch: u32| {
        format!(
            ".shared .align 4 .b8 tile[8448]; {ADDRESSES} mov.u32 %r1, %tid.y; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, {pitch}, %r2; mad.lo.u32 %r3, %r1, 4, %r3; st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+32]; add.u32 %r4, %r4, %r5; st.global.u32 [%a1], %r4;"
        )
    };
    let conflicting = explain_body(&body(128), None);
    let warnings = of_kind(&conflicting, "bank-conflict");
    // A row of 32 words lies in one bank for all threads; both loads and the store are one warning.
    assert_eq!(warnings.len(), 1, "{:?}", conflicting.warnings);
    assert!(warnings[0].text.contains("32 of them share a bank") && warnings[0].addresses.len() == 3, "{:?}", warnings[0]);
    assert!(of_kind(&explain_body(&body(132), None), "bank-conflict").is_empty());
}

#[test]
fn spills_in_a_loop_are_one_warning() {
    let products: String =
        (1..=40).map(|number| format!("fma.rn.f32 %f{number}, %f{number}, %f{number}, %f{};", number % 40 + 1)).collect();
    let start: String = (2..=40).map(|number| format!("ld.volatile.global.f32 %f{number}, [%a0+{}];", number * 512)).collect();
    let end: String = (2..=40).map(|number| format!("add.f32 %f1, %f1, %f{number};")).collect();
    let body = loop_over(&products)
        .replace("again:", &format!("{start}\nagain:"))
        .replace("st.global.f32 [%a1], %f1;", &format!("{end} st.global.f32 [%a1], %f1;"));
    let tight = explain_body(&body, Some(32));
    let warnings = of_kind(&tight, "spill-in-loop");
    assert_eq!(warnings.len(), 1, "{:?}", tight.warnings);
    assert!(warnings[0].addresses.len() > 10 && warnings[0].text.contains("values"), "{:?}", warnings[0]);
    assert!(of_kind(&explain_body(&body, None), "spill-in-loop").is_empty());
}

/// A barrier that half of the threads skip, and the same barrier after the branch.
#[test]
fn barriers_in_divergent_code() {
    let body = |inside: &str, after: &str, compared: &str| {
        format!(
            ".shared .align 4 .b8 words[1024]; {ADDRESSES} ld.param.u32 %r2, [n]; mov.u32 %r3, words; mad.lo.u32 %r3, %r0, 4, %r3; st.shared.u32 [%r3], %r0; setp.ge.u32 %p0, {compared}, 16; @%p0 bra over;\n{inside} ld.volatile.shared.u32 %r5, [%r3+64]; st.volatile.shared.u32 [%r3], %r5; ld.volatile.shared.u32 %r5, [%r3+128]; st.volatile.shared.u32 [%r3+4], %r5; ld.volatile.shared.u32 %r5, [%r3+256]; st.volatile.shared.u32 [%r3+8], %r5;\nover:\n{after} ld.shared.u32 %r6, [%r3]; st.global.u32 [%a1], %r6;"
        )
    };
    let inside = explain_body(&body("bar.sync 0;", "", "%r0"), None);
    let warnings = of_kind(&inside, "divergent-barrier");
    assert_eq!(warnings.len(), 1, "{:?}", inside.instructions.iter().map(|inst| &inst.text).collect::<Vec<_>>());
    assert!(warnings[0].text.contains("BRA"), "{}", warnings[0].text);
    assert!(of_kind(&explain_body(&body("", "bar.sync 0;", "%r0"), None), "divergent-barrier").is_empty());
    // A branch on a parameter is the same for all threads.
    assert!(of_kind(&explain_body(&body("bar.sync 0;", "", "%r2"), None), "divergent-barrier").is_empty());
}

#[test]
fn two_barriers_in_an_iteration() {
    let body = |barriers: [&str; 2]| {
        let [first, second] = barriers;
        loop_over(&format!("ld.volatile.shared.u32 %r4, [%r3]; {first} st.volatile.shared.u32 [%r3+128], %r4; {second}"))
            .replace("mov.u32 %r1, 0;", "mov.u32 %r1, 0; mov.u32 %r3, words; mad.lo.u32 %r3, %r0, 4, %r3;")
            .replacen("ld.param.u64 %a0", ".shared .align 4 .b8 words[1024]; ld.param.u64 %a0", 1)
    };
    let two = explain_body(&body(["bar.sync 0;", "bar.sync 0;"]), None);
    let warnings = of_kind(&two, "barrier-serialization");
    assert_eq!(warnings.len(), 1, "{:?}", two.warnings);
    assert!(warnings[0].addresses.len() == 2 && warnings[0].cycles > 0.0, "{:?}", warnings[0]);
    assert!(of_kind(&explain_body(&body(["bar.sync 0;", ""]), None), "barrier-serialization").is_empty());
}

/// The decision of the scheduler is recorded with its runner-up, and follows the code: an independent load goes first because a chain
/// depends on it, and has no competitor if it is alone.
#[test]
fn a_place_has_its_decision() {
    let two = explain_body(
        &format!(
            "{ADDRESSES}mul.f32 %f3, %f4, 0f40400000; mul.f32 %f5, %f3, %f3; ld.global.f32 %f1, [%a0]; add.f32 %f2, %f1, %f5; st.global.f32 [%a1], %f2;"
        ),
        None,
    );
    let load = two.instructions.iter().find(|instruction| instruction.text.starts_with("LDG")).unwrap();
    let place = load.place.as_ref().unwrap();
    assert!(place.phase.is_some() && place.reason.is_some(), "{place:?}");
    let runners: Vec<u64> = two.instructions.iter().filter_map(|instruction| instruction.place.as_ref()?.runner_up).collect();
    assert!(!runners.is_empty() && runners.iter().all(|address| two.instructions.iter().any(|other| other.address == *address)));
    for instruction in &two.instructions {
        let Some((place, other)) = instruction.place.as_ref().and_then(|place| Some((place, place.runner_up?))) else { continue };
        let order = if other < instruction.address { "which goes before it" } else { "which goes after it" };
        assert!(place.text.contains(order), "{:#x}: {}", instruction.address, place.text);
    }
    // Nothing competes with the end of a chain of dependent instructions.
    let chain = explain_body(&format!("{ADDRESSES}ld.global.f32 %f1, [%a0]; add.f32 %f2, %f1, %f1; st.global.f32 [%a1], %f2;"), None);
    let store = chain.instructions.iter().find(|instruction| instruction.text.starts_with("STG")).unwrap();
    assert!(store.place.as_ref().unwrap().text.contains("nothing else was ready"), "{:?}", store.place);
}

/// The form names the pass that changed it.
#[test]
fn a_form_has_its_passes() {
    let body = |operation: &str| format!("{ADDRESSES}ld.global.f32 %f1, [%a0]; {operation} st.global.f32 [%a1], %f3;");
    let fused = explain_body(&body("mul.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f1;"), None);
    let product = fused.instructions.iter().find(|instruction| instruction.text.starts_with("FFMA")).unwrap();
    let form = product.form.as_ref().unwrap();
    assert!(form.created_by == "contract" || form.changes.iter().any(|change| change.pass == "contract"), "{form:?}");
    let written = explain_body(&body("fma.rn.f32 %f3, %f1, %f1, %f1;"), None);
    let product = written.instructions.iter().find(|instruction| instruction.text.starts_with("FFMA")).unwrap();
    let form = product.form.as_ref().unwrap();
    assert!(form.created_by == "select" && form.changes.iter().all(|change| change.pass != "contract"), "{form:?}");
}

/// Returns the forms of an instruction that a pass rejected, with the reasons. `opcode` is the start of its text.
fn rejected_by(function: &Function, opcode: &str, pass: &str) -> Vec<(String, String)> {
    let of_opcode = function.instructions.iter().filter(|instruction| instruction.text.starts_with(opcode));
    let forms = of_opcode.flat_map(|instruction| instruction.form.as_ref().unwrap().rejected.iter());
    forms.filter(|rejected| rejected.pass == pass).map(|rejected| (rejected.form.clone(), rejected.reason.clone())).collect()
}

/// A product or shift that only a sum reads becomes part of the sum; with another reader it does not, and the explanation says so.
#[test]
fn rejected_forms_name_the_other_reader() {
    let product = |end: &str| {
        let sum = "ld.global.v2.f32 {%f1, %f2}, [%a0]; mul.f32 %f3, %f1, %f2; add.f32 %f4, %f3, %f1;";
        explain_body(&format!("{ADDRESSES}{sum} {end}"), None)
    };
    let (alone, shared) = (product("st.global.f32 [%a1], %f4;"), product("st.global.v2.f32 [%a1], {%f3, %f4};"));
    assert!(alone.instructions.iter().any(|instruction| instruction.text.starts_with("FFMA")));
    assert_eq!(rejected_by(&alone, "", "contract"), []);
    let rejected = rejected_by(&shared, "FADD", "contract");
    assert!(matches!(&rejected[..], [(form, reason)] if form == "FFMA" && reason.contains("reads it too")), "{rejected:?}");
    let form = shared.instructions.iter().find(|instruction| instruction.text.starts_with("FADD")).unwrap().form.as_ref().unwrap();
    assert!(form.text.contains("`contract` rejected FFMA, because an instruction that cannot take the product"), "{}", form.text);

    let shift = |end: &str| {
        let sum = "ld.global.v2.u32 {%r1, %r2}, [%a0]; shl.b32 %r3, %r1, 4; add.u32 %r4, %r3, %r2;";
        explain_body(&format!("{ADDRESSES}{sum} {end}"), None)
    };
    let (alone, shared) = (shift("st.global.u32 [%a1], %r4;"), shift("st.global.v2.u32 [%a1], {%r3, %r4};"));
    let of_shift = |function: &Function| {
        let all = rejected_by(function, "", "combine").into_iter();
        all.filter(|(form, _)| form.contains("SHF.L.U32 of a source")).map(|(_, reason)| reason).collect::<Vec<_>>()
    };
    assert_eq!(of_shift(&alone), Vec::<String>::new());
    assert_eq!(of_shift(&shared), ["another instruction reads its result too, so it is computed anyway"]);
}

/// Additions move to the multiply unit if it is less busy; products in the same block keep them on the integer unit.
#[test]
fn rejected_forms_name_the_busier_unit() {
    let block = |products: usize| {
        let loads: String = (1..=8).map(|number| format!("ld.volatile.global.u32 %r{number}, [%a0+{}];", 4 * number)).collect();
        let sums: String = (1..=8).map(|number| format!("add.u32 %r{number}, %r{number}, %r0;")).collect();
        let floats: String = (1..=products).map(|number| format!("ld.volatile.global.f32 %f{number}, [%a0+{}];", 4 * number)).collect();
        let factors: String = (1..=products).map(|number| format!("mul.f32 %f{number}, %f{number}, %f{number};")).collect();
        let stores: String = (1..=8).map(|number| format!("st.volatile.global.u32 [%a1+{}], %r{number};", 4 * number)).collect();
        let others: String = (1..=products).map(|number| format!("st.volatile.global.f32 [%a1+{}], %f{number};", 4 * number)).collect();
        explain_body(&format!("{ADDRESSES}{loads}{floats}\n{sums}{factors}\n{stores}{others}"), None)
    };
    let (free, busy) = (block(0), block(24));
    let moved = |function: &Function| {
        let all = rejected_by(function, "", "balance").into_iter();
        all.filter(|(form, reason)| form == "IADD3" && reason.starts_with("the integer unit was busy")).count()
    };
    let kept = |function: &Function| {
        let all = rejected_by(function, "IADD3", "balance").into_iter();
        all.filter(|(form, reason)| form == "VIADD" && reason.starts_with("the multiply unit is busy")).count()
    };
    assert!(moved(&free) >= 2, "{:?}", rejected_by(&free, "", "balance"));
    assert!(moved(&busy) == 0 && kept(&busy) >= 8, "{:?}", rejected_by(&busy, "", "balance"));
}

/// Constants and offsets that an instruction has no encoding for stay in registers, and the explanation names them.
#[test]
fn rejected_forms_name_the_constant_without_an_encoding() {
    // A multiply-add has one field for a number, and an address offset has 24 bits.
    let sum = |factor: &str| {
        let body = format!("ld.global.u32 %r1, [%a0]; mad.lo.u32 %r2, %r1, {factor}, 12345; st.global.u32 [%a1], %r2;");
        explain_body(&format!("{ADDRESSES}{body}"), None)
    };
    let (register, number) = (sum("%r1"), sum("6789"));
    let of_sum = |function: &Function| {
        let all = rejected_by(function, "IMAD", "fold").into_iter();
        all.filter(|(form, reason)| form.starts_with("IMAD with the number") && reason.contains("no encoding")).count()
    };
    assert_eq!((of_sum(&register), of_sum(&number)), (0, 1), "{:?}", rejected_by(&number, "IMAD", "fold"));

    let far = |offset: u32| {
        let body = format!("add.u64 %a3, %a0, {offset}; ld.global.u32 %r1, [%a3+16]; st.global.u32 [%a1], %r1;");
        explain_body(&format!("{ADDRESSES}{body}"), None)
    };
    assert_eq!(rejected_by(&far(64), "LDG", "fold"), []);
    let rejected = rejected_by(&far(0x100_0000), "LDG", "fold");
    assert!(matches!(&rejected[..], [(form, _)] if form.contains("the addition of 0x1000000")), "{rejected:?}");
}

/// The uniform form of the sum in a matrix descriptor is rejected if an instruction in general registers reads the sum too, or if two
/// sources would have to be copied.
#[test]
fn rejected_forms_name_the_uniform_datapath() {
    let product = |sum: &str| {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel(.param .u64 out)\n{{\n\
             .reg .b32 %r<8>; .reg .b64 %a<4>; .reg .pred %p;\nld.param.u64 %a0, [out]; mov.b32 %r0, 0; mov.b32 %r1, 0;\n\
             ld.global.b32 %r2, [%a0]; ld.global.b32 %r3, [%a0+4];\n{sum}\nmov.b64 %a1, {{%r4, 1073741888}};\n\
             mov.b64 %a2, 4611686293305294848; setp.ne.s32 %p, 1, 0;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {{%r0, %r1}}, %a1, %a2, %p, 1, 1, 0, 0;\n\
             wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nst.global.b32 [%a0], %r0; st.global.b32 [%a0+4], %r1;\n\
             ret;\n}}\n"
        );
        let options = Options::new(Target::parse("sm_90a").unwrap());
        explain_ptx("kernel.ptx", text.as_bytes(), &options).unwrap().functions.remove(0)
    };
    let reasons = |function: &Function| rejected_by(function, "", "uniform").into_iter().map(|(_, reason)| reason).collect::<Vec<_>>();
    let (moved, stored, sources) =
        (product("add.u32 %r4, %r2, 2;"), product("add.u32 %r4, %r2, 2; st.global.b32 [%a0+8], %r4;"), product("add.u32 %r4, %r2, %r3;"));
    assert!(reasons(&moved).is_empty(), "{:?}", reasons(&moved));
    assert!(reasons(&stored).iter().any(|reason| reason.contains("reads its result too")), "{:?}", reasons(&stored));
    assert!(reasons(&sources).iter().any(|reason| reason.contains("more than one of its sources")), "{:?}", reasons(&sources));
}

/// Calls have their callee and its cost: a longer callee costs more, in a loop a call is executed more often, and a function that calls itself
/// has no known cost.
#[test]
fn calls_have_their_costs() {
    let explain = |callee: &str, call: &str| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.func (.param .b32 result) callee(.param .b32 value)\n{{\n.reg .f32 %f<4>;\nld.param.f32 %f1, [value];\n\
             {callee}\nst.param.f32 [result], %f1;\nret;\n}}\n\
             .visible .entry kernel(.param .u64 out)\n{{\n.reg .f32 %f<4>; .reg .b64 %a; .reg .b32 %r; .reg .pred %p;\nld.param.u64 %a, [out];\n\
             mov.f32 %f1, 0f3F800000;\nmov.u32 %r, %tid.x;\n{call}\nst.global.f32 [%a], %f1;\nret;\n}}\n"
        );
        let options = Options::new(Target::parse("sm_90a").unwrap());
        let explanation = explain_ptx("kernel.ptx", text.as_bytes(), &options).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        explanation.functions.into_iter().find(|function| function.is_kernel).unwrap()
    };
    let call = "{ .param .b32 v; .param .b32 r; st.param.f32 [v], %f1; call (r), callee, (v); ld.param.f32 %f1, [r]; }";
    let in_loop = format!("again:\n{call}\nsub.u32 %r, %r, 1; setp.ne.u32 %p, %r, 0; @%p bra again;");
    let (short, long) = ("sqrt.approx.f32 %f1, %f1;", "sqrt.approx.f32 %f1, %f1;\n".repeat(6));
    let cost = |function: &Function| {
        let [call] = &function.calls[..] else { panic!("one call: {:?}", function.calls) };
        let instruction = &function.instructions[call.address as usize / 16];
        assert!(instruction.text.starts_with("CALL") && instruction.text.contains("`(callee)"), "{}", instruction.text);
        assert_eq!(call.callee.as_deref(), Some("callee"));
        (call.executions, call.callee_cycles)
    };
    let (once, longer, often) = (cost(&explain(short, call)), cost(&explain(&long, call)), cost(&explain(short, &in_loop)));
    assert!(once.0 == 1.0 && often.0 == 10.0 && once.1 == often.1, "{once:?} {often:?}");
    assert!(once.1 > Some(5.0) && longer.1 > once.1.map(|cycles| cycles + 50.0), "{once:?} {longer:?}");
    let recursive = format!(".reg .pred %p; setp.lt.f32 %p, %f1, 0f00000000; @%p bra end;\n{call}\nend:");
    assert_eq!(cost(&explain(&recursive, call)).1, None);
}
