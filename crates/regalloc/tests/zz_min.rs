mod generate;
use generate::{Shape, function};
use oriole_ir::Target;
use oriole_regalloc::{Environment, allocate, check::check};
#[test]
fn min() {
    let mut best: Option<(usize, String)> = None;
    let limit: u32 = std::env::var("LIMIT").map_or(16, |x| x.parse().unwrap());
    let regions: usize = std::env::var("REGIONS").map_or(1, |x| x.parse().unwrap());
    let calls = std::env::var("CALLS").is_ok();
    for piece in [5, 10, 20] { for reach in [10, 1000] { for wide in [false, true] {
        for seed in 0..400 {
            if wide && limit < 64 { continue }
            let before = function(seed, Shape { regions, piece, reach, calls, wide });
            let mut after = before.clone();
            let env = Environment::new(Target::parse("sm_90").unwrap(), limit);
            let err = match allocate(&mut after, &env) { Err(e) => e.to_string(), Ok(a) => match check(&before, &after, &env, &a) { Ok(()) => continue, Err(e) => e.to_string() } };
            let n = before.inst_count();
            if best.as_ref().is_none_or(|b| n < b.0) { best = Some((n, format!("seed {seed} piece {piece} reach {reach} {err}\n{}\n=====\n{}", show(&before), show(&after)))); }
        }
    }}}
    if let Some((_, t)) = best { println!("{t}"); panic!() }
}
fn show(f: &oriole_ir::Function) -> String {
    use oriole_ir::*;
    let mut s = String::new();
    let k = |o: &OperandKind| match *o { OperandKind::Value(p) => format!("{:?}[{}+{}]{:?}", p.value, p.first, p.count, f.values[p.value].file.prefix()), OperandKind::Register{file,first,count} => format!("{}{}+{}", file.prefix(), first, count), OperandKind::Block(b) => format!("{b:?}"), OperandKind::Integer(i) => i.to_string(), OperandKind::Zero(f) => format!("{}Z", f.prefix()), _ => "?".into() };
    for &b in &f.layout { s += &format!("{b:?}:\n"); for &i in &f.blocks[b].insts {
        let d = &f.insts[i];
        s += &format!("  {i:?} {} {} ", d.guard.map_or(String::new(), |g| format!("@{}{}", if g.negated {"!"} else {""}, k(&g.kind))), d.op.mnemonic());
        for (n, o) in f.operands(i).iter().enumerate() { s += &format!("{}{}{} ", k(&o.kind), match o.role { Role::Tied(x) => format!("^t{x}"), Role::Fixed(x) => format!("^f{x}"), _ => String::new() }, if n + 1 == d.result_count() { " <-" } else { "," }); }
        s += "\n";
    } }
    s
}
