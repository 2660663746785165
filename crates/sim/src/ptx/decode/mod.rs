//! Decodes the typed syntax tree into executable code: each function once, each instruction by the handler of its family.

mod atomic;
mod cluster;
mod compare;
mod control;
mod convert;
mod copy;
mod float;
mod fragment;
mod integer;
mod logic;
mod mbarrier;
mod memory;
mod mma;
mod moves;
mod operands;
mod special;
mod tensor_map;
mod texture;
mod video;
mod warp;
mod wgmma;

use std::cell::{Cell, RefCell};

use oriole_ptx::ast::{
    self, Body, Form, Function, FunctionKind, InstructionId, Item, LabelId, Module, Parameter, RegisterId, Statement, VariableId,
};
use oriole_ptx::source::LineIndex;
use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::{ScalarType, StateSpace};
use oriole_support::{Architecture, Index, Name};
use rustc_hash::FxHashMap;

use super::finding::PtxError;
use super::program::{
    Builtin, CallTarget, FIRST_REGISTER, FIRST_TEMPORARY, FunctionCode, GuardPredicate, KernelAttributes, PassedParameter, PtxAction,
    PtxOp, PtxProgram, PtxSource, Pure, RegisterSlot, Taint,
};
use super::variables::{PtxVariables, member_stride, variable_bytes};

/// An instruction as seen by the handlers.
#[derive(Clone, Copy)]
pub(crate) struct PtxInst<'m> {
    pub(crate) form: &'m Form,
    pub(crate) operands: &'m [ast::Operand],
    /// Whether the module is for sm_10 to sm_13, whose single-precision instructions flush subnormal numbers without `.ftz`.
    pub(crate) flushes: bool,
}

impl PtxInst<'_> {
    pub(crate) fn has(&self, modifier: Modifier) -> bool {
        if modifier == Modifier::Ftz && self.flushes {
            // Conversions to and from 64 bits never flush.
            let mut types = self.form.modifiers.iter().filter_map(|value| value.modifier.scalar_type());
            let is_narrow = types.clone().all(|ty| ty.bytes() < 8);
            return is_narrow && types.any(|ty| ty == ScalarType::F32);
        }
        self.form.has(modifier)
    }

    /// Returns the modifier in a slot of the form.
    pub(crate) fn get(&self, slot: FormSlot) -> Option<Modifier> {
        self.form.get(slot)
    }

    /// Returns the type of the instruction: the modifier in slot `type`, or else the first type among its modifiers.
    pub(crate) fn ty(&self) -> ScalarType {
        let first = || self.form.modifiers.iter().find_map(|value| value.modifier.scalar_type());
        self.form.scalar_type(FormSlot::Type).or_else(first).unwrap_or(ScalarType::B32)
    }

    /// Returns all types among the modifiers, in order.
    pub(crate) fn types(&self) -> Vec<ScalarType> {
        self.form.modifiers.iter().filter_map(|value| value.modifier.scalar_type()).collect()
    }

    pub(crate) fn operand(&self, position: usize) -> ast::Operand {
        self.operands[position]
    }

    /// Returns the opcode with its modifiers as written, without operands.
    pub(crate) fn spelling(&self) -> String {
        let first = self.form.opcode.spelling().split('.').next().unwrap_or_default();
        self.form.modifiers.iter().fold(first.to_owned(), |text, value| text + "." + value.modifier.spelling())
    }
}

/// A feature of an instruction that the interpreter does not implement.
pub(crate) struct Missing(pub(crate) String);

/// The result of decoding a part of an instruction.
pub(crate) type Decode<T = ()> = Result<T, Missing>;

impl Missing {
    pub(crate) fn new(feature: impl Into<String>) -> Missing {
        Missing(feature.into())
    }
}

