//! Moves between registers and register files, reads of special registers, packing of predicates.

use oriole_isa::{LaunchLayout, Opcode, OperandValue, SystemLayout};

use super::launch::CLUSTER_SIZE_WORD;
use super::site::Site;
use super::step::{Built, access, compute};
use super::warp::{Destination, LANES, Lanes, PredicateDestination, PredicateSource, Source, lanes_of};
use super::world::World;

/// Builds the action of a move; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::MOV | Opcode::UMOV => mov(site),
        Opcode::R2UR => to_uniform(site),
        Opcode::S2R | Opcode::S2UR => special(site, 1),
        Opcode::CS2R | Opcode::CS2UR => special(site, if site.has(".32") { 1 } else { 2 }),
        Opcode::P2R | Opcode::UP2UR => pack_predicates(site),
        Opcode::R2P | Opcode::UR2UP => unpack_predicates(site),
        Opcode::B2R => barrier_result(site),
        Opcode::LEPC => code_address(site),
        _ => return None,
    })
}

/// Builds `MOV`, of 32 or 64 bits.
fn mov(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    if site.has(".64") {
        let d = operands.wide_destination(2)?;
        let a = operands.wide_input()?.source;
        return Ok(compute(move |warp, mask| {
            let values = warp.read_wide(a);
            warp.write_wide(d, mask, &values);
        }));
    }
    let d = operands.destination()?;
    let a = operands.input()?.source;
    // The last operand selects threads of each quad; only "all four" is supported.
    if operands.left() > 0 && operands.number()? != 0xf {
        return Err(site.unsupported("a move in some threads of each quad"));
    }
    Ok(compute(move |warp, mask| {
        let values = warp.read(a);
        warp.write(d, mask, &values);
    }))
}

/// `R2UR`: the value of the first active thread, or with `.OR` the bitwise or over all active threads.
fn to_uniform(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let is_or = site.has(".OR");
    let agrees = if operands.next_is_predicate() { Some(operands.predicate_destination()?) } else { None };
    if agrees.is_some_and(|place| place != PredicateDestination::new(None, false)) {
        return Err(site.unsupported("a predicate that R2UR writes"));
    }
    let d = operands.destination()?;
    let a = operands.input()?.source;
    Ok(compute(move |warp, mask| {
        let values = warp.read(a);
        if is_or {
            let all = lanes_of(mask).fold(0, |all, lane| all | values[lane]);
            warp.write(d, mask, &[all; LANES]);
        } else {
            warp.write(d, mask, &values);
        }
    }))
}

/// A special register.
#[derive(Clone, Copy)]
enum SassSpecialRegister {
    Zero,
    Lane,
    Thread(usize),
    /// x, y and z packed into one word.
    PackedThread,
    Block(usize),
    /// Mask of the lanes below, equal to and above the reading lane, as selected.
    LaneMask {
        below: bool,
        own: bool,
        above: bool,
    },
    ClockLow,
    ClockHigh,
    TimerLow,
    TimerHigh,
    VirtualId,
    VirtualConfiguration,
    SharedSize,
    SharedWindowHigh,
    SharedWindowLow,
    LocalWindowHigh,
    LocalWindowLow,
    ClusterSize,
    ClusterRank,
}

impl SassSpecialRegister {
    /// Returns the special register with this name; `None` if it is not simulated.
    fn of(name: &str) -> Option<SassSpecialRegister> {
        let mask = |below, own, above| SassSpecialRegister::LaneMask { below, own, above };
        Some(match name {
            // Local memory is one stack that ends at offset 0, so these offsets and sizes are zero.
            "SR_LMEMHIOFF" | "SR_LMEMLOSZ" => SassSpecialRegister::Zero,
            "SRZ" | "SR_VIRTUALSMID" | "SR_GpcLocalCgaId" | "SR_WARPERRORSTATUS" | "SR_GLOBALERRORSTATUS" => SassSpecialRegister::Zero,
            "SR_LANEID" => SassSpecialRegister::Lane,
            "SR_TID" => SassSpecialRegister::PackedThread,
            "SR_TID.X" => SassSpecialRegister::Thread(0),
            "SR_TID.Y" => SassSpecialRegister::Thread(1),
            "SR_TID.Z" => SassSpecialRegister::Thread(2),
            "SR_CTAID.X" => SassSpecialRegister::Block(0),
            "SR_CTAID.Y" => SassSpecialRegister::Block(1),
            "SR_CTAID.Z" => SassSpecialRegister::Block(2),
            "SR_EQMASK" => mask(false, true, false),
            "SR_LTMASK" => mask(true, false, false),
            "SR_LEMASK" => mask(true, true, false),
            "SR_GTMASK" => mask(false, false, true),
            "SR_GEMASK" => mask(false, true, true),
            "SR_CLOCKLO" | "SR_CLOCK" => SassSpecialRegister::ClockLow,
            "SR_CLOCKHI" => SassSpecialRegister::ClockHigh,
            "SR_GLOBALTIMERLO" => SassSpecialRegister::TimerLow,
            "SR_GLOBALTIMERHI" => SassSpecialRegister::TimerHigh,
            "SR_VIRTID" => SassSpecialRegister::VirtualId,
            "SR_VIRTCFG" => SassSpecialRegister::VirtualConfiguration,
            "SR_SMEMSZ" => SassSpecialRegister::SharedSize,
            "SR_SWINHI" => SassSpecialRegister::SharedWindowHigh,
            "SR_SWINLO" => SassSpecialRegister::SharedWindowLow,
            "SR_LWINHI" => SassSpecialRegister::LocalWindowHigh,
            "SR_LWINLO" => SassSpecialRegister::LocalWindowLow,
            "SR_CgaCtaId" => SassSpecialRegister::ClusterRank,
            "SR_CgaSize" => SassSpecialRegister::ClusterSize,
            name if name.starts_with("SR_PM") || name.starts_with("SR_SNAP_PM") => SassSpecialRegister::Zero,
            _ => return None,
        })
    }

