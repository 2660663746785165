//! Matrices of `wmma` between memory and the registers of a warp.
//!
//! The manual leaves open which thread holds which element. This interpreter distributes the elements like the machine code of ptxas: as
//! `mma.sync` wants them, for products of at most 16 rows and 8 columns. `mma.rs` describes one such product; here its parts follow each
//! other.

use super::access::little;
use super::block::PtxBlock;
use super::races::SharedAccess;
use super::warp::{LANES, PtxWarp};
use super::{LaunchState, Stop};
use crate::ptx::program::{FragmentMove, MatrixRole, PtxAddress, WmmaFragment};

impl WmmaFragment {
    /// Returns the number of elements in a register.
    fn per_register(&self) -> usize {
        (32 / self.element_bits).max(1)
    }

    /// Returns row and column of an element of a register.
    fn position(&self, lane: usize, register: usize, element: usize) -> [usize; 2] {
        let (group, place) = (lane / 4, lane % 4);
        let count = self.per_register();
        let operand = |height: usize| {
            let tall = height / 8;
            let per_part = tall * self.depth / (4 * count);
            let (part, within) = (register / per_part, register % per_part);
            (group + height * part + 8 * (within % tall), count * (place + 4 * (within / tall)) + element)
        };
        let (across, along) = match self.role {
            MatrixRole::First { lines } => operand(lines.min(16)),
            MatrixRole::Second => operand(8),
            MatrixRole::Sum { lines } => {
                let tall = lines.min(16) / 8;
                let number = register * count + element;
                let (part, within) = (number / (2 * tall), number % (2 * tall));
                // The parts of 32 lines are below each other, those of 16 side by side.
                let (below, beside) = if lines == 32 { (16 * part, 0) } else { (0, 8 * part) };
                (group + below + 8 * (within / 2), 2 * place + within % 2 + beside)
            }
        };
        if self.lines_are_rows { [across, along] } else { [along, across] }
    }
}

impl PtxWarp {
    /// Executes `wmma.load` or `wmma.store`; all 32 threads must be active.
    pub(crate) fn move_fragment(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        action: &FragmentMove,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        self.require_all_lanes(machine, block, active, line)?;
        let fragment = &action.fragment;
        let bits = fragment.element_bits;
        let bytes = bits.div_ceil(8);
        for lane in 0..LANES {
            let stride = self.read(&machine.pool, action.stride, lane) as usize & 0xffff_ffff;
            let mut loaded: Vec<[u64; 2]> = vec![[0; 2]; fragment.registers];
            for (register, loaded) in loaded.iter_mut().enumerate() {
                for element in 0..fragment.per_register() {
                    let [row, column] = fragment.position(lane, register, element);
                    let index = if action.is_row_major { row * stride + column } else { column * stride + row };
                    let offset = action.address.offset.wrapping_add((index * bits / 8) as i64);
                    let place = self.place(machine, block, lane, &PtxAddress { offset, ..action.address }, line);
                    let shift = element * bits;
                    if let Some(&source) = action.sources.get(register) {
                        let value = (self.read(&machine.pool, source, lane) >> shift).to_le_bytes();
                        let unknown = (self.read_undefined(source, lane) >> shift).to_le_bytes();
                        if block.races.is_some() {
                            let access = SharedAccess { thread: self.thread(lane), line, strong: false, is_write: true };
                            self.check_race(machine, block, lane, place, access, &value[..bytes]);
                        }
                        self.poke(machine, block, lane, place, bytes, line, |byte| Some((value[byte], unknown[byte])))?;
                        continue;
                    }
                    let (contents, undefined) = self.peek(machine, block, lane, place, bytes, line)?;
                    if block.races.is_some() {
                        let access = SharedAccess { thread: self.thread(lane), line, strong: false, is_write: false };
                        self.check_race(machine, block, lane, place, access, &contents);
                    }
                    // Elements of less than a byte are taken out of theirs.
                    let within = index * bits % 8;
                    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                    for (register, bytes) in loaded.iter_mut().zip([contents, undefined]) {
                        *register |= (little(&bytes) >> within & mask) << shift;
                    }
                }
            }
            for (number, &destination) in action.destinations.iter().enumerate() {
                let [value, unknown] = loaded[number % loaded.len()];
                self.write_with(destination, lane, value, unknown);
            }
        }
        Ok(())
    }
}
