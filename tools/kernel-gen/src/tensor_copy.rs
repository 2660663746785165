//! Generates tests of tensor copies (`cp.async.bulk.tensor`) of one to five dimensions: boxes inside of a tensor and partly outside, elements
//! of several sizes, steps, swizzles, multicast.
//!
//! A load copies a box of `a` to shared memory, and thread `i` stores word `i` there as word `i` of `d`. A store copies words of shared memory
//! to a box of `d`. The expected words come from a model of its own here.

use oriole_kernel_test::{Element, Expected, Fill, Source, TensorMap};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::U32;

const FAMILY: &str = "tma";

/// A tensor, a box of it, and the coordinates of the box.
struct Case {
    name: &'static str,
    element: Element,
    sizes: &'static [u64],
    box_sizes: &'static [u32],
    steps: &'static [u32],
    swizzle: u32,
    at: &'static [i32],
}

const WORDS: Case = Case { name: "", element: Element::U32, sizes: &[], box_sizes: &[], steps: &[1; 5], swizzle: 0, at: &[] };

/// The boxes. The first coordinate is a multiple of 16 bytes: for others, an H200 reports an illegal instruction.
#[rustfmt::skip]
const CASES: [Case; 26] = [
    Case { name: "1d", sizes: &[64], box_sizes: &[32], at: &[0], ..WORDS },
    Case { name: "1d_middle", sizes: &[64], box_sizes: &[32], at: &[20], ..WORDS },
    Case { name: "1d_end", sizes: &[64], box_sizes: &[32], at: &[40], ..WORDS },
    Case { name: "1d_before", sizes: &[64], box_sizes: &[32], at: &[-8], ..WORDS },
    Case { name: "1d_outside", sizes: &[64], box_sizes: &[32], at: &[64], ..WORDS },
    Case { name: "2d", sizes: &[32, 16], box_sizes: &[16, 8], at: &[8, 4], ..WORDS },
    Case { name: "2d_end", sizes: &[32, 16], box_sizes: &[16, 8], at: &[24, 12], ..WORDS },
    Case { name: "2d_before", sizes: &[32, 16], box_sizes: &[16, 8], at: &[-4, -2], ..WORDS },
    Case { name: "2d_odd_sizes", sizes: &[20, 7], box_sizes: &[8, 5], at: &[12, 4], ..WORDS },
    Case { name: "2d_step", sizes: &[32, 16], box_sizes: &[16, 12], steps: &[1, 3, 1, 1, 1], at: &[8, 2], ..WORDS },
    Case { name: "2d_step_end", sizes: &[32, 16], box_sizes: &[16, 11], steps: &[1, 2, 1, 1, 1], at: &[24, 7], ..WORDS },
    Case { name: "2d_swizzle_128", sizes: &[64, 16], box_sizes: &[32, 8], swizzle: 128, at: &[16, 4], ..WORDS },
    Case { name: "2d_swizzle_128_end", sizes: &[64, 16], box_sizes: &[32, 16], swizzle: 128, at: &[44, 6], ..WORDS },
    Case { name: "2d_swizzle_64", sizes: &[64, 16], box_sizes: &[16, 16], swizzle: 64, at: &[16, 0], ..WORDS },
    Case { name: "2d_swizzle_64_end", sizes: &[64, 16], box_sizes: &[16, 16], swizzle: 64, at: &[52, 3], ..WORDS },
    Case { name: "2d_swizzle_32", sizes: &[64, 16], box_sizes: &[8, 16], swizzle: 32, at: &[16, 0], ..WORDS },
    Case { name: "2d_swizzle_32_end", sizes: &[64, 16], box_sizes: &[8, 16], swizzle: 32, at: &[60, 5], ..WORDS },
    Case { name: "3d", sizes: &[16, 8, 4], box_sizes: &[8, 4, 2], at: &[4, 2, 1], ..WORDS },
    Case { name: "3d_end", sizes: &[16, 8, 4], box_sizes: &[8, 4, 2], at: &[12, 6, 3], ..WORDS },
    Case { name: "4d", sizes: &[8, 4, 4, 2], box_sizes: &[4, 4, 2, 2], at: &[4, 0, 1, 0], ..WORDS },
    Case { name: "4d_end", sizes: &[8, 4, 4, 2], box_sizes: &[4, 4, 2, 2], at: &[4, -1, 3, 1], ..WORDS },
    Case { name: "5d", sizes: &[8, 4, 2, 2, 2], box_sizes: &[4, 2, 2, 2, 2], at: &[4, 2, 0, 0, 0], ..WORDS },
    Case { name: "5d_end", sizes: &[8, 4, 2, 2, 2], box_sizes: &[4, 2, 2, 2, 2], at: &[4, 1, 1, -1, 1], ..WORDS },
    Case { name: "2d_u16", element: Element::U16, sizes: &[64, 16], box_sizes: &[16, 8], at: &[48, 12], ..WORDS },
    Case { name: "2d_u8", element: Element::U8, sizes: &[64, 16], box_sizes: &[32, 8], at: &[32, 11], ..WORDS },
    Case { name: "2d_u64", element: Element::U64, sizes: &[16, 16], box_sizes: &[8, 8], at: &[10, 11], ..WORDS },
];

