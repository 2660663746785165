//! Compares the code for tensor memory (`tcgen05`) with that of ptxas: instructions, attributes, and what verifiers say about both.
//!
//! No GPU with tensor memory was at hand, so the sequences of ptxas are the reference.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::LazyLock;

use oriole_cubin::Cubin;
use oriole_cubin::info::{Attribute, AttributeCode};
use oriole_driver::{Options, compile};
use oriole_isa::{Target, decode, encode, print};
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::ROWS;
use oriole_ptx::target::{Platform, PtxVersion};
use oriole_sim::verify::{Verifier, verify_cubin};

const TARGETS: [&str; 3] = ["sm_100a", "sm_103a", "sm_110a"];

/// Maximum number of forms per row of the table, evenly spread.
const FORMS_PER_ROW: usize = 12;

/// A kernel that allocates, loads, stores, multiplies and frees.
const WHOLE: &str = "
.version 9.0
.target sm_100a
.address_size 64
.visible .entry whole(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 i)
{
    .reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .pred %p<3>;
    .shared .align 4 .b32 slot;
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u32 %r9, [i];
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    bar.sync 0;
    ld.shared.u32 %r0, [slot];
    elect.sync _|%p0, -1;
    @!%p0 bra done;
    mov.u32 %r1, 0;
again:
    setp.ne.u32 %p1, %r1, 0;
    tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd1, %rd2, %r9, %p1;
    add.u64 %rd1, %rd1, 64;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, %r9;
    @%p2 bra again;
    mov.u32 %r2, bar;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];
done:
    bar.sync 0;
    tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {%r3, %r4, %r5, %r6}, [%r0], 16;
    tcgen05.wait::ld.sync.aligned;
    bar.sync 0;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r0], {%r6, %r5, %r4, %r3};
    tcgen05.wait::st.sync.aligned;
    st.global.v4.b32 [%rd0], {%r3, %r4, %r5, %r6};
    bar.sync 0;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 64;
    ret;
}
";

/// The kernel `WHOLE` with two blocks for each allocation.
fn for_pairs() -> String {
    WHOLE.replace("cta_group::1", "cta_group::2")
}

/// A device function that allocates, and its caller.
const CALLED: &str = "
.version 9.0
.target sm_100a
.address_size 64
.visible .func get(.reg .b32 %a)
{
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%a], 64;
    ret;
}
.visible .entry whole(.param .u32 a)
{
    .reg .b32 %r0;
    ld.param.u32 %r0, [a];
    call.uni get, (%r0);
    ret;
}
";

/// The forms of tensor memory that are valid on each target, for each row of the table.
static FORMS: LazyLock<Vec<[Vec<Case>; TARGETS.len()]>> = LazyLock::new(|| {
    let rows = (0..ROWS.len()).filter(|&row| ROWS[row].opcode.spelling().starts_with("tcgen05"));
    let is_valid = |case: &Case| {
        let (text, _) = module_text(std::slice::from_ref(case));
        oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).is_valid()
    };
    let of_row = |row: usize| {
        TARGETS.map(|name| {
            let platform = Platform { version: PtxVersion::new(9, 0), target: Target::parse(name).unwrap() };
            legal_forms(row, FORMS_PER_ROW).into_iter().map(|case| Case { platform, ..case }).filter(is_valid).collect()
        })
    };
    rows.map(of_row).collect()
});

/// Returns the forms to compare for the target at a position of [`TARGETS`], for each row. The targets have most rows in common and take turns,
/// unless `ORIOLE_REFRESH` is set.
fn forms(position: usize) -> Vec<Vec<Case>> {
    let is_chosen = |row: usize| {
        let with_row: Vec<usize> = (0..TARGETS.len()).filter(|&other| !FORMS[row][other].is_empty()).collect();
        let is_its_turn = || with_row[row % with_row.len()] == position;
        with_row.contains(&position) && (oriole_oracles::compares_everything() || is_its_turn())
    };
    (0..FORMS.len()).filter(|&row| is_chosen(row)).map(|row| FORMS[row][position].clone()).collect()
}

