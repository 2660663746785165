//! Tests the seven verifiers: correct code, and changes that one of them must find, by its name and as the right problem. Uses the kernels
//! of `tests/faults` with all their faults, and changes that assembler text cannot express: bits, attributes, symbols.

use std::collections::BTreeMap;
use std::path::Path;

use super::faults::{kernels, target};
use oriole_cubin::Cubin;
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue, BranchTargets};
use oriole_cubin::section::Content;
use oriole_driver::{Options as Compiler, compile};
use oriole_isa::{Control, InstGuard, Instruction, Opcode, Operand, OperandValue, RegFile, Target, decode, encode, parse};
use oriole_sim::verify::{Verifier, verify_cubin};

const INSTRUCTION_BYTES: usize = 16;

/// A cubin, of which one function is changed.
#[derive(Clone)]
struct Subject {
    cubin: Cubin,
    function: String,
    section: usize,
    target: Target,
}

impl Subject {
    fn new(bytes: &[u8]) -> Subject {
        let cubin = Cubin::read(bytes).expect("a cubin");
        let target = cubin.target().expect("a target");
        let (name, section) = cubin.functions().next().map(|one| (one.name.to_owned(), one.section)).expect("a function");
        Subject { cubin, function: name, section, target }
    }

    /// Assembles a kernel of the fault tests.
    fn fault(name: &str) -> Subject {
        let kernel = kernels().into_iter().find(|kernel| kernel.name == name).expect("a kernel");
        Subject::new(&kernel.assemble(None).expect("it can be assembled").cubin)
    }

    /// Compiles a file of the repository.
    fn compiled(path: &str) -> Subject {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let text = std::fs::read(&path).expect("a PTX file");
        let module = oriole_ptx::check(&text, &oriole_ptx::Options::default()).module;
        let options = Compiler { level: 3, ..Compiler::new(target()) };
        let compiled = compile(&[&module], &options).expect("it compiles");
        Subject::new(&compiled.cubin)
    }

    fn words(&self) -> Vec<u128> {
        let bytes = self.cubin.bytes_of(self.section).expect("code");
        bytes.chunks_exact(INSTRUCTION_BYTES).map(|word| u128::from_le_bytes(word.try_into().expect("a word"))).collect()
    }

    fn set_words(&mut self, words: &[u128]) {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.cubin.section_mut(self.section).expect("the section").content = Content::Bytes(bytes);
    }

    /// Returns the index of the n-th instruction with this opcode.
    fn find(&self, opcode: Opcode, nth: usize) -> usize {
        let is_it = |word: &u128| decode(*word, self.target).is_some_and(|instruction| instruction.opcode == opcode);
        let found = self.words().iter().enumerate().filter(|(_, word)| is_it(word)).map(|(number, _)| number).nth(nth);
        found.unwrap_or_else(|| panic!("{}: no {} of number {nth}", self.function, opcode.mnemonic()))
    }

    /// Changes an encoded instruction.
    fn change(&mut self, number: usize, change: impl Fn(u128) -> u128) {
        let mut words = self.words();
        words[number] = change(words[number]);
        self.set_words(&words);
    }

    /// Changes the control word of an instruction; reuse flags are kept.
    fn control(&mut self, number: usize, change: impl Fn(Control) -> Control) {
        self.change(number, |word| {
            let old = Control::of(word);
            word & !Control::MASK | Control { reuse: old.reuse, ..change(old) }.bits()
        });
    }

    /// Replaces an instruction; its control word is kept.
    fn instruction(&mut self, number: usize, change: impl Fn(Instruction) -> Instruction) {
        let target = self.target;
        self.change(number, |word| encode(&change(decode(word, target).expect("known")), target).expect("it can be encoded"));
    }

    fn text(&mut self, number: usize, text: &str) {
        self.instruction(number, |old| Instruction { control: old.control, ..parse(text).expect("an instruction") });
    }

