//! Emulates functions of the CUDA driver. On sm_90 and later, compiled code calls them for fetches with derivatives that the instruction `TXD`
//! cannot express (docs/textures.md, "Gradients"). Their arguments are in fixed registers and on the stack:
//!
//! ```text
//! R4, R5   texture        R6, R7   sampler        R8 ...   index and coordinates        R12 ...   derivatives by x
//! [R1]     derivatives by y                       [R1 + 16]   offsets, if there are any
//! ```
//!
//! The functions return a nonzero number in R4, which means that all data of the fetch is resident in memory. The four results are in R5 to R8;
//! halves are in R5 and R6, two in each register.

use oriole_kernel_test::Arrangement;
use oriole_sem::Mode;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::format::{F16, F32};

use super::fault::Fault;
use super::memory::space::{self, Space};
use super::step::{Action, access};
use super::warp::{Row, Warp, lanes_of};
use super::world::World;
use crate::sampling::{Fetch, Geometry, Level};

/// Common prefix of the names of these functions.
const PREFIX: &str = "__cuda_syscall_tex_grad_";
const TEXTURE: u16 = 4;
const SAMPLER: u16 = 6;
const COORDINATES: u16 = 8;
const DERIVATIVES: u16 = 12;
const STACK_POINTER: u16 = 1;
/// Size of a vector on the stack, in bytes.
const VECTOR_BYTES: u32 = 16;
const RESIDENT: u16 = 4;
const FIRST_RESULT: u16 = 5;

/// The kind of fetch that a function executes. The name of the function tells it.
#[derive(Clone, Copy)]
struct GradientCall {
    geometry: Geometry,
    has_sampler: bool,
    has_offsets: bool,
    /// Whether the results are half-precision numbers.
    is_half: bool,
}

impl GradientCall {
    /// Parses the name of a function. Returns `None` if it is not one of these functions, or if its coordinates are integers.
    fn parse(name: &str) -> Option<GradientCall> {
        let rest = name.strip_prefix(PREFIX)?;
        let (geometry, rest) = rest.strip_prefix("pred_").unwrap_or(rest).split_once("_v4_")?;
        let (result, rest) = rest.split_once('_')?;
        let options = rest.strip_prefix("f32")?;
        let (dimensions, arrangement) = match geometry {
            "1d" => (1, Arrangement::Single),
            "2d" => (2, Arrangement::Single),
            "3d" => (3, Arrangement::Single),
            "a1d" => (1, Arrangement::Layers),
            "a2d" => (2, Arrangement::Layers),
            "cube" => (2, Arrangement::Cube),
            "acube" => (2, Arrangement::Cubes),
            _ => return None,
        };
        Some(GradientCall {
            geometry: Geometry::new(dimensions, arrangement),
            has_sampler: options.contains("_texmode_independent"),
            has_offsets: options.contains("_offset"),
            is_half: result == "f16",
        })
    }

    /// Executes the function for one thread of a warp.
    fn execute(self, warp: &mut Warp, world: &mut World<'_>, lane: usize) -> Result<(), String> {
        let register = |warp: &Warp, number: u16| warp.row(Row::source(Some(number)))[lane];
        let geometry = self.geometry;
        let texture = register(warp, TEXTURE);
        let image = if self.has_sampler {
            world.memory.image_with_sampler(texture, register(warp, SAMPLER))?
        } else {
            world.memory.image(texture)?
        };
        let index_count = u16::from(geometry.has_index());
        let index = if index_count > 0 { register(warp, COORDINATES) } else { 0 };
        let (mut coordinates, mut offsets, mut derivatives) = ([0; 3], [0; 3], [[0.0; 3]; 2]);
        let stack = register(warp, STACK_POINTER);
        for axis in 0..geometry.coordinates() {
            coordinates[axis] = register(warp, COORDINATES + index_count + axis as u16);
            derivatives[0][axis] = f32::from_bits(register(warp, DERIVATIVES + axis as u16));
            derivatives[1][axis] = f32::from_bits(on_stack(warp, world, lane, stack, axis)?);
        }
        for (axis, offset) in offsets.iter_mut().enumerate().take(if self.has_offsets { geometry.dimensions } else { 0 }) {
            *offset = on_stack(warp, world, lane, stack + VECTOR_BYTES, axis)? as i32;
        }
        let fetch = Fetch { geometry, level: Level::Gradient(derivatives), index, sample: 0, coordinates, offsets };
        let texel = world.memory.sample(&image, &fetch)?.map(|component| component.unwrap_or(0));
        let half = |word: u32| float_to_float(F16, F32, word.into(), Mode::RN, Overflow::Ieee) as u32;
        let results: Vec<u32> = match self.is_half {
            false => texel.to_vec(),
            true => texel.chunks_exact(2).map(|pair| half(pair[0]) | half(pair[1]) << 16).collect(),
        };
        for (number, &result) in (FIRST_RESULT..).zip(&results) {
            warp.write_lane(Row::destination(Some(number)), lane, result);
        }
        warp.write_lane(Row::destination(Some(RESIDENT)), lane, 1);
        Ok(())
    }
}

/// Reads word `number` of the vector at address `start` of the stack.
fn on_stack(warp: &mut Warp, world: &mut World<'_>, lane: usize, start: u32, number: usize) -> Result<u32, String> {
    let mut word = [0; size_of::<u32>()];
    let place = Space::Local.locate(u64::from(start) + (size_of::<u32>() * number) as u64, world.map);
    space::read(warp, world, lane, place, &mut word)?;
    Ok(u32::from_le_bytes(word))
}

/// Builds the simulator's action for a call of one of these functions. Returns `None` for the names of other functions.
pub(super) fn build(name: &str) -> Option<Action> {
    let call = GradientCall::parse(name)?;
    Some(access(move |warp, world, mask| {
        lanes_of(mask).try_for_each(|lane| call.execute(warp, world, lane).map_err(|what| Fault::of(lane, what)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_function_does() {
        let call = GradientCall::parse("__cuda_syscall_tex_grad_pred_acube_v4_f16_f32_texmode_independent").unwrap();
        assert_eq!(call.geometry, Geometry::new(2, Arrangement::Cubes));
        assert!(call.has_sampler && call.is_half && !call.has_offsets);
        let call = GradientCall::parse("__cuda_syscall_tex_grad_3d_v4_s32_f32_offset").unwrap();
        assert_eq!(call.geometry, Geometry::new(3, Arrangement::Single));
        assert!(!call.has_sampler && !call.is_half && call.has_offsets);
        assert!(GradientCall::parse("__cuda_syscall_tex_grad_1d_v4_f32_s32").is_none());
        assert!(GradientCall::parse("vprintf").is_none());
    }
}
