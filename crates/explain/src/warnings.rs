//! Warnings: what costs time and may be changed in the source, ranked by the predicted cycles of one warp.
//!
//! The cycles of a warning are what the instructions cost in the model, times how often their block is executed (ten times for each loop
//! around it). They rank warnings of one function; they do not predict a gain.

use std::collections::BTreeMap;

use oriole_hardware::SchedClass;
use oriole_hardware::units::Unit;
use oriole_isa::{Instruction, Opcode, Operand, OperandValue, RegFile};

use crate::barriers;
use crate::code::{DecodedFunction, SIZE};
use crate::lanes;
use crate::model::{Remark, Spills, Warning};

/// What the warnings are computed from.
pub struct Input<'a> {
    /// The function.
    pub code: &'a DecodedFunction<'a>,
    /// Predicted waiting time of each instruction in cycles.
    pub waiting: &'a [u32],
    /// For each instruction, the instructions that wait for its scoreboards.
    pub readers: &'a dyn Fn(usize) -> Vec<usize>,
    /// PTX line of each instruction.
    pub ptx_lines: &'a [Option<u32>],
    /// The spilled registers.
    pub spills: &'a Spills,
    /// What passes did.
    pub remarks: &'a [Remark],
    /// Cycles that an instruction occupies its unit, by class.
    pub busy: &'a dyn Fn(SchedClass) -> f64,
}

/// Number of threads of a warp.
const LANES: i64 = 32;
/// Bytes of a bank of shared memory.
const BANK: i64 = 4;
/// Largest access in bytes.
const LARGEST_ACCESS: i64 = 16;

/// Returns all warnings, the most expensive first.
pub fn find(input: &Input<'_>) -> Vec<Warning> {
    let mut found = Vec::new();
    found.extend(spills_in_loops(input));
    found.extend(unvectorized(input));
    found.extend(double_precision(input));
    found.extend(dynamic_local(input));
    let lanes = lanes::analyse(input.code);
    found.extend(strided(input, &lanes.strides));
    found.extend(barriers::divergent(input, &lanes.is_divergent));
    found.extend(barriers::serialization(input));
    found.extend(serialized_products(input));
    found.sort_by(|one, two| two.cycles.total_cmp(&one.cycles).then_with(|| one.addresses.cmp(&two.addresses)));
    found
}

impl Input<'_> {
    pub fn warning(&self, kind: &str, cycles: f64, text: String, numbers: &[usize]) -> Warning {
        let addresses = numbers.iter().map(|&number| (number * SIZE) as u64).collect();
        let ptx_line = numbers.first().and_then(|&number| self.ptx_lines[number]);
        Warning { kind: kind.to_owned(), cycles, text, addresses, ptx_line }
    }

    /// Returns the cycles that an instruction costs in all its executions: its unit, and the waits for its scoreboards.
    pub fn cost(&self, number: usize) -> f64 {
        let waited: u32 = (self.readers)(number).into_iter().map(|reader| self.waiting[reader]).max().unwrap_or(0);
        self.code.executions_of_inst(number) * (self.unit_cycles(number) + f64::from(waited))
    }

    fn unit_cycles(&self, number: usize) -> f64 {
        (self.busy)(SchedClass::of(&self.code.instructions()[number]))
    }

    fn with_opcode(&self, opcodes: &[Opcode]) -> Vec<usize> {
        (0..self.code.length).filter(|&number| opcodes.contains(&self.code.instructions()[number].opcode)).collect()
    }
}