pub fn tests() -> Vec<Generated> {
    let mut tests: Vec<Generated> = CASES.iter().map(load).collect();
    // An H200 reports an illegal instruction for a store whose box starts before the tensor.
    let may_store = |case: &&Case| case.steps == WORDS.steps && case.at.iter().all(|&at| at >= 0);
    tests.extend(CASES.iter().filter(may_store).map(store));
    tests.push(multicast());
    tests.push(pipeline());
    tests
}

impl Case {
    fn map(&self, buffer: &str) -> TensorMap {
        TensorMap {
            steps: self.steps[..self.sizes.len()].to_vec(),
            swizzle: self.swizzle,
            ..TensorMap::of_boxes(self.element, self.sizes, self.box_sizes, buffer)
        }
    }

    /// Returns the words of the tensor.
    fn tensor_words(&self) -> usize {
        self.sizes.iter().product::<u64>() as usize * self.element.bytes() / 4
    }

    /// Returns the bytes of the box.
    fn box_bytes(&self) -> usize {
        let counts = self.box_sizes.iter().zip(self.steps).map(|(size, step)| size.div_ceil(*step) as usize);
        counts.product::<usize>() * self.element.bytes()
    }

    /// Returns for each byte of the box in shared memory its place in the tensor; `None` outside of the tensor.
    fn places(&self) -> Vec<Option<usize>> {
        let bytes = self.element.bytes();
        let mut places = vec![None; self.box_bytes()];
        let mut index = vec![0; self.sizes.len()];
        for element in 0..places.len() / bytes {
            // Coordinates of the element in the tensor.
            let at: Vec<i64> = (0..index.len()).map(|d| i64::from(self.at[d]) + i64::from(index[d]) * i64::from(self.steps[d])).collect();
            let is_inside = at.iter().zip(self.sizes).all(|(&at, &size)| at >= 0 && at < size as i64);
            let number = at.iter().zip(self.sizes).rev().fold(0, |number, (&at, &size)| number * size as i64 + at);
            for byte in 0..bytes {
                let linear = element * bytes + byte;
                let (line, piece, rest) = (linear / 128, linear / 16 % 8, linear % 16);
                // The line of 128 bytes changes the number of the piece in its group.
                let group = (self.swizzle as usize / 16).max(1);
                let target = line * 128 + (piece ^ (line % group)) * 16 + rest;
                places[target] = is_inside.then(|| number as usize * bytes + byte);
            }
            // The next element of the box: the first dimension fastest.
            for (d, index) in index.iter_mut().enumerate() {
                *index += 1;
                if *index < self.box_sizes[d].div_ceil(self.steps[d]) {
                    break;
                }
                *index = 0;
            }
        }
        places
    }