    /// Returns the upper half of a 64-bit read.
    fn upper(self) -> SassSpecialRegister {
        match self {
            SassSpecialRegister::ClockLow => SassSpecialRegister::ClockHigh,
            SassSpecialRegister::TimerLow => SassSpecialRegister::TimerHigh,
            SassSpecialRegister::SharedWindowLow => SassSpecialRegister::SharedWindowHigh,
            SassSpecialRegister::LocalWindowLow => SassSpecialRegister::LocalWindowHigh,
            _ => SassSpecialRegister::Zero,
        }
    }

    /// Returns the value for each thread.
    fn values(self, warp: &super::warp::Warp, world: &World<'_>) -> Lanes {
        let identity = &warp.identity;
        // A nanosecond timer that advances by 32 per instruction.
        let timer = world.clock.wrapping_mul(32).wrapping_add(TIMER_START);
        let one = match self {
            SassSpecialRegister::Lane => return std::array::from_fn(|lane| lane as u32),
            SassSpecialRegister::Thread(axis) => return identity.thread[axis],
            SassSpecialRegister::PackedThread => {
                let [x, y, z] = &identity.thread;
                return std::array::from_fn(|lane| x[lane] | y[lane] << 16 | z[lane] << 26);
            }
            SassSpecialRegister::LaneMask { below, own, above } => {
                return std::array::from_fn(|lane| {
                    let bit = 1u32 << lane;
                    let pick = |wanted: bool, mask: u32| if wanted { mask } else { 0 };
                    pick(below, bit - 1) | pick(own, bit) | pick(above, !(bit | (bit - 1)))
                });
            }
            SassSpecialRegister::Zero => 0,
            SassSpecialRegister::Block(axis) => identity.block[axis],
            SassSpecialRegister::ClockLow => world.clock as u32,
            SassSpecialRegister::ClockHigh => (world.clock >> 32) as u32,
            SassSpecialRegister::TimerLow => timer as u32,
            SassSpecialRegister::TimerHigh => (timer >> 32) as u32,
            SassSpecialRegister::VirtualId => identity.warp << 8,
            SassSpecialRegister::VirtualConfiguration => WARPS << 8,
            SassSpecialRegister::SharedSize => {
                let behind = LaunchLayout::of(world.map.target)
                    .reserved_shared_size
                    .filter(|_| SystemLayout::of(world.map.target).reserved_shared == 0);
                world.map.shared_bytes + behind.map_or(0, |offset| world.constants.read(0, offset, 4) as u32)
            }
            SassSpecialRegister::SharedWindowHigh => (world.map.shared_window >> 32) as u32,
            SassSpecialRegister::SharedWindowLow => world.map.shared_window as u32,
            SassSpecialRegister::LocalWindowHigh => (world.map.local_window >> 32) as u32,
            SassSpecialRegister::LocalWindowLow => world.map.local_window as u32,
            SassSpecialRegister::ClusterSize => CLUSTER_SIZE_WORD,
            SassSpecialRegister::ClusterRank => identity.rank,
        };
        [one; LANES]
    }
}

/// Maximum number of warps per multiprocessor.
const WARPS: u32 = 64;
/// Value of the nanosecond timer at the start.
const TIMER_START: u64 = 0x1234_0000_0000;

