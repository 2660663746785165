//! Any input gives an answer: no panic, no hang, no stack overflow, and findings that can be formatted.
//!
//! Time limits are generous, because tests share machines; they detect work that is quadratic in the size of the input.

use std::time::{Duration, Instant};

use oriole_ptx::diag::{self, DiagnosticCode, Style};
use oriole_ptx::source::{LineIndex, Source};
use oriole_ptx::{Checked, Options, check};

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// The time for one text. Code that is linear takes some seconds without optimization, code that is quadratic takes hours; the limit leaves
/// room for a machine with other work.
const LIMIT: Duration = Duration::from_secs(120);

/// Checks a text and formats some of the findings, within the time limit.
fn answer(text: &[u8]) -> Checked {
    let start = Instant::now();
    let checked = check(text, &Options::default());
    let (source, lines) = (Source::new("test.ptx", text), LineIndex::new(text));
    for finding in checked.diagnostics.iter().take(10) {
        assert!(finding.span.start <= finding.span.end && finding.span.end as usize <= text.len(), "{finding:?}");
        let shown = diag::render(&source, &lines, finding, Style::Plain);
        assert!(shown.len() < 20_000, "a finding of {} bytes", shown.len());
        diag::ptxas_lines(&source, &lines, finding);
        diag::to_json(&source, &lines, finding);
    }
    assert!(checked.diagnostics.len() <= 2 * Options::default().error_limit);
    let time = start.elapsed();
    assert!(time < LIMIT, "{time:?} for {} bytes", text.len());
    checked
}

fn answer_module(items: &str) -> Checked {
    answer(format!("{HEADER}{items}").as_bytes())
}

fn answer_body(body: &str) -> Checked {
    answer_module(&format!(".entry k()\n{{\n{body}\nret;\n}}\n"))
}

fn assert_valid(checked: &Checked) {
    let messages: Vec<&str> = checked.diagnostics.iter().map(|finding| finding.message.as_str()).take(5).collect();
    assert!(checked.is_valid(), "{messages:?}");
}

fn assert_code(checked: &Checked, code: DiagnosticCode) {
    assert!(checked.diagnostics.iter().any(|finding| finding.code == code), "no {code:?} among {} findings", checked.diagnostics.len());
}

/// Pseudorandom numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// A module with many different constructs.
const SAMPLE: &str = r#".version 9.0
.target sm_90a
.address_size 64
.file 1 "a.cu", 1, 2
.extern .shared .align 16 .b8 pool[];
.global .align 4 .b32 g;
.global .align 8 .u64 table[2] = {generic(g)+4, 0};
.const .f32 c = 0f3F800000; /* comment */
.extern .func (.param .b32 r) f(.param .b32 a, .reg .b64 b);
.func stop() .noreturn { trap; }
.visible .entry k(.param .u64 .ptr .global .align 16 p) .maxntid 128, 1, 1 .pragma "nounroll";
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .v4 .f32 %v;
    .loc 1 5 3
    ld.param.u64 %rd1, [p+0];
    L: @!%p1 bra L;
    { .param .b32 x; st.param.b32 [x], -(1 + 2) * 3; call (_), f, (x, %rd1); }
    ld.global.v4.f32 %v, [%rd1]; add.f32 %v.x, %v.y, 1.5e0;
    T: .branchtargets L, M; brx.idx %r1, T;
    M: setp.eq.u32 %p1|%p2, %r1, 0x1F; // end
    ret;
}
.section .debug_str { S0: .b8 95, 0
.b32 S0 }
"#;

#[test]
fn truncation_at_every_byte() {
    assert_valid(&answer(SAMPLE.as_bytes()));
    for end in 0..=SAMPLE.len() {
        answer(&SAMPLE.as_bytes()[..end]);
    }
}

#[test]
fn a_piece_missing_anywhere() {
    let mut random = Random(1);
    for start in 0..SAMPLE.len() {
        let end = (start + 1 + random.below(12)).min(SAMPLE.len());
        answer(&[&SAMPLE.as_bytes()[..start], &SAMPLE.as_bytes()[end..]].concat());
    }
}

#[test]
fn changed_bytes() {
    let mut random = Random(2);
    let symbols = b"{}[]()<>;,.:@!%$\"/*#+-=|&?_ \n\0\xFF0a";
    for _ in 0..3000 {
        let mut text = SAMPLE.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let place = random.below(text.len());
            text[place] = symbols[random.below(symbols.len())];
        }
        answer(&text);
    }
}

#[test]
fn shuffled_tokens() {
    let words: Vec<&str> = SAMPLE.split_inclusive([' ', ';', ',', '\n']).collect();
    let mut random = Random(3);
    for _ in 0..500 {
        let count = random.below(200);
        let text: String = (0..count).map(|_| words[random.below(words.len())]).collect();
        answer_module(&text);
        answer_body(&text);
    }
}

