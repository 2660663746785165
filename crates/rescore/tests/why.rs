//! The explanations of control words, on small kernels whose dependences are known.

use oriole_cubin::{Cubin, CubinIndex};
use oriole_driver::{Options, compile};
use oriole_isa::{Target, decode};
use oriole_rescore::why::explain;

/// Compiles a kernel body for sm_90a. Returns for each instruction its mnemonic and its explanation.
fn explained(body: &str) -> Vec<(String, Vec<String>)> {
    let registers = ".reg .b64 %d<4>;\n.reg .b32 %r<9>;\n.reg .pred %p;\n.shared .b32 s[64];\n";
    let start = "ld.param.u64 %d0, [a];\nmov.u32 %r0, %tid.x;\n";
    let text =
        format!(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{{\n{registers}{start}{body}ret;\n}}\n");
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    let target = Target::parse("sm_90a").expect("a target");
    let compiled = compile(&[&checked.module], &Options::new(target)).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let cubin = Cubin::read(&compiled.cubin).expect("a cubin");
    let index = CubinIndex::new(&cubin);
    let function = cubin.functions().next().expect("a function");
    let names = function.code.chunks_exact(16).map(|word| {
        let word = u128::from_le_bytes(word.try_into().expect("16 bytes"));
        decode(word, target).expect("an instruction").opcode.mnemonic().to_owned()
    });
    let lines = explain(&index, &function, target).expect("an explanation");
    names.zip(lines.into_iter().map(|one| one.lines)).collect()
}

/// Returns whether the first instruction with a mnemonic has a line that starts and ends like this.
fn has(explained: &[(String, Vec<String>)], mnemonic: &str, start: &str, end: &str) -> bool {
    let (_, lines) = explained.iter().find(|(name, _)| name == mnemonic).unwrap_or_else(|| panic!("no {mnemonic} in {explained:?}"));
    lines.iter().any(|line| line.starts_with(start) && line.contains(end))
}

#[test]
fn waits_name_what_they_wait_for() {
    let found = explained("ld.global.u32 %r1, [%d0];\nmul.lo.u32 %r2, %r1, %r0;\nst.global.u32 [%d0+4], %r2;\n");
    let load = found.iter().position(|(name, _)| name == "LDG").expect("a load");
    let product = found.iter().position(|(name, _)| name == "IMAD").expect("a product");
    assert!(has(&found, "LDG", "W", &format!("for IMAD at {:#06x}", 16 * product)), "{found:?}");
    assert!(has(&found, "IMAD", "B", &format!("of LDG at {:#06x}", 16 * load)), "{found:?}");
    assert!(has(&found, "IMAD", "B", "reads R"), "{found:?}");
    // The store reads the product, which has a fixed latency.
    assert!(has(&found, "IMAD", "S", "the next reads R"), "{found:?}");
    assert!(has(&found, "IMAD", "S", "of this: "), "{found:?}");
}

#[test]
fn guards_and_overwritten_registers_have_their_own_words() {
    let guarded = explained("setp.lt.u32 %p, %r0, 5;\n@%p st.global.u32 [%d0], %r0;\n");
    assert!(has(&guarded, "ISETP", "S", "the next is guarded by P0 of this"), "{guarded:?}");
    // A store reads its data late, so the register must not be overwritten at once.
    let body = "st.global.u32 [%d0], %r0;\nbar.sync 0;\nld.global.u32 %r1, [%d0+4];\nst.global.u32 [%d0+8], %r1;\n";
    let found = explained(body);
    assert!(found.iter().any(|(name, lines)| name == "LDG" && lines.iter().any(|line| line.starts_with('W'))), "{found:?}");
    assert!(
        found.iter().any(|(name, lines)| name == "BAR" && lines.iter().any(|line| line.contains("must not pass the barrier"))),
        "{found:?}"
    );
}