    /// Returns the coordinates as a list of operands.
    fn coordinates(&self) -> String {
        let numbers: Vec<String> = self.at.iter().map(ToString::to_string).collect();
        format!("{{{}}}", numbers.join(", "))
    }
}

fn fill() -> Fill {
    Fill::all(Source::Random { seed: 131 })
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|&word| (word as u32).to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(4).map(|word| word.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))).collect()
}

fn kernel(name: String, about: &str, threads: usize) -> Kernel {
    Kernel::new(FAMILY, name, about)
        .platform("8.3", "sm_90")
        .shape([1, 1, 1], [threads as u32, 1, 1])
        .module(".shared .align 1024 .b8 area[8192]; .shared .align 8 .b64 gate;")
}

/// Code that makes `gate` for one arrival; `%p1` selects thread 0, `%rd1` is the address of the map, `%r1` that of the thread's word.
const START: &str = "setp.eq.u32 %p1, %i, 0;
    @%p1 mbarrier.init.shared::cta.b64 [gate], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    mov.u32 %r1, area;
    mad.lo.u32 %r1, %i, 4, %r1;";

const FINISH: &str = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r2, [%r1];
    mad.wide.u32 %at, %i, 4, %d;
    st.global.u32 [%at], %r2;";

fn load(case: &Case) -> Generated {
    let words = fill().values(U32.element, case.tensor_words());
    let tensor = bytes_of(&words);
    let found: Vec<u8> = case.places().into_iter().map(|place| place.map_or(0, |place| tensor[place])).collect();
    let (bytes, dimensions) = (case.box_bytes(), case.sizes.len());
    kernel(format!("load_{}", case.name), "a box of a tensor to shared memory", bytes / 4)
        .buffer("a", U32, words.len(), fill())
        .tensor_map("map", case.map("a"))
        .output("d", U32, bits(words_of(&found)))
        .body(START)
        .body(&format!(
            "bar.sync 0;
             @!%p1 bra WAIT;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {bytes};
             cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [area], [%rd1, {}], [gate];",
            case.coordinates()
        ))
        .body(FINISH)
        .finish()
}

fn store(case: &Case) -> Generated {
    let (bytes, dimensions) = (case.box_bytes(), case.sizes.len());
    let word = |thread: usize| (thread as u64).wrapping_mul(0x9e37_79b1) & 0xffff_ffff;
    let stored = bytes_of(&(0..bytes / 4).map(word).collect::<Vec<u64>>());
    let mut tensor = bytes_of(&fill().values(U32.element, case.tensor_words()));
    for (place, byte) in case.places().into_iter().zip(stored) {
        if let Some(place) = place {
            tensor[place] = byte;
        }
    }
    let expected: Vec<Expected> = bits(words_of(&tensor));
    kernel(format!("store_{}", case.name), "shared memory to a box of a tensor", bytes / 4)
        .buffer("d", U32, case.tensor_words(), fill())
        .tensor_map("map", case.map("d"))
        .expect("d", oriole_kernel_test::Tolerance::Exact, expected)
        .body(START)
        .body(&format!(
            "mul.lo.u32 %r2, %i, 0x9e3779b1;
             st.shared.u32 [%r1], %r2;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra DONE;
             cp.async.bulk.tensor.{dimensions}d.global.shared::cta.tile.bulk_group [%rd1, {}], [area];
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:",
            case.coordinates()
        ))
        .finish()
}

