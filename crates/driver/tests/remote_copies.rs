//! Checks the functions of the CUDA driver that code for sm_120 and sm_121 calls for bulk copies into shared memory of other blocks. The
//! names are those in the code that ptxas 13.0.88 generates for the same forms; where ptxas is there, the test asks it again.

use std::fs;
use std::process::Command;

use oriole_cubin::Cubin;
use oriole_driver::{Options, compile};
use oriole_isa::Target;

const TARGETS: [&str; 4] = ["sm_120", "sm_120a", "sm_121", "sm_121a"];

/// Returns copies with the ends of the names of the functions that they call.
fn copies() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (multicast, set, blocks) in [("", "", "unicast"), (".multicast::cluster", ", %h1", "multicast")] {
        for (hint, policy) in [("", ""), (".L2::cache_hint", ", %d2")] {
            let to = ".shared::cluster.global";
            let signal = format!(".mbarrier::complete_tx::bytes{multicast}{hint}");
            found.push((format!("cp.async.bulk{to}{signal} [%r1], [%d1], %r3, [%r2]{set}{policy};"), blocks.to_owned()));
            for dimensions in 1..=5 {
                let coordinates = ["%r4", "%r5", "%r6", "%r7", "%r8"][..dimensions].join(", ");
                let copy = |mode: &str, offsets: &str| {
                    let place = format!("[%r1], [%d1, {{{coordinates}}}], [%r2]{offsets}{set}{policy}");
                    (
                        format!("cp.async.bulk.tensor.{dimensions}d{to}.{mode}{signal} {place};"),
                        format!("tensor_{dimensions}d_{mode}_{blocks}"),
                    )
                };
                found.push(copy("tile", ""));
                if dimensions > 2 {
                    found.push(copy("im2col", &format!(", {{{}}}", ["%h2", "%h3", "%h4"][..dimensions - 2].join(", "))));
                }
            }
        }
    }
    found
}

fn module(target: &str, copy: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 c, .param .u16 d)\n{{\n\
         .reg .b64 %d<3>; .reg .b32 %r<9>; .reg .b16 %h<5>;\n\
         ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u32 %r1, [c]; ld.param.u16 %h1, [d];\n\
         add.u32 %r2, %r1, 64; add.u32 %r3, %r1, 1; add.u32 %r4, %r1, 2; add.u32 %r5, %r1, 3; add.u32 %r6, %r1, 4; add.u32 %r7, %r1, 5;\n\
         add.u32 %r8, %r1, 6; add.u16 %h2, %h1, 1; add.u16 %h3, %h1, 2; add.u16 %h4, %h1, 3;\n{copy}\nret;\n}}\n"
    )
}

/// Returns the names of the driver's functions in a cubin.
fn driver_functions(bytes: &[u8]) -> Vec<String> {
    let cubin = Cubin::read(bytes).unwrap();
    let names = cubin.symbols().iter().map(|symbol| symbol.name.to_string());
    names.filter(|name| name.starts_with("__cuda_syscall")).collect()
}

fn compiled(target: &str, text: &str, level: u8) -> Vec<u8> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics.first());
    let options = Options { level, verify: true, ..Options::new(Target::parse(target).unwrap()) };
    compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{target}: {errors:?}\n{text}")).cubin
}

#[test]
fn copies_into_clusters_call_the_driver() {
    for (copy, name) in copies() {
        for target in TARGETS {
            let wanted = format!("__cuda_syscall_cp_async_bulk_{name}");
            for level in [0, 3] {
                let found = driver_functions(&compiled(target, &module(target, &copy), level));
                assert_eq!(found, [wanted.as_str()], "{target} at -O{level}: {copy}");
            }
        }
    }
}

#[test]
fn other_copies_do_not() {
    let own = copies().into_iter().filter(|(_, name)| name.ends_with("unicast")).map(|(copy, _)| copy.replace("::cluster", "::cta"));
    let others = [
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r4], %r3, [%r2];",
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], %r3;",
    ];
    for copy in own.chain(others.map(str::to_owned)) {
        assert_eq!(driver_functions(&compiled("sm_120a", &module("sm_120a", &copy), 3)), [""; 0], "{copy}");
    }
    // The copy engine of other targets with clusters writes to all blocks.
    for target in ["sm_90", "sm_90a", "sm_100a", "sm_110"] {
        for (copy, _) in copies() {
            assert_eq!(driver_functions(&compiled(target, &module(target, &copy), 3)), [""; 0], "{target}: {copy}");
        }
    }
}

#[test]
fn ptxas_calls_the_same_functions() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else {
        oriole_oracles::skip("no ptxas to compare the copies into other blocks with");
        return;
    };
    let folder = std::env::temp_dir().join(format!("oriole-remote-copies-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (copy, name) in copies() {
        let (input, output) = (folder.join("in.ptx"), folder.join("out.cubin"));
        fs::write(&input, module("sm_120a", &copy)).unwrap();
        let run = Command::new(&ptxas).args(["-arch", "sm_120a", "-o"]).arg(&output).arg(&input).output().unwrap();
        assert!(run.status.success(), "{copy}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(driver_functions(&fs::read(&output).unwrap()), [format!("__cuda_syscall_cp_async_bulk_{name}")], "{copy}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