/// Decodes a whole module; `text` is needed for line numbers only. A function with an unsupported feature fails only when it is called.
pub(crate) fn decode(module: &Module, text: &[u8]) -> Result<PtxProgram, PtxError> {
    let lines = LineIndex::new(text);
    let functions = Functions::of(module);
    let unsupported = |feature: String| PtxError::Unsupported { feature, line: 0 };
    let variables = PtxVariables::new(module, &functions.number).map_err(unsupported)?;
    let mut program = PtxProgram {
        code: Vec::new(),
        functions: Vec::new(),
        pool: vec![0],
        global_addresses: Vec::new(),
        variables,
        kernels: FxHashMap::default(),
        shared_addresses: Vec::new(),
    };
    for (number, &function) in functions.definitions.iter().enumerate() {
        let name = module.name(function.name);
        let target = match &function.body {
            Some(body) => {
                if function.kind == FunctionKind::Entry {
                    program.kernels.insert(name.to_owned(), number as u32);
                }
                let start = program.code.len();
                match decode_function(module, &functions, &mut program, &lines, function, body) {
                    Ok(code) => CallTarget::Code(code),
                    Err(error) => {
                        program.code.truncate(start);
                        CallTarget::Refused { name: name.to_owned(), error }
                    }
                }
            }
            None => match name {
                "vprintf" => CallTarget::Builtin(Builtin::Print),
                "malloc" => CallTarget::Builtin(Builtin::Allocate),
                "free" => CallTarget::Builtin(Builtin::Free),
                "__assertfail" => CallTarget::Builtin(Builtin::AssertFail),
                _ => CallTarget::Missing(name.to_owned()),
            },
        };
        program.functions.push(target);
    }
    Ok(program)
}

/// The functions of a module, one per name: the definition, or else a declaration.
pub(crate) struct Functions<'m> {
    definitions: Vec<&'m Function>,
    /// Index into `definitions` for each name, aliases included.
    number: FxHashMap<Name, u32>,
}

impl<'m> Functions<'m> {
    fn of(module: &'m Module) -> Functions<'m> {
        let mut functions = Functions { definitions: Vec::new(), number: FxHashMap::default() };
        for function in module.functions.iter() {
            match functions.number.get(&function.name) {
                Some(&number) if function.body.is_some() => functions.definitions[number as usize] = function,
                Some(_) => {}
                None => {
                    functions.number.insert(function.name, functions.definitions.len() as u32);
                    functions.definitions.push(function);
                }
            }
        }
        for item in &module.items {
            if let Item::Alias(alias) = item
                && let Some(&number) = functions.number.get(&alias.target)
            {
                functions.number.insert(alias.name, number);
            }
        }
        functions
    }

    pub(crate) fn number_of(&self, name: Name) -> Option<u32> {
        self.number.get(&name).copied()
    }
}

/// The state of decoding one function.
pub(crate) struct FunctionDecoder<'m> {
    pub(crate) module: &'m Module,
    pub(crate) body: &'m Body,
    pub(crate) functions: &'m Functions<'m>,
    pub(crate) program: &'m mut PtxProgram,
    pub(crate) is_kernel: bool,
    /// The first slot of each register that is used; most declared registers are not.
    slots: RefCell<FxHashMap<RegisterId, RegisterSlot>>,
    /// The next free slot.
    next_slot: Cell<RegisterSlot>,
    /// The next free temporary of the current instruction.
    next_temporary: RegisterSlot,
    /// Offset of each variable in the frame.
    frame: FxHashMap<VariableId, u32>,
    frame_bytes: u32,
    frame_align: u32,
    /// Offset of each kernel parameter.
    kernel_parameters: FxHashMap<VariableId, u32>,
    /// Code index of each label; `None` until it is reached.
    labels: Vec<Option<u32>>,
    /// Branches whose targets are filled in at the end: code index and target labels.
    branches: Vec<(usize, Vec<LabelId>)>,
    /// Pool entry of each constant.
    pool_index: FxHashMap<u64, u32>,
    guard: Option<GuardPredicate>,
    line: u32,
}

