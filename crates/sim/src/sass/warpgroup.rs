//! Matrix products of a warpgroup: `HGMMA` and `QGMMA` (floats), `IGMMA` (integers), `BGMMA` (bits), and `WARPGROUP`.
//!
//! Each warp computes its 16 rows by itself, at once. A program that waits for the results as it should does not notice; the hazard check
//! reports the others. Shared memory is read when the product is issued.

use oriole_isa::{Opcode, OperandValue, RegFile};
use oriole_sem::format::{BF16, E4M3, E5M2, F16, TF32};
use oriole_sem::int::Int;
use oriole_sem::warpgroup::{Arithmetic, Descriptor, Major, ROWS_PER_WARP, rows_from_registers};

use super::fault::Fault;
use super::memory::matrix::whole_warp;
use super::memory::space::{self, Space};
use super::site::{Operands, Site, suffixes};
use super::step::{Action, Built, UnsupportedInst, access};
use super::tensor::Sparsity;
use super::warp::{LANES, Row, Warp};
use super::world::World;

/// Warps of a warpgroup.
const WARPS: u32 = 4;

/// Builds the action of a warpgroup instruction; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::WARPGROUP => Ok(Action::Nothing),
        opcode if opcode.is_warpgroup_product() => product(site),
        _ => return None,
    })
}

/// A matrix operand in shared memory: the first of its two uniform registers, and its layout.
#[derive(Clone, Copy)]
struct SharedMatrix {
    descriptor: Row,
    major: Major,
}

/// The matrix A.
#[derive(Clone, Copy)]
enum MatrixA {
    Registers(Row),
    Shared(SharedMatrix),
}

/// Returns columns and depth from a modifier such as `.64x128x16`.
fn shape(site: &Site<'_>) -> Option<(usize, usize)> {
    let parse = |text: &str| -> Option<(usize, usize)> {
        let (columns, depth) = text.strip_prefix(".64x")?.split('.').next()?.split_once('x')?;
        Some((columns.parse().ok()?, depth.parse().ok()?))
    };
    site.instruction.modifiers.iter().find_map(|modifier| parse(modifier.spelling()))
}

/// Returns the arithmetic of a product.
fn arithmetic(site: &Site<'_>, negates: bool) -> Option<Arithmetic> {
    let words = || site.instruction.modifiers.iter().flat_map(|modifier| modifier.spelling().split('.'));
    let is_single = site.has(".F32");
    let floats = |formats, bits, unused| Arithmetic::floats(formats, bits, unused, is_single, negates);
    Some(match site.opcode() {
        Opcode::HGMMA if site.has(".TF32") => floats([TF32; 2], 32, 13),
        Opcode::HGMMA if site.has(".BF16") => floats([BF16; 2], 16, 0),
        Opcode::HGMMA => floats([F16; 2], 16, 0),
        Opcode::QGMMA => {
            let mut formats = words().filter_map(|word| match word {
                "E4M3" => Some(E4M3),
                "E5M2" => Some(E5M2),
                _ => None,
            });
            floats([formats.next()?, formats.next()?], 8, 0)
        }
        Opcode::IGMMA => {
            let mut types = words().filter(|word| matches!(*word, "S8" | "U8")).map(|word| Int { bits: 8, signed: word == "S8" });
            Arithmetic::Integer { types: [types.next()?, types.next()?], clamps: site.has(".SAT") }
        }
        _ => Arithmetic::Bits,
    })
}

/// Takes the descriptors: the row of the first uniform register, and the modifiers.
fn descriptors<'s>(operands: &mut Operands<'s>) -> Result<(Row, Vec<&'static str>), UnsupportedInst> {
    let operand = operands.take()?;
    let OperandValue::Address(address) = &operand.value else { return Err(UnsupportedInst("a product without descriptors".into())) };
    let register = address.parts.first().and_then(|part| part.registers.first());
    let Some(register) = register.filter(|register| register.file == RegFile::Uniform) else {
        return Err(UnsupportedInst("a descriptor that is not in uniform registers".into()));
    };
    let names = address.parts.iter().flat_map(|part| part.suffixes.iter().map(|suffix| suffix.spelling())).chain(suffixes(operand));
    Ok((Row::source(register.number), names.collect()))
}

