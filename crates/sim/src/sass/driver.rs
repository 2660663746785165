//! Functions provided by the CUDA driver: `vprintf`, `malloc`, `free` and `__assertfail`, those for gradients ([`gradient_call`]) and those for
//! copies into other blocks ([`copy_call`]).
//!
//! They follow the calling convention of docs/abi.md: parameters and result from R4 on, return address in R20 and R21. `malloc` returns
//! null when the heap (8 MiB) is exhausted; `free` does nothing.

use super::copy_call;
use super::fault::Fault;
use super::gradient_call;
use super::memory::space::{self, Space};
use super::step::{Action, access};
use super::warp::{Row, Warp, WideSource, lanes_of};
use super::world::World;

/// Register of the first parameter and of the result.
const PARAMETERS: u16 = 4;
/// First of the two registers with the return address.
pub(super) const RETURN_ADDRESS: u16 = 20;
/// Maximum length of a string argument; longer strings are truncated.
const LONGEST_TEXT: u64 = 4096;

/// Returns the action of a driver function; calls of unknown ones fail when executed.
pub(super) fn build(name: &str, registers: u16) -> Action {
    if registers < RETURN_ADDRESS + 2 {
        return Action::Refused(format!("a call of `{name}` from a kernel with {registers} registers"));
    }
    match name {
        "vprintf" => access(|warp, world, mask| {
            let (formats, arguments) = (parameter(warp, 0), parameter(warp, 2));
            for lane in lanes_of(mask) {
                let format = text(warp, world, lane, formats[lane])?;
                let (line, count) = print(warp, world, lane, &format, arguments[lane])?;
                world.printed.push_str(&line);
                warp.write_lane(Row::destination(Some(PARAMETERS)), lane, count);
            }
            Ok(())
        }),
        "malloc" => access(|warp, world, mask| {
            let sizes = parameter(warp, 0);
            for lane in lanes_of(mask) {
                let address = world.memory.allocate_heap(sizes[lane], HEAP_BYTES, HEAP_GARBAGE).unwrap_or(0);
                warp.write_lane(Row::destination(Some(PARAMETERS)), lane, address as u32);
                warp.write_lane(Row::destination(Some(PARAMETERS + 1)), lane, (address >> 32) as u32);
            }
            Ok(())
        }),
        "free" => Action::Nothing,
        "__assertfail" => access(|warp, world, mask| {
            let messages = parameter(warp, 0);
            let lane = super::warp::first(mask);
            let message = text(warp, world, lane, messages[lane])?;
            Err(Fault::of(lane, format!("assertion failed: {message}")))
        }),
        _ => gradient_call::build(name)
            .or_else(|| copy_call::build(name))
            .unwrap_or_else(|| Action::Refused(format!("the driver's function `{name}` is not simulated"))),
    }
}

/// Size of the heap in bytes; the CUDA driver's default.
const HEAP_BYTES: u64 = 8 << 20;
/// Initial value of heap memory.
const HEAP_GARBAGE: u8 = 0x3c;

/// Returns the 64-bit parameter that starts `register` registers after the first one.
fn parameter(warp: &Warp, register: u16) -> [u64; 32] {
    warp.read_wide(WideSource::General(Row::source(Some(PARAMETERS + register))))
}

/// Reads up to 8 bytes at a generic address.
fn read(warp: &mut Warp, world: &mut World<'_>, lane: usize, address: u64, bytes: usize) -> Result<u64, Fault> {
    let mut buffer = [0; 8];
    let place = Space::Generic.locate(address, world.map);
    space::read(warp, world, lane, place, &mut buffer[..bytes]).map_err(|what| Fault::of(lane, what))?;
    Ok(u64::from_le_bytes(buffer))
}

/// Reads the zero-terminated string at an address.
fn text(warp: &mut Warp, world: &mut World<'_>, lane: usize, address: u64) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    for at in 0..LONGEST_TEXT {
        match read(warp, world, lane, address + at, 1)? as u8 {
            0 => break,
            byte => bytes.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Formats a `printf` call; returns the text and the number of arguments.
fn print(warp: &mut Warp, world: &mut World<'_>, lane: usize, format: &str, arguments: u64) -> Result<(String, u32), Fault> {
    let mut out = String::new();
    let mut count = 0;
    let mut at = arguments;
    let mut rest = format;
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic() && !"hlzjt".contains(c) || c == '%') else { break };
        let (options, conversion) = (&rest[..end], rest.as_bytes()[end]);
        rest = &rest[end + 1..];
        if conversion == b'%' {
            out.push('%');
            continue;
        }
        let is_wide = options.contains(['l', 'z', 'j', 't']) || b"sp".contains(&conversion) || b"fFeEgGaA".contains(&conversion);
        let bytes = if is_wide { 8 } else { 4 };
        at = at.next_multiple_of(bytes as u64);
        let value = read(warp, world, lane, at, bytes)?;
        at += bytes as u64;
        count += 1;
        let plain = match conversion {
            b'd' | b'i' if is_wide => (value as i64).to_string(),
            b'd' | b'i' => (value as i32).to_string(),
            b'u' => value.to_string(),
            b'x' => format!("{value:x}"),
            b'X' => format!("{value:X}"),
            b'o' => format!("{value:o}"),
            b'p' => format!("{value:#x}"),
            b'c' => char::from(value as u8).to_string(),
            b's' => text(warp, world, lane, value)?,
            b'e' | b'E' => format!("{:e}", f64::from_bits(value)),
            b'g' | b'G' => f64::from_bits(value).to_string(),
            _ => {
                let digits = options.split_once('.').and_then(|(_, digits)| digits.trim_end_matches(['l', 'h']).parse().ok());
                format!("{:.*}", digits.unwrap_or(6), f64::from_bits(value))
            }
        };
        pad(&mut out, options, &plain);
    }
    out.push_str(rest);
    Ok((out, count))
}

/// Appends `plain`, padded to the field width in `options`.
fn pad(out: &mut String, options: &str, plain: &str) {
    let flags: String = options.chars().take_while(|c| "-+ #0".contains(*c)).collect();
    let digits: String = options[flags.len()..].chars().take_while(char::is_ascii_digit).collect();
    let missing = digits.parse::<usize>().unwrap_or(0).saturating_sub(plain.len());
    let fill = |with: &str| with.repeat(missing);
    match (flags.contains('-'), flags.contains('0')) {
        (true, _) => out.extend([plain, &fill(" ")]),
        (_, true) => {
            let (sign, number) = plain.strip_prefix('-').map_or(("", plain), |number| ("-", number));
            out.extend([sign, &fill("0"), number]);
        }
        _ => out.extend([fill(" ").as_str(), plain]),
    }
}
