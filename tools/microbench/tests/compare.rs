//! Compares the figures measured on an H200 with the model.

use oriole_isa::Target;
use oriole_microbench::compare::compare;

#[test]
fn no_pair_needs_more_cycles_on_the_gpu_than_the_model_asks_for() {
    let figures = include_str!("../../../crates/hardware/data/measured/sm_90.tsv");
    let compared = compare(figures, Target::parse("sm_90a").expect("a target"));
    assert!(compared.len() > 8000, "only {} pairs could be compared", compared.len());
    let short: Vec<_> = compared.iter().filter(|one| one.measured > one.model).collect();
    assert!(short.is_empty(), "{short:#?}");
}
