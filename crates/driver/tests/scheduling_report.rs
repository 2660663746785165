//! Compares the statistics of the scheduling report with counts from the generated file: decoded instructions, register counts, the
//! occupancy calculator.

use std::collections::BTreeMap;
use std::path::Path;

use oriole_cubin::Cubin;
use oriole_cubin::note::Note;
use oriole_cubin::section::Content;
use oriole_driver::account::{DistanceKind, LatencyCase};
use oriole_driver::{Compiled, Options, Reports, SchedulingReport, compile};
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_isa::{Instruction, Opcode, Target, decode};

const MODULES: [&str; 6] = ["attention", "histogram", "float_math", "integer_division", "block_sync", "wide_integers"];

fn compiled(text: &[u8], target: &str, reports: Reports) -> Compiled {
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    assert!(checked.is_valid());
    let target = Target::parse(target).expect("a target");
    let options = Options { reports, ..Options::new(target) };
    compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn corpus(module: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../corpus/{module}.ptx"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn with_figures() -> Reports {
    Reports { figures: true, ..Reports::default() }
}

/// Returns the instructions of a function without its padding: a branch to itself and `NOP`s.
fn instructions(cubin: &Cubin, function: &str, target: &str) -> Vec<Instruction> {
    let target = Target::parse(target).expect("a target");
    let bytes = cubin.section_named(&format!(".text.{function}")).and_then(|section| section.bytes()).expect("code");
    let words = bytes.chunks_exact(16).map(|word| u128::from_le_bytes(word.try_into().expect("16 bytes")));
    let mut code: Vec<Instruction> = words.map(|word| decode(word, target).expect("an instruction")).collect();
    while code.last().is_some_and(|last| last.opcode == Opcode::NOP) {
        code.pop();
    }
    assert_eq!(code.pop().map(|last| last.opcode), Some(Opcode::BRA), "{function}");
    code
}

fn count(code: &[Instruction], is_one: impl Fn(Opcode) -> bool) -> f64 {
    code.iter().filter(|instruction| is_one(instruction.opcode)).count() as f64
}

fn figure(report: &SchedulingReport, name: &str) -> f64 {
    let known = report.after.iter().find(|(known, _)| known == name);
    known.unwrap_or_else(|| panic!("{} has no {name}", report.name)).1.number()
}

#[test]
fn counts_are_those_of_the_decoded_code() {
    let mut totals: BTreeMap<&str, f64> = BTreeMap::new();
    for module in MODULES {
        for target in ["sm_90a", "sm_80"] {
            let compiled = compiled(&corpus(module), target, with_figures());
            let cubin = Cubin::read(&compiled.cubin).expect("a cubin");
            assert_eq!(compiled.scheduling.len(), compiled.functions.len());
            for report in &compiled.scheduling {
                let code = instructions(&cubin, &report.name, target);
                let hiding = |category| {
                    let (_, found) = report.latency_distances().find(|(known, _)| *known == category).expect("all categories");
                    f64::from(found.count + found.unread_in_block)
                };
                let size = cubin.section_named(&format!(".text.{}", report.name)).and_then(|section| section.bytes()).map(<[u8]>::len);
                let expected = [
                    ("inst", code.len() as f64),
                    ("rregs", f64::from(cubin.register_count(&report.name).expect("registers"))),
                    ("programSize", size.expect("code") as f64),
                    ("numVecToURConverts inst", count(&code, |opcode| opcode == Opcode::R2UR)),
                    ("est cbu", count(&code, is_control)),
                    ("est fma64", count(&code, |opcode| matches!(opcode, Opcode::DADD | Opcode::DMUL | Opcode::DFMA | Opcode::DSETP))),
                    ("est tex", 0.0),
                    ("est ipa", 0.0),
                ];
                for (name, expected) in expected {
                    assert_eq!(figure(report, name), expected, "{module} for {target}: {} {name}", report.name);
                    *totals.entry(name).or_default() += expected;
                }
                assert_eq!(hiding(DistanceKind::Ldg), count(&code, |opcode| opcode == Opcode::LDG), "{} LDG", report.name);
                assert_eq!(
                    hiding(DistanceKind::Lds),
                    count(&code, |opcode| matches!(opcode, Opcode::LDS | Opcode::LDSM)),
                    "{} LDS",
                    report.name
                );
                *totals.entry("LDG").or_default() += hiding(DistanceKind::Ldg);
                *totals.entry("LDS").or_default() += hiding(DistanceKind::Lds);
            }
        }
    }
    for name in ["inst", "est cbu", "est fma64", "LDG", "LDS"] {
        assert!(totals[name] > 0.0, "no {name} anywhere");
    }
}

/// Two textures by a handle in a parameter, which sm_80 reads from the constant bank and sm_100a from a uniform register; a handle from memory is
/// in a general register on sm_80.
#[test]
fn textures_are_counted_by_where_their_handle_is() {
    let text = ".version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 tex, .param .u64 out, .param .f32 x)
{
    .reg .b64 %t, %d;
    .reg .f32 %x, %f<8>;
    ld.param.u64 %d, [out];
    ld.param.f32 %x, [x];
    ld.param.u64 %t, [tex];
    tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x, %x}];
    tex.1d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%t, {%f0}];
    st.global.v4.f32 [%d], {%f4, %f5, %f6, %f7};
    ret;
}
";
    let handle = "ld.param.u64 %t, [tex];";
    assert!(text.contains(handle));
    let from_memory = text.replace(handle, "ld.param.u64 %t, [tex];\n    ld.global.u64 %t, [%t];");
    for (text, target, places) in
        [(text, "sm_80", [0.0, 0.0, 2.0]), (text, "sm_100a", [0.0, 2.0, 0.0]), (from_memory.as_str(), "sm_80", [2.0, 0.0, 0.0])]
    {
        let compiled = compiled(text.as_bytes(), target, with_figures());
        let cubin = Cubin::read(&compiled.cubin).expect("a cubin");
        let report = &compiled.scheduling[0];
        assert_eq!(count(&instructions(&cubin, "k", target), |opcode| opcode == Opcode::TEX), 2.0);
        let figures = ["Bindless Tex", "UR-Bound Tex", "CB-Bound Tex"].map(|name| figure(report, name));
        assert_eq!((figure(report, "texInst"), figures), (2.0, places), "{target}");
    }
}

