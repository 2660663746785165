//! Memory spaces: which one an instruction reaches, and what that means for its priority.
//!
//! *Hot* accesses go to memory that is far away and should start early; *cold* ones are quick and can wait. What takes longer than
//! [`LONG_LATENCY_CYCLES`] is worth hiding behind other instructions.

use oriole_hardware::{Class, Model};
use oriole_isa::{Instruction, Value};

/// Latencies above this many cycles are long.
pub const LONG_LATENCY_CYCLES: u16 = 19;

/// A memory space, with the code that the description has for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// Any of the others, known when the instruction executes.
    Generic = 1,
    /// The stack of a thread.
    Local = 2,
    /// Shared memory.
    Shared = 3,
    /// A constant bank at a fixed place.
    Constant = 4,
    /// A constant bank at a place that a register says.
    IndexedConstant = 7,
    /// Surfaces.
    Surface = 11,
    /// Global memory.
    Global = 16,
    /// Textures. The description has no code for them; this one is ours.
    Texture = 32,
}

impl Space {
    /// Every space.
    pub const ALL: [Space; 8] = [
        Space::Generic,
        Space::Local,
        Space::Shared,
        Space::Constant,
        Space::IndexedConstant,
        Space::Surface,
        Space::Global,
        Space::Texture,
    ];

    /// The code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The space with a code.
    pub fn from_code(code: u8) -> Option<Space> {
        Space::ALL.into_iter().find(|space| space.code() == code)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Space::Generic => "generic",
            Space::Local => "local",
            Space::Shared => "shared",
            Space::Constant => "constant",
            Space::IndexedConstant => "indexed",
            Space::Surface => "surface",
            Space::Global => "global",
            Space::Texture => "texture",
        }
    }

    /// The space that instructions of a class reach, as the table of classes names it.
    pub fn of_class(class: Class) -> Option<Space> {
        let name = class.attribute("space")?;
        Space::ALL.into_iter().find(|space| space.name() == name)
    }

    /// The space that an instruction reaches. A constant bank is an indexed one only if a register takes part in the address.
    pub fn of(instruction: &Instruction) -> Option<Space> {
        match Space::of_class(Class::of(instruction))? {
            Space::Constant | Space::IndexedConstant if is_indexed(instruction) => Some(Space::IndexedConstant),
            Space::Constant | Space::IndexedConstant => Some(Space::Constant),
            other => Some(other),
        }
    }

    /// Far away: should start early.
    pub fn is_hot(self) -> bool {
        matches!(self, Space::Global | Space::Texture | Space::Surface)
    }

    /// Quick: can wait.
    pub fn is_cold(self) -> bool {
        matches!(self, Space::Constant | Space::IndexedConstant | Space::Shared)
    }
}

fn is_indexed(instruction: &Instruction) -> bool {
    let addresses = instruction.operands.iter().filter_map(|operand| match &operand.value {
        Value::Address(address) => Some(address),
        _ => None,
    });
    addresses.flat_map(|address| &address.parts).flat_map(|part| &part.registers).any(|register| register.number.is_some())
}

/// Cycles that an instruction of a class usually takes: the usual time if it has no fixed latency, else the longest that any reader needs.
/// None if the time varies and no figure is known.
pub fn estimated_latency(model: &Model, class: Class) -> Option<u16> {
    match model.time(class) {
        None if model.results_wait(class) => None,
        _ => Some(model.base_latency(class)),
    }
}

/// Whether an instruction of a class takes long. One whose time varies without a known figure does.
pub fn is_long_latency(model: &Model, class: Class) -> bool {
    estimated_latency(model, class).is_none_or(|cycles| cycles > LONG_LATENCY_CYCLES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_hardware::Profile;
    use oriole_isa::{Target, parse};

    fn space(text: &str) -> Option<Space> {
        Space::of(&parse(text).unwrap())
    }

    #[test]
    fn codes_are_those_of_the_description() {
        let codes: Vec<u8> = Space::ALL.into_iter().map(Space::code).collect();
        assert_eq!(codes, [1, 2, 3, 4, 7, 11, 16, 32]);
        assert!(Space::ALL.into_iter().all(|space| Space::from_code(space.code()) == Some(space)));
        assert_eq!(Space::from_code(5), None);
    }

    #[test]
    fn instructions_reach_their_space() {
        assert_eq!(space("LDG.E R0, desc[UR4][R2.64]"), Some(Space::Global));
        assert_eq!(space("LD.E R0, desc[UR4][R2.64]"), Some(Space::Generic));
        assert_eq!(space("LDL R0, [R1]"), Some(Space::Local));
        assert_eq!(space("STS [R2], R3"), Some(Space::Shared));
        assert_eq!(space("LDC R2, c[0x0][0x28]"), Some(Space::Constant));
        assert_eq!(space("LDC R2, c[0x0][R4+0x28]"), Some(Space::IndexedConstant));
        assert_eq!(space("ULDC.64 UR4, c[0x0][0x208]"), Some(Space::Constant));
        assert_eq!(space("IADD3 R0, R1, R2, R3"), None);
    }

    #[test]
    fn hot_and_cold() {
        let names = |is: fn(Space) -> bool| Space::ALL.into_iter().filter(|space| is(*space)).collect::<Vec<_>>();
        assert_eq!(names(Space::is_hot), [Space::Surface, Space::Global, Space::Texture]);
        assert_eq!(names(Space::is_cold), [Space::Shared, Space::Constant, Space::IndexedConstant]);
    }

    #[test]
    fn long_is_more_than_nineteen_cycles() {
        let mut model = Profile::of(Target::parse("sm_90").unwrap()).model;
        let sum = Class::of(&parse("IADD3 R0, R1, R2, R3").unwrap());
        let load = Class::of(&parse("LDG.E R0, desc[UR4][R2.64]").unwrap());
        assert!(!is_long_latency(&model, sum) && is_long_latency(&model, load));
        model.set_base_latency(sum, 19);
        assert!(!is_long_latency(&model, sum));
        model.set_base_latency(sum, 20);
        assert!(is_long_latency(&model, sum));
    }
}
