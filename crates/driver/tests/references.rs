//! Compares texture, sampler and surface references with ptxas: relocations of constant bank 0, symbols and attributes.

use std::fs;
use std::process::Command;

use oriole_cubin::Cubin;
use oriole_cubin::info::{Attribute, AttributeValue};
use oriole_cubin::section::Content;
use oriole_driver::{Options, compile};
use oriole_isa::Target;

const TARGETS: [&str; 7] = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"];

const INDEPENDENT: &str = "
.version 8.0
.target sm_75, texmode_independent
.address_size 64
.global .samplerref s_unused;
.global .samplerref s0 = { addr_mode_0 = clamp_to_border, filter_mode = nearest };
.global .samplerref s1 = { addr_mode_0 = wrap, addr_mode_1 = mirror, addr_mode_2 = clamp_to_edge, filter_mode = linear,
    force_unnormalized_coords = 1 };
.global .texref tb;
.global .texref ta;
.visible .global .surfref sf;
.global .texref unused;
.visible .entry k(.param .u64 out, .param .texref ptex, .param .samplerref ps, .param .surfref psu, .param .u32 q)
{
    .reg .b64 %rd<5>; .reg .f32 %f<20>; .reg .b32 %r<10>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    suld.b.2d.b32.trap {%r2}, [psu, {%r1, %r1}];
    sust.b.2d.b32.trap [sf, {%r1, %r1}], {%r2};
    tex.2d.v4.f32.f32 {%f6, %f7, %f8, %f9}, [ta, s1, {%f1, %f1}];
    tex.2d.v4.f32.f32 {%f10, %f11, %f12, %f13}, [ptex, ps, {%f1, %f1}];
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [tb, s0, {%f1, %f1}];
    tex.2d.v4.f32.f32 {%f14, %f15, %f16, %f17}, [tb, s1, {%f1, %f1}];
    st.global.v4.f32 [%rd1], {%f2, %f3, %f4, %f5};
    st.global.v4.f32 [%rd1+16], {%f6, %f7, %f8, %f9};
    st.global.v4.f32 [%rd1+32], {%f10, %f11, %f12, %f13};
    st.global.v4.f32 [%rd1+64], {%f14, %f15, %f16, %f17};
    ret;
}
";

const UNIFIED: &str = "
.version 8.0
.target sm_75
.address_size 64
.global .texref tex0;
.global .texref tex1;
.global .surfref surf0;
.visible .entry k(.param .u64 out, .param .texref ptex, .param .u8 q)
{
    .reg .b64 %rd<5>; .reg .f32 %f<20>; .reg .b32 %r<10>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [tex1, {%f1, %f1}];
    tex.2d.v4.f32.f32 {%f6, %f7, %f8, %f9}, [tex0, {%f1, %f1}];
    tex.2d.v4.f32.f32 {%f10, %f11, %f12, %f13}, [ptex, {%f1, %f1}];
    suq.channel_order.b32 %r2, [surf0];
    txq.filter_mode.b32 %r3, [tex1];
    st.global.v4.f32 [%rd1], {%f2, %f3, %f4, %f5};
    st.global.v4.f32 [%rd1+16], {%f6, %f7, %f8, %f9};
    st.global.v4.f32 [%rd1+32], {%f10, %f11, %f12, %f13};
    st.global.v2.u32 [%rd1+48], {%r2, %r3};
    ret;
}
";

/// Before PTX 1.5 textures were variables of the space `.tex`.
const OLD: &str = "
.version 1.4
.target sm_13
.tex .u32 t;
.tex .u64 u;
.entry k(.param .u64 out)
{
    .reg .b64 %rd<2>; .reg .f32 %f<10>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    cvt.u32.u16 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [t, {%f1, %f1, %f1, %f1}];
    tex.1d.v4.f32.s32 {%f6, %f7, %f8, %f9}, [u, {%r1, %r1, %r1, %r1}];
    st.global.f32 [%rd1], %f2;
    st.global.f32 [%rd1+4], %f6;
    exit;
}
";

