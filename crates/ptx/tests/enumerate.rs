//! Orders of modifiers, and records of verdicts.

use oriole_ptx::enumerate::verdicts::{Set, cases, digest, format_record, parse_records, row_name};
use oriole_ptx::enumerate::{Case, orders};
use oriole_ptx::target::{Platform, PtxVersion, Target};

fn orders_of(text: &str) -> Vec<String> {
    let platform = Platform { version: PtxVersion::new(9, 0), target: Target::plain(90) };
    orders(&Case { text: text.to_string(), platform, independent_textures: false }).into_iter().map(|case| case.text).collect()
}

#[test]
fn each_order_is_tried_once_and_never_the_usual_one() {
    assert_eq!(orders_of("exit;"), Vec::<String>::new());
    assert_eq!(orders_of("bra.uni L;"), Vec::<String>::new());
    assert_eq!(orders_of("add.sat.s32 a, b, c;"), ["add.s32.sat a, b, c;"]);
    assert_eq!(
        orders_of("vote.sync.any.pred p, q, m;"),
        [
            "vote.any.sync.pred p, q, m;",
            "vote.sync.pred.any p, q, m;",
            "vote.any.pred.sync p, q, m;",
            "vote.pred.sync.any p, q, m;",
            "vote.pred.any.sync p, q, m;"
        ]
    );
    assert_eq!(orders_of("cvt.f32.f32 a, b;"), Vec::<String>::new());
}

#[test]
fn records_survive_writing_and_reading() {
    let row = 0;
    let cases = cases(row, Set::Legal);
    assert!(!cases.is_empty());
    let verdicts: Vec<bool> = (0..cases.len()).map(|index| index % 3 != 0).collect();
    let records = parse_records(&format_record(row, Set::Legal, &cases, &verdicts));
    assert_eq!(records[&(row_name(row), "legal".to_string())], (digest(&cases), verdicts));
}
