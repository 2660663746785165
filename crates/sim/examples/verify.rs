//! Scratch: hazards of cubins.
use oriole_cubin::Cubin;
use oriole_cubin::info::{Code, Value};
use oriole_isa::{Target, decode, print};
use std::collections::BTreeMap;
fn main() {
    let mut total = 0usize;
    let mut count = 0usize;
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path).unwrap();
        let Ok(cubin) = Cubin::read(&data) else { continue };
        let Some(target) = Target::parse(&cubin.target_name()) else { continue };
        let model = oriole_hardware::Model::of(target);
        for function in cubin.functions() {
            let words: Vec<u128> = function.code.chunks_exact(16).map(|w| u128::from_le_bytes(w.try_into().unwrap())).collect();
            let Some(code) = words.iter().map(|&w| decode(w, target)).collect::<Option<Vec<_>>>() else { continue };
            let mut ind: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for a in cubin.function_attributes(function.name) {
                if let (Code::INDIRECT_BRANCH_TARGETS, Value::BranchTargets(list)) = (a.code, &a.value) {
                    for b in list {
                        ind.insert(b.branch as usize / 16, b.targets.iter().map(|&t| t as usize / 16).collect());
                    }
                }
            }
            count += code.len();
            let found = oriole_sim::hazard::check_function(&code, &[0], &|n| ind.get(&n).cloned().unwrap_or_default(), model);
            total += found.len();
            for f in found {
                let t = |n: usize| print(words[n], target, n as u64 * 16).unwrap_or_default();
                let mn = |n: usize| {
                    let i = &code[n];
                    format!("{}{}", i.opcode.mnemonic(), i.modifiers.iter().map(|m| m.spelling()).collect::<String>())
                };
                let cls = |n: usize| oriole_hardware::Class::of(&code[n]).name();
                let key = match &f.problem {
                    oriole_sim::hazard::Problem::TooSoon { kind, register, cycles, needed } => {
                        format!("{kind:?} {} {cycles}<{needed} {} -> {}", register.file().prefix(), cls(f.first), cls(f.second))
                    }
                    oriole_sim::hazard::Problem::NotWaited { kind, register, .. } => {
                        format!("notwaited {kind:?} {} {} -> {}", register.file().prefix(), cls(f.first), cls(f.second))
                    }
                    oriole_sim::hazard::Problem::NotAnnounced { kind, register } => {
                        format!("notannounced {kind:?} {} {} -> {}", register.file().prefix(), cls(f.first), cls(f.second))
                    }
                    o => format!("{o:?} {}", mn(f.second)),
                };
                let e = kinds.entry(key).or_insert_with(|| {
                    (
                        0,
                        format!(
                            "{} {}: {:04x} {} [{}] -> {:04x} {} [{}] : {}",
                            path.rsplit('/').next().unwrap(),
                            function.name,
                            f.first * 16,
                            t(f.first),
                            code[f.first].control,
                            f.second * 16,
                            t(f.second),
                            code[f.second].control,
                            f.problem
                        ),
                    )
                });
                e.0 += 1;
            }
        }
    }
    let mut v: Vec<_> = kinds.into_iter().collect();
    v.sort_by_key(|x| std::cmp::Reverse(x.1.0));
    for (k, (n, ex)) in v {
        println!("{n:7} {k}\n          {ex}");
    }
    println!("{total} findings in {count} instructions");
}