fn is_control(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(opcode, O::BRA | O::BRX | O::CALL | O::EXIT | O::RET | O::BSSY | O::BSYNC | O::BREAK | O::BMOV | O::WARPSYNC | O::BPT)
}

#[test]
fn shares_are_shares_and_fields_add_up() {
    for module in MODULES {
        let compiled = compiled(&corpus(module), "sm_90a", with_figures());
        for report in &compiled.scheduling {
            for figures in [&report.before, &report.after] {
                for (name, figure) in figures.iter().filter(|(name, _)| name.ends_with("thru") || *name == "Occupancy") {
                    assert!((0.0..=1.0 + 1e-9).contains(&figure.number()), "{} {name}: {figure:?}", report.name);
                }
            }
            let estimates = report.after.iter().filter(|(name, _)| name.starts_with("est ") && !name.contains("Branches"));
            let sum: f64 = estimates.filter(|(name, _)| name != "est latency").map(|(_, figure)| figure.number()).sum();
            assert_eq!(sum, figure(report, "inst"), "{}: each instruction has one pipe", report.name);
            let [average, known, worst] = ["avgcaseLat", "est latency", "worstcaseLat"].map(|name| figure(report, name));
            assert!(average <= known + 0.5 && known <= worst + 0.5, "{}: {average} {known} {worst}", report.name);
        }
    }
}

/// Returns a kernel with 150 simultaneously live values and the given launch bounds.
fn many_values(bounds: &str) -> String {
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 p)\n");
    text += bounds;
    text += "\n{\n.reg .b64 %a;\n.reg .b32 %v<150>;\nld.param.u64 %a, [p];\n";
    text.extend((0..150).map(|number| format!("ld.volatile.global.b32 %v{number}, [%a+{}];\n", 4 * number)));
    text.extend((0..150).map(|number| format!("st.volatile.global.b32 [%a+{}], %v{};\n", 4 * number, number * 37 % 150)));
    text + "ret;\n}\n"
}

fn bytes(instruction: &Instruction) -> f64 {
    let wide = instruction.modifiers.iter().find_map(|modifier| match modifier.spelling() {
        ".64" => Some(8.0),
        ".128" => Some(16.0),
        _ => None,
    });
    wide.unwrap_or(4.0)
}

