//! Registers, occupancy, memory and spills of a function.

use std::collections::BTreeMap;

use oriole_cubin::CubinIndex;
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::section::Content;
use oriole_driver::Decisions;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_isa::{Opcode, OperandValue, RegFile, SystemLayout};

use crate::code::{DecodedFunction, SIZE};
use crate::live::{Liveness, writers};
use crate::model::{Cliff, LiveValue, Memory, Occupancy, Registers, SpillSlot, Spills};

/// Threads per block if the kernel does not declare a number: one warp per scheduler, so that only the registers determine the occupancy.
const ASSUMED_THREADS: u32 = 128;
/// The register with the stack pointer.
const STACK_POINTER: u16 = 1;

/// A function in its file.
pub struct Site<'a> {
    /// The file.
    pub index: &'a CubinIndex<'a>,
    /// The function.
    pub function: &'a oriole_cubin::Function<'a>,
    /// What the compiler recorded; `None` for a cubin.
    pub decisions: Option<&'a Decisions>,
}

impl Site<'_> {
    /// Returns the number of registers of a thread.
    pub fn register_count(&self) -> u32 {
        self.index.register_count(self.function.symbol).unwrap_or(0)
    }

    /// Returns the size of the section with a name.
    fn section_bytes(&self, name: &str) -> u64 {
        self.index.section_named(name).map_or(0, |section| match &section.content {
            Content::NoBits(size) => *size,
            _ => self.index.find(name).and_then(|number| self.index.cubin().bytes_of(number)).map_or(0, |bytes| bytes.len() as u64),
        })
    }

    /// Returns the memory that the function uses.
    pub fn memory(&self) -> Memory {
        let parameter = self.index.function_attributes(self.function.name).iter().find_map(|attribute| match attribute.value {
            AttributeValue::Half(bytes) if attribute.code == AttributeCode::CBANK_PARAM_SIZE => Some(u64::from(bytes)),
            _ => None,
        });
        // From sm_90 on, the section starts with a part that the system reserves.
        let reserved = self.index.cubin().target().map_or(0, |target| SystemLayout::of(target).reserved_shared);
        Memory {
            shared_bytes: self.section_bytes(&format!(".nv.shared.{}", self.function.name)).saturating_sub(reserved.into()),
            local_bytes: self.index.function_value(self.function.symbol, AttributeCode::FRAME_SIZE).unwrap_or(0).into(),
            parameter_bytes: parameter.unwrap_or(0),
            constant_bytes: (2..=4).map(|bank| self.section_bytes(&format!(".nv.constant{bank}"))).sum(),
        }
    }

    /// Returns the launch that the file describes, and whether the number of threads is declared.
    fn launch(&self) -> (LaunchResources, bool) {
        let declared = oriole_rescore::block_threads(self.index.function_attributes(self.function.name));
        let launch = LaunchResources {
            threads: declared.unwrap_or(ASSUMED_THREADS),
            registers: self.register_count(),
            static_shared: u32::try_from(self.memory().shared_bytes).unwrap_or(u32::MAX),
            ..LaunchResources::default()
        };
        (launch, declared.is_some())
    }

    /// Returns the occupancy of a kernel.
    pub fn occupancy(&self, machine: &Machine) -> Option<Occupancy> {
        let (launch, is_declared) = self.launch();
        let occupancy = launch.occupancy(machine).ok().filter(|_| self.function.is_kernel)?;
        Some(Occupancy {
            threads: launch.threads,
            is_declared,
            blocks: occupancy.blocks,
            warps: occupancy.warps,
            occupancy: occupancy.ratio(),
            limited_by: occupancy.limiting().map(|resource| resource.name().to_owned()).collect(),
        })
    }

    /// Returns the registers of the function without what its code says.
    pub fn registers(&self, machine: &Machine) -> Registers {
        let count = self.register_count();
        let (launch, _) = self.launch();
        let cliffs = if self.function.is_kernel { launch.register_cliffs(machine).unwrap_or_default() } else { Vec::new() };
        let cliffs: Vec<Cliff> = cliffs
            .into_iter()
            .map(|cliff| Cliff {
                registers: cliff.most,
                blocks: cliff.blocks,
                warps: cliff.warps,
                occupancy: f64::from(cliff.warps) / f64::from(machine.resident_warps),
            })
            .collect();
        let next_above = cliffs.iter().find(|cliff| cliff.registers >= count).cloned();
        let next_below = cliffs.iter().rfind(|cliff| cliff.registers < count).cloned();
        Registers { count, cliffs, next_above, next_below, ..Registers::default() }
    }

    /// Returns the registers of the function, the point with the most live values, and these values.
    pub fn registers_with_peak(
        &self,
        code: &DecodedFunction<'_>,
        live: &Liveness,
        ptx_lines: &[Option<u32>],
        machine: &Machine,
    ) -> Registers {
        let named = code.accesses.iter().flatten().filter(|access| access.file == RegFile::General).map(|access| access.registers().end);
        let highest = named.max().map(|end| u32::from(end) - 1);
        let peak = (0..code.length).max_by_key(|&number| (live.before[number].len(), std::cmp::Reverse(number)));
        let mut registers = Registers { highest, ..self.registers(machine) };
        if let Some(peak) = peak {
            let value = |register: u16| {
                let written = writers(code, register, peak);
                LiveValue {
                    register: format!("R{register}"),
                    name: self.name_of(register, peak),
                    ptx_line: written.first().and_then(|&number| ptx_lines[number]),
                    written_at: written.iter().map(|&number| (number * SIZE) as u64).collect(),
                }
            };
            registers.peak_live = live.before[peak].len();
            registers.peak_address = Some((peak * SIZE) as u64);
            registers.live_at_peak = live.before[peak].iter().map(value).collect();
        }
        registers
    }

    /// Returns the name of the PTX register that a general register holds before an instruction.
    pub fn name_of(&self, register: u16, number: usize) -> Option<String> {
        let (register, address) = (format!("R{register}"), (number * SIZE) as u32);
        let held = &self.decisions?.registers;
        let start = held.partition_point(|range| range.register < register);
        let mut ranges = held[start..].iter().take_while(|range| range.register == register);
        ranges.find(|range| (range.start..range.end).contains(&address)).map(|range| range.name.clone())
    }

    /// Returns the registers that are kept in local memory.
    pub fn spills(&self, code: &DecodedFunction<'_>, ptx_lines: &[Option<u32>]) -> Spills {
        let mut slots: BTreeMap<i64, SpillSlot> = BTreeMap::new();
        let mut spills = Spills { is_exact: self.decisions.is_some(), ..Spills::default() };
        for number in 0..code.length {
            let Some((is_store, offset, bytes)) = frame_access(code, number) else { continue };
            let address = (number * SIZE) as u64;
            if self.decisions.is_some_and(|decisions| decisions.spill_code.binary_search(&(address as u32)).is_err()) {
                continue;
            }
            let empty = || SpillSlot { offset, name: None, ptx_line: None, stores: Vec::new(), loads: Vec::new(), depth: 0 };
            let slot = slots.entry(offset).or_insert_with(empty);
            slot.depth = slot.depth.max(code.depth_of_inst(number));
            if is_store {
                spills.store_bytes += bytes;
                slot.stores.push(address);
                let register = stored_register(code, number);
                let written = register.map_or_else(Vec::new, |register| writers(code, register, number));
                slot.name = slot.name.take().or_else(|| self.name_of(register?, number));
                slot.ptx_line = slot.ptx_line.or_else(|| ptx_lines[*written.first()?]);
            } else {
                spills.load_bytes += bytes;
                slot.loads.push(address);
            }
        }
        spills.slots = slots.into_values().collect();
        spills
    }
}

