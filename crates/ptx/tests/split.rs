//! A module with many kernels that is parsed in parts is the module that is parsed as a whole.

use oriole_ptx::ast::Module;
use oriole_ptx::{Checked, NumberedPart, Options, SplitModule, check, print};
use oriole_support::{Index, Name};

/// Parses a text in parts of at least `bytes` bytes; `None` if it has to be parsed as a whole.
fn in_parts(text: &str, bytes: usize) -> Option<Checked> {
    let split = SplitModule::with_part_size(text.as_bytes(), &Options::default(), bytes)?;
    // The order in which parts are parsed is not that of the text.
    let mut parts: Vec<_> = (0..split.part_sizes().len()).rev().map(|part| split.parse(part)).collect();
    parts.reverse();
    let numbered = split.number(parts)?;
    let parts = numbered.parts().iter().map(NumberedPart::renumber).collect();
    numbered.join(parts)
}

/// Asserts that a text parsed in parts gives the same tables as without, also the numbers of names, forms and functions.
#[track_caller]
fn assert_same(text: &str, bytes: usize) {
    let whole = check(text.as_bytes(), &Options::default());
    assert!(whole.diagnostics.is_empty(), "{:?}", whole.diagnostics);
    let parts = in_parts(text, bytes).expect("the module was not split");
    let (whole, parts) = (whole.module, parts.module);
    assert_eq!(print(&parts), print(&whole));
    let names = |module: &Module| (0..module.names.len()).map(|name| module.name(Name::new(name)).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&parts), names(&whole));
    assert_eq!(parts.forms.as_slice(), whole.forms.as_slice());
    assert_eq!(parts.variables.as_slice(), whole.variables.as_slice());
    assert_eq!(parts.functions.as_slice(), whole.functions.as_slice());
    assert_eq!(parts.items, whole.items);
    let positions = |module: &Module| {
        module
            .functions
            .iter()
            .flat_map(|f| f.body.iter().flat_map(|body| (0..body.statements.len()).map(|statement| body.position(statement))))
            .collect::<Vec<_>>()
    };
    assert_eq!(positions(&parts), positions(&whole));
}

/// A module with declarations, `count` kernels that differ, and the text `rest`.
fn module(count: usize, rest: &str) -> String {
    let kernel = |number: usize| {
        let kind = ["f32", "s32", "u64", "f64"][number % 4];
        let extra = if number.is_multiple_of(3) { "vset.s32.s32.eq s1, s2.b1, s2;" } else { "call (s1), helper, (s2);" };
        format!(
            ".visible .entry kernel_{number}(.param .u64 out_{number}, .param .u32 n)\n{{\n\
             .reg .{kind} %x<4>; .reg .b64 %p; .reg .pred %q; .reg .s32 s1, s2; .shared .align 8 .b8 tile_{number}[64];\n\
             .loc 1 {line} 3\n\
             ld.param.u64 %p, [out_{number}]; ld.shared.{kind} %x1, [tile_{number}+8]; ld.global.{kind} %x2, [table];\n\
             mov.u32 s2, %tid.x; mov.b64 %p, tile_{number}; mov.u64 %p, table; {extra}\n\
             setp.lt.s32 %q, s1, s2;\n@%q bra done_{number};\nst.global.{kind} [%p], %x2;\ndone_{number}: ret;\n}}\n",
            line = number + 1,
        )
    };
    let kernels: String = (0..count).map(kernel).collect();
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"a.cu\"\n.global .align 8 .b8 table[64];\n\
                .func (.reg .s32 r) helper(.reg .s32 a) { add.s32 r, a, 1; ret; }\n";
    format!("{head}{kernels}{rest}")
}

#[test]
fn parts_give_the_same_module() {
    let text = module(64, "");
    for bytes in [1, 1000, 5000, text.len() / 2] {
        assert_same(&text, bytes);
    }
    assert_same(&module(64, ".section .debug_str { .b8 0 }\n.global .u32 last;\n"), 1000);
}

#[test]
fn what_is_unusual_is_not_split() {
    let calls = ".visible .entry again() { .reg .b64 %a; mov.u64 %a, kernel_1; ret; }\n";
    let duplicate = ".visible .entry kernel_1() { ret; }\n";
    let comment = "/*\n.visible .entry in_comment() {\n*/\n".repeat(100);
    let label = ".visible .entry named() { kernel_1: ret; }\n";
    let wrong = ".visible .entry wrong() { add.s32 x, y, z; ret; }\n";
    let function = ".func later() { ret; }\n.visible .entry kernel() { call later; ret; }\n";
    for rest in [calls, duplicate, &comment, label, wrong, function] {
        let text = module(64, &format!("{rest}{}", module(3, "").split_once("ret; }\n").unwrap().1.replace("kernel_", "more_")));
        if let Some(checked) = in_parts(&text, 300) {
            assert!(checked.is_valid());
            assert_same(&text, 300);
        }
    }
    for rest in [calls, duplicate, label, wrong] {
        assert!(in_parts(&module(64, rest), 300).is_none(), "{rest}");
    }
    assert!(SplitModule::new(module(1, "").as_bytes(), &Options::default()).is_none(), "too small");
}