/// Spill code inside of loops, one warning for each innermost loop.
fn spills_in_loops(input: &Input<'_>) -> Vec<Warning> {
    // For each loop its spill code, the number of values, and the names of those that have one.
    let mut by_loop: BTreeMap<usize, (Vec<usize>, usize, Vec<&str>)> = BTreeMap::new();
    for slot in input.spills.slots.iter().filter(|slot| slot.depth > 0) {
        let all = slot.stores.iter().chain(&slot.loads).map(|&address| address as usize / SIZE);
        let mut seen = Vec::new();
        for (number, innermost) in all.filter_map(|number| Some((number, input.code.loop_of[input.code.block_of[number] as usize]?))) {
            let (numbers, values, names) = by_loop.entry(innermost).or_default();
            numbers.push(number);
            if !seen.contains(&innermost) {
                seen.push(innermost);
                *values += 1;
                names.extend(slot.name.as_deref());
            }
        }
    }
    let warn = |(mut numbers, values, names): (Vec<usize>, usize, Vec<&str>)| {
        numbers.sort_unstable();
        let cycles = numbers.iter().map(|&number| input.cost(number)).sum();
        let named = match names.as_slice() {
            [] => String::new(),
            names if names.len() <= MOST_NAMES => format!(" ({})", names.join(", ")),
            names => format!(" ({}, ...)", names[..MOST_NAMES].join(", ")),
        };
        let certainty = if input.spills.is_exact { "spilled" } else { "spilled, or local variables" };
        let text = format!(
            "{values} values{named} {certainty}: {} instructions in a loop access the stack frame; allow more registers (`.maxnreg`, \
             `--maxrregcount`, launch bounds), or keep fewer values live across the loop",
            numbers.len()
        );
        input.warning("spill-in-loop", cycles, text, &numbers)
    };
    by_loop.into_values().map(warn).collect()
}

/// Names of spilled registers in a message at most.
const MOST_NAMES: usize = 6;

/// An access to memory of one word: the registers of its address, and its offset.
struct WordAccess {
    base: (Opcode, Vec<(RegFile, Option<u16>)>),
    offset: i64,
    bytes: i64,
}

/// Returns the address of a plain access to global or shared memory.
fn word_access(instruction: &Instruction) -> Option<WordAccess> {
    if !matches!(instruction.opcode, Opcode::LDG | Opcode::STG | Opcode::LDS | Opcode::STS) {
        return None;
    }
    let address = instruction.operands.iter().find_map(|operand| address_of(operand))?;
    let registers = address.parts.iter().flat_map(|part| &part.registers).map(|register| (register.file, register.number)).collect();
    let offset = address.parts.iter().filter_map(|part| part.offset).next_back().unwrap_or(0);
    Some(WordAccess { base: (instruction.opcode, registers), offset, bytes: access_bytes(instruction) })
}

fn address_of(operand: &Operand) -> Option<&oriole_isa::Address> {
    if let OperandValue::Address(address) = &operand.value { Some(address) } else { None }
}

/// Returns the number of bytes that a thread accesses.
fn access_bytes(instruction: &Instruction) -> i64 {
    let has = |spelling: &str| instruction.modifiers.iter().any(|modifier| modifier.spelling() == spelling);
    match () {
        () if has(".128") => 16,
        () if has(".64") => 8,
        () if has(".U8") || has(".S8") => 1,
        () if has(".U16") || has(".S16") => 2,
        () => 4,
    }
}

/// Mnemonic and address registers of an access; the file of a register is its number in [`RegFile`].
type Base<'a> = (&'a str, Vec<(u8, Option<u16>)>);

/// Accesses with the same base: offset, bytes and number of the instruction.
type AccessGroup = Vec<(i64, i64, usize)>;

/// Accesses to neighbouring addresses in one block that could be one access.
fn unvectorized(input: &Input<'_>) -> Vec<Warning> {
    let code = input.code;
    let mut found = Vec::new();
    for block in code.real_blocks() {
        // Accesses with the same base, as long as its registers are not overwritten.
        let mut open: BTreeMap<Base<'_>, AccessGroup> = BTreeMap::new();
        let mut groups = Vec::new();
        for number in code.blocks()[block].range.clone() {
            let instruction = &code.instructions()[number];
            if let Some(access) = word_access(instruction).filter(|access| access.bytes < LARGEST_ACCESS && code.is_unguarded(number)) {
                let registers = access.base.1.iter().map(|&(file, number)| (file as u8, number)).collect();
                open.entry((access.base.0.mnemonic(), registers)).or_default().push((access.offset, access.bytes, number));
            }
            let written = code.writes(number);
            let is_broken = |key: &Base<'_>| {
                key.1.iter().any(|&(file, number)| file == RegFile::General as u8 && number.is_some_and(|number| written.contains(number)))
            };
            let broken: Vec<_> = open.keys().filter(|key| is_broken(key)).cloned().collect();
            groups.extend(broken.into_iter().filter_map(|key| open.remove(&key)));
        }
        groups.extend(open.into_values());
        found.extend(groups.into_iter().filter_map(|group| unvectorized_group(input, group)));
    }
    found
}

