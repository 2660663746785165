//! PTX types as the generators use them.

use oriole_kernel_test::Element;
use oriole_sem::format;
use oriole_sem::{Format, Int};

/// A PTX type with its spelling in instructions, register declarations and memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ty {
    /// Spelling in instructions, such as `s32`.
    pub name: &'static str,
    /// Spelling in register declarations.
    pub register: &'static str,
    /// Spelling in loads and stores.
    pub memory: &'static str,
    pub element: Element,
    /// Number of elements in one register.
    pub lanes: usize,
}

const fn scalar(name: &'static str, register: &'static str, element: Element) -> Ty {
    Ty { name, register, memory: name, element, lanes: 1 }
}

pub const U8: Ty = scalar("u8", "u16", Element::U8);
pub const S8: Ty = scalar("s8", "s16", Element::S8);
pub const B8: Ty = scalar("b8", "b16", Element::U8);
pub const U16: Ty = scalar("u16", "u16", Element::U16);
pub const S16: Ty = scalar("s16", "s16", Element::S16);
pub const B16: Ty = scalar("b16", "b16", Element::U16);
pub const U32: Ty = scalar("u32", "u32", Element::U32);
pub const S32: Ty = scalar("s32", "s32", Element::S32);
pub const B32: Ty = scalar("b32", "b32", Element::U32);
pub const U64: Ty = scalar("u64", "u64", Element::U64);
pub const S64: Ty = scalar("s64", "s64", Element::S64);
pub const B64: Ty = scalar("b64", "b64", Element::U64);
pub const F32: Ty = scalar("f32", "f32", Element::F32);
pub const F64: Ty = scalar("f64", "f64", Element::F64);
pub const F16: Ty = Ty { name: "f16", register: "b16", memory: "b16", element: Element::F16, lanes: 1 };
pub const BF16: Ty = Ty { name: "bf16", register: "b16", memory: "b16", element: Element::Bf16, lanes: 1 };
pub const F16X2: Ty = Ty { name: "f16x2", register: "b32", memory: "b32", element: Element::F16, lanes: 2 };
pub const BF16X2: Ty = Ty { name: "bf16x2", register: "b32", memory: "b32", element: Element::Bf16, lanes: 2 };
pub const U16X2: Ty = Ty { name: "u16x2", register: "b32", memory: "b32", element: Element::U16, lanes: 2 };
pub const S16X2: Ty = Ty { name: "s16x2", register: "b32", memory: "b32", element: Element::S16, lanes: 2 };

pub const INTEGERS: [Ty; 6] = [U16, S16, U32, S32, U64, S64];

impl Ty {
    pub fn bits(self) -> u32 {
        self.element.bits() * self.lanes as u32
    }

    pub fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    pub fn int(self) -> Int {
        Int { bits: self.element.bits(), signed: self.element.is_signed() }
    }

    /// Returns the float format; panics for integers, which is a bug in a generator.
    pub fn format(self) -> Format {
        self.element.format().expect("a floating-point type")
    }

    pub fn is_float(self) -> bool {
        self.element.format().is_some()
    }

    /// Returns the elements of a register, lowest first.
    pub fn split(self, bits: u64) -> Vec<u64> {
        (0..self.lanes).map(|lane| bits >> (lane as u32 * self.element.bits()) & self.element.mask()).collect()
    }

    /// Joins elements into a register value; the inverse of [`Ty::split`].
    pub fn join(self, elements: &[u64]) -> u64 {
        elements.iter().enumerate().fold(0, |bits, (lane, element)| bits | element << (lane as u32 * self.element.bits()))
    }

    /// Returns the spelling of a constant.
    pub fn literal(self, bits: u64) -> String {
        if self.lanes == 1 && self.element.format() == Some(format::F32) {
            return format!("0f{bits:08x}");
        }
        if self.lanes == 1 && self.element.format() == Some(format::F64) {
            return format!("0d{bits:016x}");
        }
        if self.lanes == 1 && self.element.is_signed() {
            return self.int().value(bits).to_string();
        }
        format!("0x{bits:x}")
    }
}