/// Decodes one function and appends its code to the program.
fn decode_function<'m>(
    module: &'m Module,
    functions: &'m Functions<'m>,
    program: &'m mut PtxProgram,
    lines: &LineIndex,
    function: &'m Function,
    body: &'m Body,
) -> Result<FunctionCode, PtxError> {
    let entry = program.code.len() as u32;
    let is_kernel = function.kind == FunctionKind::Entry;
    let mut decoder = FunctionDecoder {
        module,
        body,
        functions,
        program,
        is_kernel,
        slots: RefCell::default(),
        next_slot: Cell::new(FIRST_REGISTER),
        next_temporary: FIRST_TEMPORARY,
        frame: FxHashMap::default(),
        frame_bytes: 0,
        frame_align: 16,
        kernel_parameters: FxHashMap::default(),
        labels: vec![None; body.labels.len()],
        branches: Vec::new(),
        pool_index: FxHashMap::default(),
        guard: None,
        line: 0,
    };
    let open_parameter = decoder.place_variables(function);
    let kernel = is_kernel.then(|| decoder.place_kernel_parameters(function));
    for (position, statement) in body.statements.iter().enumerate() {
        decoder.line = body.position(position).map_or(0, |span| lines.line_column(span.start).0);
        let outcome = match *statement {
            Statement::Label(label) => {
                decoder.labels[label.position()] = Some(decoder.program.code.len() as u32);
                Ok(())
            }
            Statement::Instruction(id) => decoder.instruction(id),
            _ => Ok(()),
        };
        outcome.map_err(|Missing(feature)| PtxError::Unsupported { feature, line: decoder.line })?;
    }
    decoder.guard = None;
    let ending = decoder.ending();
    decoder.push(ending);
    decoder.resolve_branches().map_err(|Missing(feature)| PtxError::Unsupported { feature, line: decoder.line })?;
    let passed = |decoder: &FunctionDecoder<'_>, parameters: &[Parameter]| -> Box<[PassedParameter]> {
        parameters.iter().map(|parameter| decoder.formal(parameter, open_parameter)).collect()
    };
    let (parameters, results) = if is_kernel {
        (Box::default(), Box::default())
    } else {
        (passed(&decoder, &function.parameters), passed(&decoder, &function.returns))
    };
    Ok(FunctionCode {
        name: module.name(function.name).to_owned(),
        entry,
        end: decoder.program.code.len() as u32,
        registers: decoder.next_slot.get(),
        frame_bytes: decoder.frame_bytes,
        frame_align: decoder.frame_align,
        parameters,
        results,
        kernel,
    })
}

/// Returns the number of slots of an element of this type.
pub(crate) fn slots_of(ty: ScalarType) -> u32 {
    if ty.bits() > 64 { 2 } else { 1 }
}