/// Builds a read of one or two (64-bit) words of a special register.
fn special(site: &Site<'_>, count: u16) -> Built {
    let mut operands = site.operands();
    let d = operands.wide_destination(count)?;
    let OperandValue::Name(name) = operands.take()?.value else {
        return Err(site.unsupported("a special register without a name"));
    };
    let low = SassSpecialRegister::of(name.spelling()).ok_or_else(|| site.unsupported(format!("special register {}", name.spelling())))?;
    Ok(access(move |warp, world, mask| {
        let values = low.values(warp, world);
        warp.write(d, mask, &values);
        if count == 2 {
            let values = low.upper().values(warp, world);
            warp.write(d.plus(1), mask, &values);
        }
        Ok(())
    }))
}

/// Number of writable predicates of a file; predicate `n` is bit `n` of the packed word.
const PREDICATES: u32 = 7;

/// Returns the bit offset of the byte that a modifier or suffix selects.
fn byte_shift(site: &Site<'_>, operands: &super::site::Operands<'_>) -> u32 {
    [(".B1", 8), (".B2", 16), (".B3", 24)]
        .iter()
        .find(|(spelling, _)| site.has(spelling) || operands.last_has(spelling))
        .map_or(0, |&(_, shift)| shift)
}

/// `P2R d, PR, a, mask`: replaces the bits in the mask of one byte of `a` by predicates. Bit 7 stands for `PT`.
fn pack_predicates(site: &Site<'_>) -> Built {
    let is_uniform = site.opcode() == Opcode::UP2UR;
    let mut operands = site.operands();
    let d = operands.destination()?;
    operands.take()?;
    let a = operands.input()?.source;
    let chosen = operands.input()?.source;
    let shift = byte_shift(site, &operands);
    Ok(compute(move |warp, mask| {
        let (a, chosen) = (warp.read(a), warp.read(chosen));
        let predicates: [u32; PREDICATES as usize] =
            std::array::from_fn(|number| warp.read_predicate(PredicateSource::new(Some(number as u8), is_uniform, false)));
        let values: Lanes = std::array::from_fn(|lane| {
            let bits = predicates.iter().enumerate().fold(0x80, |bits, (number, mask)| bits | (mask >> lane & 1) << number);
            let chosen = chosen[lane] & 0xff;
            a[lane] & !(chosen << shift) | (bits & chosen) << shift
        });
        warp.write(d, mask, &values);
    }))
}

/// `R2P PR, a, mask`: sets the predicates in the mask from the bits of one byte of `a`.
fn unpack_predicates(site: &Site<'_>) -> Built {
    let is_uniform = site.opcode() == Opcode::UR2UP;
    let mut operands = site.operands();
    operands.take()?;
    let a = operands.input()?.source;
    let shift = byte_shift(site, &operands);
    let chosen = operands.input()?.source;
    Ok(compute(move |warp, mask| {
        let (a, chosen) = (warp.read(a), warp.read(chosen));
        for number in 0..PREDICATES {
            let place = PredicateDestination::new(Some(number as u8), is_uniform);
            let old = warp.read_predicate(PredicateSource::new(Some(number as u8), is_uniform, false));
            let bits = (0..LANES).fold(0, |bits, lane| {
                let is_chosen = chosen[lane] >> number & 1 == 1;
                bits | if is_chosen { (a[lane] >> shift >> number & 1) << lane } else { old & 1 << lane }
            });
            warp.write_predicate(place, mask, bits);
        }
    }))
}

/// `B2R.RESULT d, p`: returns the result of the last reduction at a block barrier.
fn barrier_result(site: &Site<'_>) -> Built {
    if !site.has(".RESULT") {
        return Err(site.unsupported("the state of a barrier"));
    }
    let mut operands = site.operands();
    let d = operands.destination()?;
    let p = operands.predicate_destination()?;
    Ok(compute(move |warp, mask| {
        let result = warp.barrier_result;
        warp.write(d, mask, &[result; LANES]);
        warp.write_predicate(p, mask, if result != 0 { !0 } else { 0 });
    }))
}

/// `LEPC d [, label]`: returns the address of the instruction itself, or of a label.
fn code_address(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let d: Destination = operands.wide_destination(2)?;
    let address = match operands.peek().map(|operand| &operand.value) {
        None => site.address,
        Some(OperandValue::Relative(distance)) => site.next().wrapping_add_signed(*distance),
        Some(other) => return Err(site.unsupported(format!("the address of {other:?}"))),
    };
    let (low, high) = (Source::Immediate(address as u32), Source::Immediate((address >> 32) as u32));
    Ok(compute(move |warp, mask| {
        let (low, high) = (warp.read(low), warp.read(high));
        warp.write(d, mask, &low);
        warp.write(d.plus(1), mask, &high);
    }))
}