/// Returns the warning for a group of accesses with the same base, if some of them are neighbours.
fn unvectorized_group(input: &Input<'_>, mut group: AccessGroup) -> Option<Warning> {
    group.sort_unstable();
    group.dedup_by_key(|access| access.0);
    let mut members: Vec<usize> = Vec::new();
    let mut saved = 0;
    let mut at = 0;
    while at < group.len() {
        let (start, bytes, _) = group[at];
        let follows = |count: usize| group.get(at + count).is_some_and(|next| (next.0, next.1) == (start + bytes * count as i64, bytes));
        let most = (LARGEST_ACCESS / bytes) as usize;
        let length = 1 + (1..most).take_while(|&count| follows(count)).count();
        if length > 1 {
            members.extend(group[at..at + length].iter().map(|access| access.2));
            saved += length - 1;
        }
        at += length;
    }
    let &first = members.iter().min()?;
    members.sort_unstable();
    let cycles = input.code.executions_of_inst(first) * saved as f64 * input.unit_cycles(first);
    let text = format!(
        "{} accesses to neighbouring addresses; if the address is aligned, vector accesses (`.v2`, `.v4`) save {saved} of them",
        members.len()
    );
    Some(input.warning("unvectorized", cycles, text, &members))
}

/// Arithmetic in double precision, one warning for each loop depth.
fn double_precision(input: &Input<'_>) -> Vec<Warning> {
    let is_double = |&number: &usize| SchedClass::of(&input.code.instructions()[number]).unit() == Unit::Double;
    let mut by_depth: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for number in (0..input.code.length).filter(is_double) {
        by_depth.entry(input.code.depth_of_inst(number)).or_default().push(number);
    }
    if by_depth.is_empty() {
        return Vec::new();
    }
    let converts = |instruction: &Instruction| {
        let wide = instruction.modifiers.iter().filter(|modifier| modifier.spelling() == ".F64").count();
        instruction.opcode == Opcode::F2F && wide == 1
    };
    let conversions: Vec<usize> = (0..input.code.length).filter(|&number| converts(&input.code.instructions()[number])).collect();
    let warn = |(depth, numbers): (u32, Vec<usize>)| {
        // Without double precision, the conversions would not be needed either.
        let here: Vec<usize> = conversions.iter().copied().filter(|&number| input.code.depth_of_inst(number) == depth).collect();
        let busy = |number: &usize| input.code.executions_of_inst(*number) * input.unit_cycles(*number);
        let cycles = numbers.iter().chain(&here).map(busy).sum();
        let place = if depth > 0 { format!(" in loops of depth {depth}") } else { String::new() };
        let accident = match here.first() {
            Some(&first) => format!(
                "; {} instructions convert between single and double precision, {} cycles each, which a constant without `f` causes in CUDA",
                here.len(),
                input.unit_cycles(first)
            ),
            None => String::new(),
        };
        let each = numbers.first().map_or(0.0, |&number| input.unit_cycles(number));
        let text = format!("{} instructions in double precision{place}; each occupies its unit for {each} cycles{accident}", numbers.len());
        input.warning("double-precision", cycles, text, &numbers)
    };
    by_depth.into_iter().map(warn).collect()
}

