//! What a register counts for.
//!
//! Every register has two bits that say how it is tied to pipelines: 1 is an ordinary one, 3 a double-width one, which counts for two.
//! Two settings change the count: one makes every register of the wide class count double unless it is an ordinary one; the other (knob
//! 420) follows the even and odd halves of pairs apart, so numbers are doubled and counts stay.

use oriole_isa::File;

/// The class of registers that are wide: accumulators of matrix units.
pub const WIDE_CLASS: u8 = 6;

/// How a register is tied to pipelines: two bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Affinity {
    /// 0: what the architecture makes of it.
    Architecture0,
    /// 1: an ordinary register.
    Standard,
    /// 2: what the architecture makes of it.
    Architecture2,
    /// 3: a double-width register.
    DoubleWidth,
}

impl Affinity {
    /// From the lowest two bits.
    pub fn from_bits(bits: u32) -> Affinity {
        [Affinity::Architecture0, Affinity::Standard, Affinity::Architecture2, Affinity::DoubleWidth][(bits & 3) as usize]
    }

    /// The bits.
    pub fn bits(self) -> u32 {
        self as u32
    }
}

/// What has to be known about a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisterDescriptor {
    /// Its class; those up to 6 are physical files.
    pub class: u8,
    /// Its number.
    pub index: u32,
    /// How it is tied to pipelines.
    pub affinity: Affinity,
}

impl RegisterDescriptor {
    /// A register of a file.
    pub fn new(file: File, index: u32) -> RegisterDescriptor {
        RegisterDescriptor { class: class_of(file), index, affinity: Affinity::Standard }
    }

    /// Whether it is in a physical file.
    pub fn is_physical(self) -> bool {
        self.class <= WIDE_CLASS
    }
}

/// The class of the registers of a file.
pub fn class_of(file: File) -> u8 {
    match file {
        File::General => 1,
        File::Predicate => 2,
        File::Uniform => 3,
        File::UniformPredicate => 4,
        File::Convergence => 5,
        File::Scoreboard => WIDE_CLASS + 1,
    }
}

/// Settings of the count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tracking {
    /// Follow the halves of pairs apart (knob 420).
    pub pairs: bool,
    /// Registers of the wide class count double.
    pub doubles_wide: bool,
}

/// What a register counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterCost {
    /// Its number in the set of registers that are followed.
    pub index: u32,
    /// How many numbers it takes there.
    pub count: u32,
    /// What each counts for.
    pub cost: u32,
}

/// What a register counts for under these settings.
#[inline]
pub fn register_cost(register: RegisterDescriptor, tracking: Tracking) -> RegisterCost {
    let cost = if register.affinity == Affinity::DoubleWidth { 2 } else { 1 };
    if tracking.pairs {
        return RegisterCost { index: 2 * register.index, count: 1, cost };
    }
    let is_doubled = tracking.doubles_wide && register.affinity != Affinity::Standard && register.class == WIDE_CLASS;
    RegisterCost { index: register.index, count: 1, cost: if is_doubled { 2 * cost } else { cost } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(class: u8, affinity: Affinity, tracking: Tracking) -> (u32, u32) {
        let found = register_cost(RegisterDescriptor { class, index: 21, affinity }, tracking);
        assert_eq!(found.count, 1);
        (found.index, found.cost)
    }

    const PLAIN: Tracking = Tracking { pairs: false, doubles_wide: false };
    const WIDE: Tracking = Tracking { pairs: false, doubles_wide: true };
    const PAIRS: Tracking = Tracking { pairs: true, doubles_wide: true };

    #[test]
    fn double_width_counts_for_two() {
        assert_eq!(cost(1, Affinity::Standard, PLAIN), (21, 1));
        assert_eq!(cost(1, Affinity::DoubleWidth, PLAIN), (21, 2));
        assert_eq!(cost(1, Affinity::Architecture0, PLAIN), (21, 1));
        assert_eq!(cost(1, Affinity::Architecture2, PLAIN), (21, 1));
    }

    #[test]
    fn the_wide_class_doubles_when_asked_unless_standard() {
        assert_eq!(cost(WIDE_CLASS, Affinity::DoubleWidth, WIDE), (21, 4));
        assert_eq!(cost(WIDE_CLASS, Affinity::Architecture0, WIDE), (21, 2));
        assert_eq!(cost(WIDE_CLASS, Affinity::Standard, WIDE), (21, 1));
        assert_eq!(cost(5, Affinity::DoubleWidth, WIDE), (21, 2));
        assert_eq!(cost(WIDE_CLASS, Affinity::DoubleWidth, PLAIN), (21, 2));
    }

    #[test]
    fn pairs_double_the_number_and_not_the_wide_class() {
        assert_eq!(cost(1, Affinity::Standard, PAIRS), (42, 1));
        assert_eq!(cost(WIDE_CLASS, Affinity::DoubleWidth, PAIRS), (42, 2));
    }

    #[test]
    fn scoreboards_are_no_physical_file() {
        assert!(RegisterDescriptor::new(File::Convergence, 0).is_physical());
        assert!(!RegisterDescriptor::new(File::Scoreboard, 0).is_physical());
        assert!((0..4).all(|bits| Affinity::from_bits(bits).bits() == bits));
    }

    /// Classes up to the wide one are physical files, each file has its own, and scoreboards come after.
    #[test]
    fn each_file_has_a_class_of_its_own() {
        let files = [File::General, File::Predicate, File::Uniform, File::UniformPredicate, File::Convergence, File::Scoreboard];
        assert_eq!(files.map(class_of), [1, 2, 3, 4, 5, 7]);
        let wide = RegisterDescriptor { class: WIDE_CLASS, index: 0, affinity: Affinity::DoubleWidth };
        assert!(wide.is_physical());
    }
}
