//! Computes the weight of a register in the pressure counts of the resource model.
//!
//! Input: a register (class, number, pipeline affinity) and two settings. Output: its index in the set of tracked registers and its
//! weight. The rules follow the published description of ptxas.
//!
//! Every register has a two-bit pipeline affinity: 1 is an ordinary register of weight 1, 3 a double-width register of weight 2. The
//! setting [`Tracking::doubles_wide_weight`] doubles the weight of registers of the wide class that are not ordinary. The setting
//! [`Tracking::tracks_pair_halves`] (knob 420 of the description) tracks the even and the odd half of a register pair separately: the index
//! is doubled and the weight is not.
//!
//! [`crate::resource`] adds the costs up, for the strategy `backtracking`.

use oriole_isa::RegFile;

/// Register class of wide registers: accumulators of the matrix units.
pub(crate) const WIDE_CLASS: u8 = 6;

/// Pipeline affinity of a register. The two other values of the description depend on the architecture; no register here has them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Affinity {
    /// Value 1: an ordinary register.
    Standard,
    /// Value 3: a double-width register.
    DoubleWidth,
}

/// A register and the properties that determine its weight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RegisterDescriptor {
    /// Register class; classes up to [`WIDE_CLASS`] are physical register files.
    pub class: u8,
    /// Register number within the class.
    pub index: u32,
    /// Pipeline affinity, which determines the weight.
    pub affinity: Affinity,
}

impl RegisterDescriptor {
    /// Creates the descriptor of an ordinary register of a register file.
    pub(crate) fn new(file: RegFile, index: u32) -> RegisterDescriptor {
        RegisterDescriptor { class: class_of(file), index, affinity: Affinity::Standard }
    }

    /// Returns whether the register belongs to a physical register file.
    pub(crate) fn is_physical(self) -> bool {
        self.class <= WIDE_CLASS
    }
}

/// Returns the register class of a register file. Scoreboards are not a physical register file and have a class above [`WIDE_CLASS`].
pub(crate) fn class_of(file: RegFile) -> u8 {
    match file {
        RegFile::General => 1,
        RegFile::Predicate => 2,
        RegFile::Uniform => 3,
        RegFile::UniformPredicate => 4,
        RegFile::Convergence => 5,
        RegFile::Scoreboard => WIDE_CLASS + 1,
    }
}

/// Settings of the weight computation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tracking {
    /// Whether the two halves of register pairs are tracked separately (knob 420).
    pub tracks_pair_halves: bool,
    /// Whether the weight of registers of the wide class that are not [`Affinity::Standard`] is doubled. Has no effect together with
    /// `tracks_pair_halves`.
    pub doubles_wide_weight: bool,
}

/// Index and weight of a register in the set of tracked registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisterCost {
    /// First index of the register in the set of tracked registers.
    pub index: u32,
    /// Number of consecutive indices that the register occupies in the set.
    pub count: u32,
    /// Weight of each of these indices.
    pub cost: u32,
}

/// Returns index and weight of a register under the given settings.
#[inline]
pub(crate) fn register_cost(register: RegisterDescriptor, tracking: Tracking) -> RegisterCost {
    let cost = if register.affinity == Affinity::DoubleWidth { 2 } else { 1 };
    if tracking.tracks_pair_halves {
        return RegisterCost { index: 2 * register.index, count: 1, cost };
    }
    let is_doubled = tracking.doubles_wide_weight && register.affinity != Affinity::Standard && register.class == WIDE_CLASS;
    RegisterCost { index: register.index, count: 1, cost: if is_doubled { 2 * cost } else { cost } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of indices and the weight of a register of a class.
    fn cost(class: u8, affinity: Affinity, tracking: Tracking) -> (u32, u32) {
        let found = register_cost(RegisterDescriptor { class, index: 21, affinity }, tracking);
        assert_eq!(found.count, 1);
        (found.index, found.cost)
    }

    const PLAIN: Tracking = Tracking { tracks_pair_halves: false, doubles_wide_weight: false };
    const WIDE: Tracking = Tracking { tracks_pair_halves: false, doubles_wide_weight: true };
    const PAIRS: Tracking = Tracking { tracks_pair_halves: true, doubles_wide_weight: true };

    #[test]
    fn a_double_width_register_has_weight_two() {
        assert_eq!(cost(1, Affinity::Standard, PLAIN), (21, 1));
        assert_eq!(cost(1, Affinity::DoubleWidth, PLAIN), (21, 2));
    }

    #[test]
    fn weight_of_wide_registers_doubles_unless_standard() {
        assert_eq!(cost(WIDE_CLASS, Affinity::DoubleWidth, WIDE), (21, 4));
        assert_eq!(cost(WIDE_CLASS, Affinity::Standard, WIDE), (21, 1));
        assert_eq!(cost(5, Affinity::DoubleWidth, WIDE), (21, 2));
        assert_eq!(cost(WIDE_CLASS, Affinity::DoubleWidth, PLAIN), (21, 2));
    }

    #[test]
    fn pair_tracking_doubles_the_index_and_not_the_weight() {
        assert_eq!(cost(1, Affinity::Standard, PAIRS), (42, 1));
        assert_eq!(cost(WIDE_CLASS, Affinity::DoubleWidth, PAIRS), (42, 2));
    }

    #[test]
    fn scoreboards_are_not_a_physical_file() {
        assert!(RegisterDescriptor::new(RegFile::Convergence, 0).is_physical());
        assert!(!RegisterDescriptor::new(RegFile::Scoreboard, 0).is_physical());
    }

    /// Every register file has its own class, physical files have classes up to [`WIDE_CLASS`], and the class of scoreboards is above it.
    #[test]
    fn each_register_file_has_its_own_class() {
        let files =
            [RegFile::General, RegFile::Predicate, RegFile::Uniform, RegFile::UniformPredicate, RegFile::Convergence, RegFile::Scoreboard];
        assert_eq!(files.map(class_of), [1, 2, 3, 4, 5, 7]);
        let wide = RegisterDescriptor { class: WIDE_CLASS, index: 0, affinity: Affinity::DoubleWidth };
        assert!(wide.is_physical());
    }
}
