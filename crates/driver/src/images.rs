//! Adds texture, sampler and surface references to the description of the cubin.

use oriole_cubin::build::{self, Extern, ExternKind, Image, ImageKind, ImageParameter, ImageWord};
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue};
use oriole_ir::ReferenceKind;
use oriole_isa::{SystemLayout, Target, TextureHandle};
use oriole_isel::{ImageWord as SelectedWord, Layout};
use oriole_ptx::ast::{Initializer, Module, OpaqueField, Parameter, TextureMode, VariableId};
use rustc_hash::FxHashSet;

use crate::compile_function::FinishedFunction;
use crate::job::FunctionJob;
use crate::variables::image_kind;
use crate::whole_program::ProgramCompilation;

/// Value in the cubin of a sampler field that the PTX does not initialize.
const UNINITIALIZED_SAMPLER_FIELD: u32 = 0xff;

/// Adds the texture, sampler and surface references of all modules to the cubin, first those that kernels use. Also adds an external symbol
/// for each constant whose value the CUDA driver fills in when it loads the cubin.
pub fn add_image_references(file: &mut build::Module, program: &ProgramCompilation<'_>) {
    file.has_independent_samplers = program.modules.iter().any(|module| module.options.texture_mode == Some(TextureMode::Independent));
    let mut known: FxHashSet<String> = FxHashSet::default();
    for job in program.jobs.iter().rev().filter(|job| job.is_kernel()) {
        for (number, _, word) in image_handle_words(job) {
            for id in word.image.into_iter().chain(word.sampler) {
                add_image_reference(file, program.modules[number], &program.layouts[number], id, &mut known);
            }
        }
    }
    for (module, layout) in program.modules.iter().zip(program.layouts) {
        layout.images.iter().for_each(|&id| add_image_reference(file, module, layout, id, &mut known));
    }
    for function in program.finished {
        for patch in function.code.patches.iter().filter(|patch| patch.reference.kind == ReferenceKind::DriverNumber) {
            let name = &function.symbols[patch.reference.symbol as usize];
            if known.insert(name.clone()) {
                file.externs.push(Extern::new(name.clone(), ExternKind::DriverNumber));
            }
        }
    }
}

/// Returns the 4-byte words of a kernel's constant bank 0 that hold handles of textures, samplers and surfaces, sorted by offset, as
/// (number of the module, offset in bytes, references in the word). The words that device functions of all modules read are included.
fn image_handle_words(job: &FunctionJob<'_>) -> Vec<(usize, u32, SelectedWord)> {
    let images = &job.variables.images;
    let own = images.placed().map(|(offset, word)| (job.module_number, offset, word));
    let mut words: Vec<(usize, u32, SelectedWord)> = own.chain(images.foreign.iter().copied()).collect();
    words.sort_by_key(|&(_, offset, _)| offset);
    words
}

/// Adds a texture, sampler or surface reference at module scope to the cubin, and its name to `known`. Does nothing if `known` already has
/// the name.
fn add_image_reference(file: &mut build::Module, module: &Module, layout: &Layout, id: VariableId, known: &mut FxHashSet<String>) {
    let variable = &module.variables[id];
    let (Some(kind), Some(name)) = (image_kind(variable.ty), layout.name(id)) else { return };
    // A texture, sampler or surface that is a kernel parameter is not a variable of the module, so it is not added.
    if layout.images.binary_search(&id).is_err() || !known.insert(name.to_owned()) {
        return;
    }
    let fields = match variable.initializer.as_deref() {
        Some(Initializer::Opaque(fields)) => fields.as_slice(),
        _ => &[],
    };
    let value =
        |wanted: &str| fields.iter().rev().find(|field| module.name(field.name) == wanted).map(|field| sampler_field_value(module, field));
    let modes = ["addr_mode_0", "addr_mode_1", "addr_mode_2", "filter_mode"];
    let packed = modes
        .iter()
        .rev()
        .fold(0, |word, mode| word << 8 | value(mode).unwrap_or(UNINITIALIZED_SAMPLER_FIELD) & UNINITIALIZED_SAMPLER_FIELD);
    let is_sampler = kind == ImageKind::Sampler;
    file.images.push(Image {
        name: name.to_owned(),
        kind,
        sampler: is_sampler.then_some(packed),
        unnormalized: value("force_unnormalized_coords").filter(|_| is_sampler),
    });
}