#[test]
fn binary_garbage() {
    let mut random = Random(4);
    for length in [0, 1, 2, 10, 100, 1000, 100_000] {
        let garbage = random.bytes(length);
        answer(&garbage);
        answer(&[HEADER.as_bytes(), &garbage].concat());
        answer(&[HEADER.as_bytes(), b".entry k() {", &garbage].concat());
        answer(&[HEADER.as_bytes(), b".global .b32 x[] = {", &garbage].concat());
    }
    answer(&vec![0; 1_000_000]);
    answer(&vec![0xFF; 1_000_000]);
}

#[test]
fn nul_bytes() {
    assert!(!answer(b".version 9.0\0\n.target sm_90a\n").is_valid());
    assert!(!answer(format!("{HEADER}.entry k() {{ ret;\0 }}").as_bytes()).is_valid());
    assert!(!answer(format!("{HEADER}.entry k() {{ ret; }}\0").as_bytes()).is_valid());
}

#[test]
fn comments_hold_any_bytes() {
    let text = [HEADER.as_bytes(), b"// \xE9\xFF\n/* \xC3( */ .entry k() { ret; // \x80\n}"].concat();
    assert_valid(&answer(&text));
    let text = [HEADER.as_bytes(), b".file 1 \"\xE9\"\n"].concat();
    assert_code(&answer(&text), DiagnosticCode::NonAscii);
}

#[test]
fn twenty_megabytes() {
    let line = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16]; @%p1 bra $L__BB0_1; add.s32 %r1, %r2, 7; // comment\n";
    let lines = line.repeat(20_000_000 / line.len());
    assert_valid(&answer_body(&format!(".reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<9>;\n$L__BB0_1:\n{lines}")));
}

#[test]
fn much_of_one_thing() {
    let things = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        ".",
        ":",
        "@",
        "@@",
        "#",
        "# 1 \"",
        "\"",
        "/",
        "*/",
        "//",
        "/*",
        "-",
        "!",
        "%",
        "_",
        "a",
        "a ",
        "a:",
        "0",
        "0 ",
        "0x",
        "1.",
        ".b32",
        ".b32 ",
        "\n",
        "\r",
        "\t",
        "\0",
        "\u{e9}",
        ".reg ",
        "ld.",
        "ret;",
        ".entry k(",
        "{ret;}",
        ".align 8 ",
        "L: {",
    ];
    for thing in things {
        let many = thing.repeat(300_000 / thing.len());
        answer(many.as_bytes());
        answer_module(&many);
        answer_body(&many);
        answer_module(&format!(".global .b32 x[] = {{{many}"));
        answer_module(&format!(".global .b32 x = {many}"));
        answer_body(&format!("mov.b32 %r1, {many}"));
    }
    for thing in ["a ", "ret;", "/", "#", "\""] {
        answer_body(&thing.repeat(20_000_000 / thing.len()));
    }
}

#[test]
fn a_million_registers() {
    assert_valid(&answer_body(".reg .b32 %r<1000000>; mov.b32 %r999999, %r0;"));
    let plain: String = (0..1_000_000).map(|number| format!(".reg .b32 a{number};\n")).collect();
    assert_valid(&answer_body(&(plain + "mov.b32 a999999, a0;")));
    let ranges: String = (0..300_000).map(|number| format!(".reg .b32 a{number}_5; .reg .b32 a{number}_<5>;\n")).collect();
    assert_valid(&answer_body(&ranges));
    assert_code(&answer_body(".reg .b32 a<4294967295>; .reg .b32 b<4294967295>;"), DiagnosticCode::BadNameCount);
}

#[test]
fn nested_scopes() {
    for depth in [10_000, 50_000] {
        assert_valid(&answer_body(&format!("{}{}", "{".repeat(depth), "}".repeat(depth))));
        assert_code(&answer_body(&"{".repeat(depth)), DiagnosticCode::UnexpectedEnd);
    }
    assert_code(&answer_body(&format!("{}{}", "{".repeat(200_000), "}".repeat(200_000))), DiagnosticCode::ScopesTooDeep);
    assert!(!answer_body(&"}".repeat(200_000)).is_valid());
}

#[test]
fn scopes_with_names() {
    let depth = 50_000;
    let open: String = (0..depth).map(|level| format!("{{ .reg .b32 a<{}>; L{level}: bra M;\n", depth - level)).collect();
    let uses: String = (0..depth).map(|number| format!("bra L{number};\n")).collect();
    assert_valid(&answer_body(&format!("{open}{uses}{}M:", "}".repeat(depth))));
    let uses: String = (0..depth).map(|number| format!("mov.b32 a{number}, 0;\n")).collect();
    answer_body(&format!("{open}{uses}{}M:", "}".repeat(depth)));
}

