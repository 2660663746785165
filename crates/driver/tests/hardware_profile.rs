//! Every figure of a hardware profile either changes the output of the compiler, or is refused if it differs from the built-in one.

use std::sync::Arc;

use oriole_driver::account::LatencyCase;
use oriole_driver::{BackendChoice, Options, Reports, Scheduling, compile};
use oriole_hardware::Profile;
use oriole_hardware::file::ProfileFault;
use oriole_isa::Target;

/// A kernel with work for every unit, a declared block size, shared memory and a barrier, and kernels that reach one limit each.
const KERNELS: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry work(.param .u64 p, .param .u32 n) .maxntid 256, 1, 1 .minnctapersm 3
{
    .reg .pred %q<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<64>;
    .reg .f32 %f<16>;
    .reg .f64 %d<16>;
    .reg .b64 %a<8>;
    .shared .align 8 .b8 buffer[30000];
    ld.param.u64 %a0, [p];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a1, %r1, 8;
    add.s64 %a2, %a0, %a1;
    mov.u32 %r2, 0;
    mov.f64 %d7, 0d0000000000000000;
loop:
    ld.global.f64 %d0, [%a2];
    ld.global.f64 %d1, [%a2+8];
    ld.global.f64 %d5, [%a2+16];
    ld.global.u32 %r3, [%a2+24];
    ld.global.u32 %r4, [%a2+28];
    ld.global.u32 %r5, [%a2+32];
    fma.rn.f64 %d2, %d0, %d1, %d5;
    fma.rn.f64 %d3, %d2, %d1, %d0;
    mul.f64 %d4, %d0, %d5;
    add.f64 %d7, %d7, %d4;
    add.f64 %d7, %d7, %d3;
    add.u32 %r6, %r3, %r4;
    add.u32 %r7, %r4, %r5;
    add.u32 %r8, %r3, %r5;
    xor.b32 %r9, %r6, %r7;
    shl.b32 %r10, %r8, 3;
    mad.lo.u32 %r11, %r9, %r10, %r6;
    mul.wide.u32 %a3, %r11, %r7;
    cvt.rn.f32.u32 %f0, %r11;
    cvt.rn.f64.u32 %d6, %r10;
    add.f64 %d7, %d7, %d6;
    sin.approx.f32 %f1, %f0;
    rcp.approx.ftz.f32 %f2, %f1;
    fma.rn.f32 %f3, %f1, %f2, %f0;
    add.f16x2 %r12, %r9, %r10;
    fma.rn.f16x2 %r13, %r12, %r9, %r10;
    shfl.sync.bfly.b32 %r14, %r13, 1, 31, -1;
    redux.sync.add.u32 %r15, %r14, -1;
    cvt.u32.u64 %r16, %a3;
    mov.b32 %r17, %f3;
    add.u32 %r18, %r15, %r16;
    add.u32 %r19, %r18, %r17;
    mov.u32 %r20, buffer;
    shl.b32 %r21, %r1, 2;
    add.u32 %r22, %r20, %r21;
    st.shared.u32 [%r22], %r19;
    bar.sync 0;
    ld.shared.u32 %r23, [%r22+4];
    add.u32 %r2, %r2, %r23;
    setp.lt.u32 %q0, %r2, %r0;
    @%q0 bra loop;
    st.global.f64 [%a2], %d7;
    st.global.u32 [%a2+8], %r2;
    ret;
}
.visible .entry wide(.param .u64 p) .maxntid 1024, 1, 1 .minnctapersm 2
{
    .reg .b64 %a;
    ld.param.u64 %a, [p];
    st.global.u64 [%a], %a;
    ret;
}
.visible .entry full(.param .u64 p) .maxntid 1024, 1, 1
{
    .reg .b64 %a;
    ld.param.u64 %a, [p];
    st.global.u64 [%a], %a;
    ret;
}
.visible .entry small(.param .u64 p) .maxntid 32, 1, 1 .minnctapersm 32
{
    .reg .b64 %a;
    ld.param.u64 %a, [p];
    st.global.u64 [%a], %a;
    ret;
}
.visible .entry shared(.param .u64 p) .maxntid 128, 1, 1
{
    .reg .b64 %a;
    // With 1 KiB for the system these are 21,120 bytes; 228 KiB hold 11 such blocks.
    .shared .align 8 .b8 buffer[20096];
    ld.param.u64 %a, [p];
    st.shared.u64 [buffer], %a;
    ret;
}
.visible .entry barriers(.param .u64 p) .maxntid 128, 1, 1
{
    .reg .b64 %a;
    ld.param.u64 %a, [p];
    bar.sync 15;
    st.global.u64 [%a], %a;
    ret;
}
";