fn compiled(text: &str, target: Target, level: u8) -> Vec<u8> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    let options = Options { level, verify: true, ..Options::new(target) };
    compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{:?}", errors.first())).cubin
}

/// Compiles a text with ptxas; `None` if ptxas is not installed.
fn compiled_by_ptxas(text: &str, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    let ptxas = oriole_oracles::tool("ptxas")?;
    let folder = tempfile::tempdir().unwrap();
    let (source, output) = (folder.path().join("a.ptx"), folder.path().join("a.cubin"));
    std::fs::write(&source, text).unwrap();
    let run = Command::new(&ptxas).args(["-arch", target]).args(options).arg("-o").args([&output, &source]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(std::fs::read(&output).unwrap())
}

/// Returns the words of a function.
fn words(code: &[u8]) -> impl Iterator<Item = u128> + '_ {
    code.chunks_exact(16).map(|word| u128::from_le_bytes(word.try_into().unwrap()))
}

/// Returns the instructions of tensor memory of a kernel as text, each once, with the letters of the registers only. Scale factors and
/// offsets stay.
fn instructions(cubin: &[u8], kernel: &str, target: Target) -> BTreeSet<String> {
    let cubin = Cubin::read(cubin).expect("a cubin");
    let function = cubin.functions().find(|function| function.name == kernel).expect("the kernel");
    let texts = words(function.code).map(|word| print(word, target, 0).unwrap_or_default());
    texts.filter(|text| ["UTC", "LDTM", "STTM", "UVIRT", "FENCE"].iter().any(|name| text.contains(name))).map(|text| plain(&text)).collect()
}

/// Returns a text without guard and numbers of registers, and without the difference between a zero register and another one.
fn plain(text: &str) -> String {
    let text = text.split_once(' ').filter(|(guard, _)| guard.starts_with('@')).map_or(text, |(_, rest)| rest);
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        out.push(letter);
        let is_register = letter == 'R' && (out.ends_with("UR") || out.ends_with(" R")) || out.ends_with("UP");
        if is_register && letters.peek().is_some_and(|next| next.is_ascii_digit() || *next == 'Z') {
            while letters.next_if(|next| next.is_ascii_digit() || *next == 'Z').is_some() {}
        }
    }
    out.replace("tmem[UR+0x0]", "tmem[UR]")
}

