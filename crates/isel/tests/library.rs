//! The code of a library function is the same whether its body is selected or copied from a recording.

use oriole_isa::Target;
use oriole_isel::{Layout, Linking, SelectCaches, SelectOptions, select_function, select_function_with};
use oriole_ptx::ast::FunctionId;
use oriole_support::Index;

const INSTRUCTIONS: &[(&str, &str)] = &[
    ("div.rn.f32", "f"),
    ("div.rz.ftz.f32", "f"),
    ("div.full.f32", "f"),
    ("div.rn.f64", "d"),
    ("div.u16", "h"),
    ("div.s32", "r"),
    ("rem.u32", "r"),
    ("div.s64", "l"),
    ("rem.u64", "l"),
    ("min.f64", "d"),
    ("sqrt.rn.f32", "f"),
    ("rcp.rp.f64", "d"),
    ("rsqrt.approx.f64", "d"),
    ("lg2.approx.f32", "f"),
];

/// Returns a kernel that contains the instruction three times: in straight-line code, in a loop, and under a guard.
fn kernel(instruction: &str, letter: &str) -> String {
    let sources = if instruction.starts_with("div") || instruction.starts_with("rem") || instruction.starts_with("min") { 2 } else { 1 };
    let line = |to: u8| {
        let operands: Vec<String> = (to..=to + sources).map(|number| format!("%{letter}{number}")).collect();
        format!("{instruction} {};\n", operands.join(", "))
    };
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n.reg .pred %p<2>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>;\n\
         .reg .b64 %l<9>;\n.reg .f32 %f<9>;\n.reg .f64 %d<9>;\nmov.u32 %r8, %tid.x;\nsetp.eq.u32 %p1, %r8, 3;\n{}L:\n{}@%p1 {}@%p1 bra L;\nret;\n}}\n",
        line(1),
        line(2),
        line(3)
    )
}

fn selected(text: &str, target: Target) -> String {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics);
    let layout = Layout::new(&checked.module, Linking::Whole).unwrap_or_else(|error| panic!("{error}"));
    let id = FunctionId::new(0);
    let variables = layout.variables_of(&checked.module, id, target);
    let selected = select_function(&checked.module, id, target, &variables);
    selected.map_or_else(|errors| panic!("{errors:?}\n{text}"), |selected| format!("{:?}", selected.function))
}

#[test]
fn copies_of_a_body_are_what_selection_writes() {
    let target = Target::parse("sm_90").expect("the target exists");
    for (instruction, letter) in INSTRUCTIONS {
        let text = kernel(instruction, letter);
        // A new thread has no recordings yet, so its first body is selected.
        let first = std::thread::spawn({
            let text = text.clone();
            move || selected(&text, target)
        });
        let first = first.join().unwrap_or_else(|_| panic!("{instruction} cannot be selected"));
        for _ in 0..3 {
            assert_eq!(selected(&text, target), first, "{instruction}");
        }
    }
}

/// Returns whether the division that is a library function without branches is recorded after its uses in a kernel with the given guards.
fn is_recorded(guards: &[&str]) -> bool {
    let divisions: String = guards.iter().map(|guard| format!("{guard} div.full.f32 %f, %f, %g;\n")).collect();
    let registers = ".reg .pred %p;\n.reg .f32 %f, %g;\n";
    let text = format!(".version 8.0\n.target sm_75\n.address_size 64\n.entry k()\n{{\n{registers}{divisions}ret;\n}}\n");
    let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
    let (id, target) = (FunctionId::new(0), Target::parse("sm_75").expect("a target"));
    let layout = Layout::new(&module, Linking::Whole).expect("a layout");
    let mut caches = SelectCaches::new(target);
    select_function_with(&mut caches, &module, id, &layout.variables_of(&module, id, target), SelectOptions::default())
        .expect("it can be selected");
    caches.is_recorded("__oriole_div_full_f32")
}

#[test]
fn a_body_is_recorded_at_its_second_use_without_a_guard() {
    assert!(!is_recorded(&[""]));
    assert!(is_recorded(&["", ""]));
    assert!(is_recorded(&["", "", "@%p"]));
    // A use under a guard does not count, and does not make the earlier use forgotten.
    assert!(!is_recorded(&["@%p", "@%p", "@%p"]));
    assert!(!is_recorded(&["@%p", "@%p", ""]));
    assert!(!is_recorded(&["", "@%p", "@%p"]));
    assert!(is_recorded(&["", "@%p", ""]));
}
