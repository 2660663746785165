//! Generates tests of the less usual tensor copies: columns of pixels (`.im2col`), interleaved layouts, rows shorter than the swizzle
//! pattern, NaN outside of the tensor, rounding to `tf32`, and reductions (`cp.reduce.async.bulk.tensor`).
//!
//! The expected words come from a model of its own here, which agrees with what an H200 does.

use oriole_kernel_test::{Conversion, Element, Expected, Fill, Region, Source, TensorMap, Tolerance};
use oriole_sem::Mode;
use oriole_sem::float::{self, Extreme, ExtremeMode};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{BF16, F16, F32, F64, S32, S64, Ty, U32, U64};

const FAMILY: &str = "tma";
/// Words of shared memory that a load test compares.
pub(crate) const AREA_WORDS: usize = 1024;
/// What these words are before the load.
pub(crate) const UNTOUCHED: u64 = 0xeeee_eeee;

/// A map, the coordinates of a copy, and its offsets.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) map: TensorMap,
    pub(crate) at: &'static [i32],
    pub(crate) offsets: &'static [u32],
}

/// Shorthand for a case with boxes of words.
pub(crate) fn boxes(name: &'static str, sizes: &[u64], box_sizes: &[u32], at: &'static [i32]) -> Case {
    Case { name, map: TensorMap::of_boxes(Element::U32, sizes, box_sizes, "a"), at, offsets: &[] }
}

/// Shorthand for a case with columns of words, of a number of channels and pixels, between two corners.
fn columns(
    name: &'static str,
    sizes: &[u64],
    (channels, pixels): (u32, u32),
    corners: [&[i32]; 2],
    at: &'static [i32],
    offsets: &'static [u32],
) -> Case {
    let region = Region::Columns { channels, pixels, lower: corners[0].to_vec(), upper: corners[1].to_vec() };
    Case { name, map: TensorMap { region, ..TensorMap::of_boxes(Element::U32, sizes, &[], "a") }, at, offsets }
}

impl Case {
    pub(crate) fn swizzle(mut self, bytes: u32) -> Case {
        self.map.swizzle = bytes;
        self
    }

    pub(crate) fn interleave(mut self, bytes: u32) -> Case {
        self.map.interleave = bytes;
        self
    }

    pub(crate) fn steps(mut self, steps: &[u32]) -> Case {
        self.map.steps = steps.to_vec();
        self
    }

    pub(crate) fn element(mut self, element: Element) -> Case {
        self.map.element = element;
        self
    }

    pub(crate) fn nan(mut self, element: Element) -> Case {
        self.map.fills_with_nan = true;
        self.element(element)
    }

    fn convert(mut self, conversion: Conversion) -> Case {
        self.map.conversion = conversion;
        self.element(Element::F32)
    }
}