#[test]
fn instructions_are_those_of_ptxas() {
    let mut compared = 0;
    let mut differences = Vec::new();
    for (position, name) in TARGETS.into_iter().enumerate() {
        let target = Target::parse(name).unwrap();
        for mut cases in forms(position) {
            // ptxas removes loads whose results are not read.
            for case in cases.iter_mut().filter(|case| case.text.starts_with("tcgen05.ld")) {
                // Nor does it keep a load whose reduced value has the register of an element.
                case.text = case.text.replace("}, %b32_20,", "}, %b32_290,");
                case.text.push_str(" st.volatile.shared.b32 [%b32_9], %b32_10;");
            }
            let (text, _) = module_text(&cases);
            let Some(theirs) = compiled_by_ptxas(&text, name, &[]) else { return };
            let ours = compiled(&text, target, 0);
            for (number, case) in cases.iter().enumerate() {
                let kernel = format!("k{number}");
                let [ours, theirs] = [&ours, &theirs].map(|cubin| instructions(cubin, &kernel, target));
                compared += 1;
                if ours != theirs {
                    differences.push(format!("{name} {:.90}\n  ours   {ours:?}\n  ptxas  {theirs:?}", case.text));
                }
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {compared} forms differ:\n{}",
        differences.len(),
        differences[..differences.len().min(40)].join("\n")
    );
    assert!(compared > if oriole_oracles::compares_everything() { 500 } else { 170 }, "only {compared} forms were compared");
}

#[test]
fn verifiers_find_nothing_in_either_code() {
    for (position, name) in TARGETS.into_iter().enumerate() {
        let target = Target::parse(name).unwrap();
        let mut texts: Vec<String> = forms(position).iter().map(|cases| module_text(cases).0).collect();
        texts.extend([WHOLE.to_owned(), for_pairs()].map(|text| text.replace("sm_100a", name)));
        for text in texts {
            for level in [0, 3] {
                let report = verify_cubin(&compiled(&text, target, level), &Verifier::ALL).unwrap();
                assert!(report.is_clean(), "{name} -O{level}: {}", report.complaint(5).unwrap_or_default());
            }
            let Some(theirs) = compiled_by_ptxas(&text, name, &[]) else { return };
            let report = verify_cubin(&theirs, &Verifier::ALL).unwrap();
            assert!(report.is_clean(), "{name}, ptxas: {}", report.complaint(5).unwrap_or_default());
            for function in Cubin::read(&theirs).unwrap().functions() {
                for word in words(function.code) {
                    let instruction = decode(word, target).unwrap_or_else(|| panic!("{name}: {word:#034x}"));
                    assert_eq!(encode(&instruction, target), Ok(word), "{name}: {}", print(word, target, 0).unwrap_or_default());
                }
            }
        }
    }
}

/// Returns the attributes of a kernel that concern tensor memory, and the symbols of reserved shared memory.
fn declarations(cubin: &[u8]) -> Vec<String> {
    let cubin = Cubin::read(cubin).expect("a cubin");
    let codes = [
        AttributeCode::AT_ENTRY_FRAGMENTS,
        AttributeCode::RESERVED_SMEM_USED,
        AttributeCode::TCGEN05_1CTA_USED,
        AttributeCode::TCGEN05_2CTA_USED,
        AttributeCode::SPARSE_MMA_MASK,
        AttributeCode::VRC_CTA_INIT_COUNT,
    ];
    let of_interest = |attribute: &&Attribute| codes.contains(&attribute.code);
    let mut facts: Vec<String> =
        cubin.function_attributes("whole").iter().filter(of_interest).map(|attribute| format!("{attribute:?}")).collect();
    let reserved = cubin.symbols().iter().filter(|symbol| symbol.name.starts_with("__nv_reserved"));
    facts.extend(reserved.map(|symbol| format!("{} {:#x} {} {}", symbol.name, symbol.value, symbol.size, symbol.symbol_type)));
    let sections = cubin.sections().iter().filter(|section| section.name == ".nv.shared.reserved.0");
    facts.extend(sections.map(|section| format!("{:?} align {}", section.content, section.alignment)));
    facts
}

#[test]
fn files_declare_what_ptxas_declares() {
    let sparse = WHOLE.replace("mma.cta", "mma.sp.cta").replace("%rd2, %r9", "%rd2, [%r0+32], %r9");
    for name in TARGETS {
        for text in [WHOLE, &for_pairs(), &sparse, CALLED] {
            let is_called = text == CALLED;
            let text = text.replace("sm_100a", name);
            let Some(theirs) = compiled_by_ptxas(&text, name, &[]) else { return };
            let ours = compiled(&text, Target::parse(name).unwrap(), 3);
            let [mut ours, mut theirs] = [declarations(&ours), declarations(&theirs)];
            if is_called {
                // The order of the variables in reserved shared memory differs on sm_110a.
                [&mut ours, &mut theirs].into_iter().for_each(|facts| facts.retain(|fact| fact.starts_with("Attribute")));
            }
            assert_eq!(ours, theirs, "{name}");
        }
        let text = WHOLE.replace("sm_100a", name);
        let Some(theirs) = compiled_by_ptxas(&text, name, &["-c"]) else { return };
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        let options = Options { relocatable: true, ..Options::new(Target::parse(name).unwrap()) };
        let ours = compile(&[&checked.module], &options).expect("it compiles").cubin;
        assert_eq!(declarations(&ours), declarations(&theirs), "{name} -c");
    }
}

#[test]
fn one_kernel_works_for_one_block_or_for_two() {
    let text = WHOLE.replace("dealloc.cta_group::1", "dealloc.cta_group::2");
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let errors = compile(&[&checked.module], &Options::new(Target::parse("sm_100a").unwrap())).expect_err("both groups");
    let message = errors.iter().map(ToString::to_string).collect::<String>();
    assert!(message.contains("'whole'") && message.contains(".cta_group::2"), "{message}");
}
