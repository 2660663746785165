//! The scheduling properties of an instruction class, in the terms of a published description of ptxas.
//!
//! The description packs these properties into 42 bits ([`PackedDescriptor`]): latency index, pipe, sub-class, pipe flags, and barrier
//! masks. It assigns the same five bits to the sub-class and to the throughput class. Here the throughput class is in bits that the
//! description reserves, so both are kept.
//!
//! ```text
//! [8:0] latency index   [14:9] throughput class   [19:15] pipe   [24:20] sub-class   [29:25] flags   [36:32] reads   [41:37] writes
//! ```
//!
//! Only `oriole profile` reads descriptors.

use oriole_hardware::SchedClass;
use oriole_hardware::units::Unit;

use crate::space::SchedSpace;
use oriole_hardware::ThroughputClass;

/// The first number for scheduling classes that the published description of ptxas does not have.
const FIRST_OWN_CLASS_NUMBER: u16 = 1024;

/// Defines an enumeration for one column of the class table (`classes.tbl`), with the number and the name of each value.
macro_rules! column {
    ($(#[$meaning:meta])* $name:ident { $($variant:ident = $number:literal $spelling:literal,)* }) => {
        $(#[$meaning])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum $name { $($variant = $number,)* }

        impl $name {
            /// All values of the column.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the name of the value in the class table.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $spelling),* }
            }

            /// Returns the number that encodes the value in a packed descriptor.
            pub fn number(self) -> u8 {
                self as u8
            }

            /// Returns the value with the given name; `None` if there is none.
            pub fn find(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name() == name)
            }

            /// Returns the value with the given number; `None` if there is none.
            pub fn from_number(number: u8) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.number() == number)
            }
        }
    };
}

column! {
    /// The pipe or pipes that can execute an instruction.
    PipeMask { A = 1 "A", B = 2 "B", C = 3 "C", All = 0x1f "all", }
}
column! {
    /// The sub-class: which part of its pipe an instruction uses.
    SubClass { Control = 1 "control", Integer = 2 "integer", Single = 3 "single", Double = 4 "double", Any = 0x1f "any", }
}
column! {
    /// The pipe flags: the sub-unit that an instruction prefers.
    PipeFlags { Narrow = 1 "narrow", Alu = 2 "alu", Memory = 3 "memory", Special = 4 "special", Double = 5 "double", Tensor = 6 "tensor", All = 0x1f "all", }
}

/// The scheduling properties of an instruction class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedDescriptor {
    /// The scheduling class in the hardware model.
    pub class: SchedClass,
    /// The class number: that of the published description of ptxas if it has one, otherwise our own.
    pub class_number: u16,
    /// The row of the latency table: that of the published description of ptxas if it has one, otherwise the index of the class.
    pub latency_index: u16,
    /// Pipes that can execute the instruction.
    pub pipe: PipeMask,
    /// The sub-class: which part of its pipe the instruction uses.
    pub sub_class: SubClass,
    /// The pipe flags: the sub-unit that the instruction prefers.
    pub flags: PipeFlags,
    /// The throughput class, which determines the issue rate.
    pub throughput: ThroughputClass,
    /// The functional unit. Its index is also the index into vectors of busy cycles per unit.
    pub unit: Unit,
    /// The memory space that the instruction accesses. `None` if it accesses no memory.
    pub space: Option<SchedSpace>,
}

/// The error that a scheduling class lacks an attribute that the descriptor needs, or that the attribute has an unknown value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncompleteClass {
    /// Name of the class.
    pub class: &'static str,
    /// Name of the attribute that is missing or has an unknown value.
    pub attribute: &'static str,
}

impl SchedDescriptor {
    /// Returns the scheduling properties of the instructions of a class, or an error if an attribute of the class is missing or unknown.
    pub fn of_class(class: SchedClass) -> Result<SchedDescriptor, IncompleteClass> {
        let lacks = |attribute| IncompleteClass { class: class.name(), attribute };
        let text = |key: &'static str| class.attribute(key).ok_or_else(|| lacks(key));
        let number = |key| class.attribute(key).and_then(|number| number.parse().ok());
        Ok(SchedDescriptor {
            class,
            class_number: number("page").unwrap_or(FIRST_OWN_CLASS_NUMBER + class.index() as u16),
            latency_index: number("index").unwrap_or(class.index() as u16),
            pipe: PipeMask::find(text("pipe")?).ok_or_else(|| lacks("pipe"))?,
            sub_class: SubClass::find(text("sub")?).ok_or_else(|| lacks("sub"))?,
            flags: PipeFlags::find(text("flags")?).ok_or_else(|| lacks("flags"))?,
            throughput: ThroughputClass::of(class),
            unit: class.unit(),
            space: SchedSpace::of_class(class),
        })
    }