/// Returns a module of one kernel with 150 values that are live at the same time.
fn many_live_values() -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry live(.param .u64 p) .maxntid 128, 1, 1\n{\n.reg .b64 %a;\n.reg .b32 %v<150>;\nld.param.u64 %a, [p];\n",
    );
    text.extend((0..150).map(|number| format!("ld.volatile.global.b32 %v{number}, [%a+{}];\n", 4 * number)));
    text.extend((0..150).map(|number| format!("st.volatile.global.b32 [%a+{}], %v{number};\n", 4 * (149 - number))));
    text + "ret;\n}\n"
}

/// Fields on which nothing depends.
const REFUSED: [&str; 18] = [
    "architecture",
    "bit_count",
    "carve_outs",
    "compare",
    "convergence_barriers",
    "convert",
    "convert_to_integer",
    "issue_per_scheduler",
    "l1_and_shared",
    "predicates",
    "shared_banks",
    "shared_per_block",
    "shift",
    "tensor_f16",
    "texture",
    "uniform_predicates",
    "uniform_registers",
    "vote",
];

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

/// The number of settings that [`output`] compiles with.
const SETTINGS: usize = 6;

/// Returns everything that the compiler prints and writes with a profile, in one of several settings.
fn output(profile: Option<&Arc<Profile>>, setting: usize) -> String {
    let by_target = Scheduling { backend: BackendChoice::ByTarget, ..Scheduling::default() };
    let auto = Scheduling { backend: BackendChoice::Auto, ..Scheduling::default() };
    let (module, level, scheduling) = match setting {
        0 => (KERNELS.to_owned(), 0, Scheduling::default()),
        1 => (KERNELS.to_owned(), 1, Scheduling::default()),
        2 => (KERNELS.to_owned(), 3, by_target),
        3 => (KERNELS.to_owned(), 3, auto),
        4 => (many_live_values(), 1, Scheduling::default()),
        _ => (KERNELS.to_owned(), 3, Scheduling::default()),
    };
    let checked = oriole_ptx::check(module.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    let reports = Reports { figures: true, ..Reports::default() };
    let options = Options { level, scheduling, reports, profile: profile.cloned(), verify: false, ..Options::new(target()) };
    let compiled = compile(&[&checked.module], &options).unwrap();
    let mut text = format!("{:?} {:?}\n", compiled.cubin, compiled.functions);
    for report in &compiled.scheduling {
        text.push_str(&(report.statistics(LatencyCase::Average) + &report.statistics(LatencyCase::Worst) + &report.guidance(3)));
    }
    text
}

/// Returns the output without a profile in every setting.
fn usual_output() -> Vec<String> {
    (0..SETTINGS).map(|setting| output(None, setting)).collect()
}

/// Returns whether a profile changes the output in any setting.
fn has_effect(profile: Profile, usual: &[String]) -> bool {
    let profile = Arc::new(profile);
    usual.iter().enumerate().any(|(setting, usual)| output(Some(&profile), setting) != *usual)
}

/// Returns other values for a field.
fn alternatives(key: &str, value: &str) -> Vec<String> {
    let unit = if value.ends_with('K') { "K" } else { "" };
    match (key, value.trim_end_matches('K').parse::<u32>()) {
        ("page_scheduler", _) => vec!["a".into(), "b".into(), "c".into()],
        (_, Ok(number)) => {
            [number / 16, number / 2, number.saturating_sub(1), number + 1, number * 2].map(|number| format!("{number}{unit}")).into()
        }
        ("carve_outs", _) => vec!["0 8K".into()],
        _ => vec!["1".into(), "other".into()],
    }
}

/// Returns the text of a profile with another value of a fact.
fn changed(text: &str, key: &str, value: &str) -> String {
    let line = text.lines().find(|line| line.contains(&format!(" name={key} value="))).unwrap_or_else(|| panic!("no fact {key}"));
    let (start, rest) = line.split_once(" value=").unwrap();
    let (_, source) = rest.rsplit_once(" source=").unwrap();
    text.replace(line, &format!("{start} value=\"{value}\" source={source}"))
}

#[test]
fn every_fact_has_an_effect_or_is_refused() {
    let built_in = Profile::of(target());
    let text = built_in.to_text();
    let usual = usual_output();
    let unchanged = Profile::from_text("p.hwp", &text).unwrap();
    assert!(!has_effect(unchanged, &usual), "an unchanged profile changes nothing");
    let (mut refused, mut without_effect) = (Vec::new(), Vec::new());
    for field in built_in.machine.fields().chain(built_in.rates.fields()) {
        let values = alternatives(field.key, field.value).into_iter().filter(|value| value != field.value);
        let mut read = values.map(|value| Profile::from_text("p.hwp", &changed(&text, field.key, &value)));
        let mut is_refused = false;
        let is_wired = read.any(|profile| match profile {
            Ok(profile) => has_effect(profile, &usual),
            Err(error) => {
                if let ProfileFault::NotUsed { .. } = error.fault {
                    assert!(error.line > 0 && error.field.as_deref() == Some("value"), "{error}");
                    is_refused = true;
                }
                false
            }
        });
        if is_refused {
            refused.push(field.key);
        } else if !is_wired && field.key != "threads_per_warp" {
            without_effect.push(field.key);
        }
    }
    refused.sort_unstable();
    assert!(without_effect.is_empty() && refused == REFUSED, "without effect: {without_effect:?}, refused: {refused:?}");
}

/// A record, one of its fields, and a new value.
fn with_field(text: &str, record: &str, field: &str, value: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(record)).unwrap_or_else(|| panic!("no record {record}"));
    let fields = line.split(' ').map(|word| match word.split_once('=') {
        Some((key, _)) if key == field => format!("{key}={value}"),
        _ => word.to_owned(),
    });
    text.replace(line, &fields.collect::<Vec<_>>().join(" "))
}

#[test]
fn times_have_an_effect_or_are_refused() {
    let text = Profile::of(target()).to_text();
    let usual = usual_output();
    for (record, field, value) in [
        ("'5' scoreboard class=load_global ", "usual", "900"),
        ("'5' scoreboard class=load_global ", "most", "2900"),
        ("'6' wait class=store_global ", "read", "90"),
        ("'E' barrier-entry class=load_global ", "stall", "9"),
        ("23 class name=multiply ", "latency", "60"),
        ("'1' dimension kind=raw file=R first=alu ", "alu", "9n"),
        ("'1' dimension kind=war file=R first=alu ", "alu", "9n"),
    ] {
        let changed = with_field(&text, record, field, value);
        let changed = if field == "usual" { with_field(&changed, record, "most", "2900") } else { changed };
        let profile = Profile::from_text("p.hwp", &changed).unwrap();
        assert!(has_effect(profile, &usual), "{record}{field}={value} has no effect");
    }
    let error = Profile::from_text("p.hwp", &with_field(&text, "'5' scoreboard class=load_global ", "least", "1")).unwrap_err();
    assert!(matches!(error.fault, ProfileFault::NotUsed { .. }) && error.line > 0 && error.field.as_deref() == Some("least"), "{error}");
}
