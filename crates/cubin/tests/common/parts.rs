//! Extracts the semantic parts of a cubin: what its compiler knew, without anything about the file layout.

use oriole_cubin::build::{
    Capsule, CodePatch, CodeRelocation, Constants, DataPatch, DataRelocation, Extern, ExternKind, FrameInfo, Function, Home, Linkage,
    Module, PlacedFrame, Shared, SharedVariable, Subroutine, Variable, decode_frames, function_attributes, kernel_attributes,
};
use oriole_cubin::compat::CompatCode;
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue, Parameter, ParameterV2};
use oriole_cubin::note::Note;
use oriole_cubin::relocation::Relocation;
use oriole_cubin::section::{Content, Section};
use oriole_cubin::symbol::{STT_CUDA_OBJECT, Symbol, SymbolSection};
use oriole_cubin::target::SMALL_PARAMETER_BYTES;
use oriole_cubin::{Cubin, FileTraits, FileType, Result};

const COMMON: u16 = 0xfff2;

pub fn bytes(section: Option<&Section>) -> Vec<u8> {
    section.and_then(Section::bytes).unwrap_or_default().to_vec()
}

/// Returns the parts of a module, as a compiler would pass them to the builder.
pub fn parts(cubin: &Cubin, traits: FileTraits) -> Result<Module> {
    let frames = decode_frames(&bytes(cubin.section_named(".debug_frame")))?;
    let mercury = decode_frames(&bytes(cubin.section_named(".nv.merc.debug_frame")))?;
    let reader = Reader { cubin, traits, frames, starts: relocations(cubin, ".debug_frame"), mercury };
    let functions = cubin.functions().enumerate().map(|(k, found)| reader.function(k, found.name, found.symbol, found.is_kernel));
    let mut module = Module::new(traits, functions.collect());
    module.file_type = cubin.header.file_type;
    for note in cubin.notes() {
        match note {
            Note::Tool(tool) => module.tool = tool.clone(),
            Note::Cuda(info) => (module.virtual_sm, module.toolkit) = (info.virtual_sm, info.toolkit),
            Note::Other { .. } => {}
        }
    }
    module.variables = reader.variables();
    module.externs = reader.externs();
    if let Some(Content::Compat(compat)) = cubin.section_named(".nv.compat").map(|section| &section.content) {
        let of_code = [CompatCode::ISA_CLASS, CompatCode::INST_TENSORMAP_V1];
        module.compat = compat.iter().filter(|attribute| of_code.contains(&attribute.code)).cloned().collect();
    }
    module.asks_image_types = cubin.module_attributes().iter().any(|attribute| attribute.code == AttributeCode::ISTYPEP_USED);
    module.addresses = relocations(cubin, ".nv.constant4").iter().map(|relocation| reader.name(relocation.symbol)).collect();
    Ok(module)
}

/// Returns the relocations of a section, from both kinds of relocation sections, sorted by offset.
pub fn relocations(cubin: &Cubin, patched: &str) -> Vec<Relocation> {
    let mut list: Vec<Relocation> = Vec::new();
    for kind in [".rel", ".rela"] {
        if let Some(Content::Relocations(found)) = cubin.section_named(&format!("{kind}{patched}")).map(|section| &section.content) {
            list.extend(found);
        }
    }
    list.sort_by_key(|relocation| (relocation.offset, relocation.relocation_type.0));
    list
}

struct Reader<'a> {
    cubin: &'a Cubin,
    traits: FileTraits,
    frames: Vec<PlacedFrame>,
    /// The relocations of `.debug_frame`.
    starts: Vec<Relocation>,
    mercury: Vec<PlacedFrame>,
}

fn linkage(symbol: &Symbol) -> Linkage {
    [Linkage::Local, Linkage::Global, Linkage::Weak][usize::from(symbol.binding)]
}