    fn attribute(&mut self, code: AttributeCode, change: impl Fn(&mut AttributeValue)) {
        let name = format!(".nv.info.{}", self.function);
        let index = self.cubin.find(&name).expect("attributes");
        let Some(Content::Info(list)) = self.cubin.section_mut(index).map(|section| &mut section.content) else { panic!("attributes") };
        change(&mut list.iter_mut().find(|attribute| attribute.code == code).expect("the attribute").value);
    }

    fn push_attribute(&mut self, code: AttributeCode, value: AttributeValue) {
        let index = self.cubin.find(&format!(".nv.info.{}", self.function)).expect("attributes");
        let Some(Content::Info(list)) = self.cubin.section_mut(index).map(|section| &mut section.content) else { panic!("attributes") };
        list.push(Attribute::new(code, value));
    }

    fn found(&self) -> Vec<(Verifier, &'static str)> {
        let report = verify_cubin(&self.cubin.write().expect("it can be written"), &Verifier::ALL).expect("it can be verified");
        report.findings().map(|(_, finding)| (finding.verifier, finding.kind)).collect()
    }
}

/// A change: its name, the verifier and the problem that must be reported, and the changed cubin.
type Case = (String, Verifier, &'static str, Subject);

/// A change before it is applied: name, verifier, problem, and the function that applies it.
type Change<'a> = (&'a str, Verifier, &'static str, Box<dyn Fn(&mut Subject) + 'a>);

fn cases(base: &Subject, list: Vec<Change<'_>>) -> Vec<Case> {
    assert_eq!(base.found(), [], "{} is clean before it is changed", base.function);
    let changed = |change: &dyn Fn(&mut Subject)| {
        let mut subject = base.clone();
        change(&mut subject);
        subject
    };
    list.into_iter()
        .map(|(name, verifier, kind, change)| (format!("{}: {name}", base.function), verifier, kind, changed(&*change)))
        .collect()
}

fn bound_cases() -> Vec<Case> {
    let base = Subject::fault("alu_chain");
    let stall = |stall: u8, opcode: Opcode| {
        move |subject: &mut Subject| {
            let number = subject.find(opcode, 0);
            subject.control(number, |old| Control { stall, stay: true, ..old });
        }
    };
    let bit = |bit: u32| move |subject: &mut Subject| subject.change(2, |word| word | 1 << bit);
    use Verifier::Bounds;
    cases(
        &base,
        vec![
            ("12 cycles without yield", Bounds, "stall-ignored", Box::new(stall(12, Opcode::MOV))),
            ("13 cycles without yield", Bounds, "stall-ignored", Box::new(stall(13, Opcode::IADD3))),
            ("14 cycles without yield", Bounds, "stall-ignored", Box::new(stall(14, Opcode::IMAD))),
            ("15 cycles without yield", Bounds, "stall-ignored", Box::new(stall(15, Opcode::ULDC))),
            ("15 cycles at a store", Bounds, "stall-ignored", Box::new(stall(15, Opcode::STG))),
            ("12 cycles at the exit", Bounds, "stall-ignored", Box::new(stall(12, Opcode::EXIT))),
            ("bit 126", Bounds, "beyond-control", Box::new(bit(126))),
            ("bit 127", Bounds, "beyond-control", Box::new(bit(127))),
        ],
    )
}