#[test]
fn nested_constants() {
    let nested = |depth: usize| format!(".global .b64 x = {}1{};", "(".repeat(depth), ")".repeat(depth));
    assert_valid(&answer_module(&nested(100)));
    assert_code(&answer_module(&nested(10_000)), DiagnosticCode::ConstantTooDeep);
    assert_code(&answer_module(&nested(200_000)), DiagnosticCode::ConstantTooDeep);
    for operator in ["-", "~", "!", "(.s64)", "1?", "1?1:", "1+(", "1||1*(", "- "] {
        answer_module(&format!(".global .b64 x = {}1;", operator.repeat(100_000)));
        answer_body(&format!("mov.b64 %rd1, {}1;", operator.repeat(100_000)));
        answer_body(&format!("ld.global.b32 %r1, [%rd1+{}1];", operator.repeat(100_000)));
    }
    assert_valid(&answer_module(&format!(".global .b64 x = 1{};", " + 1 * 2 - 3".repeat(100_000))));
}

#[test]
fn nested_initializers() {
    for depth in [10, 40, 10_000, 200_000] {
        let sizes = "[1]".repeat(depth);
        answer_module(&format!(".global .b32 x{sizes} = {}1{};", "{".repeat(depth), "}".repeat(depth)));
        answer_module(&format!(".global .b32 x = {}", "{".repeat(depth)));
        answer_body(&format!("mov.b32 %r1, {}", "{".repeat(depth)));
        answer_body(&format!("mov.b32 %r1, {}", "[".repeat(depth)));
    }
    let values = "1,".repeat(1_000_000);
    assert_valid(&answer_module(&format!(".global .b32 x[] = {{{values}1}};")));
}

#[test]
fn long_lines_and_names() {
    let name = "a".repeat(5_000_000);
    assert_valid(&answer_module(&format!(".global .b32 {name};")));
    for body in [
        format!("mov.b32 {name}, 0;"),
        format!("{name};"),
        format!("add.{name} %r1, %r2, %r3;"),
        format!("call {name};"),
        format!(".{name} x;"),
    ] {
        assert!(!answer_body(&body.repeat(3)).is_valid());
    }
    let digits = "1".repeat(1_000_000);
    for body in [format!("mov.b32 a{digits}, 0;"), format!("mov.b32 %r1, {digits};"), format!("mov.f32 %f1, {digits}.{digits}e{digits};")] {
        assert!(!answer_body(&body).is_valid());
    }
    let line = "add.s32 %r1, %r1, 1; ".repeat(200_000);
    assert_valid(&answer_body(&format!(".reg .b32 %r<2>; {line}")));
    assert!(!answer_body(&format!(".reg .b32 %r<1>; {line}")).is_valid());
}

#[test]
fn many_errors_stop_at_the_limit() {
    let lines = "foo.bar %r1, %r2;\nmov.b32 %q, ;\nbra nowhere;\n}\n".repeat(100_000);
    let checked = answer_body(&lines);
    assert_eq!(checked.diagnostics.iter().filter(|finding| finding.code.name().starts_with('E')).count(), 100);
    let all = check(format!("{HEADER}.entry k() {{ {} }}", "bra x; ".repeat(10)).as_bytes(), &Options { error_limit: 1 });
    assert_eq!(all.diagnostics.len(), 1);
    assert_eq!(answer(b"").diagnostics.len(), 1);
}

#[test]
fn many_labels() {
    let count = 200_000;
    let labels: String = (0..count).map(|number| format!("L{number}: bra L{};\n", count - 1 - number)).collect();
    assert_valid(&answer_body(&labels));
    let missing: String = (0..count).map(|number| format!("L{number}: bra M{number};\n")).collect();
    assert_code(&answer_body(&missing), DiagnosticCode::UndefinedLabel);
    let lists = "T: .branchtargets A<1000000>;\n".repeat(1000);
    assert_code(&answer_body(&lists), DiagnosticCode::BadNameCount);
}

#[test]
fn many_functions_and_calls() {
    let count = 50_000;
    let functions: String = (0..count).map(|number| format!(".func f{number}(.param .b32 a) {{ ret; }}\n")).collect();
    let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
    let calls = "call %rd1, (1), T;\n".repeat(count);
    assert_valid(&answer_module(&format!(
        "{functions}.entry k() {{ .reg .b64 %rd1; T: .calltargets {};\n{calls} ret; }}",
        names.join(", ")
    )));
    let parameters: Vec<String> = (0..count).map(|number| format!(".param .b32 p{number}")).collect();
    let calls = "{ .param .b32 x; call g, (x); }\n".repeat(count);
    assert_valid(&answer_module(&format!(".func g(.param .b32 a) {{ ret; }}\n.func h({}) {{ {calls} ret; }}", parameters.join(", "))));
    let declared: String = (0..count).map(|number| format!(".func d{number}();\n")).collect();
    assert_code(&answer_module(&declared), DiagnosticCode::UndefinedFunction);
}