/// Builds the action of a product.
fn product(site: &Site<'_>) -> Built {
    let (columns, depth) = shape(site).ok_or_else(|| site.unsupported("matrices of this shape"))?;
    let is_half = site.has(".F16");
    let count = (columns / if is_half { 4 } else { 2 }) as u16;
    let mut operands = site.operands();
    let is_empty = matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Register(_, None)));
    if is_empty {
        return Ok(Action::Nothing);
    }
    let d = operands.wide_destination(count)?;
    let mut negates = false;
    let is_in_registers = matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Register(..)));
    let registers = if is_in_registers {
        negates ^= operands.peek().is_some_and(|operand| operand.negate);
        Some(operands.rows(4)?)
    } else {
        None
    };
    let (descriptor, names) = descriptors(&mut operands)?;
    let has = |name: &str| names.contains(&name);
    negates ^= has(".negA") != has(".negB");
    let major = |name: &str| if has(name) { Major::Mn } else { Major::K };
    let a = match registers {
        Some(row) => MatrixA::Registers(row),
        None => MatrixA::Shared(SharedMatrix { descriptor, major: major(".tnspA") }),
    };
    let b = SharedMatrix { descriptor: descriptor.plus(2), major: major(".tnspB") };
    let is_zero = matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Register(_, None)));
    let c = operands.rows(count)?;
    let adds = operands.optional_predicate()?;
    let arithmetic = arithmetic(site, negates).ok_or_else(|| site.unsupported("products of these types"))?;
    let bits = arithmetic.element_bits();
    let sparsity = if site.has(".SP") { Some(Sparsity::take(&mut operands, bits, depth)?) } else { None };
    let a_depth = if sparsity.is_some() { depth / 2 } else { depth };
    Ok(access(move |warp, world, mask| {
        whole_warp(warp, mask)?;
        let rows = match a {
            MatrixA::Registers(row) => {
                let registers = std::array::from_fn(|number| *warp.row(row.plus(number as u16)));
                rows_from_registers(&registers, bits)
            }
            MatrixA::Shared(matrix) => {
                let first = (warp.identity.warp % WARPS) as usize * ROWS_PER_WARP;
                vectors(warp, world, matrix, first, ROWS_PER_WARP, a_depth, bits)?
            }
        };
        let positions = sparsity.map(|sparsity| sparsity.positions(warp));
        let columns = vectors(warp, world, b, 0, columns, depth, bits)?;
        let keeps = !is_zero && warp.read_predicate(adds) & 1 == 1;
        let old: Vec<[u32; LANES]> = (0..count).map(|number| if keeps { *warp.row(c.plus(number)) } else { [0; LANES] }).collect();
        let results: Vec<Vec<u32>> = (0..LANES)
            .map(|lane| {
                let old: Vec<u32> = old.iter().map(|register| register[lane]).collect();
                arithmetic.thread_results(lane, &rows, positions.as_ref(), &columns, &old)
            })
            .collect();
        for number in 0..count {
            let values = std::array::from_fn(|lane| results[lane][usize::from(number)]);
            warp.write(d.plus(number), !0, &values);
        }
        Ok(())
    }))
}

/// Reads rows of A or columns of B from shared memory.
fn vectors(
    warp: &mut Warp,
    world: &mut World<'_>,
    matrix: SharedMatrix,
    first: usize,
    count: usize,
    depth: usize,
    bits: usize,
) -> Result<Vec<Vec<u64>>, Fault> {
    let descriptor = Descriptor::decode(warp.uniform_wide(matrix.descriptor));
    descriptor.vectors(matrix.major, first, count, depth, bits, |address| {
        let mut bytes = [0; 16];
        let place = Space::Shared.locate(u64::from(address), world.map);
        space::read(warp, world, 0, place, &mut bytes).map_err(|what| Fault::of(0, what))?;
        Ok(bytes)
    })
}
