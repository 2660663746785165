//! Compares `mma.sync` with plain matrix products. Elements are small integers, so every sum is exact in any order.

use std::path::Path;

use oriole_sem::Mode;
use oriole_sem::convert::int_to_float;
use oriole_sem::format::{F16, F32, F64};
use oriole_sem::int::S32;
use oriole_sim::ptx::{PtxOptions, PtxProgram};
use oriole_sim::{GlobalMemory, Launch};

/// Returns a small pseudo-random integer of either sign.
fn number(seed: usize) -> i64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as i64 % 15 - 7
}

fn half(value: i64) -> u16 {
    int_to_float(F16, S32, value as u64, Mode::RN) as u16
}

/// Runs a kernel of 32 threads on buffers and returns the contents of the last one.
#[track_caller]
fn run(text: &str, kernel: &str, buffers: &[Vec<u8>], scalars: &[u32]) -> Vec<u8> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let mut memory = GlobalMemory::new();
    let addresses: Vec<u64> = buffers.iter().map(|bytes| memory.allocate("buffer", bytes.clone())).collect();
    let pointers = addresses.iter().map(|address| address.to_le_bytes().to_vec());
    let arguments = pointers.chain(scalars.iter().map(|scalar| scalar.to_le_bytes().to_vec())).collect();
    let launch = Launch { kernel: kernel.into(), grid: [1; 3], block: [32, 1, 1], cluster: None, shared_bytes: 0, arguments };
    let report = program.load(&mut memory).run(&launch, &mut memory, &PtxOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.findings.is_empty(), "{}", report.findings[0]);
    memory.contents(addresses[addresses.len() - 1]).unwrap().to_vec()
}

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

