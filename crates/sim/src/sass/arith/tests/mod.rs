//! Tests of single instructions: the text is encoded, decoded, built and executed on a warp. Expected results come from `oriole_sem` or
//! from explicit arithmetic.

mod convert;
mod float;
mod integer;

use oriole_isa::{Target, decode, encode, parse};

use super::build;
use crate::sass::constants::ConstantBanks;
use crate::sass::site::Site;
use crate::sass::step::{Action, UnsupportedInst};
use crate::sass::warp::{Destination, PredicateDestination, PredicateSource, Row, Source, ThreadIndices, Warp};

/// A warp, and the target whose encodings it executes.
pub struct Machine {
    target: Target,
    warp: Warp,
}

pub const HOPPER: &str = "sm_90a";
pub const BLACKWELL: &str = "sm_100a";
pub const CONSUMER: &str = "sm_120a";
pub const AMPERE: &str = "sm_80";

impl Machine {
    pub fn new(target: &str) -> Machine {
        Machine {
            target: Target::parse(target).expect("a target"),
            warp: Warp::new(64, ThreadIndices { threads: !0, ..ThreadIndices::default() }),
        }
    }

    /// Makes a machine with registers `R1`, `R2`, ... set in all lanes.
    pub fn with(target: &str, registers: &[u32]) -> Machine {
        let mut machine = Machine::new(target);
        for (number, &value) in (1..).zip(registers) {
            machine.set(number, value);
        }
        machine
    }

    pub fn set(&mut self, number: u16, value: u32) {
        self.warp.write(Destination::General(Row::destination(Some(number))), !0, &[value; 32]);
    }

    pub fn set_uniform(&mut self, number: u16, value: u32) {
        self.warp.write(Destination::Uniform(Row::destination(Some(number))), !0, &[value; 32]);
    }

    pub fn set_predicate(&mut self, number: u8, value: bool) {
        self.warp.write_predicate(PredicateDestination::new(Some(number), false), !0, if value { !0 } else { 0 });
    }

    pub fn try_run(&mut self, text: &str) -> Result<(), UnsupportedInst> {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let word = encode(&parsed, self.target).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let instruction = decode(word, self.target).expect("what was encoded can be decoded");
        let constants = ConstantBanks::default();
        let site = Site { instruction: &instruction, target: self.target, address: 0, section: 0, constants: &constants, registers: 64 };
        let action = build(&site).unwrap_or_else(|| panic!("{text}: no family takes it"))?;
        let Action::Compute(compute) = action else { panic!("{text}: not a computation") };
        compute(&mut self.warp, !0);
        Ok(())
    }

    pub fn run(&mut self, text: &str) -> &mut Machine {
        self.try_run(text).unwrap_or_else(|error| panic!("{text}: {}", error.0));
        self
    }

    pub fn get(&self, number: u16) -> u32 {
        self.warp.read(Source::General(Row::source(Some(number))))[5]
    }

    pub fn get_wide(&self, number: u16) -> u64 {
        u64::from(self.get(number)) | u64::from(self.get(number + 1)) << 32
    }

    pub fn get_uniform(&self, number: u16) -> u32 {
        self.warp.read(Source::Uniform(Row::source(Some(number))))[0]
    }

    pub fn get_predicate(&self, number: u8) -> bool {
        self.warp.read_predicate(PredicateSource::new(Some(number), false, false)) >> 5 & 1 == 1
    }
}

/// Returns `R0` after executing an instruction with these values in `R1`, `R2`, ...
pub fn eval(text: &str, registers: &[u32]) -> u32 {
    eval_on(HOPPER, text, registers)
}

pub fn eval_on(target: &str, text: &str, registers: &[u32]) -> u32 {
    Machine::with(target, registers).run(text).get(0)
}

/// Returns whether the simulator rejects an instruction.
pub fn is_refused(target: &str, text: &str) -> bool {
    Machine::new(target).try_run(text).is_err()
}

/// Boundary values and some ordinary ones.
pub const WORDS: [u32; 14] =
    [0, 1, 2, 31, 32, 0x7f, 0x80, 0xffff, 0x1234_5678, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xdead_beef, 0xffff_ffff];