#[rustfmt::skip]
fn load_cases() -> Vec<Case> {
    vec![
        boxes("narrow_swizzle_128", &[64, 8, 4], &[12, 3, 3], &[4, 1, 1]).swizzle(128),
        boxes("narrow_swizzle_64", &[64, 8], &[4, 6], &[8, 4]).swizzle(64),
        boxes("narrow_swizzle_32", &[64, 8], &[4, 8], &[60, 0]).swizzle(32),
        boxes("interleave_16_3d", &[10, 3, 4], &[8, 1, 2], &[1, 1, 1]).interleave(16),
        boxes("interleave_16_3d_end", &[10, 3, 4], &[8, 3, 2], &[5, 2, 3]).interleave(16),
        boxes("interleave_16_4d", &[6, 5, 3, 2], &[4, 3, 1, 2], &[1, 1, 1, 0]).interleave(16),
        boxes("interleave_16_4d_step", &[12, 5, 3, 2], &[8, 3, 1, 2], &[2, 1, 1, 0]).interleave(16).steps(&[2, 2, 1, 1]),
        boxes("interleave_16_5d", &[6, 5, 4, 2, 2], &[4, 3, 2, 1, 2], &[-1, 3, 1, 1, 0]).interleave(16),
        boxes("interleave_16_no_slice", &[8, 3, 4], &[8, 1, 2], &[0, -1, 1]).interleave(16),
        boxes("interleave_16_u16", &[10, 3, 4], &[8, 1, 2], &[1, 1, 1]).interleave(16).element(Element::U16),
        boxes("interleave_32_3d", &[10, 3, 4], &[8, 1, 2], &[1, 1, 1]).interleave(32).swizzle(32),
        boxes("interleave_32_4d", &[6, 5, 3, 2], &[8, 3, 1, 2], &[1, 3, 1, 1]).interleave(32).swizzle(32),
        boxes("interleave_32_plain", &[6, 5, 3, 2], &[8, 3, 1, 1], &[2, 1, 2, 1]).interleave(32),
        boxes("nan_f32", &[16, 8], &[16, 4], &[8, 6]).nan(Element::F32),
        boxes("nan_f16", &[32, 8], &[16, 4], &[24, -2]).nan(Element::F16),
        boxes("nan_bf16", &[32, 8], &[16, 4], &[24, -2]).nan(Element::Bf16),
        boxes("nan_f64", &[16, 8], &[8, 4], &[12, 6]).nan(Element::F64),
        boxes("ftz", &[128, 2], &[128, 2], &[0, 0]).convert(Conversion::Flush),
        boxes("tf32", &[128, 2], &[128, 2], &[0, 0]).convert(Conversion::Tf32),
        boxes("tf32_ftz", &[128, 2], &[128, 2], &[4, 0]).convert(Conversion::Tf32Flush),
        columns("im2col_3d", &[16, 7, 3], (16, 9), [&[0], &[0]], &[0, 2, 0], &[0]),
        columns("im2col_3d_offset", &[16, 7, 3], (8, 9), [&[-2], &[-1]], &[8, -1, 1], &[3]),
        columns("im2col_3d_end", &[16, 7, 3], (8, 17), [&[-1], &[1]], &[8, 3, 1], &[1]),
        columns("im2col_3d_step", &[16, 7, 3], (8, 9), [&[0], &[0]], &[4, 1, 0], &[0]).steps(&[1, 3, 2]),
        columns("im2col_4d", &[16, 5, 4, 2], (16, 20), [&[0, 0], &[0, 0]], &[0, 2, 1, 0], &[0, 0]),
        columns("im2col_4d_filter", &[16, 5, 4, 2], (16, 20), [&[-1, -1], &[-1, -1]], &[0, -1, -1, 0], &[2, 1]),
        columns("im2col_4d_end", &[16, 5, 4, 2], (16, 33), [&[-1, 0], &[0, -1]], &[0, 3, 2, 1], &[1, 1]),
        columns("im2col_4d_step", &[16, 5, 6, 2], (8, 12), [&[0, -1], &[0, -1]], &[8, 0, -1, 0], &[0, 2]).steps(&[1, 2, 3, 1]),
        columns("im2col_4d_swizzle_64", &[16, 5, 4, 2], (16, 20), [&[-1, -1], &[-1, -1]], &[0, 0, 0, 0], &[1, 2]).swizzle(64),
        columns("im2col_4d_swizzle_128", &[16, 5, 4, 2], (8, 12), [&[-1, -1], &[-1, -1]], &[4, 0, 0, 0], &[1, 2]).swizzle(128),
        columns("im2col_4d_u16", &[32, 5, 4, 2], (16, 12), [&[-1, -1], &[-1, -1]], &[8, 1, 1, 1], &[0, 1]).element(Element::U16),
        columns("im2col_4d_u8", &[64, 5, 4, 2], (32, 12), [&[-1, -1], &[-1, -1]], &[16, 1, 1, 1], &[2, 0]).element(Element::U8),
        columns("im2col_5d", &[8, 4, 3, 3, 2], (8, 33), [&[-1, -1, -1], &[-1, -1, -1]], &[0, 0, 1, -1, 0], &[1, 2, 1]),
        columns("im2col_5d_end", &[8, 4, 3, 3, 2], (8, 50), [&[0, -1, 1], &[1, 0, 0]], &[4, 2, 1, 2, 1], &[0, 1, 0]),
        columns("im2col_nan", &[16, 5, 4, 2], (16, 20), [&[-1, -1], &[-1, -1]], &[0, -1, -1, 0], &[0, 1]).nan(Element::F32),
        columns("im2col_interleave_16_4d", &[6, 5, 3, 2], (4, 12), [&[-1, -1], &[-1, -1]], &[1, 0, 2, 0], &[1, 1]).interleave(16),
        columns("im2col_interleave_32_4d", &[6, 5, 3, 2], (8, 12), [&[0, -1], &[-1, -1]], &[1, 0, 1, 1], &[1, 0]).interleave(32).swizzle(32),
        columns("im2col_interleave_16_3d", &[9, 3, 2], (4, 12), [&[-1], &[1]], &[3, 1, 0], &[1]).interleave(16),
    ]
}