/// Returns the initial value of a sampler field in the encoding of the attribute `EIATTR_SAMPLER_INIT`.
fn sampler_field_value(module: &Module, field: &OpaqueField) -> u32 {
    match field.value {
        Ok(number) => number as u32,
        Err(name) => match module.name(name) {
            "mirror" | "linear" | "true" => 1,
            "clamp_ogl" => 2,
            "clamp_to_edge" => 3,
            "clamp_to_border" => 4,
            // The default values "wrap", "nearest" and "false" are encoded as 0.
            _ => 0,
        },
    }
}

/// Returns the 4-byte words of a kernel's constant bank 0 that the CUDA driver fills with handles of textures, samplers and surfaces.
pub fn driver_filled_image_words(job: &FunctionJob<'_>, program: &ProgramCompilation<'_>) -> Vec<ImageWord> {
    let part = |number: usize, id: VariableId| {
        let kind = image_kind(program.modules[number].variables[id].ty)?;
        Some((kind, program.layouts[number].name(id)?.to_owned()))
    };
    let parts = |number, word: SelectedWord| word.image.into_iter().chain(word.sampler).filter_map(|id| part(number, id)).collect();
    image_handle_words(job).into_iter().map(|(number, offset, word)| ImageWord { offset, parts: parts(number, word) }).collect()
}

/// Returns the end of the words that hold handles of textures, samplers and surfaces, as a byte offset in a kernel's constant bank 0; 0 if
/// there are no such words.
pub fn end_of_image_handle_words(job: &FunctionJob<'_>) -> u32 {
    image_handle_words(job).last().map_or(0, |&(_, offset, _)| offset + size_of::<u32>() as u32)
}

/// Returns those parameters of a kernel that are texture, sampler or surface references.
pub fn image_reference_parameters(job: &FunctionJob<'_>) -> Vec<ImageParameter> {
    let parameters = job.function().parameters.iter().enumerate();
    let image = |(ordinal, parameter): (usize, &Parameter)| {
        let Parameter::Variable(id) = *parameter else { return None };
        let variable = &job.module.variables[id];
        Some(ImageParameter { name: job.module.name(variable.name).to_owned(), kind: image_kind(variable.ty)?, ordinal: ordinal as u16 })
    };
    parameters.filter_map(image).collect()
}

/// Returns the cubin attributes that name the constant banks with the handles of textures and surfaces, for a function of a relocatable
/// file; empty if the function uses no texture, sampler or surface references.
pub fn relocatable_bank_attributes(function: &FinishedFunction) -> Vec<Attribute> {
    let uses_images = function.code.patches.iter().any(|patch| patch.reference.kind == ReferenceKind::ImageWord);
    let codes = [AttributeCode::BINDLESS_TEXTURE_BANK, AttributeCode::BINDLESS_SURFACE_BANK];
    codes.into_iter().filter(|_| uses_images).map(|code| Attribute::new(code, AttributeValue::Byte(0))).collect()
}

/// Returns the cubin attributes that name the constant banks with the handles of textures and surfaces. On targets where handles are in
/// uniform registers, the attributes for both textures and surfaces are written if there is a handle of either kind, as by ptxas.
pub fn image_bank_attributes(job: &FunctionJob<'_>, program: &ProgramCompilation<'_>, target: Target) -> Vec<Attribute> {
    let kinds: Vec<ImageKind> = image_handle_words(job)
        .into_iter()
        .flat_map(|(number, _, word)| word.image.into_iter().chain(word.sampler).map(move |id| (number, id)))
        .filter_map(|(number, id)| image_kind(program.modules[number].variables[id].ty))
        .collect();
    let has_both = !kinds.is_empty() && SystemLayout::of(target).texture_handle == TextureHandle::Uniform;
    let mut attributes = Vec::new();
    if has_both || kinds.iter().any(|&kind| kind != ImageKind::Surface) {
        attributes.push(Attribute::new(AttributeCode::BINDLESS_TEXTURE_BANK, AttributeValue::Byte(0)));
    }
    if has_both || kinds.contains(&ImageKind::Surface) {
        attributes.push(Attribute::new(AttributeCode::BINDLESS_SURFACE_BANK, AttributeValue::Byte(0)));
    }
    attributes
}
