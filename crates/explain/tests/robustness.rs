//! Damaged cubins are explained or refused, without a panic, and what is explained can be written in every form.

use std::path::Path;

use oriole_explain::text::Detail;
use oriole_explain::{compare, explain_cubin, html, text};
use oriole_isa::Target;

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn cubin(file: &str) -> Vec<u8> {
    let text = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
    let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
    let options = oriole_driver::Options::new(Target::parse("sm_90a").unwrap());
    oriole_driver::compile(&[&checked.module], &options).unwrap().cubin
}

#[test]
fn damaged_cubins() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut explained = 0;
    for file in ["examples/block_sum.ptx", "corpus/calls.ptx", "corpus/scan.ptx"] {
        let original = cubin(file);
        let whole = explain_cubin(file, &original, None).unwrap();
        for _ in 0..40 {
            let mut damaged = original.clone();
            for _ in 0..1 + random.below(6) {
                let place = random.below(damaged.len());
                damaged[place] = random.below(256) as u8;
            }
            let Ok(explanation) = explain_cubin(file, &damaged, None) else { continue };
            explained += 1;
            assert!(!text::write(&explanation, Detail::Full).is_empty());
            assert!(html::write(&explanation).ends_with("</html>\n"));
            assert!(!compare::write(&compare::compare(&whole, &explanation)).is_empty());
            for instruction in explanation.functions.iter().flat_map(|function| &function.instructions) {
                assert_eq!(instruction.stall_causes.iter().map(|cause| cause.cycles).sum::<u8>(), instruction.stall);
            }
        }
    }
    assert!(explained > 55, "{explained}");
}

#[test]
fn not_a_cubin() {
    assert!(explain_cubin("empty", b"", None).is_err());
    assert!(explain_cubin("text", b"\x7fELF but nothing else", None).is_err());
}