/// Accesses to local memory whose address is computed.
fn dynamic_local(input: &Input<'_>) -> Option<Warning> {
    const STACK_POINTER: u16 = 1;
    let is_dynamic = |&number: &usize| {
        let registers = |operand: &Operand| {
            let address = address_of(operand)?;
            let mut general = address.parts.iter().flat_map(|part| &part.registers).filter_map(|register| register.number);
            Some(general.any(|register| register != STACK_POINTER))
        };
        input.code.instructions()[number].operands.iter().find_map(registers) == Some(true)
    };
    let numbers: Vec<usize> = input.with_opcode(&[Opcode::LDL, Opcode::STL]).into_iter().filter(is_dynamic).collect();
    if numbers.is_empty() {
        return None;
    }
    let cycles = numbers.iter().map(|&number| input.cost(number)).sum();
    let text = format!(
        "{} accesses to local memory at computed addresses: an array that is indexed with a number known only at run time cannot be kept in \
         registers; unroll the loop around it, or use shared memory",
        numbers.len()
    );
    Some(input.warning("dynamic-local", cycles, text, &numbers))
}

/// Accesses whose addresses provably lie apart in neighbouring threads.
fn strided(input: &Input<'_>, strides: &[Option<i64>]) -> Vec<Warning> {
    let costs = input.code.hardware.costs;
    let sector = i64::from(costs.sector_bytes);
    let mut found = Vec::new();
    for (number, &stride) in strides.iter().enumerate().take(input.code.length) {
        let (Some(stride), instruction) = (stride, &input.code.instructions()[number]) else { continue };
        let bytes = access_bytes(instruction);
        let executions = input.code.executions_of_inst(number);
        match instruction.opcode {
            Opcode::LDG | Opcode::STG if stride.abs() > bytes => {
                let touched = ((stride.abs() * (LANES - 1) + bytes) / sector + 1).min(LANES);
                let needed = (bytes * LANES / sector).max(1);
                if touched > needed {
                    let cycles = executions * (touched - needed) as f64 * costs.l2_sector_sm;
                    let text = format!(
                        "uncoalesced: neighbouring threads access {bytes} bytes at a distance of {stride} bytes, so a warp touches {touched} \
                         sectors instead of {needed}; let neighbouring threads access neighbouring words"
                    );
                    add(&mut found, input.warning("uncoalesced", cycles, text, &[number]));
                }
            }
            Opcode::LDS | Opcode::STS if bytes == BANK && stride != 0 && stride % BANK == 0 => {
                let ways = greatest_common_divisor((stride / BANK).unsigned_abs(), LANES as u64);
                if ways > 1 {
                    let cycles = executions * (ways - 1) as f64 * f64::from(costs.shared_conflict);
                    let text = format!(
                        "bank conflict: neighbouring threads access words of shared memory at a distance of {stride} bytes, so {ways} of \
                         them share a bank; pad the rows of the array by one word"
                    );
                    add(&mut found, input.warning("bank-conflict", cycles, text, &[number]));
                }
            }
            _ => {}
        }
    }
    found
}

/// Adds a warning; accesses with the same distance are one warning.
fn add(found: &mut Vec<Warning>, warning: Warning) {
    match found.iter_mut().find(|known| (&known.kind, &known.text) == (&warning.kind, &warning.text)) {
        Some(known) => {
            known.cycles += warning.cycles;
            known.addresses.extend(warning.addresses);
        }
        None => found.push(warning),
    }
}

fn greatest_common_divisor(one: u64, two: u64) -> u64 {
    if two == 0 { one } else { greatest_common_divisor(two, one % two) }
}

/// Waits and fences that were inserted between matrix products of a warpgroup.
fn serialized_products(input: &Input<'_>) -> Vec<Warning> {
    let remarks = input.remarks.iter().filter(|remark| remark.text.starts_with("wgmma"));
    let warn = |remark: &Remark| {
        let at = |number: &usize| input.ptx_lines[*number] == remark.ptx_line && remark.ptx_line.is_some();
        let numbers: Vec<usize> = (0..input.code.length).filter(at).collect();
        let cycles = numbers.iter().map(|&number| input.cost(number)).sum();
        Warning { ptx_line: remark.ptx_line, ..input.warning("serialized-wgmma", cycles, remark.text.clone(), &numbers) }
    };
    remarks.map(warn).collect()
}
