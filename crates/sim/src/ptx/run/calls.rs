//! Calls: frames, parameter passing, and the functions that the driver provides.

use super::access::MemoryLocation;
use super::block::PtxBlock;
use super::print::formatted;
use super::warp::{CallFrame, LANES, PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{
    Builtin, CallTarget, Callee, FUNCTION_BASE, FUNCTION_SPACING, FunctionCode, PassedParameter, PtxAction, PtxCall, PtxSpace,
};

/// Maximum call depth of a thread.
const MAX_CALL_DEPTH: usize = 10_000;
/// Maximum local memory per thread in bytes, as on hardware.
pub(crate) const MAX_LOCAL: u64 = 512 << 10;
/// Offset of the first frame in local memory, so that no variable has address zero.
const FIRST_LOCAL: u32 = 16;

/// The bytes of a parameter, copied from one frame to another, each with the mask of its undefined bits.
#[derive(Default)]
struct ParameterBytes {
    bytes: Vec<u8>,
    undefined: Vec<u8>,
}

impl ParameterBytes {
    /// Returns `count` bytes from `first` on as a number.
    fn number(&self, first: usize, count: usize) -> u64 {
        little(&self.bytes, first, count)
    }
}

/// Returns `count` bytes from `first` on as a little-endian number; missing bytes are zero.
fn little(bytes: &[u8], first: usize, count: usize) -> u64 {
    (0..count).rev().fold(0, |value, byte| value << 8 | u64::from(bytes.get(first + byte).copied().unwrap_or(0)))
}

impl PtxWarp {
    /// Makes the frame of a kernel for all threads.
    pub(crate) fn enter_kernel(&mut self, function: &FunctionCode, undefined: bool) {
        for lane in lanes_of(self.live) {
            self.local_top[lane] = FIRST_LOCAL;
            self.locals[lane].bytes.resize(FIRST_LOCAL as usize, 0);
            self.locals[lane].undefined.resize(FIRST_LOCAL as usize, u8::MAX);
            self.enter(lane, function, undefined, 0);
        }
    }

    /// Makes a frame for a function after the thread's last one, with `extra_bytes` more local memory.
    fn enter(&mut self, lane: usize, function: &FunctionCode, undefined: bool, extra_bytes: u32) {
        self.base[lane] = self.top[lane];
        self.top[lane] += function.registers;
        let rows = self.top[lane] as usize * LANES;
        if self.values.len() < rows {
            self.values.resize(rows, 0);
            self.undefined.resize(rows, 0);
        }
        let fill = if undefined { u64::MAX } else { 0 };
        for slot in 0..function.registers {
            self.write_with(slot, lane, 0, fill);
        }
        let start = self.local_top[lane].next_multiple_of(function.frame_align);
        self.local_base[lane] = start;
        self.local_top[lane] = start + function.frame_bytes + extra_bytes;
        self.clear_local(lane, start, undefined);
    }

    /// Marks local memory from `start` to the thread's end as uninitialized.
    fn clear_local(&mut self, lane: usize, start: u32, undefined: bool) {
        let (local, end) = (&mut self.locals[lane], self.local_top[lane] as usize);
        if local.bytes.len() < end {
            local.bytes.resize(end, 0);
            local.undefined.resize(end, 0);
        }
        local.bytes[start as usize..end].fill(0);
        local.undefined[start as usize..end].fill(if undefined { u8::MAX } else { 0 });
    }

    /// Allocates local memory at the end of the thread's; returns its offset.
    pub(crate) fn grow_local(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        bytes: u64,
        align: u32,
        line: u32,
    ) -> Result<u32, Stop> {
        let start = self.local_top[lane].next_multiple_of(align.max(1));
        if u64::from(start).saturating_add(bytes) > MAX_LOCAL {
            let message = format!("{bytes} more bytes of local memory do not fit into {MAX_LOCAL}");
            return Err(machine.stop(FindingKind::StackOverflow, block, self, lane, line, message));
        }
        self.local_top[lane] = start + bytes as u32;
        self.clear_local(lane, start, machine.options.undefined_values);
        Ok(start)
    }

    /// Executes a call for the active threads, which may call different functions.
    pub(crate) fn call(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        call: &PtxCall,
        pc: u32,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let program = machine.program;
        for lane in lanes_of(active) {
            let number = match call.callee {
                Callee::Function(number) => number as usize,
                Callee::Indirect(source) => {
                    if self.read_undefined(source, lane) != 0 {
                        machine.uninitialized(block, self, lane, line, "the address of the called function was never written");
                    }
                    let address = self.read(&machine.pool, source, lane);
                    let number = address.wrapping_sub(FUNCTION_BASE) / FUNCTION_SPACING;
                    if !address.is_multiple_of(FUNCTION_SPACING) || number >= program.functions.len() as u64 {
                        let message = format!("there is no function at {address:#x}");
                        return Err(machine.stop(FindingKind::BadCall, block, self, lane, line, message));
                    }
                    number as usize
                }
            };
            let parcels: Vec<ParameterBytes> = call.arguments.iter().map(|argument| self.collect(machine, lane, *argument)).collect();
            match &program.functions[number] {
                CallTarget::Code(function) => self.call_function(machine, block, lane, function, &parcels, pc, line)?,
                CallTarget::Builtin(builtin) => {
                    let result = self.call_builtin(machine, block, lane, *builtin, &parcels, line)?;
                    if let Some(&place) = call.results.first() {
                        self.deliver(lane, place, &ParameterBytes { bytes: result.to_le_bytes().to_vec(), undefined: vec![0; 8] });
                    }
                }
                CallTarget::Refused { name, error } => {
                    let message = format!("{name} cannot be run: {error}");
                    return Err(machine.stop(FindingKind::BadCall, block, self, lane, line, message));
                }
                CallTarget::Missing(name) => {
                    let message = format!("the function {name} is not defined in this module");
                    return Err(machine.stop(FindingKind::BadCall, block, self, lane, line, message));
                }
            }
        }
        Ok(())
    }

    /// Enters a function: saves the caller's frame, makes a new one, and copies the parameters.
    #[allow(clippy::too_many_arguments)]
    fn call_function(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        function: &FunctionCode,
        parcels: &[ParameterBytes],
        pc: u32,
        line: u32,
    ) -> Result<(), Stop> {
        if parcels.len() != function.parameters.len() || function.kernel.is_some() {
            let message = format!("{} cannot be called with {} parameters", function.name, parcels.len());
            return Err(machine.stop(FindingKind::BadCall, block, self, lane, line, message));
        }
        let top = u64::from(self.local_top[lane]) + u64::from(function.frame_bytes);
        if self.frames[lane].len() >= MAX_CALL_DEPTH || top > MAX_LOCAL {
            let message = format!("{} calls with {top} bytes of local memory are too many", self.frames[lane].len());
            return Err(machine.stop(FindingKind::StackOverflow, block, self, lane, line, message));
        }
        let frame = CallFrame { call: pc, base: self.base[lane], local_base: self.local_base[lane], local_top: self.local_top[lane] };
        self.frames[lane].push(frame);
        // An array parameter of unknown length gets as many bytes as the caller passes.
        let extra: usize = function
            .parameters
            .iter()
            .zip(parcels)
            .filter_map(|(parameter, parcel)| matches!(parameter, PassedParameter::Frame { bytes: 0, .. }).then_some(parcel.bytes.len()))
            .sum();
        self.enter(lane, function, machine.options.undefined_values, extra as u32);
        for (&parameter, parcel) in function.parameters.iter().zip(parcels) {
            self.deliver(lane, parameter, parcel);
        }
        self.pc[lane] = function.entry;
        Ok(())
    }

    /// Copies a parameter out of the thread's current frame.
    fn collect(&self, machine: &LaunchState<'_>, lane: usize, passed: PassedParameter) -> ParameterBytes {
        match passed {
            PassedParameter::Frame { offset, bytes } => {
                let start = (self.local_base[lane] + offset) as usize;
                let (local, end) = (&self.locals[lane], start + bytes as usize);
                ParameterBytes { bytes: local.bytes[start..end].to_vec(), undefined: local.undefined[start..end].to_vec() }
            }
            PassedParameter::Registers { first, count, bytes } => {
                let mut parcel = ParameterBytes::default();
                for number in 0..u32::from(count) {
                    let index = self.index(first + number, lane);
                    parcel.bytes.extend_from_slice(&self.values[index].to_le_bytes()[..usize::from(bytes)]);
                    parcel.undefined.extend_from_slice(&self.undefined[index].to_le_bytes()[..usize::from(bytes)]);
                }
                parcel
            }
            PassedParameter::Value { source, bytes } => {
                let value = self.read(&machine.pool, source, lane);
                let undefined = self.read_undefined(source, lane);
                let cut = |bits: u64| bits.to_le_bytes()[..usize::from(bytes)].to_vec();
                ParameterBytes { bytes: cut(value), undefined: cut(undefined) }
            }
            PassedParameter::Nothing => ParameterBytes::default(),
        }
    }

    /// Copies a parameter into the thread's current frame.
    fn deliver(&mut self, lane: usize, passed: PassedParameter, parcel: &ParameterBytes) {
        match passed {
            PassedParameter::Frame { offset, bytes } => {
                let start = (self.local_base[lane] + offset) as usize;
                let count = if bytes == 0 { parcel.bytes.len() } else { parcel.bytes.len().min(bytes as usize) };
                let local = &mut self.locals[lane];
                local.bytes[start..start + count].copy_from_slice(&parcel.bytes[..count]);
                local.undefined[start..start + count].copy_from_slice(&parcel.undefined[..count]);
            }
            PassedParameter::Registers { first, count, bytes } => {
                let size = usize::from(bytes);
                for number in 0..usize::from(count) {
                    let value = parcel.number(number * size, size);
                    let undefined = little(&parcel.undefined, number * size, size);
                    self.write_with(first + number as u32, lane, value, undefined);
                }
            }
            PassedParameter::Value { .. } | PassedParameter::Nothing => {}
        }
    }

    /// Executes a return; a return from the kernel ends the thread.
    pub(crate) fn ret(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, function: u32, active: u32) -> Result<(), Stop> {
        let program = machine.program;
        let mut exited = 0;
        for lane in lanes_of(active) {
            let Some(frame) = self.frames[lane].pop() else {
                exited |= 1 << lane;
                continue;
            };
            let results = match &program.functions[function as usize] {
                CallTarget::Code(code) => &code.results[..],
                _ => &[],
            };
            let parcels: Vec<ParameterBytes> = results.iter().map(|&result| self.collect(machine, lane, result)).collect();
            self.top[lane] = self.base[lane];
            self.base[lane] = frame.base;
            self.local_base[lane] = frame.local_base;
            self.local_top[lane] = frame.local_top;
            if let PtxAction::Call(call) = &program.code[frame.call as usize].action {
                for (&place, parcel) in call.results.iter().zip(&parcels) {
                    self.deliver(lane, place, parcel);
                }
            }
            self.pc[lane] = frame.call + 1;
        }
        if exited != 0 {
            self.exit(machine, block, exited)?;
        }
        Ok(())
    }

    /// Executes a driver function and returns its result.
    fn call_builtin(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        lane: usize,
        builtin: Builtin,
        parcels: &[ParameterBytes],
        line: u32,
    ) -> Result<u64, Stop> {
        let argument = |number: usize| parcels.get(number).map_or(0, |parcel| parcel.number(0, parcel.bytes.len().min(8)));
        match builtin {
            Builtin::Print => {
                let format = self.text(machine, block, lane, argument(0), line)?;
                let arguments = argument(1);
                let mut position = 0;
                let (text, count) = formatted::<Stop>(&format, |size, is_text| {
                    position = u64::next_multiple_of(position, size);
                    let address = arguments.wrapping_add(position);
                    position += size;
                    let place = MemoryLocation::of(PtxSpace::Generic, address);
                    let (bytes, _) = self.peek(machine, block, lane, place, size as usize, line)?;
                    let value = little(&bytes, 0, size as usize);
                    let string = if is_text { self.text(machine, block, lane, value, line)? } else { Vec::new() };
                    Ok((value, string))
                })?;
                machine.output.push_str(&text);
                Ok(count)
            }
            Builtin::Allocate => {
                let bytes = argument(0);
                let limit = machine.options.heap_bytes.saturating_sub(machine.heap_used);
                if bytes == 0 || bytes > limit {
                    return Ok(0);
                }
                machine.heap_used += bytes;
                let address = machine.memory.allocate("heap", vec![0; bytes as usize]);
                machine.heap.insert(address);
                Ok(address)
            }
            Builtin::Free => {
                let address = argument(0);
                if address != 0 && !machine.heap.remove(&address) {
                    let message = format!("{address:#x} was not allocated, or is free already");
                    return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
                }
                Ok(0)
            }
            Builtin::AssertFail => {
                let [what, file, function] = [argument(0), argument(1), argument(3)]
                    .map(|address| self.text(machine, block, lane, address, line).map(|text| String::from_utf8_lossy(&text).into_owned()));
                let message = format!("{}:{}: {}: assertion failed: {}", file?, argument(2), function?, what?);
                Err(machine.stop(FindingKind::Trap, block, self, lane, line, message))
            }
        }
    }

    /// Reads a zero-terminated string.
    fn text(&self, machine: &mut LaunchState<'_>, block: &PtxBlock, lane: usize, address: u64, line: u32) -> Result<Vec<u8>, Stop> {
        let mut text = Vec::new();
        loop {
            let place = MemoryLocation::of(PtxSpace::Generic, address + text.len() as u64);
            let (bytes, _) = self.peek(machine, block, lane, place, 1, line)?;
            match bytes.first() {
                None | Some(0) => return Ok(text),
                Some(&byte) => text.push(byte),
            }
        }
    }
}
