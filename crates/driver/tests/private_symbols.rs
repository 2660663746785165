//! Compiles modules with private symbols of the same name together.

use oriole_cubin::Cubin;
use oriole_cubin::symbol::SymbolSection;
use oriole_driver::{Options, compile};
use oriole_isa::Target;

const FIRST: &str = "
.version 8.0
.target sm_90
.address_size 64
.global .u32 table = 5;
.visible .entry first(.param .u64 out)
{
    .reg .b64 %d; .reg .b32 %a;
    ld.param.u64 %d, [out];
    ld.global.u32 %a, [table];
    st.global.u32 [%d], %a;
    ret;
}
";

/// `table$1` is the name that the variable `table` of this module, which is module 1, would get.
const SECOND: &str = "
.version 8.0
.target sm_90
.address_size 64
.global .u32 table = 7;
.global .u32 table$1 = 9;
.visible .entry second(.param .u64 out)
{
    .reg .b64 %d; .reg .b32 %a, %b;
    ld.param.u64 %d, [out];
    ld.global.u32 %a, [table];
    ld.global.u32 %b, [table$1];
    st.global.v2.u32 [%d], {%a, %b};
    ret;
}
";

#[test]
fn renamed_symbols_do_not_take_names_of_other_symbols() {
    let modules = [FIRST, SECOND].map(|text| oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()));
    let modules: Vec<_> = modules.iter().map(|checked| &checked.module).collect();
    let bytes = compile(&modules, &Options::new(Target::parse("sm_90").unwrap())).expect("the program compiles").cubin;
    let cubin = Cubin::read(&bytes).expect("a cubin");
    let mut tables: Vec<&str> =
        cubin.symbols().iter().map(|symbol| symbol.name.as_str()).filter(|name| name.starts_with("table")).collect();
    tables.sort_unstable();
    assert_eq!(tables, ["table", "table$1", "table$1_"]);
}

/// A constant that is declared in one module and defined in another after a variable of 8 bytes, one that no module defines, and a variable
/// that no module defines.
const DECLARES: &str = "
.version 8.0
.target sm_90
.address_size 64
.extern .const .align 4 .u32 defined[3];
.extern .const .align 16 .u32 nowhere[2];
.extern .global .align 8 .u32 empty[4];
.visible .entry reads(.param .u64 out)
{
    .reg .b64 %d; .reg .b32 %a<4>;
    ld.param.u64 %d, [out];
    ld.const.u32 %a1, [defined+4];
    ld.const.u32 %a2, [nowhere+4];
    ld.global.u32 %a3, [empty];
    st.global.u32 [%d], %a1;
    st.global.u32 [%d+4], %a2;
    st.global.u32 [%d+8], %a3;
    ret;
}
";
const DEFINES: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .const .align 8 .u64 before = 9;
.visible .const .align 4 .u32 defined[3] = {5, 6, 7};
";

/// In executable files, declarations find the definitions of other modules, and become definitions where there are none.
#[test]
fn external_variables_of_programs_are_defined() {
    for texts in [&[DECLARES, DEFINES][..], &[DEFINES, DECLARES]] {
        let modules: Vec<_> = texts.iter().map(|text| oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default())).collect();
        let modules: Vec<_> = modules.iter().map(|checked| &checked.module).collect();
        let bytes = compile(&modules, &Options::new(Target::parse("sm_90").unwrap())).expect("the program compiles").cubin;
        let cubin = Cubin::read(&bytes).expect("a cubin");
        let place = |name: &str| {
            let found: Vec<_> = cubin.symbols().iter().filter(|symbol| symbol.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            let SymbolSection::Section(section) = found[0].section else { panic!("{name} is not defined") };
            (cubin.section(section as usize).unwrap(), found[0].value as usize, found[0].size as usize)
        };
        let (section, start, size) = place("defined");
        assert_eq!(section.bytes().unwrap()[start..start + size], [5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0]);
        let (section, start, size) = place("nowhere");
        assert_eq!((start % 16, &section.bytes().unwrap()[start..start + size]), (0, &[0; 8][..]));
        let (section, start, size) = place("empty");
        assert_eq!((section.name.as_str(), start % 8, size), (".nv.global", 0, 16));
    }
}
