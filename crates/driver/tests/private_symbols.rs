//! Compiles modules with private symbols of the same name together.

use oriole_cubin::Cubin;
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