impl Reader<'_> {
    fn name(&self, symbol: u32) -> String {
        self.cubin.symbols()[symbol as usize].name.clone()
    }

    /// Returns the symbols in a section, with their indices.
    fn inside(&self, section: &str) -> Vec<(u32, &Symbol)> {
        let wanted = self.cubin.find(section).map(|index| SymbolSection::Section(index as u32));
        let all = self.cubin.symbols().iter().zip(0..).map(|(symbol, index)| (index, symbol));
        all.filter(|(_, symbol)| symbol.symbol_type != 3 && Some(symbol.section) == wanted).collect()
    }

    fn is_relocatable(&self) -> bool {
        self.cubin.header.file_type == FileType::Relocatable
    }

    /// Returns the frame at an offset in a function.
    fn frame(&self, symbol: u32, offset: u64) -> Option<FrameInfo> {
        let of_function =
            |frame: &PlacedFrame| self.starts.iter().any(|relocation| relocation.offset == frame.address && relocation.symbol == symbol);
        self.frames.iter().find(|frame| frame.offset == offset && of_function(frame)).map(|placed| placed.frame.clone())
    }

    fn per_symbol(&self, symbol: u32, code: AttributeCode) -> Option<u32> {
        self.cubin.module_attributes().iter().find_map(|attribute| match attribute.value {
            AttributeValue::PerSymbol { symbol: found, value } if attribute.code == code && found == symbol => Some(value),
            _ => None,
        })
    }

    fn function(&self, k: usize, name: &str, index: usize, is_kernel: bool) -> Function {
        let (cubin, symbol) = (self.cubin, index as u32);
        let bank = bytes(cubin.section_named(&format!(".nv.constant0.{name}")));
        let text = format!(".text.{name}");
        let relocation = |relocation: Relocation| CodeRelocation {
            offset: relocation.offset,
            kind: CodePatch::of(relocation.relocation_type),
            symbol: self.name(relocation.symbol),
            addend: relocation.addend.unwrap_or(0),
        };
        let relocations: Vec<CodeRelocation> = relocations(cubin, &text).into_iter().map(relocation).collect();
        let base = if is_kernel { Function::kernel(name) } else { Function::device(name) };
        let [calls, _, _, taken] = self.edges(symbol);
        let capsule = self.mercury.get(k).filter(|_| self.is_plain());
        Function {
            linkage: linkage(&cubin.symbols()[index]),
            code: bytes(cubin.section_named(&text)),
            registers: self.per_symbol(symbol, AttributeCode::REGCOUNT).unwrap() as u8,
            frame_size: self.per_symbol(symbol, AttributeCode::FRAME_SIZE).unwrap(),
            min_stack_size: self.per_symbol(symbol, AttributeCode::MIN_STACK_SIZE).unwrap_or(0),
            attributes: self.attributes(name, is_kernel),
            externs: self.extern_names(name),
            parameter_bytes: parameter_bytes(&self.traits, bank.len() as u16).0,
            has_large_parameters: parameter_bytes(&self.traits, bank.len() as u16).1,
            shared: self.shared(name),
            constants: self.constants(name),
            had_relocations: relocations.is_empty() && cubin.find(&format!(".rela{text}")).is_some(),
            relocations,
            subroutines: self.subroutines(&text, symbol),
            calls: calls.into_iter().map(|callee| self.name(callee)).collect(),
            indirect_calls: self.edges(symbol)[2].iter().map(|&text| self.text(text)).collect(),
            takes_address_of: taken.into_iter().map(|callee| self.name(callee)).collect(),
            prototype: self.prototype(symbol),
            is_address_taken: !self.edges(symbol)[1].is_empty(),
            frame: self.frame(symbol, 0).unwrap_or(base.frame.clone()),
            capsule: capsule.map(|placed| self.capsule(name, placed.frame.clone())),
            ..base
        }
    }

    /// Returns whether the file can be rebuilt with Mercury capsules.
    fn is_plain(&self) -> bool {
        let more = [".nv.global", ".nv.global.init", ".nv.constant3", ".nv.constant4", ".nv.prototype"];
        let known = |section: &Section| more.contains(&section.name.as_str()) || section.name.starts_with(".nv.constant2");
        let subroutines = self.cubin.symbols().iter().any(|symbol| symbol.is_function() && !symbol.is_kernel());
        !self.is_relocatable() && !subroutines && !self.cubin.sections().iter().any(known)
    }

    fn subroutines(&self, text: &str, function: u32) -> Vec<Subroutine> {
        let others = self.inside(text).into_iter().filter(|&(index, symbol)| index != function && symbol.is_function());
        let mut list: Vec<Subroutine> = others
            .map(|(index, symbol)| Subroutine {
                name: symbol.name.clone(),
                linkage: linkage(symbol),
                offset: symbol.value,
                size: symbol.size,
                frame_size: self.per_symbol(index, AttributeCode::FRAME_SIZE),
                frame: self.frame(function, symbol.value),
            })
            .collect();
        list.sort_by_key(|subroutine| subroutine.offset);
        list
    }

    fn shared(&self, name: &str) -> Option<Shared> {
        let section = self.cubin.section_named(&format!(".nv.shared.{name}"))?;
        let Content::NoBits(size) = section.content else { panic!("shared memory has bytes") };
        let variable =
            |(_, symbol): (u32, &Symbol)| SharedVariable { name: symbol.name.clone(), size: symbol.size, alignment: symbol.value };
        let reserved = if self.is_relocatable() { 0 } else { self.traits.style.reserved_shared() };
        let variables = self.inside(&section.name).into_iter().map(variable).collect();
        Some(Shared { size: size - reserved, alignment: section.alignment, variables })
    }

    fn constants(&self, name: &str) -> Option<Constants> {
        let section = self.cubin.section_named(&format!(".nv.constant2.{name}"))?;
        let symbols = self.inside(&section.name).into_iter().map(|(_, symbol)| (symbol.name.clone(), symbol.value, symbol.size));
        Some(Constants {
            bytes: bytes(Some(section)),
            alignment: section.alignment,
            symbols: symbols.collect(),
            had_relocations: self.cubin.find(&format!(".rela{}", section.name)).is_some(),
        })
    }

    /// Returns the four lists of the call graph for one caller.
    fn edges(&self, caller: u32) -> [Vec<u32>; 4] {
        let mut lists: [Vec<u32>; 4] = Default::default();
        let Some(Content::CallGraph(edges)) = self.cubin.section_named(".nv.callgraph").map(|section| &section.content) else {
            return lists;
        };
        let mut list = 0;
        for edge in edges {
            if edge.is_mark() {
                list = (-1 - edge.callee) as usize;
            } else if edge.caller == caller {
                lists[list].push(edge.callee.cast_unsigned());
            }
        }
        lists
    }

    /// Returns a string of `.strtab`.
    fn text(&self, offset: u32) -> String {
        string(self.cubin, offset)
    }

    fn prototype(&self, symbol: u32) -> Option<String> {
        let taken = self.edges(symbol)[1].first().copied();
        let listed = prototype_pairs(self.cubin).into_iter().find(|(found, _)| *found == symbol).map(|(_, text)| text);
        taken.or(listed).map(|text| self.text(text))
    }

    fn variables(&self) -> Vec<Variable> {
        let mut list = Vec::new();
        let mut module_shared = 0;
        for symbol in self.cubin.symbols().iter().filter(|symbol| [1, STT_CUDA_OBJECT].contains(&symbol.symbol_type)) {
            let section = match symbol.section {
                SymbolSection::Section(index) => self.cubin.section(index as usize).unwrap(),
                SymbolSection::Reserved(COMMON) => {
                    list.push(Variable {
                        linkage: linkage(symbol),
                        ..Variable::new(&symbol.name, Home::Common, symbol.size, symbol.value)
                    });
                    continue;
                }
                _ => continue,
            };
            let range = symbol.value as usize..(symbol.value + symbol.size) as usize;
            let initial = || section.bytes().unwrap()[range].to_vec();
            let home = match &section.name[..] {
                ".nv.global" => Home::Zero,
                ".nv.global.init" => Home::Initialized(initial()),
                ".nv.constant3" => Home::Constant(initial()),
                ".nv_debug.shared" => Home::Shared,
                _ => continue,
            };
            let mut variable = Variable::new(&symbol.name, home, symbol.size, section.alignment);
            variable.offset = symbol.value;
            if variable.home == Home::Shared {
                (variable.alignment, variable.offset) = (symbol.value, module_shared);
                module_shared += symbol.size;
            }
            (variable.linkage, variable.is_managed) = (linkage(symbol), symbol.other & 4 != 0);
            variable.relocations = self.data_relocations(&section.name, symbol);
            list.push(variable);
        }
        list.sort_by_key(|variable| variable.linkage != Linkage::Global);
        list
    }

    fn data_relocations(&self, section: &str, symbol: &Symbol) -> Vec<DataRelocation> {
        let range = symbol.value..symbol.value + symbol.size;
        let inside = relocations(self.cubin, section).into_iter().filter(|relocation| range.contains(&relocation.offset));
        let relocation = |relocation: Relocation| DataRelocation {
            offset: relocation.offset - symbol.value,
            kind: DataPatch::of(relocation.relocation_type),
            symbol: self.name(relocation.symbol),
            addend: relocation.addend.unwrap_or(0),
        };
        inside.map(relocation).collect()
    }

    fn externs(&self) -> Vec<Extern> {
        let mut list = Vec::new();
        for (symbol, index) in self.cubin.symbols().iter().zip(0..) {
            let is_extern = symbol.section == SymbolSection::Undefined && symbol.binding == 1;
            let kind = match (symbol.symbol_type, symbol.other & 0xe0) {
                _ if !is_extern => continue,
                (2, _) if symbol.is_kernel() => ExternKind::Kernel,
                (2, _) => ExternKind::Function,
                (STT_CUDA_OBJECT, 0x20) => ExternKind::Global(symbol.size),
                (STT_CUDA_OBJECT, 0x80) => ExternKind::Constant(symbol.size),
                (STT_CUDA_OBJECT, 0x40) => ExternKind::DynamicShared,
                _ => continue,
            };
            let is_address_taken = !self.edges(index)[1].is_empty();
            list.push(Extern { prototype: self.prototype(index), is_address_taken, ..Extern::new(&symbol.name, kind) });
        }
        list
    }

    fn extern_names(&self, function: &str) -> Vec<String> {
        let mut list = Vec::new();
        for attribute in self.cubin.function_attributes(function) {
            if let (AttributeCode::EXTERNS, AttributeValue::Symbols(symbols)) = (attribute.code, &attribute.value) {
                list.extend(symbols.iter().map(|&symbol| self.name(symbol)));
            }
        }
        list
    }

    /// Returns the attributes for the builder: parameters, and what depends on the code. The builder adds the others and sorts them.
    fn attributes(&self, name: &str, is_kernel: bool) -> Vec<Attribute> {
        let derived = [
            AttributeCode::CUDA_API_VERSION,
            AttributeCode::MERCURY_ISA_VERSION,
            AttributeCode::SW2861232_WAR,
            AttributeCode::SW_WAR,
            AttributeCode::PARAM_CBANK,
            AttributeCode::CBANK_PARAM_SIZE,
            AttributeCode::KPARAM_INFO,
            AttributeCode::KPARAM_INFO_V2,
            AttributeCode::EXTERNS,
        ];
        let all = self.cubin.function_attributes(name);
        let parameter = |attribute: &Attribute| match attribute.value {
            AttributeValue::Parameter(parameter) => Some(parameter),
            AttributeValue::ParameterV2(ParameterV2 { ordinal, offset, size, .. }) => Some(Parameter::plain(ordinal, offset, size)),
            _ => None,
        };
        let mut parameters: Vec<Parameter> = all.iter().filter_map(parameter).collect();
        parameters.sort_by_key(|parameter| parameter.ordinal);
        let always_reserved = self.traits.reserved_variable.is_some();
        let in_kernels = |code| code == AttributeCode::VRC_CTA_INIT_COUNT || always_reserved && code == AttributeCode::RESERVED_SMEM_USED;
        let is_derived = |code| derived.contains(&code) || is_kernel && in_kernels(code);
        let is_usual = |attribute: &Attribute| match (attribute.code, &attribute.value) {
            (AttributeCode::MAXREG_COUNT, value) => *value == AttributeValue::Half(0xff),
            (AttributeCode::SPARSE_MMA_MASK, value) => *value == AttributeValue::Half(0),
            (code, _) => is_derived(code),
        };
        let mut extra: Vec<Attribute> = all.iter().filter(|attribute| !is_usual(attribute)).cloned().collect();
        extra.reverse();
        if is_kernel { kernel_attributes(&self.traits, &parameters, extra) } else { function_attributes(&self.traits, extra) }
    }

    fn capsule(&self, name: &str, frame: FrameInfo) -> Capsule {
        let table = self.cubin.section_named(".nv.merc.symtab").unwrap();
        let Content::Symbols(symbols) = &table.content else { panic!("no Mercury symbols") };
        let is_function = |symbol: &&Symbol| symbol.is_function() && symbol.name == name;
        Capsule {
            bytes: bytes(self.cubin.section_named(&format!(".nv.capmerc.text.{name}"))),
            size: symbols.iter().find(is_function).unwrap().size,
            attributes: self.cubin.section_named(&format!(".nv.merc.nv.info.{name}")).and_then(Section::attributes).unwrap().to_vec(),
            relocations: match self.cubin.section_named(&format!(".nv.merc.rela.text.{name}")).map(|section| &section.content) {
                Some(Content::Relocations(list)) => list.clone(),
                _ => Vec::new(),
            },
            frame,
        }
    }
}

/// Returns a string of `.strtab`.
pub fn string(cubin: &Cubin, offset: u32) -> String {
    let Some(Content::Strings(table)) = cubin.section_named(".strtab").map(|section| &section.content) else { panic!("no strings") };
    let bytes = &table.bytes()[offset as usize..];
    String::from_utf8(bytes.iter().copied().take_while(|&byte| byte != 0).collect()).unwrap()
}

/// Returns the content of `.nv.prototype`: symbols and offsets of prototypes in `.strtab`.
pub fn prototype_pairs(cubin: &Cubin) -> Vec<(u32, u32)> {
    let bytes = bytes(cubin.section_named(".nv.prototype"));
    let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
    bytes.chunks_exact(8).map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect()
}

/// Returns the size in bytes of a kernel's parameters, given the size of constant bank 0 up to their end, and whether they are large.
fn parameter_bytes(traits: &FileTraits, bank_bytes: u16) -> (u16, bool) {
    let style = traits.style;
    let large = bank_bytes.saturating_sub(style.parameter_base(true));
    let is_large = large > SMALL_PARAMETER_BYTES;
    (if is_large { large } else { bank_bytes.saturating_sub(style.parameter_base(false)) }, is_large)
}
