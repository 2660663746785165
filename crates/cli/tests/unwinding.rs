//! `.debug_frame` says where the registers of callers are. The rules are checked against a symbolic execution of the machine code.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use crate::common::{folder, run};
use oriole_cubin::Cubin;
use oriole_cubin::build::decode_frames;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

/// A function without branches that calls another one twice, and keeps values across the calls.
const CALLS: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) leaf(.param .b32 x)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [x];
    mul.lo.u32 %r2, %r1, %r1;
    st.param.b32 [r], %r2;
    ret;
}
.visible .func (.param .b32 r) middle(.param .b32 x)
{
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [x];
    add.u32 %r2, %r1, 5;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), leaf, (a); ld.param.b32 %r3, [b]; }
    add.u32 %r4, %r3, %r1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r4; call.uni (b), leaf, (a); ld.param.b32 %r5, [b]; }
    add.u32 %r6, %r5, %r1;
    add.u32 %r6, %r6, %r3;
    st.param.b32 [r], %r6;
    ret;
}
.visible .entry kernel(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %a<3>;
    ld.param.u64 %a1, [out];
    mov.u32 %r1, %tid.x;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), middle, (a); ld.param.b32 %r2, [b]; }
    st.global.u32 [%a1], %r2;
    ret;
}
";

/// Where a register of the caller is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rule {
    Below(u64),
    Register(u64),
    Lost,
}

/// The rules from one address on: the distance of the stack pointer from the frame's address, and the registers that have a rule.
type Rules = (u64, BTreeMap<u64, Rule>);

/// Decodes an unwinding program: the rules from each address on.
fn rows(program: &[u8]) -> BTreeMap<u64, Rules> {
    const GENERAL: u64 = 5 << 24;
    let mut at = 0;
    let leb = |at: &mut usize| {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = program[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    };
    let (mut address, mut rules, mut found) = (0, (0, BTreeMap::new()), BTreeMap::new());
    while at < program.len() {
        let operation = program[at];
        at += 1;
        match operation {
            0x00 => {}
            0x04 => {
                address += 4 * u64::from(u32::from_le_bytes(program[at..at + 4].try_into().unwrap()));
                at += 4;
            }
            0x0c => {
                assert_eq!(leb(&mut at), GENERAL + 1);
                rules.0 = leb(&mut at);
            }
            0x05 => {
                let register = leb(&mut at) - GENERAL;
                rules.1.insert(register, Rule::Below(4 * leb(&mut at)));
            }
            0x06 => {
                rules.1.remove(&(leb(&mut at) - GENERAL));
            }
            0x07 => {
                rules.1.insert(leb(&mut at) - GENERAL, Rule::Lost);
            }
            0x09 => {
                let register = leb(&mut at) - GENERAL;
                rules.1.insert(register, Rule::Register(leb(&mut at) - GENERAL));
            }
            other => panic!("operation {other:#x}"),
        }
        found.insert(address, rules.clone());
    }
    found
}

/// Returns the number of a register such as `R4`.
fn register(text: &str) -> Option<u64> {
    text.trim_end_matches(".reuse").strip_prefix('R')?.parse().ok()
}

/// Executes the code with symbols, and compares the place of each register of the caller with the rules before each instruction. Returns the
/// number of rules that were compared.
fn check(code: &[(u64, String)], rules: &BTreeMap<u64, Rules>) -> usize {
    const CALLEE_SAVED: [u64; 7] = [2, 16, 17, 20, 21, 22, 23];
    // A positive number stands for the value of that register at the entry, 0 for any other value.
    let mut registers: HashMap<u64, u64> = (1..255).map(|number| (number, number)).collect();
    let mut memory: HashMap<i64, u64> = HashMap::new();
    let (mut depth, mut compared) = (0_i64, 0);
    for (address, text) in code {
        let empty = (0, BTreeMap::new());
        let (known_depth, known) = rules.range(..=address).next_back().map_or(&empty, |(_, rules)| rules);
        assert_eq!(*known_depth as i64, depth, "{address:#x}: {text}");
        for caller in CALLEE_SAVED {
            let holds = match known.get(&caller) {
                None => registers[&caller] == caller,
                Some(Rule::Register(other)) => registers[other] == caller,
                Some(Rule::Below(bytes)) => memory.get(&-(*bytes as i64)) == Some(&caller),
                Some(Rule::Lost) => false,
            };
            assert!(holds, "{address:#x}: {text}: R{caller} of the caller is not where {:?} says", known.get(&caller));
            compared += usize::from(known.contains_key(&caller));
        }
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
        let operands: Vec<&str> = operands.split(", ").collect();
        let slot = |operand: &str| {
            let offset = operand.strip_prefix("[R1").unwrap().trim_end_matches(']').trim_start_matches("+0x");
            i64::from_str_radix(if offset.is_empty() { "0" } else { offset }, 16).unwrap() - depth
        };
        match mnemonic {
            "IADD3" if operands[0] == "R1" => {
                let by = operands[2].replace("0x", "");
                depth -= i64::from_str_radix(&by, 16).unwrap();
            }
            "STL" => {
                memory.insert(slot(operands[0]), registers[&register(operands[1]).unwrap()]);
            }
            "LDL" => {
                let value = memory[&slot(operands[1])];
                registers.insert(register(operands[0]).unwrap(), value);
            }
            "MOV" => {
                let value = register(operands[1]).map_or(0, |source| registers[&source]);
                registers.insert(register(operands[0]).unwrap(), value);
            }
            _ if mnemonic.starts_with("CALL") => {}
            _ if mnemonic.starts_with("RET") => break,
            _ => {
                let written = register(operands[0]).unwrap_or_else(|| panic!("unknown instruction {text}"));
                registers.insert(written, 0);
            }
        }
    }
    assert_eq!(depth, 0);
    compared
}

#[test]
fn callers_are_found_at_every_instruction() {
    let folder = folder("unwinding");
    fs::write(folder.join("calls.ptx"), CALLS).unwrap();
    for level in ["-O0", "-O1", "-O3"] {
        let arguments = ["compile", "calls.ptx", "-o", "calls.cubin", "--arch", "sm_90a", level];
        let done = run(ORIOLE, &folder, &arguments, "");
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let listing = run(ORIOLE, &folder, &["disasm", "calls.cubin", "--kernel", "middle"], "").stdout;
        let line = |line: &str| -> Option<(u64, String)> {
            let (address, text) = line.trim().strip_prefix("/*")?.split_once("*/")?;
            Some((u64::from_str_radix(address, 16).ok()?, text.trim().trim_end_matches(" ;").to_owned()))
        };
        let code: Vec<(u64, String)> = listing.lines().filter_map(line).collect();
        assert!(code.iter().filter(|(_, text)| text.starts_with("CALL")).count() == 2, "{level}: {listing}");
        let bytes = fs::read(folder.join("calls.cubin")).unwrap();
        let cubin = Cubin::read(&bytes).unwrap();
        let section = cubin.find(".debug_frame").unwrap();
        let frames = decode_frames(cubin.bytes_of(section).unwrap()).unwrap();
        // The frames are in the order of the functions in the file; the one of `middle` moves the stack pointer.
        let programs: Vec<_> =
            frames.iter().map(|frame| rows(&frame.frame.unwind)).filter(|rows| rows.values().any(|row| row.0 > 0)).collect();
        assert_eq!(programs.len(), 1, "{level}");
        let compared = check(&code, &programs[0]);
        assert!(compared > 30, "{level}: {compared} rules");
    }
}
