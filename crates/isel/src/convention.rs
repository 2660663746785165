//! The calling convention: locations of parameters and results, and the registers with a fixed role.
//!
//! Twelve registers, R4 to R15, carry parameters, and results in the other direction. Parameters are assigned first fit, in the order of
//! declaration: each takes the lowest free registers that satisfy its size and alignment. A parameter that does not fit is passed on the
//! caller's stack. A result that does not fit into the registers is returned in memory; the caller passes the address in R4. `docs/abi.md`
//! lists the experiments with ptxas that show these rules.
//!
//! Example: `f(.b32 a, .b64 b, .b32 c)` has `a` in R4, `b` in R6 and R7 (a pair is aligned), `c` in R5.

use oriole_ptx::ast::{Module, Parameter, VariableType};
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;

/// The first register of parameters and results.
pub(crate) const FIRST_REGISTER: u8 = oriole_ir::FIRST_ARGUMENT_REGISTER;
/// Number of registers that carry parameters and results.
const REGISTER_COUNT: u8 = 12;
/// The return address is in this register and the next one.
pub const RETURN_ADDRESS: u8 = 20;
/// The address of an indirect call is in this register and the next one. The ABI does not prescribe it; this is Oriole's choice.
pub(crate) const CALL_ADDRESS: u8 = 22;
/// Register in which a function with a dynamic stack passes the end of its stack to a call; the call copies it to the stack pointer.
pub const DYNAMIC_STACK: u8 = 0;
/// Register in which such a function saves its own stack pointer during a call.
pub const SAVED_STACK_POINTER: u8 = 2;
/// Size of a register in bytes.
const WORD: u32 = 4;

/// Size, alignment and type of a parameter or result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParameterShape {
    /// Size in bytes; 0 for variable arguments.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Whether the parameter stands for variable arguments, which are always passed on the stack.
    pub is_variadic: bool,
    /// The type of a scalar; `None` for arrays and vectors.
    pub scalar: Option<ScalarType>,
}

impl ParameterShape {
    /// Returns the number of registers that it fills.
    pub(crate) fn words(self) -> usize {
        self.bytes.div_ceil(WORD) as usize
    }

    /// Computes the shape of a declared parameter or result.
    pub(crate) fn of(module: &Module, parameter: &Parameter) -> Result<ParameterShape, Unsupported> {
        match *parameter {
            Parameter::Variable(id) => {
                let variable = &module.variables[id];
                let VariableType::Scalar(ty) = variable.ty else {
                    return Err(Unsupported::new("a texture, sampler or surface as parameter of a function"));
                };
                let is_variadic = variable.dimensions.iter().any(Option::is_none);
                let bytes = variable.size_bytes().map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
                let scalar = (variable.dimensions.is_empty() && variable.lanes == 1).then_some(ty);
                Ok(ParameterShape { bytes, align: variable.align_bytes() as u32, is_variadic, scalar })
            }
            // ptxas passes predicates only in functions with several results, by a convention of its own. Oriole passes a predicate as a
            // word.
            Parameter::Register { ty: ScalarType::Pred, .. } => {
                Ok(ParameterShape { bytes: WORD, align: WORD, is_variadic: false, scalar: Some(ScalarType::Pred) })
            }
            Parameter::Register { ty, lanes, .. } => {
                let bytes = ty.bytes() * u32::from(lanes.max(1));
                Ok(ParameterShape { bytes, align: bytes, is_variadic: false, scalar: (lanes <= 1).then_some(ty) })
            }
        }
    }
}

/// The location of a parameter or result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParameterLocation {
    /// Consecutive registers that start at this one.
    Register(u8),
    /// Byte offset from the caller's stack pointer.
    Stack(u32),
}

/// The locations of all parameters and results of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Signature {
    /// Shape and location of each parameter.
    pub parameters: Vec<(ParameterShape, ParameterLocation)>,
    /// Shape and location of each result.
    pub results: Vec<(ParameterShape, ParameterLocation)>,
    /// Whether the result is returned in memory whose address the first parameter register holds.
    pub result_in_memory: bool,
    /// Size of the parameters on the stack in bytes.
    pub stack_bytes: u32,
}