fn index_cases() -> Vec<Case> {
    let write = |opcode: Opcode, board: u8| {
        move |subject: &mut Subject| {
            let number = subject.find(opcode, 0);
            subject.control(number, |old| Control { write_barrier: Some(board), ..old });
        }
    };
    let read = |opcode: Opcode, board: u8| {
        move |subject: &mut Subject| {
            let number = subject.find(opcode, 0);
            subject.control(number, |old| Control { read_barrier: Some(board), ..old });
        }
    };
    use Verifier::Indices;
    let mut list = cases(
        &Subject::fault("load_global"),
        vec![
            ("scoreboard 6 of a load", Indices, "no-such-scoreboard", Box::new(write(Opcode::LDG, 6))),
            ("scoreboard 6 for the reads of a load", Indices, "no-such-scoreboard", Box::new(read(Opcode::LDG, 6))),
            ("scoreboard 6 of S2R", Indices, "no-such-scoreboard", Box::new(write(Opcode::S2R, 6))),
            ("scoreboard 6 of a store", Indices, "no-such-scoreboard", Box::new(read(Opcode::STG, 6))),
            ("a sum sets a scoreboard", Indices, "cannot-set", Box::new(write(Opcode::IADD3, 2))),
            ("a sum announces its reads", Indices, "cannot-set", Box::new(read(Opcode::IADD3, 2))),
            ("a move sets a scoreboard", Indices, "cannot-set", Box::new(write(Opcode::MOV, 0))),
            ("a comparison sets a scoreboard", Indices, "cannot-set", Box::new(write(Opcode::ISETP, 5))),
            ("a product announces its reads", Indices, "cannot-set", Box::new(read(Opcode::IMAD, 5))),
        ],
    );
    list.extend(cases(
        &Subject::fault("counted_wait"),
        vec![(
            "DEPBAR of scoreboard 7",
            Indices,
            "no-such-scoreboard",
            Box::new(|subject: &mut Subject| {
                let number = subject.find(Opcode::DEPBAR, 0);
                // The bits of the scoreboard field are those that differ between encodings of different scoreboards.
                let word = |board: u8| encode(&parse(&format!("DEPBAR.LE SB{board}, 0x1")).expect("text"), target()).expect("a word");
                let field = word(0) ^ word(1) | word(0) ^ word(2) | word(0) ^ word(4);
                subject.change(number, |old| old | field);
            }),
        )],
    ));
    list
}

fn wait_cases() -> Vec<Case> {
    use Verifier::Waits;
    cases(
        &Subject::fault("counted_wait"),
        vec![(
            "counts loads and special registers together",
            Waits,
            "count-out-of-order",
            Box::new(|subject: &mut Subject| {
                let number = subject.find(Opcode::LDS, 1);
                subject.text(number, "S2R R7, SR_TID.X");
            }),
        )],
    )
}

fn completeness_cases() -> Vec<Case> {
    let call = |waits: u8| {
        move |subject: &mut Subject| {
            let number = subject.find(Opcode::LDG, 0) + 1;
            subject.text(number, "CALL.ABS.NOINC 0x0");
            subject.control(number, |old| Control { wait: waits, stall: 5, ..old });
        }
    };
    cases(
        &Subject::fault("load_global"),
        vec![
            ("other code is called before a load is there", Verifier::Completeness, "not-settled", Box::new(call(0))),
            ("other code is called after a wait for the address", Verifier::Completeness, "not-settled", Box::new(call(2))),
        ],
    )
}

