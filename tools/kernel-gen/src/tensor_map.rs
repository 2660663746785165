//! Generates tests of changes of tensor maps (`tensormap.replace`, `tensormap.cp_fenceproxy`).
//!
//! The kernel gets a tensor map with some wrong fields, copies it to memory, replaces the fields there, and loads a part of the tensor with
//! the new map. The expected words are those of a load with a map that was right from the start (`tensor_modes.rs`).

use oriole_kernel_test::{Element, Region, TensorMap};

use crate::kernel::{Generated, bits};
use crate::tensor_modes::{AREA_WORDS, Case, UNTOUCHED, boxes, bytes_of, fill, kernel, words_of};
use crate::ty::U32;

/// The memory in which fields are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Shared memory, from where `cp_fenceproxy` copies the map to global memory.
    Shared,
    Global,
}

/// The load, the map that the kernel gets, and the fields that it replaces: each with its value.
struct Change {
    case: Case,
    given: TensorMap,
    fields: Vec<(String, String)>,
}

/// Returns the replacements of the sizes, strides, box and element strides of a map.
fn shape_fields(map: &TensorMap) -> Vec<(String, String)> {
    let mut fields = vec![("rank.b32".to_owned(), (map.sizes.len() - 1).to_string())];
    let Region::Box(box_sizes) = &map.region else { return fields };
    for (dimension, ((&size, &box_size), &step)) in map.sizes.iter().zip(box_sizes).zip(&map.steps).enumerate() {
        let mut field = |name: &str, value: u64| fields.push((format!("{name}.b32"), format!("{dimension}, {value}")));
        field("global_dim", size);
        field("box_dim", box_size.into());
        field("element_stride", step.into());
    }
    fields.extend(map.strides().iter().enumerate().map(|(number, stride)| ("global_stride.b64".to_owned(), format!("{number}, {stride}"))));
    fields
}

/// Shorthand for the replacement of a field without a dimension.
fn field(name: &str, value: u32) -> (String, String) {
    (format!("{name}.b32"), value.to_string())
}

fn changes() -> Vec<Change> {
    let plain = || boxes("", &[32, 16], &[16, 8], &[8, 4]);
    let named = |name: &'static str, case: Case| Case { name, ..case };
    let given = || plain().map;
    let change = |case: Case, given: TensorMap, fields: Vec<(String, String)>| Change { case, given, fields };
    let mut all = Vec::new();
    let address = ("global_address.b64".to_owned(), "%a".to_owned());
    all.push(change(named("address", plain()), TensorMap { buffer: "m".to_owned(), ..given() }, vec![address]));
    let case = boxes("rank", &[32, 16], &[16, 8], &[8, 4]);
    let third = boxes("", &[32, 16, 3], &[16, 8, 1], &[]).map;
    all.push(change(case, third, vec![field("rank", 1)]));
    let case = boxes("sizes", &[20, 7], &[8, 5], &[12, 4]);
    let fields = shape_fields(&case.map);
    all.push(change(case, given(), fields));
    let case = boxes("box", &[32, 16], &[12, 9], &[24, 9]);
    all.push(change(case, given(), vec![("box_dim.b32".to_owned(), "0, 12".to_owned()), ("box_dim.b32".to_owned(), "1, 9".to_owned())]));
    let case = boxes("element_stride", &[32, 16], &[16, 8], &[8, 4]).steps(&[1, 3]);
    all.push(change(case, given(), vec![("element_stride.b32".to_owned(), "1, 3".to_owned())]));
    let case = boxes("element_type", &[64, 16], &[16, 8], &[48, 12]).element(Element::U16);
    let mut fields = shape_fields(&case.map);
    fields.push(field("elemtype", 1));
    all.push(change(case, given(), fields));
    let case = boxes("interleave", &[10, 3, 4], &[8, 1, 2], &[1, 1, 1]).interleave(16);
    let mut fields = shape_fields(&case.map);
    fields.push(field("interleave_layout", 1));
    all.push(change(case, boxes("", &[10, 3, 4], &[8, 1, 2], &[]).interleave(32).map, fields));
    for (name, swizzle, mode) in [("swizzle_32", 32, 1), ("swizzle_64", 64, 2), ("swizzle_128", 128, 3)] {
        let case = || boxes(name, &[64, 16], &[8, 8], &[16, 4]);
        all.push(change(case().swizzle(swizzle), case().map, vec![field("swizzle_mode", mode)]));
    }
    let case = || boxes("fill", &[16, 8], &[16, 4], &[8, 6]).element(Element::F32);
    all.push(change(case().nan(Element::F32), case().map, vec![field("fill_mode", 1)]));
    let case = boxes("five_dimensions", &[8, 4, 2, 2, 2], &[4, 2, 2, 2, 2], &[4, 1, 1, -1, 1]);
    let fields = shape_fields(&case.map);
    all.push(change(case, given(), fields));
    all
}

