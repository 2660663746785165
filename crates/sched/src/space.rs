//! The memory space that an instruction accesses, and its effect on scheduling priority.
//!
//! *Hot* accesses go to memory of long latency and should issue early. *Cold* accesses have a short latency and can be delayed. Generic and
//! local accesses are neither. A latency of more than [`LONG_LATENCY_CYCLES`] is worth hiding behind other instructions.
//!
//! Only `oriole profile` reads the codes.

use oriole_hardware::{Model, SchedClass};

/// A latency above this number of cycles counts as long.
pub(crate) const LONG_LATENCY_CYCLES: u16 = 19;

/// A memory space, with its code in the published description of ptxas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SchedSpace {
    /// Generic memory: which of global, shared and local memory is accessed is known only at run time.
    Generic = 1,
    /// Local memory of a thread, which has the stack.
    Local = 2,
    /// Shared memory.
    Shared = 3,
    /// A constant bank at an address that is known at compile time.
    Constant = 4,
    /// A constant bank at an address that depends on a register.
    IndexedConstant = 7,
    /// Surface memory.
    Surface = 11,
    /// Global memory.
    Global = 16,
    /// Texture memory. The published description of ptxas has no code for it; this code is our own.
    Texture = 32,
}

impl SchedSpace {
    /// All memory spaces.
    pub const ALL: [SchedSpace; 8] = [
        SchedSpace::Generic,
        SchedSpace::Local,
        SchedSpace::Shared,
        SchedSpace::Constant,
        SchedSpace::IndexedConstant,
        SchedSpace::Surface,
        SchedSpace::Global,
        SchedSpace::Texture,
    ];

    /// Returns the code of the space in the published description of ptxas.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the name of the space in the class table (`classes.tbl`).
    pub fn name(self) -> &'static str {
        match self {
            SchedSpace::Generic => "generic",
            SchedSpace::Local => "local",
            SchedSpace::Shared => "shared",
            SchedSpace::Constant => "constant",
            SchedSpace::IndexedConstant => "indexed",
            SchedSpace::Surface => "surface",
            SchedSpace::Global => "global",
            SchedSpace::Texture => "texture",
        }
    }

    /// Returns the space that instructions of a class access, from the class table; `None` if they access no memory.
    pub fn of_class(class: SchedClass) -> Option<SchedSpace> {
        let name = class.attribute("space")?;
        SchedSpace::ALL.into_iter().find(|space| space.name() == name)
    }

    /// Returns whether accesses of this memory space have a long latency and should issue early.
    pub fn has_long_latency(self) -> bool {
        matches!(self, SchedSpace::Global | SchedSpace::Texture | SchedSpace::Surface)
    }

    /// Returns whether accesses of this memory space have a short latency and can be delayed.
    pub fn has_short_latency(self) -> bool {
        matches!(self, SchedSpace::Constant | SchedSpace::IndexedConstant | SchedSpace::Shared)
    }
}

/// Returns the estimated latency of a scheduling class in cycles: the usual latency if the latency is variable, the latency to the slowest
/// reader if it is fixed; `None` if it is variable and unknown.
pub fn estimated_latency(model: &Model, class: SchedClass) -> Option<u16> {
    match model.time(class) {
        None if model.results_need_scoreboard(class) => None,
        _ => Some(model.base_latency(class)),
    }
}

/// Returns whether the latency of a scheduling class is longer than `LONG_LATENCY_CYCLES`. An unknown latency counts as long.
pub fn is_long_latency(model: &Model, class: SchedClass) -> bool {
    estimated_latency(model, class).is_none_or(|cycles| cycles > LONG_LATENCY_CYCLES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_hardware::Profile;
    use oriole_isa::{Target, parse};

    /// Returns the memory space of the class of an instruction that is given as text.
    fn space(text: &str) -> Option<SchedSpace> {
        SchedSpace::of_class(SchedClass::of(&parse(text).unwrap()))
    }

    #[test]
    fn space_codes_match_the_description() {
        let codes: Vec<u8> = SchedSpace::ALL.into_iter().map(SchedSpace::code).collect();
        assert_eq!(codes, [1, 2, 3, 4, 7, 11, 16, 32]);
    }

    #[test]
    fn instructions_have_their_memory_space() {
        assert_eq!(space("LDG.E R0, desc[UR4][R2.64]"), Some(SchedSpace::Global));
        assert_eq!(space("LD.E R0, desc[UR4][R2.64]"), Some(SchedSpace::Generic));
        assert_eq!(space("LDL R0, [R1]"), Some(SchedSpace::Local));
        assert_eq!(space("STS [R2], R3"), Some(SchedSpace::Shared));
        assert_eq!(space("IADD3 R0, R1, R2, R3"), None);
    }

    #[test]
    fn spaces_are_hot_or_cold() {
        let names = |is: fn(SchedSpace) -> bool| SchedSpace::ALL.into_iter().filter(|space| is(*space)).collect::<Vec<_>>();
        assert_eq!(names(SchedSpace::has_long_latency), [SchedSpace::Surface, SchedSpace::Global, SchedSpace::Texture]);
        assert_eq!(names(SchedSpace::has_short_latency), [SchedSpace::Shared, SchedSpace::Constant, SchedSpace::IndexedConstant]);
    }

    #[test]
    fn latency_above_nineteen_cycles_is_long() {
        let mut model = Profile::of(Target::parse("sm_90").unwrap()).model;
        let sum = SchedClass::of(&parse("IADD3 R0, R1, R2, R3").unwrap());
        let load = SchedClass::of(&parse("LDG.E R0, desc[UR4][R2.64]").unwrap());
        assert!(!is_long_latency(&model, sum) && is_long_latency(&model, load));
        model.set_base_latency(sum, 19);
        assert!(!is_long_latency(&model, sum));
        model.set_base_latency(sum, 20);
        assert!(is_long_latency(&model, sum));
    }
}
