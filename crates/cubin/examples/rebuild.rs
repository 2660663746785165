//! Takes a cubin of ptxas apart and builds it again from its parts: `rebuild IN OUT [--executable]`.
//!
//! With `--executable`, the functions of a relocatable file become an executable file without a linker, if nothing needs one.

#[path = "../tests/common/parts.rs"]
#[allow(dead_code)]
mod parts;

use oriole_cubin::{Cubin, FileTraits, FileType};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, input, output, rest @ ..] = &arguments[..] else { return Err("usage: rebuild IN OUT [--executable]".into()) };
    let cubin = Cubin::read(&std::fs::read(input)?)?;
    let traits = cubin.target().and_then(FileTraits::of).ok_or("unknown target")?;
    let mut module = parts::parts(&cubin, traits)?;
    if rest.iter().any(|option| option == "--executable") {
        module.file_type = FileType::Executable;
        module.settle_calls();
    }
    std::fs::write(output, module.build()?.write()?)?;
    Ok(())
}
