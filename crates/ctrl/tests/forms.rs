//! Checks the scoreboards of every encoding form of the instruction table.
//!
//! Each form is tested in a block of its own: a guarded instruction of the form, then instructions that overwrite each register it reads
//! and read each register it writes. A form that cannot set a scoreboard according to the table must not get one, and an instruction with
//! no source but its guard must not get one for its reads.

use oriole_ctrl::flow::{MachineBlock, MachineCode, assign};
use oriole_hardware::Hardware;
use oriole_isa::table::FormId;
use oriole_isa::{AccessPlace, Control, Instruction, Opcode, RegFile, Target, accesses, decode, encode, parse};

/// Returns an encoding of a form: the bits of `pattern` in every field that the form does not fix, and predicate 3 as the guard.
fn word_of(id: FormId, pattern: u128) -> u128 {
    let form = id.form();
    let free = form.carried & !form.mask & !Control::MASK;
    (form.default & !(0xf << 12) | 3 << 12) & !free | pattern & free
}

/// Returns the text of an instruction that overwrites a register, and of one that reads it; `None` for files without such instructions.
fn text(file: RegFile, number: u16, target: Target) -> Option<(String, String)> {
    let has = |opcode: Opcode| opcode.exists_on(target);
    Some(match file {
        RegFile::General => (format!("MOV R{number}, RZ"), format!("MOV R0, R{number}")),
        RegFile::Predicate => (format!("ISETP.NE.AND P{number}, PT, R0, R1, PT"), format!("@P{number} MOV R0, R1")),
        RegFile::Uniform if has(Opcode::UMOV) => (format!("UMOV UR{number}, 0x1"), format!("UMOV UR0, UR{number}")),
        _ => return None,
    })
}

/// Returns the control word of an instruction that is followed by instructions that overwrite what it reads and read what it writes.
fn control_of(instruction: &Instruction, target: Target) -> Control {
    let mut instructions = vec![instruction.clone()];
    for access in &accesses(instruction) {
        for number in access.registers() {
            let Some((overwrite, read)) = text(access.file, number, target) else { continue };
            let line = if access.written { read } else { overwrite };
            let other = parse(&line).ok().and_then(|other| encode(&other, target).ok()).and_then(|word| decode(word, target));
            instructions.extend(other);
        }
    }
    let blocks = vec![MachineBlock { range: 0..instructions.len(), successors: Vec::new() }];
    assign(&MachineCode { instructions: &instructions, blocks }, &Hardware::built_in(target))[0]
}

#[test]
fn no_form_gets_a_scoreboard_that_it_cannot_set() {
    // Patterns that give small register numbers; the other fields are arbitrary.
    let patterns = [0x0101_0101_0101_0101_0101_0101_0808_0000_u128, 0x0202_0808_0404_0202_0404_0606_0a0c_0000];
    let (mut reads, mut results, mut without) = (0, 0, 0);
    for name in ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"] {
        let target = Target::parse(name).unwrap();
        for id in FormId::all() {
            for pattern in patterns {
                let Some(instruction) = decode(word_of(id, pattern), target).filter(|instruction| instruction.form == Some(id)) else {
                    continue;
                };
                let control = control_of(&instruction, target);
                let place = id.form().place;
                let has_sources = accesses(&instruction).iter().any(|access| !access.written && access.place != AccessPlace::Guard);
                let is_fence = matches!(instruction.opcode, Opcode::MEMBAR | Opcode::UTMACMDFLUSH);
                assert!(control.read_barrier.is_none() || id.form().sets_read_barrier, "{name} {place}: {control}");
                assert!(control.write_barrier.is_none() || id.form().sets_write_barrier, "{name} {place}: {control}");
                assert!(control.read_barrier.is_none() || has_sources || is_fence, "{name} {place}: {control}");
                reads += usize::from(control.read_barrier.is_some());
                results += usize::from(control.write_barrier.is_some());
                without += usize::from(!id.form().sets_read_barrier && has_sources);
            }
        }
    }
    assert!(reads > 500 && results > 2000 && without > 300, "{reads} read barriers, {results} write barriers, {without} forms without");
}