/// Returns whether an instruction stores, the offset and the number of bytes, if it accesses the stack frame at a constant offset.
fn frame_access(code: &DecodedFunction<'_>, number: usize) -> Option<(bool, i64, u64)> {
    let instruction = &code.instructions()[number];
    let is_store = match instruction.opcode {
        Opcode::STL => true,
        Opcode::LDL => false,
        _ => return None,
    };
    let address = instruction.operands.iter().find_map(|operand| match &operand.value {
        OperandValue::Address(address) => Some(address),
        _ => None,
    })?;
    let registers = address.parts.iter().flat_map(|part| &part.registers);
    let is_frame = registers.clone().all(|register| register.number.is_none_or(|number| number == STACK_POINTER));
    let offset = address.parts.iter().filter_map(|part| part.offset).sum();
    let bytes = instruction.modifiers.iter().find_map(|modifier| match modifier.spelling() {
        ".128" => Some(16),
        ".64" => Some(8),
        ".U8" | ".S8" => Some(1),
        ".U16" | ".S16" => Some(2),
        _ => None,
    });
    is_frame.then_some((is_store, offset, bytes.unwrap_or(4)))
}

/// Returns the register that a store writes to memory.
fn stored_register(code: &DecodedFunction<'_>, number: usize) -> Option<u16> {
    let instruction = &code.instructions()[number];
    instruction.operands.iter().rev().find_map(|operand| match operand.value {
        OperandValue::Register(RegFile::General, register) => register,
        _ => None,
    })
}