impl FunctionDecoder<'_> {
    /// Assigns frame offsets to local variables, function parameters and call parameters. Returns the parameter that is an array of unknown
    /// length, if any; it is placed at the end of the frame.
    fn place_variables(&mut self, function: &Function) -> Option<VariableId> {
        let mut open = None;
        if !self.is_kernel {
            for parameter in function.parameters.iter().chain(&function.returns) {
                if let Parameter::Variable(id) = *parameter
                    && !self.place_in_frame(id)
                {
                    open = Some(id);
                }
            }
        }
        for statement in &self.body.statements {
            if let Statement::Variable(id) = *statement
                && matches!(self.module.variables[id].space, StateSpace::Local | StateSpace::Param)
            {
                self.place_in_frame(id);
            }
        }
        self.frame_bytes = self.frame_bytes.checked_next_multiple_of(16).unwrap_or(u32::MAX);
        if let Some(id) = open {
            self.frame.insert(id, self.frame_bytes);
        }
        open
    }

    /// Assigns a frame offset to a variable; returns false if its size is unknown.
    fn place_in_frame(&mut self, id: VariableId) -> bool {
        let variable = &self.module.variables[id];
        let Some(bytes) = variable_bytes(variable) else { return false };
        let align = u32::try_from(variable.align_bytes().max(1)).unwrap_or(1);
        self.frame_align = self.frame_align.max(align);
        let start = self.frame_bytes.checked_next_multiple_of(align).unwrap_or(u32::MAX);
        self.frame.insert(id, start);
        self.frame_bytes = start.saturating_add(bytes);
        true
    }

    /// Assigns offsets to the parameters of a kernel and collects its launch bounds.
    fn place_kernel_parameters(&mut self, function: &Function) -> KernelAttributes {
        let mut parameters = Vec::new();
        let mut end = 0_u32;
        for parameter in &function.parameters {
            let Parameter::Variable(id) = *parameter else { continue };
            let variable = &self.module.variables[id];
            let bytes = variable_bytes(variable).unwrap_or(8);
            // The checker rejects parameters larger than some KiB, so this does not overflow.
            let start = end.checked_next_multiple_of(u32::try_from(variable.align_bytes().max(1)).unwrap_or(1)).unwrap_or(0);
            self.kernel_parameters.insert(id, start);
            parameters.push((start, bytes));
            end = start.saturating_add(bytes);
        }
        let three = |sizes: &Vec<u32>| -> [u32; 3] { std::array::from_fn(|axis| sizes.get(axis).copied().unwrap_or(1).max(1)) };
        let bounds = &function.bounds;
        let cluster = bounds.required_cluster.as_ref().map(three);
        let required_block = bounds.required_threads.as_ref().map(three);
        let most_threads =
            bounds.max_threads.as_ref().map(|sizes| three(sizes).iter().fold(1_u64, |threads, &size| threads.saturating_mul(size.into())));
        KernelAttributes { parameters, parameter_bytes: end, cluster, required_block, most_threads }
    }

    /// Describes a formal parameter or result for calls.
    fn formal(&self, parameter: &Parameter, open: Option<VariableId>) -> PassedParameter {
        match *parameter {
            Parameter::Variable(id) => {
                let offset = self.frame.get(&id).copied().unwrap_or(0);
                let bytes = if open == Some(id) { 0 } else { variable_bytes(&self.module.variables[id]).unwrap_or(0) };
                PassedParameter::Frame { offset, bytes }
            }
            Parameter::Register { ty, lanes, declaration: Some(declaration), .. } => PassedParameter::Registers {
                first: self.slot(self.body.registers[declaration].first, 0),
                count: lanes.max(1) * slots_of(ty) as u8,
                bytes: register_bytes(ty),
            },
            Parameter::Register { .. } => PassedParameter::Nothing,
        }
    }

    pub(crate) fn stride(&self, id: VariableId) -> u32 {
        member_stride(&self.module.variables[id])
    }

    /// Decodes an instruction: its guard, then the operation.
    fn instruction(&mut self, id: InstructionId) -> Decode {
        let instruction = &self.body.instructions[id];
        let flushes = self.module.target.architecture() == Architecture::Tesla;
        let ptx = PtxInst { form: &self.module.forms[instruction.form], operands: self.body.operands_of(instruction), flushes };
        self.guard = None;
        self.next_temporary = FIRST_TEMPORARY;
        if let Some(guard) = instruction.guard {
            let slot = match guard.source {
                ast::GuardSource::Register(register) => self.slot(register, 0),
                ast::GuardSource::Special(special) => self.special(special)?,
            };
            self.guard = Some(GuardPredicate { slot, negated: guard.negated });
        }
        self.dispatch(&ptx)
    }

    /// Appends an operation with the guard of the current instruction.
    pub(crate) fn push(&mut self, action: PtxAction) {
        self.program.code.push(PtxOp { guard: self.guard, line: self.line, action });
    }

    /// Appends an operation without guard; it only prepares operands.
    pub(crate) fn push_always(&mut self, action: PtxAction) {
        self.program.code.push(PtxOp { guard: None, line: self.line, action });
    }

    /// Returns a slot that is free until the next PTX instruction.
    pub(crate) fn temporary(&mut self) -> RegisterSlot {
        if self.next_temporary == FIRST_REGISTER {
            return self.new_slots(1);
        }
        self.next_temporary += 1;
        self.next_temporary - 1
    }

    /// Allocates consecutive slots and returns the first.
    pub(crate) fn new_slots(&self, count: u32) -> RegisterSlot {
        self.next_slot.replace(self.next_slot.get() + count)
    }

    /// Returns a constant, with one pool entry per value.
    pub(crate) fn constant(&mut self, bits: u64) -> PtxSource {
        let pool = &mut self.program.pool;
        let index = *self.pool_index.entry(bits).or_insert_with(|| {
            pool.push(bits);
            pool.len() as u32 - 1
        });
        PtxSource::pool(index)
    }

    /// Returns the address of a global variable, which is filled in when the program is loaded.
    pub(crate) fn global_address(&mut self, number: u32, offset: i64) -> PtxSource {
        self.program.pool.push(0);
        let index = self.program.pool.len() as u32 - 1;
        self.program.global_addresses.push((index, number, offset));
        PtxSource::pool(index)
    }

    /// Returns an address in the shared memory of the block. The rank of the block in its cluster is added when the block runs.
    pub(crate) fn shared_address(&mut self, offset: u64) -> PtxSource {
        self.program.pool.push(offset);
        let index = self.program.pool.len() as u32 - 1;
        self.program.shared_addresses.push(index);
        PtxSource::pool(index)
    }

    /// Returns the constant zero.
    pub(crate) fn zero(&self) -> PtxSource {
        PtxSource::pool(0)
    }

    fn padded(&self, sources: &[PtxSource]) -> [PtxSource; 5] {
        let mut all = [self.zero(); 5];
        all[..sources.len()].copy_from_slice(sources);
        all
    }

    /// Appends a computation with one result.
    pub(crate) fn compute(&mut self, destination: RegisterSlot, sources: &[PtxSource], function: Pure, taint: Taint) {
        let sources = self.padded(sources);
        self.push(PtxAction::Compute { destination, sources, function, taint });
    }

    /// Appends a computation with one operand; any undefined bit makes the result undefined.
    pub(crate) fn compute1(&mut self, destination: RegisterSlot, a: PtxSource, f: impl Fn(u64) -> u64 + Send + Sync + 'static) {
        self.compute(destination, &[a], Pure::One(Box::new(f)), Taint::Whole);
    }

    /// Appends a computation with two operands; any undefined bit makes the result undefined.
    pub(crate) fn compute2(&mut self, destination: RegisterSlot, s: [PtxSource; 2], f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) {
        self.compute(destination, &s, Pure::Two(Box::new(f)), Taint::Whole);
    }

    /// Appends a computation with three operands; any undefined bit makes the result undefined.
    pub(crate) fn compute3(
        &mut self,
        destination: RegisterSlot,
        s: [PtxSource; 3],
        f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static,
    ) {
        self.compute(destination, &s, Pure::Three(Box::new(f)), Taint::Whole);
    }

    /// Appends a computation with up to five operands and two results.
    pub(crate) fn compute_pair(
        &mut self,
        destinations: [RegisterSlot; 2],
        sources: &[PtxSource],
        f: impl Fn(&[u64; 5]) -> [u64; 2] + Send + Sync + 'static,
    ) {
        self.compute(destinations[0], sources, Pure::Many(Box::new(f), destinations[1]), Taint::Whole);
    }

    pub(crate) fn copy(&mut self, destination: RegisterSlot, source: PtxSource) {
        self.compute(destination, &[source], Pure::One(Box::new(|a| a)), Taint::Bits);
    }

    /// Returns an error that names the instruction.
    pub(crate) fn unsupported<T>(&self, ptx: &PtxInst<'_>) -> Decode<T> {
        Err(Missing::new(ptx.spelling()))
    }

    /// Calls the handler of the instruction's family.
    #[rustfmt::skip]
    fn dispatch(&mut self, ptx: &PtxInst<'_>) -> Decode {
        use Opcode::*;
        match ptx.form.opcode {
            Mov => self.mov(ptx),
            Add | Sub | Mul | Mad | Fma | Div | Min | Max | Abs | Neg if float::is_float(ptx.ty()) => self.float(ptx),
            Fma | Rcp | Sqrt | Rsqrt | Sin | Cos | Lg2 | Ex2 | Tanh | Copysign | Testp => self.float(ptx),
            Add | Sub | Mul | Mad | Addc | Subc | Madc | Mul24 | Mad24 | Sad | Div | Rem | Abs | Neg | Min | Max | Dp4a | Dp2a => {
                self.integer(ptx)
            }
            Popc | Clz | Bfind | Fns | Brev | Bfe | Bfi | Szext | Bmsk | And | Or | Xor | Not | Cnot | Lop3 | Shl | Shr | Shf | Prmt => {
                self.logic(ptx)
            }
            Vadd | Vsub | Vabsdiff | Vmin | Vmax | Vshl | Vshr | Vmad | Vset | Vadd2 | Vsub2 | Vavrg2 | Vabsdiff2 | Vmin2 | Vmax2
            | Vset2 | Vadd4 | Vsub4 | Vavrg4 | Vabsdiff4 | Vmin4 | Vmax4 | Vset4 => self.video(ptx),
            Setp | Set | Selp | Slct => self.compare(ptx),
            Cvt => self.convert(ptx),
            CvtPack => self.convert_pack(ptx),
            Ld | Ldu => self.load(ptx),
            St => self.store(ptx),
            Cvta => self.cvta(ptx),
            Isspacep => self.isspacep(ptx),
            Atom | Red => self.atomic(ptx),
            Ldmatrix | Stmatrix | Movmatrix => { self.converge(); self.matrix(ptx) }
            Tex | Tld4 | Suld | Sust | Sured | Txq | Suq => self.texture(ptx),
            Mma => { self.converge(); self.mma(ptx) }
            WmmaMma => { self.converge(); self.wmma(ptx) }
            WmmaLoad | WmmaStore => { self.converge(); self.move_fragment(ptx) }
            WgmmaMmaAsync | WgmmaMmaAsyncSp | WgmmaFence | WgmmaCommitGroup | WgmmaWaitGroup => self.warpgroup(ptx),
            CpAsync | CpAsyncCommitGroup | CpAsyncWaitGroup | CpAsyncWaitAll => self.copy_async(ptx),
            CpAsyncMbarrierArrive | MbarrierArrive | MbarrierArriveDrop | MbarrierCompleteTx | MbarrierExpectTx | MbarrierInit
            | MbarrierInval | MbarrierPendingCount | MbarrierTestWait | MbarrierTryWait => self.mbarrier(ptx),
            CpAsyncBulk | CpReduceAsyncBulk | CpAsyncBulkPrefetch | CpAsyncBulkCommitGroup | CpAsyncBulkWaitGroup => self.bulk(ptx),
            Griddepcontrol | Setmaxnreg | CpAsyncBulkPrefetchTensor => { self.push(PtxAction::Nothing); Ok(()) }
            Prefetch | Prefetchu | Applypriority | Discard | Pmevent => { self.push(PtxAction::Nothing); Ok(()) }
            Createpolicy => self.create_policy(ptx),
            Fence | Membar => { self.push(PtxAction::Fence { is_for_async: is_async_fence(ptx) }); Ok(()) }
            Bra | BrxIdx | Call | Ret | Exit | Trap | Brkpt | Nanosleep | Bar | Barrier | Alloca | Stacksave | Stackrestore => {
                self.control(ptx)
            }
            BarrierCluster | Mapa | Getctarank => self.cluster(ptx),
            StAsync | RedAsync => self.store_async(ptx),
            CpAsyncBulkTensor | CpReduceAsyncBulkTensor => self.tensor_copy(ptx),
            TensormapReplace | TensormapCpFenceproxy => self.tensor_map(ptx),
            BarWarpSync | Shfl | ShflSync | Vote | VoteSync | Match | ReduxSync | ElectSync | Activemask => self.together(ptx),
            _ => self.unsupported(ptx),
        }
    }
}

/// Returns whether a fence makes stores visible to asynchronous operations.
fn is_async_fence(ptx: &PtxInst<'_>) -> bool {
    ptx.has(Modifier::Proxy) && (ptx.has(Modifier::Async) || ptx.has(Modifier::AsyncGeneric))
}

/// Returns the number of bytes of a register when it is passed to a function.
pub(crate) fn register_bytes(ty: ScalarType) -> u8 {
    if ty == ScalarType::Pred { 1 } else { ty.bytes().min(8) as u8 }
}