fn format_cases() -> Vec<Case> {
    use Verifier::Format;
    cases(
        &Subject::fault("load_global"),
        vec![
            ("an unknown word", Format, "unknown-word", Box::new(|subject: &mut Subject| subject.change(4, |word| word | 0xfff))),
            (
                "a bit without meaning",
                Format,
                "stray-bits",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::MOV, 0);
                    let target = subject.target;
                    subject.change(number, |word| word | free_bits(word, target) & free_bits(word, target).wrapping_neg());
                }),
            ),
            (
                "all bits without meaning",
                Format,
                "stray-bits",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::EXIT, 0);
                    let target = subject.target;
                    subject.change(number, |word| word | free_bits(word, target));
                }),
            ),
            (
                "a reuse flag of a load",
                Format,
                "reuse-of-nothing",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::LDG, 0);
                    subject.change(number, |word| word | Control { reuse: 15, ..Control::of(word) }.bits());
                }),
            ),
            (
                "a reuse flag of RZ",
                Format,
                "reuse-of-nothing",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::IADD3, 0);
                    subject.change(number, |word| word | Control { reuse: 4, ..Control::of(word) }.bits());
                }),
            ),
            (
                "a sum with signs on its first two sources",
                Format,
                "two-signs",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::IADD3, 0);
                    subject.text(number, "IADD3 R10, R10, R10, RZ");
                    // The encoder refuses such an instruction, but not one that was decoded.
                    subject.instruction(number, |mut sum| {
                        let is_r10 = |value: &OperandValue| *value == OperandValue::Register(RegFile::General, Some(10));
                        sum.operands.iter_mut().filter(|operand| is_r10(&operand.value)).skip(1).for_each(|operand| operand.negate = true);
                        sum
                    });
                }),
            ),
            (
                "a pair that starts at an odd register",
                Format,
                "unaligned",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::LDC, 0);
                    subject.text(number, "LDC.64 R13, c[0x0][0x210]");
                }),
            ),
            (
                "an odd address",
                Format,
                "unaligned",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::STG, 0);
                    subject.text(number, "STG.E desc[UR4][R3.64], R10");
                }),
            ),
            ("a branch into an instruction", Format, "branch-unaligned", Box::new(|subject: &mut Subject| subject.move_branch(-8))),
            ("a branch before the start", Format, "branch-outside", Box::new(|subject: &mut Subject| subject.move_branch(-0x1000))),
            ("a branch after the end", Format, "branch-outside", Box::new(|subject: &mut Subject| subject.move_branch(0x1000))),
            (
                "an exit that may go on",
                Format,
                "no-end",
                Box::new(|subject: &mut Subject| {
                    let number = subject.find(Opcode::EXIT, 0);
                    subject.instruction(number, |old| Instruction {
                        guard: InstGuard { predicate: 0, negated: false, uniform: false },
                        ..old
                    });
                }),
            ),
            (
                "a section that is cut",
                Format,
                "odd-length",
                Box::new(|subject: &mut Subject| {
                    let words = subject.words();
                    subject.set_words(&words[..words.len() - 1]);
                }),
            ),
        ],
    )
}

/// Returns the bits of a word that no field uses.
fn free_bits(word: u128, target: Target) -> u128 {
    let form = oriole_isa::form_of(word, target).expect("known").form();
    !(form.carried | form.mask | Control::MASK | 0xf << 12) & !(3 << 126)
}

impl Subject {
    /// Moves the target of the first branch by a number of bytes.
    fn move_branch(&mut self, bytes: i64) {
        let number = self.find(Opcode::BRA, 0);
        self.instruction(number, |mut old| {
            for operand in &mut old.operands {
                if let OperandValue::Relative(distance) = operand.value {
                    *operand = Operand { value: OperandValue::Relative(distance + bytes), ..operand.clone() };
                }
            }
            Instruction { residue: 0, ..old }
        });
    }
}

fn yield_cases() -> Vec<Case> {
    use Verifier::Yields;
    let keep = |opcode: Opcode, nth: usize| {
        move |subject: &mut Subject| {
            let number = subject.find(opcode, nth);
            subject.change(number, |word| {
                let control = Control::of(word);
                word & !Control::MASK | Control { stay: false, reuse: 1, ..control }.bits()
            });
        }
    };
    let zero = |opcode: Opcode| {
        move |subject: &mut Subject| {
            let number = subject.find(opcode, 0);
            subject.control(number, |old| Control { stall: 0, stay: true, ..old });
        }
    };
    cases(
        &Subject::fault("alu_chain"),
        vec![
            ("reuse of a sum with yield", Yields, "reuse-given-up", Box::new(keep(Opcode::IADD3, 0))),
            ("reuse of another sum with yield", Yields, "reuse-given-up", Box::new(keep(Opcode::IADD3, 1))),
            ("reuse of a product with yield", Yields, "reuse-given-up", Box::new(keep(Opcode::IMAD, 0))),
            ("reuse of a comparison with yield", Yields, "reuse-given-up", Box::new(keep(Opcode::ISETP, 0))),
            ("no cycles at a sum", Yields, "zero-stall-stays", Box::new(zero(Opcode::IADD3))),
            ("no cycles at a move", Yields, "zero-stall-stays", Box::new(zero(Opcode::MOV))),
            ("no cycles at a store", Yields, "zero-stall-stays", Box::new(zero(Opcode::STG))),
            ("no cycles at a branch", Yields, "zero-stall-stays", Box::new(zero(Opcode::BRA))),
        ],
    )
}

