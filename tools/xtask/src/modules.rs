//! Writes the legal PTX forms as modules for one target, to see with ptxas which machine instructions they become.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oriole_ptx::diag::Severity;
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::ROWS;
use oriole_ptx::target::Target;
use oriole_ptx::{Options, check};

/// Limit on the forms per row; more only repeat modifiers.
const FORMS_PER_ROW: usize = 600;

/// Number of kernels per module. Small, because ptxas rejects a whole module if it rejects one form.
const KERNELS_PER_MODULE: usize = 48;

/// Writes modules with every form that the target accepts to a folder.
pub fn write(target: &str, folder: &str) -> Result<(), String> {
    let target: Target = Target::parse_ptx(target).ok_or_else(|| format!("unknown target {target}"))?;
    fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let mut groups: BTreeMap<(String, String, bool), Vec<Case>> = BTreeMap::new();
    for (index, row) in ROWS.iter().enumerate() {
        for mut case in legal_forms(index, FORMS_PER_ROW) {
            case.platform.target = target;
            if is_taken(&case) {
                let key = (row.family.to_string(), case.platform.version.to_string(), case.independent_textures);
                groups.entry(key).or_default().push(case);
            }
        }
    }
    for ((family, version, independent), cases) in groups {
        for (number, chunk) in cases.chunks(KERNELS_PER_MODULE).enumerate() {
            let mode = if independent { "-independent" } else { "" };
            for source in [Source::Memory, Source::Parameters] {
                let path = Path::new(folder).join(format!("{family}-{version}{mode}-{number}{}.ptx", source.suffix()));
                let live: Vec<Case> = chunk.iter().map(|case| with_live_registers(case, source)).collect();
                let text = module_text(&live).0.replacen(".address_size 64\n", ".address_size 64\n.global .align 16 .b8 live[8192];\n", 1);
                fs::write(path, text).map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(())
}

/// Where the registers of a form get their values.
#[derive(Clone, Copy)]
enum Source {
    /// Each thread loads its own values: ptxas uses vector registers.
    Memory,
    /// Kernel parameters, equal in all threads: ptxas uses the uniform datapath if there is one.
    Parameters,
}

impl Source {
    fn suffix(self) -> &'static str {
        match self {
            Source::Memory => "",
            Source::Parameters => "-uniform",
        }
    }

    fn load(self, position: usize) -> (&'static str, String) {
        match self {
            Source::Memory => ("volatile.global", format!("[live+{}]", position * 16)),
            Source::Parameters => ("param", format!("[prm+{}]", position % 4 * 16)),
        }
    }
}

/// Adds loads before the instruction that define its registers, and stores after it that use them; ptxas removes unused results.
fn with_live_registers(case: &Case, source: Source) -> Case {
    let mut registers: Vec<&str> = case.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '%')).collect();
    registers.retain(|word| word.starts_with('%') && word.contains('_'));
    registers.sort_unstable();
    registers.dedup();
    let (mut before, mut after) = (String::new(), String::new());
    for (position, register) in registers.iter().enumerate() {
        let (space, from) = source.load(position);
        let place = format!("[live+{}]", position * 16);
        let class = register[1..].split('_').next().unwrap_or_default();
        let width = match class {
            "pred" => {
                before += &format!("ld.{space}.u32 %b32_299, {from}; setp.ne.u32 {register}, %b32_299, 0;\n");
                after += &format!("\nselp.b32 %b32_299, 1, 0, {register}; st.volatile.global.u32 {place}, %b32_299;");
                continue;
            }
            "f16x2" => "32",
            name => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
        };
        before += &format!("ld.{space}.b{width} {register}, {from};\n");
        after += &format!("\nst.volatile.global.b{width} {place}, {register};");
    }
    Case { text: format!("{before}{}{after}", case.text), ..case.clone() }
}

/// Returns whether Oriole accepts a case.
fn is_taken(case: &Case) -> bool {
    let (text, _) = module_text(std::slice::from_ref(case));
    let checked = check(text.as_bytes(), &Options { error_limit: 1 });
    checked.diagnostics.iter().all(|finding| finding.code.severity() != Severity::Error)
}