#[test]
fn spills_and_occupancy_follow_launch_bounds() {
    let machine = Machine::named("sm_90").expect("a machine");
    for (bounds, threads) in [("", 128), (".maxntid 416", 416), (".reqntid 256\n.minnctapersm 3", 256), (".maxnreg 64", 128)] {
        let compiled = compiled(many_values(bounds).as_bytes(), "sm_90a", with_figures());
        let cubin = Cubin::read(&compiled.cubin).expect("a cubin");
        let report = &compiled.scheduling[0];
        let registers = cubin.register_count("many").expect("registers");
        let occupancy = LaunchResources { threads, registers, ..LaunchResources::default() }.occupancy(machine).expect("a launch");
        assert_eq!(figure(report, "Occupancy"), occupancy.ratio(), "{bounds}");
        assert!(occupancy.blocks >= if bounds.contains("minnctapersm") { 3 } else { 1 }, "{bounds}: {registers} registers");
        let code = instructions(&cubin, "many", "sm_90a");
        for (name, opcode) in [("LSpillB", Opcode::STL), ("LRefillB", Opcode::LDL)] {
            let sum: f64 = code.iter().filter(|instruction| instruction.opcode == opcode).map(bytes).sum();
            assert_eq!(figure(report, name), sum, "{bounds}: {name}");
            assert_eq!(sum > 0.0, !bounds.is_empty(), "{bounds}: {name}");
        }
        let target = report.target.expect("a target");
        assert!(target.registers <= target.bounds.limit, "{bounds}: {target}");
    }
}

#[test]
fn the_text_is_the_same_every_time() {
    let text = || {
        let reports = Reports { figures: true, trace: true, ..Reports::default() };
        let compiled = compiled(&corpus("histogram"), "sm_90a", reports);
        let all = |report: &SchedulingReport| [report.statistics(LatencyCase::Worst), report.guidance(4), report.trace.clone()].concat();
        compiled.scheduling.iter().map(all).collect::<Vec<String>>()
    };
    let first = text();
    assert!(first.len() > 1 && first.iter().all(|text| text.contains("SCHEDULING GUIDANCE:")));
    assert_eq!(first, text());
}

#[test]
fn reports_change_no_code_but_for_the_record() {
    let cubin = |reports| compiled(&corpus("attention"), "sm_90a", reports).cubin;
    let plain = cubin(Reports::default());
    let told = cubin(Reports { figures: true, trace: true, ..Reports::default() });
    assert!(plain == told);
    let recorded = compiled(&corpus("attention"), "sm_90a", Reports { record: true, ..Reports::default() });
    let (plain, with_record) = (Cubin::read(&plain).expect("a cubin"), Cubin::read(&recorded.cubin).expect("a cubin"));
    let records: Vec<_> = with_record.sections().iter().filter(|section| section.name.starts_with(".note.oriole.sched.")).collect();
    assert_eq!(records.len(), recorded.functions.len());
    assert_eq!(with_record.sections().len(), plain.sections().len() + records.len());
    for (section, function) in records.iter().zip(&recorded.functions) {
        assert_eq!(section.name, format!(".note.oriole.sched.{}", function.name));
        let Content::Notes(notes) = &section.content else { panic!("{section:?}") };
        let [Note::Other { owner, note_type: 3, description }] = notes.as_slice() else { panic!("{notes:?}") };
        assert_eq!(owner, b"Oriole\0");
        let code = instructions(&with_record, &function.name, "sm_90a");
        let text = format!("instr/R-regs: {} instructions, {} R-regs", code.len(), function.registers);
        let expected = [&3_u32.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        assert_eq!(*description, expected);
    }
}

#[test]
fn a_trace_names_every_instruction_that_was_placed() {
    let reports = Reports { trace: true, traced_functions: vec!["saxpy".to_owned()], ..Reports::default() };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/saxpy.ptx");
    let text = std::fs::read(path).expect("the example");
    let compiled = compiled(&text, "sm_90a", reports.clone());
    let trace = &compiled.scheduling[0].trace;
    for phase in ["phase 97 bb0 ilp", "phase 110 bb0 ilp"] {
        assert!(trace.contains(phase), "{trace}");
    }
    let lines = |start: &str, end: &str| {
        let from = trace.find(start).expect("the phase");
        let to = trace[from..].find(end).map_or(trace.len(), |at| from + at);
        trace[from..to].to_owned()
    };
    // The source has two loads; both must be in the trace before allocation and in the trace after it.
    for part in [lines("phase 97", "phase 110"), lines("phase 110", "\0")] {
        assert_eq!(part.lines().filter(|line| line.split('|').next().is_some_and(|picked| picked.contains("LDG"))).count(), 2, "{part}");
        let reasons: Vec<&str> = part.lines().filter_map(|line| line.split('|').nth(2)).map(str::trim).collect();
        assert!(reasons.len() > 10 && reasons.iter().all(|reason| !reason.is_empty()), "{part}");
        let different: std::collections::BTreeSet<&str> = reasons.iter().copied().collect();
        assert!(different.len() > 2 && different.contains("nothing else was ready"), "{part}");
    }
    let other = Reports { traced_functions: vec!["other".to_owned()], ..reports };
    assert!(compiled_trace(&text, other).is_empty());
}

fn compiled_trace(text: &[u8], reports: Reports) -> String {
    compiled(text, "sm_90a", reports).scheduling[0].trace.clone()
}