pub fn tests() -> Vec<Generated> {
    changes().iter().flat_map(|change| [test(change, Memory::Shared), test(change, Memory::Global)]).collect()
}

fn test(change: &Change, memory: Memory) -> Generated {
    let Change { case, given, fields } = change;
    let (suffix, space, place) = match memory {
        Memory::Shared => ("shared", "shared::cta", "copy"),
        Memory::Global => ("global", "global", "%m"),
    };
    // The given map must be one of the buffer too.
    let count = case.map.bytes().max(given.bytes()) as usize / 4;
    let tensor = bytes_of(&fill().values(U32.element, count));
    let mut area = bytes_of(&vec![UNTOUCHED; AREA_WORDS]);
    let moved = case.moved();
    for &(to, from) in &moved {
        let outside = if case.map.fills_with_nan { [0xf7, 0x7f][to % 2] } else { 0 };
        area[to] = from.map_or(outside, |from| tensor[from]);
    }
    let replace: Vec<String> = fields
        .iter()
        .map(|(field, value)| {
            let (name, width) = field.split_once('.').expect("a width");
            format!("@%p1 tensormap.replace.tile.{name}.{space}.b1024.{width} [{place}], {value};")
        })
        .collect();
    let replace = replace.join("\n");
    let publish = match memory {
        Memory::Shared => format!(
            "@%p3 st.shared.u32 [%r3], %r2;
             bar.sync 0;
             {replace}
             bar.sync 0;
             @!%p3 bra COPIED;
             tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%m], [copy], 128;
             COPIED: bar.sync 0;"
        ),
        Memory::Global => format!(
            "mad.wide.u32 %rd2, %i, 4, %m;
             @%p3 st.global.u32 [%rd2], %r2;
             bar.sync 0;
             {replace}
             @%p1 fence.proxy.tensormap::generic.release.gpu;
             bar.sync 0;"
        ),
    };
    kernel(format!("replace_{}_{suffix}", case.name), "a load with a tensor map of which fields are replaced", AREA_WORDS)
        .platform("8.3", "sm_90a")
        .module(".shared .align 128 .b8 copy[128];")
        .buffer("a", U32, count, fill())
        .buffer("m", U32, 4096, oriole_kernel_test::Fill::zero())
        .tensor_map("map", given.clone())
        .output("d", U32, bits(words_of(&area)))
        .body(&format!(
            "setp.eq.u32 %p1, %i, 0;
             setp.lt.u32 %p3, %i, 32;
             @%p1 mbarrier.init.shared::cta.b64 [gate], 1;
             fence.mbarrier_init.release.cluster;
             mov.u32 %r1, area;
             mad.lo.u32 %r1, %i, 4, %r1;
             mov.u32 %r2, {UNTOUCHED:#x};
             st.shared.u32 [%r1], %r2;
             fence.proxy.async;
             mov.b64 %rd1, map;
             mad.wide.u32 %rd1, %i, 4, %rd1;
             @%p3 ld.param.u32 %r2, [%rd1];
             mov.u32 %r3, copy;
             mad.lo.u32 %r3, %i, 4, %r3;
             {publish}
             @!%p1 bra WAIT;
             fence.proxy.tensormap::generic.acquire.gpu [%m], 128;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {bytes};
             cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [area], [%m, {at}], [gate];
             WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0;
             @!%p2 bra WAIT;
             ld.shared.u32 %r2, [%r1];
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r2;",
            bytes = moved.len(),
            dimensions = case.at.len(),
            at = case.coordinates(),
        ))
        .finish()
}
