//! Tests `oriole verify` on the output of `oriole compile`, and on the same code without stalls.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const KERNEL: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry sum(.param .u64 out, .param .u32 a)
{
    .reg .b64 %address;
    .reg .b32 %value;
    ld.param.u64 %address, [out];
    ld.param.u32 %value, [a];
    mul.lo.s32 %value, %value, %value;
    add.s32 %value, %value, 7;
    xor.b32 %value, %value, 85;
    st.global.u32 [%address], %value;
    ret;
}
";
const INSTRUCTION_BYTES: usize = 16;

fn oriole(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oriole")).current_dir(folder).args(arguments).output().expect("it runs")
}

#[test]
fn stalls_that_are_missing_are_found() {
    let folder = std::env::temp_dir().join(format!("oriole-verify-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("sum.ptx"), KERNEL).expect("a file");
    let compiled = oriole(&folder, &["compile", "sum.ptx", "-o", "sum.cubin"]);
    assert!(compiled.status.success(), "{compiled:?}");
    let clean = oriole(&folder, &["verify", "sum.cubin"]);
    assert!(clean.status.success(), "{clean:?}");
    assert!(String::from_utf8_lossy(&clean.stdout).contains("\n0 findings in "), "{clean:?}");

    let mut bytes = fs::read(folder.join("sum.cubin")).expect("the cubin");
    let cubin = oriole_cubin::Cubin::read(&bytes).expect("a cubin");
    let code = cubin.functions().next().expect("a function").code.to_vec();
    let start = bytes.windows(code.len()).position(|window| window == code).expect("the code is in the file");
    let stall = oriole_isa::Control { stall: 15, stay: false, write_barrier: Some(0), read_barrier: Some(0), ..Default::default() }.bits();
    let one = oriole_isa::Control { stall: 1, stay: false, write_barrier: Some(0), read_barrier: Some(0), ..Default::default() }.bits();
    for word in bytes[start..start + code.len()].chunks_exact_mut(INSTRUCTION_BYTES) {
        let changed = u128::from_le_bytes((&*word).try_into().expect("a word")) & !stall | one;
        word.copy_from_slice(&changed.to_le_bytes());
    }
    fs::write(folder.join("bad.cubin"), bytes).expect("a file");
    let bad = oriole(&folder, &["verify", "bad.cubin"]);
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let text = String::from_utf8_lossy(&bad.stdout);
    assert!(text.contains("1 cycle after the one that writes it"), "{text}");
    let json = oriole(&folder, &["verify", "--json", "bad.cubin"]);
    assert!(String::from_utf8_lossy(&json.stdout).lines().all(|line| line.contains("\"severity\":\"hazard\"")), "{json:?}");
    fs::remove_dir_all(&folder).expect("the folder");
}