fn list_of(branch: u32, target: u32) -> BranchTargets {
    BranchTargets { branch, reserved: 0, targets: vec![target] }
}

fn integrity_cases() -> Vec<Case> {
    use Verifier::Integrity;
    let words = |info: &mut AttributeValue, change: &dyn Fn(&mut Vec<u32>)| {
        if let AttributeValue::Words(list) = info {
            change(list);
        }
    };
    let mut list = cases(
        &Subject::compiled("tests/kernels/barrier/arrive_and_sync.ptx"),
        vec![
            (
                "too few registers",
                Integrity,
                "registers",
                Box::new(|subject: &mut Subject| {
                    let name = subject.function.clone();
                    subject.cubin.set_register_count(&name, 2).expect("it has a count");
                }),
            ),
            (
                "too few barriers",
                Integrity,
                "barriers",
                Box::new(|subject: &mut Subject| subject.attribute(AttributeCode::NUM_BARRIERS, |value| *value = AttributeValue::Byte(1))),
            ),
            (
                "an exit that is not listed",
                Integrity,
                "exit-list",
                Box::new(|subject: &mut Subject| {
                    subject.attribute(AttributeCode::EXIT_INSTR_OFFSETS, |value| words(value, &|list| list.clear()));
                }),
            ),
            (
                "something listed as an exit",
                Integrity,
                "exit-list",
                Box::new(|subject: &mut Subject| {
                    subject.attribute(AttributeCode::EXIT_INSTR_OFFSETS, |value| words(value, &|list| list.push(0)));
                }),
            ),
            (
                "an exit listed behind the end",
                Integrity,
                "offset-list",
                Box::new(|subject: &mut Subject| {
                    subject.attribute(AttributeCode::EXIT_INSTR_OFFSETS, |value| words(value, &|list| list.push(0x10_0000)));
                }),
            ),
            (
                "a symbol that is longer than its section",
                Integrity,
                "symbol-outside",
                Box::new(|subject: &mut Subject| {
                    let name = subject.function.clone();
                    let symbols = subject.cubin.symbols_mut().expect("symbols");
                    symbols.iter_mut().filter(|symbol| symbol.name == name).for_each(|symbol| symbol.size += 0x1000);
                }),
            ),
            (
                "no exit before the padding",
                Integrity,
                "falls-off",
                Box::new(|subject: &mut Subject| {
                    for number in 0..subject.words().len() {
                        if decode(subject.words()[number], subject.target)
                            .is_some_and(|one| matches!(one.opcode, Opcode::BRA | Opcode::EXIT))
                        {
                            subject.text(number, "NOP");
                        }
                    }
                }),
            ),
        ],
    );
    let branch = |listed: Option<(u32, u32)>, is_indirect: bool| {
        move |subject: &mut Subject| {
            let number = subject.find(Opcode::BRA, 0);
            if is_indirect {
                subject.text(number, "BRX R4 -0x10");
            }
            if let Some((branch, to)) = listed {
                let branch = if branch == u32::MAX { (number * INSTRUCTION_BYTES) as u32 } else { branch };
                subject.push_attribute(AttributeCode::INDIRECT_BRANCH_TARGETS, AttributeValue::BranchTargets(vec![list_of(branch, to)]));
            }
        }
    };
    list.extend(cases(
        &Subject::fault("alu_chain"),
        vec![
            ("an indirect branch without a list", Integrity, "branch-list", Box::new(branch(None, true))),
            ("a list for what is no indirect branch", Integrity, "branch-list", Box::new(branch(Some((0, 0x10)), false))),
            ("a table that leads outside", Integrity, "branch-list", Box::new(branch(Some((u32::MAX, 0x10_0000)), true))),
            ("a table that leads into an instruction", Integrity, "branch-list", Box::new(branch(Some((u32::MAX, 8)), true))),
        ],
    ));
    list
}