/// What the file for the module `INDEPENDENT` says about references on sm_75, as ptxas 13.0.88 writes it.
const RECORDED: [&str; 27] = [
    "0x16c R_CUDA_SAMP_HEADER_INDEX s1",
    "0x16c R_CUDA_TEX_HEADER_INDEX ta",
    "0x170 R_CUDA_SAMP_HEADER_INDEX ps",
    "0x170 R_CUDA_TEX_HEADER_INDEX ptex",
    "0x174 R_CUDA_SAMP_HEADER_INDEX s0",
    "0x174 R_CUDA_TEX_HEADER_INDEX tb",
    "0x178 R_CUDA_SAMP_HEADER_INDEX s1",
    "0x178 R_CUDA_TEX_HEADER_INDEX tb",
    "0x17c R_CUDA_SURF_HEADER_INDEX psu",
    "0x180 R_CUDA_SURF_HEADER_INDEX sf",
    "attribute 0x13 s1 0x1",
    "attribute 0x15",
    "attribute 0x16",
    "attribute 0x4d",
    "attribute 0x9 s0 0xffff04",
    "attribute 0x9 s1 0x1030100",
    "attribute 0x9 s_unused 0xffffffff",
    "bank of 0x184 bytes",
    "parameter 0 at 0x0, 8 bytes, space 0 ",
    "parameter 1 at 0xffff, 0 bytes, space 6 ptex",
    "parameter 2 at 0xffff, 0 bytes, space 8 ps",
    "parameter 3 at 0xffff, 0 bytes, space 7 psu",
    "parameter 4 at 0x8, 4 bytes, space 0 ",
    "symbol ps type 11 binding 0",
    "symbol psu type 12 binding 0",
    "symbol ptex type 10 binding 0",
    "symbol s0 type 11 binding 1",
];

/// Returns what a file says about references, sorted.
fn facts(bytes: &[u8]) -> Vec<String> {
    let cubin = Cubin::read(bytes).expect("a cubin");
    let name = |index: u32| cubin.symbols()[index as usize].name.clone();
    let mut facts = Vec::new();
    // Sections of the Mercury form repeat what the others say.
    for section in cubin.sections().iter().filter(|section| !section.name.starts_with(".nv.merc")) {
        match &section.content {
            Content::Relocations(list) if section.name.ends_with(".nv.constant0.k") => {
                facts.extend(list.iter().map(|one| format!("{:#x} {:?} {}", one.offset, one.relocation_type, name(one.symbol))));
            }
            Content::Relocations(list) if section.name.ends_with(".text.k") => {
                facts.extend(list.iter().map(|one| format!("code {:?} {}", one.relocation_type, name(one.symbol))));
            }
            Content::Bytes(bytes) if section.name == ".nv.constant0.k" => facts.push(format!("bank of {:#x} bytes", bytes.len())),
            Content::Info(list) if section.name.starts_with(".nv.info") => {
                facts.extend(list.iter().filter_map(|attribute| attribute_fact(attribute, &name)));
            }
            _ => {}
        }
    }
    let images = cubin.symbols().iter().filter(|symbol| (10..=12).contains(&symbol.symbol_type) || symbol.name.ends_with("DescSize"));
    facts.extend(images.map(|symbol| format!("symbol {} type {} binding {}", symbol.name, symbol.symbol_type, symbol.binding)));
    facts.sort();
    facts.dedup();
    facts
}

/// Returns an attribute about references or parameters as text.
fn attribute_fact(attribute: &Attribute, name: &impl Fn(u32) -> String) -> Option<String> {
    match (attribute.code.0, &attribute.value) {
        (code @ (0x09 | 0x13), AttributeValue::Words(words)) => Some(format!("attribute {code:#x} {} {:#x}", name(words[0]), words[1])),
        (code @ (0x15 | 0x16 | 0x4d), _) => Some(format!("attribute {code:#x}")),
        (_, AttributeValue::Parameter(parameter)) => Some(format!(
            "parameter {} at {:#x}, {} bytes, space {} {}",
            parameter.ordinal,
            parameter.offset,
            parameter.size,
            parameter.space,
            if parameter.index == 0 { String::new() } else { name(parameter.index) }
        )),
        _ => None,
    }
}

fn compiled(text: &str, target: &str) -> Vec<u8> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    compile(&[&checked.module], &Options::new(Target::parse(target).unwrap())).expect("the module compiles").cubin
}

