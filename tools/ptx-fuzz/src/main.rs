use oriole_ptx_fuzz::{generate::generate, print};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (start, count): (u64, u64) = (a[1].parse().unwrap(), a[2].parse().unwrap());
    let dir = &a[3];
    let mut groups: std::collections::BTreeMap<(String, u64), String> = Default::default();
    for seed in start..start + count {
        let program = generate(seed, None);
        let text = print::module(&program);
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        if !checked.is_valid() {
            println!("seed {seed} rejected: {:?}", checked.diagnostics.first());
        }
        std::fs::write(format!("{dir}/{seed}.ptx"), &text).unwrap();
        let group = groups.entry((format!(".version {}\n.target {}\n.address_size 64\n", program.version, program.target), seed / 200)).or_default();
        *group += &print::contents(&program);
    }
    for (i, ((head, _), text)) in groups.iter().enumerate() {
        std::fs::write(format!("{dir}/group{i}.ptx"), head.clone() + text).unwrap();
    }
}