fn bytes_of(halves: impl Iterator<Item = i64>) -> Vec<u8> {
    halves.flat_map(|value| half(value).to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn the_example_multiplies_a_tile() {
    let a = |row: usize, column: usize| number(16 * row + column);
    let b = |row: usize, column: usize| number(1000 + 8 * row + column);
    let c = |row: usize, column: usize| number(2000 + 8 * row + column);
    let buffers = [
        bytes_of((0..256).map(|i| a(i / 16, i % 16))),
        bytes_of((0..128).map(|i| b(i % 16, i / 16))),
        (0..128).flat_map(|i| (c(i / 8, i % 8) as f32).to_le_bytes()).collect(),
        vec![0; 512],
    ];
    let got = floats(&run(&file("examples/mma_tile.ptx"), "mma_tile", &buffers, &[]));
    for (i, &got) in got.iter().enumerate() {
        let (row, column) = (i / 8, i % 8);
        let wanted = c(row, column) + (0..16).map(|k| a(row, k) * b(k, column)).sum::<i64>();
        assert_eq!(got, wanted as f32, "row {row}, column {column}");
    }
}

/// A kernel compiled by nvcc that loads tiles through shared memory with `ldmatrix`, so the layout is tested independently.
#[test]
fn matrices_from_shared_memory() {
    const DEPTH: usize = 48;
    let a = |row: usize, k: usize| number(DEPTH * row + k);
    let b = |k: usize, column: usize| number(5000 + 8 * k + column);
    let a_tiles = (0..DEPTH / 16).flat_map(|tile| (0..256).map(move |i| (i / 16, 16 * tile + i % 16)));
    let buffers = [bytes_of(a_tiles.map(|(row, k)| a(row, k))), bytes_of((0..8 * DEPTH).map(|i| b(i / 8, i % 8))), vec![0; 512]];
    let got = floats(&run(&file("corpus/mma_sync.ptx"), "mma_f16_tile", &buffers, &[DEPTH as u32]));
    for lane in 0..32 {
        for i in 0..4 {
            let (row, column) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
            let wanted: i64 = (0..DEPTH).map(|k| a(row, k) * b(k, column)).sum();
            assert_eq!(got[4 * lane + i], wanted as f32, "row {row}, column {column}");
        }
    }
}

/// Runs one instruction. `a` and `b` return the bits of a register of a lane. Returns the words of the result, register by register, each
/// for all lanes.
fn fragments(head: &str, sizes: [usize; 4], wide: bool, a: impl Fn(usize, usize) -> u64, b: impl Fn(usize, usize) -> u64) -> Vec<u64> {
    let [a_count, b_count, c_count, bytes] = sizes;
    let ty = if wide { "b64" } else { "b32" };
    let list = |name: &str, count: usize| (0..count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ");
    let load = |name: &str, from: &str, count: usize| -> String {
        (0..count).map(|i| format!("ld.global.{ty} %{name}{i}, [%{from}+{}];\n", 32 * bytes * i)).collect()
    };
    let zero: String = (0..c_count).map(|i| format!("mov.{ty} %c{i}, 0;\n")).collect();
    let store: String = (0..c_count).map(|i| format!("st.global.{ty} [%p2+{}], %c{i};\n", 32 * bytes * i)).collect();
    let text = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n{{\n\
         .reg .{ty} %a<9>, %b<9>, %c<9>; .reg .b64 %p<3>; .reg .b32 %t;\nmov.u32 %t, %tid.x;\n\
         ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c];\nmad.wide.u32 %p0, %t, {bytes}, %p0;\n\
         mad.wide.u32 %p1, %t, {bytes}, %p1;\nmad.wide.u32 %p2, %t, {bytes}, %p2;\n{}{}{zero}{head} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n{store}ret;\n}}\n",
        load("a", "p0", a_count),
        load("b", "p1", b_count),
        list("c", c_count),
        list("a", a_count),
        list("b", b_count),
        list("c", c_count),
    );
    let fill = |count: usize, f: &dyn Fn(usize, usize) -> u64| -> Vec<u8> {
        (0..32 * count).flat_map(|i| f(i % 32, i / 32).to_le_bytes()[..bytes].to_vec()).collect()
    };
    let buffers = [fill(a_count, &a), fill(b_count, &b), vec![0; 32 * bytes * c_count]];
    let result = run(&text, "k", &buffers, &[]);
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    result.chunks_exact(bytes).map(word).collect()
}

/// Returns the expected element in a register of a lane, by the manual's layout of C.
fn product(lane: usize, i: usize, depth: usize, a: impl Fn(usize, usize) -> i64, b: impl Fn(usize, usize) -> i64) -> i64 {
    let (row, column) = (lane / 4 + if i < 2 { 0 } else { 8 }, (lane % 4) * 2 + (i & 1));
    (0..depth).map(|k| a(row, k) * b(k, column)).sum()
}

#[test]
fn bytes_m16n8k32() {
    let a = |row: usize, k: usize| number(32 * row + k);
    let b = |k: usize, column: usize| number(900 + 8 * k + column);
    // Numbering of the manual: the elements of all registers of a thread are a0 to a15 and b0 to b7.
    let a_register = |lane: usize, register: usize| {
        (0..4).fold(0, |bits, byte| {
            let i = 4 * register + byte;
            let row = lane / 4 + if i < 4 || (8..12).contains(&i) { 0 } else { 8 };
            let column = (lane % 4) * 4 + (i & 3) + if i < 8 { 0 } else { 16 };
            bits | (a(row, column) as u64 & 0xff) << (8 * byte)
        })
    };
    let b_register = |lane: usize, register: usize| {
        (0..4).fold(0, |bits, byte| {
            let i = 4 * register + byte;
            let row = (lane % 4) * 4 + (i & 3) + if i < 4 { 0 } else { 16 };
            bits | (b(row, lane / 4) as u64 & 0xff) << (8 * byte)
        })
    };
    let got = fragments("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", [4, 2, 4, 4], false, a_register, b_register);
    for (at, &bits) in got.iter().enumerate() {
        assert_eq!(i64::from(bits as u32 as i32), product(at % 32, at / 32, 32, a, b));
    }
}

#[test]
fn tf32_m16n8k8() {
    let a = |row: usize, k: usize| number(8 * row + k);
    let b = |k: usize, column: usize| number(700 + 8 * k + column);
    let single = |value: i64| int_to_float(F32, S32, value as u64, Mode::RN);
    let a_register = |lane: usize, i: usize| {
        let row = lane / 4 + if i == 0 || i == 2 { 0 } else { 8 };
        // Bits below the precision of the format must be ignored.
        single(a(row, lane % 4 + if i < 2 { 0 } else { 4 })) | 0x1fff
    };
    let b_register = |lane: usize, i: usize| single(b(lane % 4 + 4 * i, lane / 4));
    let got = fragments("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [4, 2, 4, 4], false, a_register, b_register);
    for (at, &bits) in got.iter().enumerate() {
        assert_eq!(f32::from_bits(bits as u32), product(at % 32, at / 32, 8, a, b) as f32);
    }
}

#[test]
fn doubles_m16n8k16() {
    let a = |row: usize, k: usize| number(16 * row + k);
    let b = |k: usize, column: usize| number(300 + 8 * k + column);
    let double = |value: i64| int_to_float(F64, S32, value as u64, Mode::RN);
    let a_register = |lane: usize, i: usize| {
        let row = lane / 4 + if i.is_multiple_of(2) { 0 } else { 8 };
        double(a(row, if i.is_multiple_of(2) { i * 2 } else { i * 2 - 2 } + lane % 4))
    };
    let b_register = |lane: usize, i: usize| double(b(lane % 4 + i * 4, lane / 4));
    let got = fragments("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", [8, 4, 4, 8], true, a_register, b_register);
    for (at, &bits) in got.iter().enumerate() {
        assert_eq!(f64::from_bits(bits), product(at % 32, at / 32, 16, a, b) as f64);
    }
}

#[test]
fn bits_m8n8k128() {
    let a = |row: usize, k: usize| number(128 * row + k) & 1;
    let b = |k: usize, column: usize| number(4000 + 8 * k + column) & 1;
    let a_register = |lane: usize, _: usize| (0..32).fold(0, |bits, i| bits | (a(lane / 4, (lane % 4) * 32 + i) as u64) << i);
    let b_register = |lane: usize, _: usize| (0..32).fold(0, |bits, i| bits | (b((lane % 4) * 32 + i, lane / 4) as u64) << i);
    let got = fragments("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc", [1, 1, 2, 4], false, a_register, b_register);
    for (at, &bits) in got.iter().enumerate() {
        assert_eq!(bits as i64, product(at % 32, at / 32, 128, a, b));
    }
}
