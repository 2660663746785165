//! Every register that an instruction reads or writes.
//!
//! An operand names the first of the registers it stands for; how many there are depends on the instruction and its modifiers
//! (`data/widths.tbl`). [`accesses`] lists them: operands, registers in addresses, descriptors, the guard, and the predicates that
//! `PR` stands for. `RZ`, `PT` and their uniform likes are no registers and are not listed.
//!
//! A guarded instruction may leave what it writes as it was; callers who ask whether a value survives look at the guard.

use smallvec::SmallVec;

use crate::instruction::{Address, Instruction, Operand, Value};
use crate::table::{File, Symbol};
use crate::widths::{Extent, Kind, Role, extent, source_roles};

/// Registers of one file with consecutive numbers that an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Their file.
    pub file: File,
    /// The lowest number.
    pub first: u16,
    /// How many.
    pub count: u16,
    /// Where the instruction names them.
    pub place: AccessPlace,
    /// Whether it writes them; else it reads them.
    pub written: bool,
}

impl Access {
    /// Their numbers.
    pub fn registers(self) -> std::ops::Range<u16> {
        self.first..self.first + self.count
    }

    /// Whether this is the guard.
    pub fn is_guard(self) -> bool {
        self.place == AccessPlace::Guard
    }

    /// The operand that names them, if it is not the guard.
    pub fn operand(self) -> Option<usize> {
        match self.place {
            AccessPlace::Guard => None,
            AccessPlace::Plain(operand) | AccessPlace::Address(operand) => Some(usize::from(operand)),
        }
    }
}

/// Where an instruction names registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AccessPlace {
    /// The guard.
    Guard,
    /// An operand of this number.
    Plain(u8),
    /// Inside the brackets of the operand of this number.
    Address(u8),
}

/// All accesses of an instruction.
pub type Accesses = SmallVec<[Access; 8]>;

/// Number of registers in the file, the constant one not counted; numbers beyond are cut off.
fn size(file: File) -> u16 {
    match file {
        File::General | File::Uniform => 255,
        File::Predicate | File::UniformPredicate => 7,
        File::Convergence => 16,
        File::Scoreboard => 6,
    }
}

/// What an instruction reads and writes: the guard first, then in the order of its operands.
pub fn accesses(instruction: &Instruction) -> Accesses {
    let mut found = Accesses::new();
    let guard = instruction.guard;
    let guard_file = if guard.uniform { File::UniformPredicate } else { File::Predicate };
    if u16::from(guard.predicate) < size(guard_file) {
        found.push(Access { file: guard_file, first: guard.predicate.into(), count: 1, place: AccessPlace::Guard, written: false });
    }
    let written = instruction.written();
    let (mut destinations, mut sources) = (0, 0);
    for (number, (operand, &written)) in instruction.operands.iter().zip(&written).enumerate() {
        let mut lister = Lister { instruction, found: &mut found, number: number as u8 };
        lister.operand(operand, written, destinations, sources);
        if written {
            destinations += u8::from(counts_as_destination(operand));
        } else {
            sources += 1;
        }
    }
    found
}

/// Predicates are always single, so rules do not count them.
fn counts_as_destination(operand: &Operand) -> bool {
    !matches!(operand.value, Value::Register(File::Predicate | File::UniformPredicate, _))
}

struct Lister<'i> {
    instruction: &'i Instruction,
    found: &'i mut Accesses,
    number: u8,
}

impl Lister<'_> {
    fn operand(&mut self, operand: &Operand, written: bool, destinations: u8, sources: u8) {
        match &operand.value {
            &Value::Register(file, Some(first)) | &Value::RegisterAndNumber(file, Some(first), _) => {
                let extent = if matches!(file, File::Predicate | File::UniformPredicate) {
                    Extent::SINGLE
                } else if written {
                    extent(self.instruction, &[Role { kind: Kind::Destination, index: Some(destinations) }], &operand.suffixes)
                } else {
                    extent(self.instruction, &source_roles(sources, file), &operand.suffixes)
                };
                self.push(file, first, extent, AccessPlace::Plain(self.number), written);
            }
            Value::Address(address) => self.address(address, sources),
            &Value::Name(name) => self.all_predicates(name),
            _ => {}
        }
    }

    fn address(&mut self, address: &Address, source: u8) {
        let word = address.word.spelling();
        for (part_number, part) in address.parts.iter().enumerate() {
            for register in &part.registers {
                let Some(first) = register.number else { continue };
                let kind = match (word, part_number, register.file) {
                    ("desc", 0, _) => Kind::Descriptor,
                    ("gdesc", 0, _) => Kind::MatrixDescriptor,
                    ("cx", 0, _) => Kind::ConstantBank,
                    ("c" | "cx", ..) => Kind::ConstantOffset,
                    (_, _, File::Uniform) => Kind::UniformAddress,
                    _ => Kind::Address,
                };
                let extent = extent(self.instruction, &[Role { kind, index: Some(source) }], &register.suffixes);
                self.push(register.file, first, extent, AccessPlace::Address(self.number), false);
            }
        }
    }

    fn push(&mut self, file: File, first: u16, extent: Extent, place: AccessPlace, written: bool) {
        let count = extent.count.min(size(file).saturating_sub(first));
        if count == 0 || file == File::Scoreboard {
            return;
        }
        let access = Access { file, first, count, place, written };
        if !written || extent.also_read {
            self.found.push(Access { written: false, ..access });
        }
        if written || extent.also_written {
            self.found.push(Access { written: true, ..access });
        }
    }

    /// `PR` and `UPR` stand for the predicates that a mask names: those whose bits are set in the last operand, or all if that is a
    /// register. What moves predicates to a register reads them; what moves a register to predicates writes them.
    fn all_predicates(&mut self, name: Symbol) {
        let file = match name.spelling() {
            "PR" => File::Predicate,
            "UPR" => File::UniformPredicate,
            _ => return,
        };
        let mask = match self.instruction.operands.last().map(|operand| &operand.value) {
            Some(&Value::Integer(mask)) => mask as u64,
            _ => u64::MAX,
        };
        let written = self.number == 0;
        for first in (0..size(file)).filter(|predicate| mask >> predicate & 1 == 1) {
            self.found.push(Access { file, first, count: 1, place: AccessPlace::Plain(self.number), written });
        }
    }
}