#[rustfmt::skip]
fn store_cases() -> Vec<Case> {
    vec![
        boxes("narrow_swizzle_128", &[64, 8, 4], &[12, 3, 3], &[4, 1, 1]).swizzle(128),
        boxes("interleave_16_4d", &[6, 5, 3, 2], &[4, 3, 1, 2], &[3, 1, 1, 0]).interleave(16),
        boxes("interleave_32_3d", &[10, 3, 4], &[8, 1, 2], &[1, 1, 1]).interleave(32).swizzle(32),
        columns("im2col_3d", &[16, 7, 3], (8, 9), [&[0], &[0]], &[8, 4, 1], &[]),
        columns("im2col_4d", &[16, 5, 4, 2], (16, 20), [&[0, 0], &[-1, -1]], &[0, 2, 1, 0], &[]),
        columns("im2col_4d_end", &[16, 5, 4, 2], (16, 20), [&[0, 0], &[0, 0]], &[8, 3, 3, 1], &[]),
        columns("im2col_5d", &[8, 4, 3, 3, 2], (8, 33), [&[0, 0, 0], &[0, -1, -1]], &[0, 3, 1, 1, 0], &[]),
    ]
}

/// A byte of shared memory that a copy moves: its offset there, and its offset in the tensor, if it is inside.
pub(crate) type Moved = Vec<(usize, Option<usize>)>;

impl Case {
    /// Returns the bytes of a pixel slice or element.
    fn unit(&self) -> usize {
        if self.map.interleave == 0 { self.map.element.bytes() } else { self.map.interleave as usize }
    }

    /// Returns all coordinates of the units that the copy moves, row by row.
    fn rows(&self) -> Vec<Vec<Vec<i64>>> {
        let rank = self.map.sizes.len();
        let at: Vec<i64> = self.at.iter().map(|&at| i64::from(at)).collect();
        let step = |d: usize| i64::from(self.map.steps[d]);
        match &self.map.region {
            Region::Box(sizes) => {
                let is_slice = |d: usize| self.map.interleave != 0 && d == rank - 2;
                let count = |d: usize| if is_slice(d) { 1 } else { i64::from(sizes[d].div_ceil(self.map.steps[d])) };
                let mut rows = vec![at];
                for d in 1..rank {
                    let shifted = |row: &[i64], number: i64| {
                        let mut row = row.to_vec();
                        row[d] += number * step(d);
                        row
                    };
                    rows = (0..count(d)).flat_map(|number| rows.iter().map(|row| shifted(row, number)).collect::<Vec<_>>()).collect();
                }
                let units =
                    |row: Vec<i64>| (0..count(0)).map(|number| [&[row[0] + number * step(0)], &row[1..]].concat()).collect::<Vec<_>>();
                rows.into_iter().map(units).collect()
            }
            Region::Columns { channels, pixels, lower, upper } => {
                let first = usize::from(self.map.interleave == 0);
                let mut at = at;
                let mut rows = Vec::new();
                for _ in 0..*pixels {
                    let mut pixel = at.clone();
                    for (number, &offset) in self.offsets.iter().enumerate() {
                        pixel[first + number] += i64::from(offset);
                    }
                    let channels = if self.map.interleave == 0 { i64::from(*channels) } else { 1 };
                    rows.push((0..channels).map(|channel| [&[pixel[0] + channel], &pixel[1..]].concat()).collect());
                    let mut is_next_image = true;
                    for (number, (&lower, &upper)) in lower.iter().zip(upper).enumerate() {
                        let d = first + number;
                        at[d] += step(d);
                        if at[d] < self.map.sizes[d] as i64 + i64::from(upper) {
                            is_next_image = false;
                            break;
                        }
                        at[d] = i64::from(lower);
                    }
                    if is_next_image {
                        at[rank - 1] += step(rank - 1);
                    }
                }
                rows
            }
        }
    }

