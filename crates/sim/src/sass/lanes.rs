//! Operations across the threads of a warp. Only the active threads of the group take part.

use oriole_isa::{Opcode, OperandValue, RegFile};
use oriole_sem::float::{Extreme, ExtremeMode, min_max};
use oriole_sem::format::F32;
use oriole_sem::warp::{Shuffle, shuffle};

use super::memory::matrix;
use super::site::Site;
use super::step::{Built, compute, mask_of};
use super::warp::{GARBAGE, LANES, Lanes, first, lanes_of};

/// Builds the action of an operation across threads; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::SHFL => shuffle_lanes(site),
        Opcode::VOTE | Opcode::VOTEU => vote(site),
        Opcode::MATCH => match_lanes(site),
        Opcode::REDUX => reduce(site),
        Opcode::CREDUX => reduce_extreme(site),
        Opcode::ELECT => elect(site),
        Opcode::MOVM => matrix::transpose(site),
        _ => return None,
    })
}

/// `SHFL.mode p, d, a, b, c`
fn shuffle_lanes(site: &Site<'_>) -> Built {
    let modes = [(".IDX", Shuffle::Index), (".UP", Shuffle::Up), (".DOWN", Shuffle::Down), (".BFLY", Shuffle::Butterfly)];
    let mode = site.one_of(&modes).ok_or_else(|| site.unsupported("this mode"))?;
    let mut operands = site.operands();
    let p = operands.predicate_destination()?;
    let d = operands.destination()?;
    let [a, b, c] = [operands.input()?.source, operands.input()?.source, operands.input()?.source];
    Ok(compute(move |warp, mask| {
        let (a, b, c) = (warp.read(a), warp.read(b), warp.read(c));
        let sources: [(u32, bool); LANES] = std::array::from_fn(|lane| shuffle(mode, lane as u32, b[lane], c[lane]));
        // Reading from an inactive thread is undefined: return garbage.
        let value = |source: usize| if mask >> source & 1 == 1 { a[source] } else { GARBAGE };
        let values: Lanes = std::array::from_fn(|lane| value(sources[lane].0 as usize % LANES));
        warp.write(d, mask, &values);
        warp.write_predicate(p, mask, mask_of(|lane| sources[lane].1));
    }))
}

/// `VOTE.how d, p, q`: `d` is the mask of threads whose `q` is true; `p` is whether all, any, or all-or-none of them are.
fn vote(site: &Site<'_>) -> Built {
    let how = site.one_of(&[(".ALL", 0), (".ANY", 1), (".EQ", 2)]).ok_or_else(|| site.unsupported("this vote"))?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    let p = operands.predicate_destination()?;
    let q = operands.predicate()?;
    Ok(compute(move |warp, mask| {
        let ballot = warp.read_predicate(q) & mask;
        let holds = match how {
            0 => ballot == mask,
            1 => ballot != 0,
            _ => ballot == mask || ballot == 0,
        };
        warp.write(d, mask, &[ballot; LANES]);
        warp.write_predicate(p, mask, if holds { !0 } else { 0 });
    }))
}

/// `MATCH.ANY d, a`: the mask of threads with the same value. `MATCH.ALL p, d, a`: the mask of all threads if all values are equal, else 0.
fn match_lanes(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let is_wide = site.has(".U64");
    let p = if site.has(".ALL") { Some(operands.predicate_destination()?) } else { None };
    let d = operands.destination()?;
    let (narrow, wide) = {
        let mut again = operands.clone();
        if is_wide { (None, Some(again.wide_input()?.source)) } else { (Some(again.input()?.source), None) }
    };
    Ok(compute(move |warp, mask| {
        let values: [u64; LANES] = match (narrow, wide) {
            (_, Some(source)) => warp.read_wide(source),
            (Some(source), _) => warp.read(source).map(u64::from),
            (None, None) => [0; LANES],
        };
        let same = |lane: usize| lanes_of(mask).filter(|&other| values[other] == values[lane]).fold(0, |mask, other| mask | 1 << other);
        match p {
            Some(p) => {
                let is_same = same(first(mask)) == mask;
                warp.write(d, mask, &[if is_same { mask } else { 0 }; LANES]);
                warp.write_predicate(p, mask, if is_same { !0 } else { 0 });
            }
            None => {
                let masks: Lanes = std::array::from_fn(same);
                warp.write(d, mask, &masks);
            }
        }
    }))
}