    /// Packs the properties into the bit layout of the published description of ptxas. Both scoreboard masks have all bits set.
    pub fn pack(&self) -> PackedDescriptor {
        let mut packed = PackedDescriptor::default();
        packed.set(PackedDescriptor::LATENCY_INDEX, self.latency_index.into());
        packed.set(PackedDescriptor::THROUGHPUT, self.throughput.number().into());
        packed.set(PackedDescriptor::PIPE, self.pipe.number().into());
        packed.set(PackedDescriptor::SUB_CLASS, self.sub_class.number().into());
        packed.set(PackedDescriptor::FLAGS, self.flags.number().into());
        packed
    }
}

/// A bit field of [`PackedDescriptor`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitField {
    /// Position of the lowest bit.
    low: u32,
    /// Number of bits.
    width: u32,
}

impl BitField {
    /// Returns the mask in which the bits of this field are set.
    fn mask(self) -> u64 {
        ((1 << self.width) - 1) << self.low
    }
}

/// A descriptor in the bit layout of the published description of ptxas; see the module comment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PackedDescriptor(pub u64);

/// The default is a descriptor without restrictions: all pipes, sub-classes, sub-units and scoreboards.
impl Default for PackedDescriptor {
    fn default() -> PackedDescriptor {
        let all = [
            PackedDescriptor::PIPE,
            PackedDescriptor::SUB_CLASS,
            PackedDescriptor::FLAGS,
            PackedDescriptor::READ_BARRIERS,
            PackedDescriptor::WRITE_BARRIERS,
        ];
        PackedDescriptor(all.into_iter().fold(0, |bits, field| bits | field.mask()))
    }
}

impl PackedDescriptor {
    /// Field: the row of the latency table, as a number.
    pub(crate) const LATENCY_INDEX: BitField = BitField { low: 0, width: 9 };
    /// Field: the throughput class.
    pub(crate) const THROUGHPUT: BitField = BitField { low: 9, width: 6 };
    /// Field: the pipes that can execute the instruction.
    pub(crate) const PIPE: BitField = BitField { low: 15, width: 5 };
    /// Field: the sub-class, which part of its pipe the instruction uses.
    pub(crate) const SUB_CLASS: BitField = BitField { low: 20, width: 5 };
    /// Field: the pipe flags (the preferred sub-unit).
    pub const FLAGS: BitField = BitField { low: 25, width: 5 };
    /// Field: the set of scoreboards that the instruction may signal when it has read its sources, one bit each.
    pub(crate) const READ_BARRIERS: BitField = BitField { low: 32, width: 5 };
    /// Field: the set of scoreboards that the instruction may signal when its result is written, one bit each.
    pub(crate) const WRITE_BARRIERS: BitField = BitField { low: 37, width: 5 };

    /// Returns the value of a field.
    pub fn get(self, field: BitField) -> u64 {
        (self.0 & field.mask()) >> field.low
    }

    /// Sets a field. Bits of `value` beyond the width of the field are dropped.
    pub fn set(&mut self, field: BitField, value: u64) {
        self.0 = self.0 & !field.mask() | value << field.low & field.mask();
    }

    /// Returns the row of the latency table.
    pub fn latency_index(self) -> u16 {
        self.get(PackedDescriptor::LATENCY_INDEX) as u16
    }

    /// Returns the throughput class; `None` if the field has a value that no class is assigned to.
    pub fn throughput(self) -> Option<ThroughputClass> {
        ThroughputClass::from_number(self.get(PackedDescriptor::THROUGHPUT) as u8)
    }

    /// Returns the pipes; `None` if the field has a value that no set of pipes is assigned to.
    pub fn pipe(self) -> Option<PipeMask> {
        PipeMask::from_number(self.get(PackedDescriptor::PIPE) as u8)
    }

    /// Returns the sub-class: which part of its pipe the instruction uses. `None` if the field has a value that no sub-class is assigned
    /// to.
    pub fn sub_class(self) -> Option<SubClass> {
        SubClass::from_number(self.get(PackedDescriptor::SUB_CLASS) as u8)
    }