/// Changes of a kernel whose warpgroups exchange registers: one keeps 24, the others have 240.
fn register_count_cases() -> Vec<Case> {
    let count = |nth: usize, count: i64| {
        move |subject: &mut Subject| {
            let number = subject.find(Opcode::USETMAXREG, nth);
            subject.instruction(number, |mut change| {
                let is_count = |operand: &&mut Operand| matches!(operand.value, OperandValue::Integer(_));
                change.operands.iter_mut().find(is_count).expect("a number").value = OperandValue::Integer(count);
                change
            });
        }
    };
    // The branch that repeats the request: without it, code goes on with a request that may have been refused.
    let untested = |subject: &mut Subject| {
        let request = requests(subject)[0];
        let words = subject.words();
        let opcode = |number: usize| decode(words[number], subject.target).expect("known").opcode;
        let branch = (request..words.len()).find(|&number| opcode(number) == Opcode::BRA).expect("a branch");
        subject.text(branch, "NOP");
    };
    let request = |wanted: bool| {
        let subject = Subject::compiled("tests/kernels/registers/by_warpgroup.ptx");
        let first = subject.find(Opcode::USETMAXREG, 0);
        usize::from(requests(&subject).contains(&first) != wanted)
    };
    use Verifier::Integrity;
    cases(
        &Subject::compiled("tests/kernels/registers/by_warpgroup.ptx"),
        vec![
            ("a request that is too small", Integrity, "registers", Box::new(count(request(true), 200))),
            ("a request that is not tested", Integrity, "registers", Box::new(untested)),
            ("a request for fewer registers", Integrity, "register-change", Box::new(count(request(true), 24))),
            ("a release that keeps too many", Integrity, "register-change", Box::new(count(request(false), 240))),
        ],
    )
}

/// Returns the indices of the instructions that request registers.
fn requests(subject: &Subject) -> Vec<usize> {
    let is_request = |word: &u128| {
        let instruction = decode(*word, subject.target).expect("known");
        instruction.opcode == Opcode::USETMAXREG && instruction.modifiers.iter().any(|modifier| modifier.spelling() == ".TRY_ALLOC")
    };
    subject.words().iter().enumerate().filter(|(_, word)| is_request(word)).map(|(number, _)| number).collect()
}

#[test]
fn each_verifier_finds_its_faults() {
    let own = [bound_cases(), index_cases(), wait_cases(), completeness_cases(), format_cases(), yield_cases(), integrity_cases()];
    let lists = own.into_iter().chain([register_count_cases()]);
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<Verifier, usize> = BTreeMap::new();
    for (name, verifier, kind, subject) in lists.flatten() {
        let found = subject.found();
        if !found.contains(&(verifier, kind)) {
            wrong.push(format!("{name}: {verifier} {kind} is not among {found:?}"));
        }
        *counts.entry(verifier).or_default() += 1;
    }
    for kernel in &kernels() {
        for fault in &kernel.faults {
            let verifier = match fault.kind.split(' ').next().unwrap_or_default() {
                "too-fresh" => Verifier::Waits,
                "stall-ignored" => Verifier::Bounds,
                "stale-reuse" => Verifier::Integrity,
                _ => Verifier::Completeness,
            };
            let cubin = kernel.assemble(Some(fault)).expect("it can be assembled").cubin;
            let report = verify_cubin(&cubin, &[verifier]).expect("it can be verified");
            if report.is_clean() {
                wrong.push(format!("{}, {}: {verifier} finds nothing", kernel.name, fault.name));
            }
            *counts.entry(verifier).or_default() += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{counts:?}");
    assert!(Verifier::ALL.iter().all(|verifier| counts.get(verifier).is_some_and(|&count| count >= 8)), "{counts:?}");
}

#[test]
fn kernels_without_faults_are_clean() {
    for kernel in &kernels() {
        let cubin = kernel.assemble(None).expect("it can be assembled").cubin;
        let report = verify_cubin(&cubin, &Verifier::ALL).expect("it can be verified");
        assert_eq!(report.complaint(8), None, "{}", kernel.name);
        assert!(report.tallies().iter().all(|tally| tally.checked > 0 || tally.verifier == Verifier::Waits), "{}", kernel.name);
    }
}