impl Signature {
    /// Assigns locations to results and parameters.
    pub(crate) fn new(module: &Module, returns: &[Parameter], parameters: &[Parameter]) -> Result<Signature, Unsupported> {
        let shapes = |list: &[Parameter]| list.iter().map(|parameter| ParameterShape::of(module, parameter)).collect::<Result<Vec<_>, _>>();
        let (returns, parameters) = (shapes(returns)?, shapes(parameters)?);
        let mut free = FreeRegisters::new();
        let registers: Option<Vec<u8>> = returns.iter().map(|shape| free.take(*shape)).collect();
        let result_in_memory = registers.is_none();
        let results = match registers {
            Some(registers) => returns.into_iter().zip(registers.into_iter().map(ParameterLocation::Register)).collect(),
            None if returns.len() == 1 => vec![(returns[0], ParameterLocation::Stack(0))],
            None => return Err(Unsupported::new("several results that do not fit into registers")),
        };
        let mut free = FreeRegisters::new();
        if result_in_memory {
            free.take_first();
        }
        let mut stack_bytes = 0_u32;
        let mut locations = Vec::new();
        for shape in parameters {
            let register = if shape.is_variadic { None } else { free.take(shape) };
            locations.push((
                shape,
                match register {
                    Some(register) => ParameterLocation::Register(register),
                    None => {
                        // Every parameter starts with a word, also a single byte after another one.
                        let at = stack_bytes.checked_next_multiple_of(shape.align.max(WORD)).unwrap_or(u32::MAX);
                        stack_bytes = at.saturating_add(shape.bytes);
                        ParameterLocation::Stack(at)
                    }
                },
            ));
        }
        Ok(Signature { parameters: locations, results, result_in_memory, stack_bytes })
    }

    /// Returns the number of bytes that a caller reserves for a result in memory; 0 if there is none.
    pub(crate) fn result_bytes(&self) -> u32 {
        if self.result_in_memory { self.results[0].0.bytes } else { 0 }
    }
}

/// The free parameter registers: bit n stands for Rn.
struct FreeRegisters(u32);

impl FreeRegisters {
    /// Returns the set with all parameter registers free.
    fn new() -> FreeRegisters {
        FreeRegisters(((1 << REGISTER_COUNT) - 1) << FIRST_REGISTER)
    }

    /// Takes the lowest free registers that satisfy size and alignment. Returns the first of them, or `None`.
    fn take(&mut self, shape: ParameterShape) -> Option<u8> {
        let (count, align) = (shape.words() as u32, (shape.align / WORD).max(1));
        if count > u32::from(REGISTER_COUNT) {
            return None;
        }
        let mask = |first: u32| ((1 << count) - 1) << first;
        let last = u32::from(FIRST_REGISTER + REGISTER_COUNT) - count;
        let first = (u32::from(FIRST_REGISTER)..=last).find(|&first| first % align == 0 && self.0 & mask(first) == mask(first))?;
        self.0 &= !mask(first);
        Some(first as u8)
    }

    /// Takes the first register, for the address of a result in memory.
    fn take_first(&mut self) {
        self.0 &= !(1 << FIRST_REGISTER);
    }
}

/// Returns the string by which the linker distinguishes prototypes: `#`, then one letter or size for each result and parameter.
pub fn prototype(module: &Module, returns: &[Parameter], parameters: &[Parameter]) -> String {
    let mut text = String::from("#");
    match returns {
        [] => text.push('v'),
        returns => returns.iter().for_each(|result| text.push_str(&type_code(module, result))),
    }
    parameters.iter().for_each(|parameter| text.push_str(&type_code(module, parameter)));
    text
}