/// `REDUX d, a`: combines the values of all active threads.
fn reduce(site: &Site<'_>) -> Built {
    let is_signed = site.has(".S32");
    let operation: fn(u32, u32) -> u32 = match site.one_of(&[(".OR", 1), (".XOR", 2), (".SUM", 3), (".MIN", 4), (".MAX", 5)]).unwrap_or(0) {
        0 => |a, b| a & b,
        1 => |a, b| a | b,
        2 => |a, b| a ^ b,
        3 => u32::wrapping_add,
        4 if is_signed => |a, b| (a as i32).min(b as i32) as u32,
        5 if is_signed => |a, b| (a as i32).max(b as i32) as u32,
        4 => u32::min,
        _ => u32::max,
    };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let a = operands.input()?.source;
    Ok(compute(move |warp, mask| {
        let values = warp.read(a);
        let all = lanes_of(mask).map(|lane| values[lane]).reduce(operation).unwrap_or(0);
        warp.write(d, mask, &[all; LANES]);
    }))
}

/// `CREDUX d, a`: the minimum or maximum over all active threads.
fn reduce_extreme(site: &Site<'_>) -> Built {
    let is_max = site.has(".MAX") || site.has(".MAXABS");
    let absolute = site.has(".MAXABS") || site.has(".MINABS");
    let mut operands = site.operands();
    let d = operands.destination()?;
    let a = operands.input()?.source;
    let (is_float, is_signed, nan) = (site.has(".F32"), site.has(".S32"), site.has(".NAN"));
    if absolute && !is_float {
        return Err(site.unsupported("absolute values of integers"));
    }
    let which = if is_max { Extreme::Max } else { Extreme::Min };
    let mode = ExtremeMode { nan, ..ExtremeMode::default() };
    let choose = move |a: u32, b: u32| match (is_float, is_signed, is_max) {
        (true, ..) => min_max(F32, which, u64::from(a), u64::from(b), mode) as u32,
        (_, true, true) => (a as i32).max(b as i32) as u32,
        (_, true, false) => (a as i32).min(b as i32) as u32,
        (_, _, true) => a.max(b),
        (_, _, false) => a.min(b),
    };
    Ok(compute(move |warp, mask| {
        let values = warp.read(a).map(|value| if absolute { value & 0x7fff_ffff } else { value });
        let all = lanes_of(mask).map(|lane| values[lane]).reduce(choose).unwrap_or(0);
        warp.write(d, mask, &[all; LANES]);
    }))
}

/// `ELECT p, d, q`: elects the first thread whose predicate is true, or that is in a mask; `p` is true for that thread only.
fn elect(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let p = operands.predicate_destination()?;
    let d = operands.destination()?;
    let by_mask = matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Register(RegFile::Uniform, _)));
    let (mask_source, predicate) = if by_mask { (Some(operands.input()?), None) } else { (None, Some(operands.predicate()?)) };
    Ok(compute(move |warp, mask| {
        let candidates = match (mask_source, predicate) {
            (Some(input), _) => {
                let value = warp.read(input.source)[0];
                mask & if input.invert { !value } else { value }
            }
            (_, Some(predicate)) => mask & warp.read_predicate(predicate),
            (None, None) => 0,
        };
        let leader = if candidates == 0 { 0 } else { 1 << first(candidates) };
        warp.write(d, mask, &[first(candidates) as u32; LANES]);
        warp.write_predicate(p, mask, leader);
    }))
}
