//! Decodes branches, calls, barriers and stack operations.

use oriole_ptx::ast::{self, LabelId, Parameter, Statement};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use oriole_support::Index;

use super::{Decode, FunctionDecoder, Missing, PtxInst, register_bytes, slots_of};
use crate::ptx::program::{BarrierArrival, BarrierArrivalKind, Callee, PassedParameter, PtxAction, PtxCall, SINK};
use crate::ptx::variables::variable_bytes;

/// Alignment of `alloca` without an alignment operand, in bytes.
const DEFAULT_ALIGN: u32 = 16;

impl FunctionDecoder<'_> {
    /// Decodes a control-flow instruction.
    pub(crate) fn control(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let action = match ptx.form.opcode {
            Opcode::Bra => {
                let ast::Operand::Label(label) = ptx.operand(0) else { return self.unsupported(ptx) };
                self.branches.push((self.program.code.len(), vec![label]));
                PtxAction::Branch { target: 0 }
            }
            Opcode::BrxIdx => {
                let ast::Operand::Label(list) = ptx.operand(1) else { return self.unsupported(ptx) };
                let index = self.source(ptx.operand(0), ScalarType::U32)?;
                let labels = self.branch_targets(list).ok_or_else(|| Missing::new(ptx.spelling()))?;
                self.branches.push((self.program.code.len(), labels));
                PtxAction::BranchIndexed { index, targets: Box::default() }
            }
            Opcode::Call => self.call(ptx)?,
            Opcode::Ret if !self.is_kernel => self.ending(),
            Opcode::Ret | Opcode::Exit => PtxAction::Exit,
            Opcode::Trap | Opcode::Brkpt => PtxAction::Trap,
            Opcode::Nanosleep => PtxAction::Yield,
            Opcode::Bar | Opcode::Barrier => self.barrier(ptx)?,
            Opcode::Alloca => {
                let size = self.source(ptx.operand(1), ptx.ty())?;
                let align = ptx.operands.get(2).and_then(|&align| self.literal(align, ScalarType::U32));
                let align = align.map_or(DEFAULT_ALIGN, |align| align as u32);
                PtxAction::Alloca { destination: self.destination(ptx.operand(0))?, size, align }
            }
            Opcode::Stacksave => PtxAction::StackSave { destination: self.destination(ptx.operand(0))? },
            Opcode::Stackrestore => PtxAction::StackRestore { source: self.source(ptx.operand(0), ptx.ty())? },
            _ => return self.unsupported(ptx),
        };
        self.push(action);
        Ok(())
    }

    /// Returns the action that ends the function.
    pub(crate) fn ending(&self) -> PtxAction {
        if self.is_kernel { PtxAction::Exit } else { PtxAction::Return { function: self.program.functions.len() as u32 } }
    }

    /// Returns the labels of a `.branchtargets` list.
    fn branch_targets(&self, name: LabelId) -> Option<Vec<LabelId>> {
        let list = self.body.statements.windows(2).find_map(|pair| match *pair {
            [Statement::Label(label), Statement::BranchTargets(list)] if label == name => Some(list),
            _ => None,
        })?;
        let label = |operand: &ast::Operand| if let ast::Operand::Label(label) = *operand { Some(label) } else { None };
        self.body.target_lists[list as usize].targets.iter().map(label).collect()
    }

    /// Fills in the targets of branches, after all labels are known.
    pub(crate) fn resolve_branches(&mut self) -> Decode {
        for (position, labels) in std::mem::take(&mut self.branches) {
            let places: Option<Vec<u32>> = labels.iter().map(|label| self.labels[label.position()]).collect();
            let places = places.ok_or_else(|| Missing::new("a branch to a label that is not in this function"))?;
            match &mut self.program.code[position].action {
                PtxAction::Branch { target } => *target = places[0],
                PtxAction::BranchIndexed { targets, .. } => *targets = places.into(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Decodes a block barrier.
    fn barrier(&mut self, ptx: &PtxInst<'_>) -> Decode<PtxAction> {
        let aligned = ptx.form.opcode == Opcode::Bar || ptx.has(Modifier::Aligned);
        let reduces = ptx.has(Modifier::Red);
        let kind = match () {
            () if ptx.has(Modifier::Arrive) => BarrierArrivalKind::Arrive,
            () if !reduces => BarrierArrivalKind::Sync,
            () if ptx.has(Modifier::Popc) => BarrierArrivalKind::Count,
            () if ptx.has(Modifier::And) => BarrierArrivalKind::All,
            () => BarrierArrivalKind::Any,
        };
        let mut operands = ptx.operands;
        let mut destination = SINK;
        let mut predicate = None;
        if reduces {
            destination = self.destination(operands[0])?;
            let (last, rest) = operands[1..].split_last().ok_or_else(|| Missing::new(ptx.spelling()))?;
            predicate = Some(self.predicate(*last)?);
            operands = rest;
        }
        let number = self.source(operands[0], ScalarType::U32)?;
        let threads = match operands.get(1) {
            Some(&threads) => Some(self.source(threads, ScalarType::U32)?),
            None => None,
        };
        Ok(PtxAction::Barrier(Box::new(BarrierArrival { kind, number, threads, predicate, destination, aligned })))
    }

    /// Decodes a call.
    fn call(&mut self, ptx: &PtxInst<'_>) -> Decode<PtxAction> {
        let list = |operand: Option<&ast::Operand>| match operand {
            Some(ast::Operand::Arguments(list)) => Some(self.body.list(*list)),
            _ => None,
        };
        let (returns, rest) = match list(ptx.operands.first()) {
            Some(returns) => (returns, &ptx.operands[1..]),
            None => (&[][..], ptx.operands),
        };
        let (&callee, rest) = rest.split_first().ok_or_else(|| Missing::new(ptx.spelling()))?;
        let arguments = list(rest.first()).unwrap_or_default();
        let function = if let ast::Operand::Function(id) = callee { Some(id) } else { None };
        // Constant arguments have the types of the formal parameters.
        let formals: Vec<ScalarType> = match function {
            Some(id) => self.module.functions[id].parameters.iter().map(|parameter| self.formal_type(parameter)).collect(),
            None => self.prototype_types(rest),
        };
        let callee = match function {
            Some(id) => {
                let name = self.module.functions[id].name;
                Callee::Function(self.functions.number_of(name).ok_or_else(|| Missing::new("a call of this function"))?)
            }
            None => Callee::Indirect(self.source(callee, ScalarType::U64)?),
        };
        let mut passed = Vec::new();
        for (position, &argument) in arguments.iter().enumerate() {
            let ty = formals.get(position).copied().unwrap_or(ScalarType::B32);
            passed.push(self.actual(argument, ty)?);
        }
        let mut results = Vec::new();
        for &result in returns {
            results.push(self.actual(result, ScalarType::B32)?);
        }
        Ok(PtxAction::Call(Box::new(PtxCall { callee, arguments: passed.into(), results: results.into() })))
    }

    /// Returns the type of a formal parameter.
    fn formal_type(&self, parameter: &Parameter) -> ScalarType {
        match *parameter {
            Parameter::Variable(id) => match self.module.variables[id].ty {
                ast::VariableType::Scalar(ty) => ty,
                _ => ScalarType::B64,
            },
            Parameter::Register { ty, .. } => ty,
        }
    }

    /// Returns the parameter types of the prototype that an indirect call names.
    fn prototype_types(&self, rest: &[ast::Operand]) -> Vec<ScalarType> {
        let Some(&ast::Operand::Label(name)) = rest.last() else { return Vec::new() };
        let prototype = self.body.statements.windows(2).find_map(|pair| match *pair {
            [Statement::Label(label), Statement::CallPrototype(number)] if label == name => Some(number),
            _ => None,
        });
        let parameters = prototype.map_or(&[][..], |number| &self.body.prototypes[number as usize].parameters);
        parameters.iter().map(|parameter| self.formal_type(parameter)).collect()
    }

    /// Describes an argument or a result of a call on the caller's side.
    fn actual(&mut self, operand: ast::Operand, ty: ScalarType) -> Decode<PassedParameter> {
        Ok(match operand {
            ast::Operand::Variable(id) => {
                let offset = *self.frame.get(&id).ok_or_else(|| Missing::new("this variable as a parameter"))?;
                PassedParameter::Frame { offset, bytes: variable_bytes(&self.module.variables[id]).unwrap_or(0) }
            }
            ast::Operand::AddressOf(position) => {
                let address = self.body.addresses[position as usize];
                let ast::AddressBase::VariableMember(id, member) = address.base else {
                    return Err(Missing::new("this operand as a parameter"));
                };
                let start = *self.frame.get(&id).ok_or_else(|| Missing::new("this variable as a parameter"))?;
                let bytes = self.module.variables[id].size_bytes().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
                PassedParameter::Frame { offset: start + member * self.stride(id), bytes }
            }
            ast::Operand::Register(register) => {
                let declaration = self.body.declaration_of(register);
                PassedParameter::Registers {
                    first: self.slot(register, 0),
                    count: declaration.lanes.max(1) * slots_of(declaration.ty) as u8,
                    bytes: register_bytes(declaration.ty),
                }
            }
            ast::Operand::Element(register, component) => PassedParameter::Registers {
                first: self.slot(register, component.index().unwrap_or(0)),
                count: slots_of(self.body.declaration_of(register).ty) as u8,
                bytes: register_bytes(self.body.declaration_of(register).ty),
            },
            ast::Operand::Sink => PassedParameter::Nothing,
            _ => PassedParameter::Value { source: self.source(operand, ty)?, bytes: register_bytes(ty) },
        })
    }
}