    /// Returns the pipe flags (the preferred sub-unit); `None` if the field has a value that no sub-unit is assigned to.
    pub fn flags(self) -> Option<PipeFlags> {
        PipeFlags::from_number(self.get(PackedDescriptor::FLAGS) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_hardware::Classes;
    use oriole_isa::parse;

    /// Returns the descriptor of the class of an instruction that is given as text.
    fn descriptor(text: &str) -> SchedDescriptor {
        SchedDescriptor::of_class(SchedClass::of(&parse(text).unwrap())).unwrap()
    }

    #[test]
    fn every_class_has_a_descriptor() {
        for class in Classes::get().all() {
            let descriptor = SchedDescriptor::of_class(class).unwrap_or_else(|lack| panic!("{lack:?}"));
            let packed = descriptor.pack();
            assert_eq!(packed.latency_index(), descriptor.latency_index, "{}", class.name());
            assert_eq!(packed.throughput(), Some(descriptor.throughput), "{}", class.name());
            let parts = (packed.pipe(), packed.sub_class(), packed.flags());
            assert_eq!(parts, (Some(descriptor.pipe), Some(descriptor.sub_class), Some(descriptor.flags)), "{}", class.name());
        }
    }

    #[test]
    fn own_latency_indices_differ_from_the_description() {
        for class in Classes::get().all().filter(|class| class.attribute("index").is_none()) {
            assert!(SchedDescriptor::of_class(class).unwrap().latency_index < 0xe6, "{}", class.name());
        }
    }

    /// Classes that have no number in the published description of ptxas get numbers of our own, from [`FIRST_OWN_CLASS_NUMBER`] on. All of
    /// them differ.
    #[test]
    fn own_class_numbers_differ_from_the_description() {
        let own = Classes::get().all().filter(|class| class.attribute("page").is_none());
        let mut numbers: Vec<u16> = own.map(|class| SchedDescriptor::of_class(class).unwrap().class_number).collect();
        let count = numbers.len();
        assert!(count > 1 && numbers.iter().all(|&number| number >= FIRST_OWN_CLASS_NUMBER), "{numbers:?}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
    }

    /// Compares single fields with the bit masks that the published description of ptxas prints.
    #[test]
    fn packed_bits_match_the_description() {
        let default = PackedDescriptor::default();
        assert_eq!(default.0 & 0xf_8000, 0xf_8000);
        assert_eq!(default.0 >> 16 & 0x1f0, 0x1f0);
        assert_eq!(default.0 >> 24 & 0x3e, 0x3e);
        assert_eq!(default.0 >> 32 & 0x3ff, 0x3e0 | 0x1f);
        let with = |field, value| {
            let mut packed = PackedDescriptor(0);
            packed.set(field, value);
            packed.0
        };
        assert_eq!(
            [PipeMask::A, PipeMask::B, PipeMask::C].map(|pipe| with(PackedDescriptor::PIPE, pipe.number().into())),
            [0x8000, 0x1_0000, 0x1_8000]
        );
        let subs = [SubClass::Control, SubClass::Integer, SubClass::Single, SubClass::Double];
        assert_eq!(subs.map(|sub| with(PackedDescriptor::SUB_CLASS, sub.number().into()) >> 16), [0x10, 0x20, 0x30, 0x40]);
        let flags = [PipeFlags::Narrow, PipeFlags::Alu, PipeFlags::Memory, PipeFlags::Special, PipeFlags::Double, PipeFlags::Tensor];
        assert_eq!(flags.map(|flag| with(PackedDescriptor::FLAGS, flag.number().into()) >> 24), [2, 4, 6, 8, 0xa, 0xc]);
        assert_eq!(with(PackedDescriptor::LATENCY_INDEX, 0x3ff), 0x1ff);
    }

    /// Compares class numbers, latency indices and pipes of three instructions with the published description of ptxas.
    #[test]
    fn descriptors_match_the_description() {
        let group = descriptor("HGMMA.64x8x16.F32 R24, gdesc[UR8], !UPT");
        assert_eq!((group.class_number, group.latency_index, group.unit, group.flags), (745, 0xf1, Unit::Tensor, PipeFlags::Tensor));
        let jump = descriptor("BRA 0x0");
        assert_eq!((jump.class_number, jump.pipe, jump.sub_class), (130, PipeMask::All, SubClass::Control));
        let compare = descriptor("ISETP.GE.AND P0, PT, R0, R1, PT");
        assert_eq!((compare.class_number, compare.pipe, compare.sub_class, compare.unit), (200, PipeMask::A, SubClass::Integer, Unit::Alu));
    }

    /// In the default descriptor, all five bits of the pipe, sub-class, flags, read-barrier and write-barrier fields are set. Latency index
    /// and throughput class are 0.
    #[test]
    fn the_default_descriptor_allows_all_pipes_and_barriers() {
        assert_eq!(PackedDescriptor::default().0, 0x7fff << 15 | 0x3ff << 32);
        assert_eq!(PackedDescriptor::default().latency_index(), 0);
    }
}
