//! Deletes the source locations of blocks without statements, for debuggers.
//!
//! A label that directly follows another one starts a block whose only instruction is the branch to the next block. Selection gives the
//! branch the location of the statement before the label, which other paths to the label do not execute:
//!
//! ```text
//!     mov.u32 %r1, 5;
//! $end_of_inner_if:       BRA $end_of_outer_if, with the location of the move
//! $end_of_outer_if:
//!     st.global.u32 [%rd1], %r1;
//! ```
//!
//! Moves and reloads that the register allocator inserts there would have that location, so a debugger would stop at a statement that is
//! not executed. Without a location they belong to the code after them.

use oriole_ir::{Function, Location, Opcode};

/// Deletes the locations of branches in blocks without statements. The function is as selection produced it.
pub fn run(function: &mut Function) {
    let mut last = 0;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        if let [only] = function.blocks[block].insts[..]
            && function.insts[only].is_machine(Opcode::BRA)
            && function.insts[only].guard.is_none()
            && function.insts[only].location.statement == last
        {
            function.insts[only].location = Location::default();
            continue;
        }
        let statements = function.blocks[block].insts.iter().map(|&inst| function.insts[inst].location.statement);
        last = statements.rev().find(|&statement| statement != 0).unwrap_or(last);
    }
}