    /// Returns the bytes that the copy moves.
    pub(crate) fn moved(&self) -> Moved {
        let unit = self.unit();
        let group = (self.map.swizzle as usize / 16).max(1);
        let mut strides = vec![unit];
        strides.extend(self.map.strides().iter().map(|&stride| stride as usize));
        let mut moved = Vec::new();
        for (row, units) in self.rows().iter().enumerate() {
            let dense = units.len() * unit;
            let pitch = if self.map.swizzle != 0 && self.map.interleave == 0 { self.map.swizzle as usize } else { dense };
            for (number, at) in units.iter().enumerate() {
                let is_inside = at.iter().zip(&self.map.sizes).all(|(&at, &size)| at >= 0 && at < size as i64);
                let start: i64 = at.iter().zip(&strides).map(|(&at, &stride)| at * stride as i64).sum();
                for byte in 0..unit {
                    let linear = row * pitch + number * unit + byte;
                    let (line, piece, rest) = (linear / 128, linear / 16 % 8, linear % 16);
                    moved.push((line * 128 + (piece ^ (line % group)) * 16 + rest, is_inside.then(|| start as usize + byte)));
                }
            }
        }
        moved
    }

    fn mode(&self) -> &'static str {
        match self.map.region {
            Region::Box(_) => "tile",
            Region::Columns { .. } => "im2col",
        }
    }

    /// Returns the coordinates as a list of operands.
    pub(crate) fn coordinates(&self) -> String {
        list(self.at)
    }
}

fn list<T: ToString>(numbers: &[T]) -> String {
    format!("{{{}}}", numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

pub fn tests() -> Vec<Generated> {
    let mut tests: Vec<Generated> = load_cases().iter().map(load).collect();
    tests.extend(store_cases().iter().map(store));
    tests.extend(reductions());
    tests
}

pub(crate) fn fill() -> Fill {
    Fill::all(Source::Random { seed: 137 })
}

pub(crate) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|&word| (word as u32).to_le_bytes()).collect()
}

pub(crate) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(4).map(|word| word.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))).collect()
}

pub(crate) fn kernel(name: String, about: &str, threads: usize) -> Kernel {
    Kernel::new(FAMILY, name, about)
        .platform("8.3", "sm_90")
        .shape([1, 1, 1], [threads as u32, 1, 1])
        .module(".shared .align 1024 .b8 area[4096]; .shared .align 8 .b64 gate;")
}

/// Code that makes `gate` for one arrival; `%p1` selects thread 0, `%rd1` is the address of the map, `%r1` that of the thread's word.
const START: &str = "setp.eq.u32 %p1, %i, 0;
    @%p1 mbarrier.init.shared::cta.b64 [gate], 1;
    fence.mbarrier_init.release.cluster;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    mov.u32 %r1, area;
    mad.lo.u32 %r1, %i, 4, %r1;";

