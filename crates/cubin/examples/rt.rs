use std::collections::BTreeMap;
fn main() {
    let (mut n, mut bad) = (0, 0);
    let mut odd: BTreeMap<String, usize> = BTreeMap::new();
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path).unwrap();
        n += 1;
        match oriole_cubin::Cubin::read(&data) {
            Err(e) => { bad += 1; println!("{path}: {e}") }
            Ok(c) => {
                if c.write().unwrap() != data { bad += 1; println!("{path}: differs") }
                for s in &c.segments { if let oriole_cubin::segment::Cover::Fixed(_) = s.covers { *odd.entry("fixed segment".into()).or_default() += 1; println!("{path} {s:?}"); } }
                for s in c.sections() {
                    use oriole_cubin::section::Content;
                    if let Content::Info(a) = &s.content { for a in a { match &a.value { oriole_cubin::info::Value::Bytes(_) | oriole_cubin::info::Value::Odd{..} => *odd.entry(format!("{:?}", a.code)).or_default() += 1, _ => {} } } }
                    if let Content::Bytes(_) = &s.content { if [4,9,7,2,3,0x70000000,0x70000001].contains(&s.section_type.0) { *odd.entry(format!("raw {}", s.name)).or_default() += 1; } }
                }
            }
        }
    }
    println!("{n} files, {bad} bad, {odd:?}");
}