#[test]
fn the_file_has_what_ptxas_writes() {
    let facts = facts(&compiled(INDEPENDENT, "sm_75"));
    let missing: Vec<&&str> = RECORDED.iter().filter(|fact| !facts.iter().any(|own| own == *fact)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in {facts:#?}");
}

/// Kernels of two modules and a device function of the second, all with references.
const CALLER: &str = "
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) look (.param .b32 x);
.global .texref ta;
.visible .entry k(.param .u64 out)
{
    .reg .b64 %rd<2>; .reg .f32 %f<10>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    { .param .b32 p; .param .b32 q; st.param.f32 [p], %f1; call (q), look, (p); ld.param.f32 %f2, [q]; }
    tex.2d.v4.f32.f32 {%f6, %f7, %f8, %f9}, [ta, {%f1, %f1}];
    add.f32 %f6, %f6, %f2;
    st.global.v4.f32 [%rd1], {%f6, %f7, %f8, %f9};
    ret;
}
";
const CALLEE: &str = "
.version 8.0
.target sm_75
.address_size 64
.global .texref tb;
.global .surfref sb;
.visible .func (.param .b32 r) look (.param .b32 x)
{
    .reg .f32 %f<10>; .reg .b32 %r<4>;
    ld.param.f32 %f1, [x];
    tex.2d.v4.f32.f32 {%f6, %f7, %f8, %f9}, [tb, {%f1, %f1}];
    mov.u32 %r1, %tid.x;
    suld.b.1d.b32.trap {%r2}, [sb, {%r1}];
    cvt.rn.f32.u32 %f2, %r2;
    add.f32 %f6, %f6, %f2;
    st.param.f32 [r], %f6;
    ret;
}
.visible .entry k2(.param .u64 out, .param .u64 more)
{
    .reg .b64 %rd<2>; .reg .f32 %f<10>;
    ld.param.u64 %rd1, [out];
    mov.f32 %f1, 0f00000000;
    tex.2d.v4.f32.f32 {%f6, %f7, %f8, %f9}, [tb, {%f1, %f1}];
    st.global.v4.f32 [%rd1], {%f6, %f7, %f8, %f9};
    ret;
}
";

fn checked(text: &str) -> oriole_ptx::Checked {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    checked
}

/// The words of the device function follow the 16 bytes of parameters of `k2`, the kernel with the most, and have the same offsets in the
/// kernel of the other module. The word of `k` follows them.
#[test]
fn device_functions_of_several_modules_share_words() {
    let modules = [checked(CALLER), checked(CALLEE)];
    for (target, start) in [("sm_75", 0x170), ("sm_90a", 0x220), ("sm_100a", 0x390)] {
        let modules: Vec<_> = modules.iter().map(|checked| &checked.module).collect();
        let cubin = compile(&modules, &Options::new(Target::parse(target).unwrap())).expect("the program compiles").cubin;
        let facts = facts(&cubin);
        for (offset, kind, name) in [(start, "TEX", "tb"), (start + 4, "SURF", "sb"), (start + 8, "TEX", "ta")] {
            let fact = format!("{offset:#x} R_CUDA_{kind}_HEADER_INDEX {name}");
            assert!(facts.contains(&fact), "{target}: {fact} is not in {facts:#?}");
        }
    }
}

/// The linker places the words of a relocatable file, also those of samplers.
#[test]
fn relocatable_files_refer_to_samplers() {
    for target in TARGETS {
        let options = Options { relocatable: true, ..Options::new(Target::parse(target).unwrap()) };
        let cubin = compile(&[&checked(INDEPENDENT).module], &options).expect("the module compiles").cubin;
        let facts = facts(&cubin);
        for name in ["s0", "s1", "ta", "tb"] {
            assert!(
                facts.iter().any(|fact| fact.starts_with("code ") && fact.ends_with(&format!(" {name}"))),
                "{target}, {name}: {facts:#?}"
            );
        }
    }
}

#[test]
fn files_agree_with_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = tempfile::tempdir().unwrap();
    for text in [INDEPENDENT, UNIFIED, OLD] {
        let source = folder.path().join("k.ptx");
        fs::write(&source, text).unwrap();
        for target in TARGETS {
            let output = folder.path().join("k.cubin");
            let status = Command::new(&ptxas).args(["-arch", target, "-o"]).args([&output, &source]).status().unwrap();
            assert!(status.success(), "ptxas for {target}");
            assert_eq!(facts(&compiled(text, target)), facts(&fs::read(&output).unwrap()), "{target}");
        }
    }
}