/// Returns the part of a prototype string for one parameter or result.
fn type_code(module: &Module, parameter: &Parameter) -> String {
    let Ok(shape) = ParameterShape::of(module, parameter) else { return "l".into() };
    let Some(ty) = shape.scalar else { return format!("b{}", shape.bytes) };
    let letter = match (ty, ty.bits()) {
        (ScalarType::F32, _) => "f",
        (ScalarType::F64, _) => "d",
        (_, 8) => "b",
        (_, 16) => "h",
        (_, 32) => "i",
        (_, 64) => "l",
        _ => "x",
    };
    letter.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(parameters: &str) -> Vec<String> {
        let text = format!(".version 8.3\n.target sm_90\n.address_size 64\n.extern .func f({parameters});");
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "{:?}", checked.diagnostics);
        let function = checked.module.functions.iter().next().unwrap();
        let signature = Signature::new(&checked.module, &function.returns, &function.parameters).unwrap();
        let location = |&(shape, location): &(ParameterShape, ParameterLocation)| match location {
            ParameterLocation::Register(first) if shape.words() == 1 => format!("R{first}"),
            ParameterLocation::Register(first) => format!("R{first}-{}", usize::from(first) + shape.words() - 1),
            ParameterLocation::Stack(at) => format!("[{at}]"),
        };
        signature.parameters.iter().map(location).collect()
    }

    /// The expected locations are those of the table in `docs/abi.md`, which was found by compiling with ptxas.
    #[test]
    fn parameters_are_where_ptxas_has_them() {
        let many = |count: usize| (0..count).map(|n| format!(".param .b32 p{n}, ")).collect::<String>();
        let longs = |count: usize| (0..count).map(|n| format!(".param .b64 p{n}, ")).collect::<String>();
        assert_eq!(placed(".param .b32 a, .param .b64 b, .param .b32 c, .param .b64 d"), ["R4", "R6-7", "R5", "R8-9"]);
        assert_eq!(placed(".param .b32 a, .param .align 4 .b8 b[12], .param .b32 c"), ["R4", "R5-7", "R8"]);
        assert_eq!(placed(".param .b32 a, .param .align 8 .b8 b[24], .param .b32 c"), ["R4", "R6-11", "R5"]);
        assert_eq!(placed(".param .b32 a, .param .align 16 .b8 b[16], .param .b32 c"), ["R4", "R8-11", "R5"]);
        assert_eq!(placed(".param .align 1 .b8 a[3], .param .b32 b"), ["R4", "R5"]);
        assert_eq!(
            placed(".param .b32 a, .param .align 8 .b8 b[40], .param .b32 c, .param .b32 d, .param .b32 e"),
            ["R4", "R6-15", "R5", "[0]", "[4]"]
        );
        assert_eq!(placed(&format!("{}.param .b64 x, .param .b32 y", many(11)))[11..], ["[0]", "R15"]);
        assert_eq!(placed(&format!("{}.param .align 8 .b8 x[16], .param .b32 y", longs(5)))[5..], ["[0]", "R14"]);
        assert_eq!(placed(".param .b32 a, .param .align 4 .b8 b[64], .param .b32 c"), ["R4", "[0]", "R5"]);
        let bytes = ".param .b8 x, .param .b8 y, .param .b16 z, .param .b8 w";
        assert_eq!(placed(&format!("{}{bytes}", longs(6)))[6..], ["[0]", "[4]", "[8]", "[12]"]);
        let arrays = ".param .align 1 .b8 x[3], .param .align 1 .b8 y[3], .param .align 2 .b8 z[6], .param .b8 w";
        assert_eq!(placed(&format!("{}{arrays}", longs(6)))[6..], ["[0]", "[4]", "[8]", "[16]"]);
        assert_eq!(placed(&format!("{}.param .b32 x, .param .b64 y, .param .b32 z", many(12)))[12..], ["[0]", "[8]", "[16]"]);
    }

    /// The expected strings are those that ptxas 13.0 writes into the string table for these declarations.
    #[test]
    fn prototypes_are_those_of_ptxas() {
        let written = |declaration: &str| {
            let text = format!(".version 8.3\n.target sm_90\n.address_size 64\n.extern .func {declaration};");
            let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
            assert!(checked.is_valid(), "{:?}", checked.diagnostics);
            let function = checked.module.functions.iter().next().unwrap();
            prototype(&checked.module, &function.returns, &function.parameters)
        };
        let many = ".param .f32 a, .param .f64 b, .param .b8 c, .param .b16 d, .param .b32 e, .param .align 4 .b8 f[12]";
        assert_eq!(written(&format!("(.param .b64 r) f({many})")), "#lfdbhib12");
        assert_eq!(written("(.param .f32 r) f(.param .align 8 .b8 a[16])"), "#fb16");
        assert_eq!(written("f()"), "#v");
    }
}