/// Block 0 of a cluster loads a box to both blocks.
fn multicast() -> Generated {
    let case = Case { sizes: &[32, 16], box_sizes: &[16, 8], at: &[20, 3], ..WORDS };
    let words = fill().values(U32.element, case.tensor_words());
    let tensor = bytes_of(&words);
    let found: Vec<u8> = case.places().into_iter().map(|place| place.map_or(0, |place| tensor[place])).collect();
    let bytes = case.box_bytes();
    kernel("multicast".into(), "a box of a tensor to all blocks of the cluster", bytes / 4)
        .shape([2, 1, 1], [(bytes / 4) as u32, 1, 1])
        .attributes(".reqnctapercluster 2, 1, 1")
        .buffer("a", U32, words.len(), fill())
        .tensor_map("map", case.map("a"))
        .output("d", U32, bits(words_of(&[found.clone(), found].concat())))
        .body(&START.replace("%i,", "%r3,").replacen("setp", "mov.u32 %r3, %tid.x;\nsetp", 1))
        .body(&format!(
            "barrier.cluster.arrive;
             barrier.cluster.wait;
             @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {bytes};
             mov.u32 %r4, %cluster_ctarank;
             setp.eq.and.u32 %p1, %r4, 0, %p1;
             mov.b16 %h1, 3;
             @!%p1 bra WAIT;
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
             [area], [%rd1, {}], [gate], %h1;",
            case.coordinates()
        ))
        .body(FINISH)
        .body("barrier.cluster.arrive;\nbarrier.cluster.wait;")
        .finish()
}

/// Boxes that a pipeline loads.
const BOXES: usize = 6;
/// Buffers of the pipeline.
const STAGES: usize = 2;

/// A pipeline of loads; thread `i` adds word `i` of all boxes.
fn pipeline() -> Generated {
    let case = Case { sizes: &[16, 64], box_sizes: &[16, 8], at: &[0, 0], ..WORDS };
    let words = fill().values(U32.element, case.tensor_words());
    let (bytes, threads) = (case.box_bytes(), case.box_bytes() / 4);
    let sum = |thread: usize| {
        (0..BOXES).fold(0_u64, |sum, number| sum.wrapping_mul(3).wrapping_add(words[number * threads + thread]) & 0xffff_ffff)
    };
    kernel("pipeline".into(), "loads of boxes in two buffers, each waited for and reused", threads)
        .module(".shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];")
        .buffer("a", U32, words.len(), fill())
        .tensor_map("map", case.map("a"))
        .output("d", U32, bits((0..threads).map(sum)))
        .body(START)
        .body(&format!(
            "@%p1 mbarrier.init.shared::cta.b64 [full], 1;
             @%p1 mbarrier.init.shared::cta.b64 [full+8], 1;
             @%p1 mbarrier.init.shared::cta.b64 [empty], {threads};
             @%p1 mbarrier.init.shared::cta.b64 [empty+8], {threads};
             fence.proxy.async;
             bar.sync 0;
             mov.u32 %r3, 0;
             mov.u32 %r4, 0;
             mov.u32 %r5, area;
             mov.u32 %r6, full;
             mov.u32 %r7, empty;
             mov.u32 %r9, 0;
             NEXT: and.b32 %r10, %r3, {last_stage};
             shr.u32 %r11, %r3, 1;
             and.b32 %r12, %r11, 1;
             mad.lo.u32 %r13, %r10, 8, %r6;
             mad.lo.u32 %r14, %r10, 8, %r7;
             mad.lo.u32 %r15, %r10, {bytes}, %r5;
             xor.b32 %r16, %r12, 1;
             EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r14], %r16;
             @!%p2 bra EMPTY;
             @!%p1 bra FULL;
             mul.lo.u32 %r17, %r3, 8;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {bytes};
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r15], [%rd1, {{0, %r17}}], [%r13];
             FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13], %r12;
             @!%p2 bra FULL;
             mad.lo.u32 %r18, %i, 4, %r15;
             ld.shared.u32 %r19, [%r18];
             mad.lo.u32 %r9, %r9, 3, %r19;
             mbarrier.arrive.shared::cta.b64 _, [%r14];
             add.u32 %r3, %r3, 1;
             setp.lt.u32 %p3, %r3, {BOXES};
             @%p3 bra NEXT;
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r9;",
            last_stage = STAGES - 1
        ))
        .finish()
}
