//! The instruction table says which latencies are fixed, and so does the model: both must say the same.

use oriole_hardware::{Classes, Model, SchedClass};
use oriole_isa::{Latency, Opcode, Target};

#[test]
fn latency_kinds_match_the_instruction_table() {
    let mut different = Vec::new();
    for target in Target::all_with_machine_code() {
        let model = Model::of(target);
        for opcode in Opcode::all().filter(|&opcode| opcode.exists_on(target)) {
            let class: SchedClass = Classes::get().of(opcode, &[]);
            let table = opcode.properties().latency(target) == Latency::Variable;
            let waits = model.results_need_scoreboard(class) || model.sources_need_scoreboard(class);
            if table != waits {
                different.push(format!("{target} {}: table {table}, model {waits} ({})", opcode.mnemonic(), class.name()));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