/// Returns `tf32` of a word that is an `f32`, as an H200 rounds it when it loads.
fn rounded_to_tf32(word: u64) -> u64 {
    let magnitude = word & 0x7fff_ffff;
    match magnitude > 0x7f80_0000 {
        true => 0x7fff_e000,
        false => (word & 0x8000_0000) | ((magnitude + 0xfff + (magnitude >> 13 & 1)) & !0x1fff),
    }
}

fn load(case: &Case) -> Generated {
    let count = case.map.bytes() as usize / 4;
    let is_converted = case.map.conversion != Conversion::None;
    let (ty, source) = if is_converted { (F32, Fill::all(Source::Pick { seed: 139 })) } else { (U32, fill()) };
    let words = source.values(ty.element, count);
    let rounds = matches!(case.map.conversion, Conversion::Tf32 | Conversion::Tf32Flush);
    let tensor = bytes_of(&words.iter().map(|&word| if rounds { rounded_to_tf32(word) } else { word }).collect::<Vec<u64>>());
    let mut area = bytes_of(&vec![UNTOUCHED; AREA_WORDS]);
    let moved = case.moved();
    for &(to, from) in &moved {
        let outside = if case.map.fills_with_nan { [0xf7, 0x7f][to % 2] } else { 0 };
        area[to] = from.map_or(outside, |from| tensor[from]);
    }
    let offsets = if case.offsets.is_empty() { String::new() } else { format!(", {}", list(case.offsets)) };
    let dimensions = case.at.len();
    kernel(format!("load_{}", case.name), "a part of a tensor to shared memory", AREA_WORDS)
        .buffer("a", ty, count, source)
        .tensor_map("map", case.map.clone())
        .output("d", U32, bits(words_of(&area)))
        .body(START)
        .body(&format!(
            "mov.u32 %r2, {UNTOUCHED:#x};
             st.shared.u32 [%r1], %r2;
             fence.proxy.async;
             bar.sync 0;
             @!%p1 bra WAIT;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {bytes};
             cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [area], [%rd1, {at}], [gate]{offsets};
             WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0;
             @!%p2 bra WAIT;
             ld.shared.u32 %r2, [%r1];
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r2;",
            bytes = moved.len(),
            mode = case.mode(),
            at = case.coordinates(),
        ))
        .finish()
}

fn store(case: &Case) -> Generated {
    let count = case.map.bytes() as usize / 4;
    let word = |thread: usize| (thread as u64).wrapping_mul(0x9e37_79b1) & 0xffff_ffff;
    let stored = bytes_of(&(0..AREA_WORDS).map(word).collect::<Vec<u64>>());
    let mut tensor = bytes_of(&fill().values(U32.element, count));
    for (from, to) in case.moved() {
        if let Some(to) = to {
            tensor[to] = stored[from];
        }
    }
    let map = TensorMap { buffer: "d".to_owned(), ..case.map.clone() };
    let mode = if case.mode() == "tile" { "tile" } else { "im2col_no_offs" };
    let expected: Vec<Expected> = bits(words_of(&tensor));
    kernel(format!("store_{}", case.name), "shared memory to a part of a tensor", AREA_WORDS)
        .buffer("d", U32, count, fill())
        .tensor_map("map", map)
        .expect("d", Tolerance::Exact, expected)
        .body(START)
        .body(&format!(
            "mul.lo.u32 %r2, %i, 0x9e3779b1;
             st.shared.u32 [%r1], %r2;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra DONE;
             cp.async.bulk.tensor.{dimensions}d.global.shared::cta.{mode}.bulk_group [%rd1, {at}], [area];
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:",
            dimensions = case.at.len(),
            at = case.coordinates(),
        ))
        .finish()
}

/// Returns the result of a reduction of one element.
fn combined(operation: &str, ty: Ty, old: u64, new: u64, flush: bool) -> u64 {
    if ty.is_float() {
        let extreme = |which| float::min_max(ty.format(), which, old, new, ExtremeMode::default());
        return match operation {
            "add" => float::add(ty.format(), old, new, Mode::RN.ftz(flush)),
            "min" => extreme(Extreme::Min),
            _ => extreme(Extreme::Max),
        };
    }
    let (mask, is_signed) = (ty.mask(), ty.name.starts_with('s'));
    let value = |bits: u64| match (is_signed, ty.bits()) {
        (true, 32) => i128::from(bits as u32 as i32),
        (true, _) => i128::from(bits as i64),
        _ => i128::from(bits),
    };
    match operation {
        "add" => old.wrapping_add(new) & mask,
        "min" => {
            if value(new) < value(old) {
                new
            } else {
                old
            }
        }
        "max" => {
            if value(new) > value(old) {
                new
            } else {
                old
            }
        }
        "inc" => {
            if old >= new {
                0
            } else {
                old + 1
            }
        }
        "dec" => {
            if old == 0 || old > new {
                new
            } else {
                old - 1
            }
        }
        "and" => old & new,
        "or" => old | new,
        _ => old ^ new,
    }
}

/// Reductions of a box that is partly outside of the tensor, one test for each operation and type, and one of columns.
fn reductions() -> Vec<Generated> {
    let forms: [(&str, &[Ty]); 8] = [
        ("add", &[U32, S32, U64, F16, BF16, F32, F64]),
        ("min", &[U32, S32, U64, S64, F16, BF16]),
        ("max", &[U32, S32, U64, S64, F16, BF16]),
        ("inc", &[U32]),
        ("dec", &[U32]),
        ("and", &[U32, U64]),
        ("or", &[S32, U64]),
        ("xor", &[U32, U64]),
    ];
    let mut tests = Vec::new();
    for (operation, types) in forms {
        for &ty in types {
            tests.push(reduce(operation, ty, Conversion::None));
        }
    }
    tests.push(reduce("add", F32, Conversion::Flush));
    tests
}

fn reduce(operation: &str, ty: Ty, conversion: Conversion) -> Generated {
    let width = 32 / ty.bytes() as u32;
    let sizes = [u64::from(width) * 2, 8];
    let mut case = boxes("", &sizes, &[width, 6], &[0, 4]);
    case.at = match ty.bytes() {
        2 => &[24, 4],
        4 => &[12, 4],
        _ => &[6, 4],
    };
    case.map.element = ty.element;
    case.map.conversion = conversion;
    case.map.buffer = "d".to_owned();
    let count = (sizes[0] * sizes[1]) as usize;
    let stored_count = (width * 6) as usize;
    let source = |seed: u32| match ty.is_float() {
        true => Fill::of(&[(Source::Pick { seed }, count / 4), (Source::Sized { seed }, count)]),
        false => Fill::all(Source::Sized { seed }),
    };
    let old = source(149).values(ty.element, count);
    let new = source(151).values(ty.element, stored_count);
    let mut expected = old.clone();
    for (from, to) in case.moved().into_iter().step_by(ty.bytes()) {
        if let Some(to) = to {
            let (from, to) = (from / ty.bytes(), to / ty.bytes());
            expected[to] = combined(operation, ty, old[to], new[from], conversion == Conversion::Flush);
        }
    }
    let words = stored_count * ty.bytes() / 4;
    let flush = if conversion == Conversion::Flush { "_ftz" } else { "" };
    kernel(format!("reduce_{operation}_{}{flush}", ty.name), "a reduction of a box of a tensor", words)
        .buffer("a", ty, stored_count, source(151))
        .buffer("d", ty, count, source(149))
        .tensor_map("map", case.map.clone())
        .expect("d", Tolerance::Exact, bits(expected))
        .body(START)
        .body(&format!(
            "mad.wide.u32 %at, %i, 4, %a;
             ld.global.u32 %r2, [%at];
             st.shared.u32 [%r1], %r2;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra DONE;
             cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [%rd1, {at}], [area];
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:",
            at = case.coordinates(),
        ))
        .finish()
}
