//! `roundtrip`: printing what was parsed.

use oriole_ir::text::print;
use oriole_isa::{Target, decode, encode, print as print_word};

use super::{Lines, functions, module, required};
use crate::file::{TestFile, TestKind};
use crate::listing::Listing;

/// Ori: the printed functions are the program of the file.
pub fn ori(file: &mut TestFile, _: &TestKind) -> Result<(), String> {
    let printed: Vec<String> = functions(file)?.iter().map(print).collect();
    file.code = printed.join("\n").lines().map(str::to_owned).collect();
    Ok(())
}

/// PTX: the canonical text of the module. It must read back as the same text.
pub fn ptx(file: &TestFile, _: Option<Target>, _: &TestKind) -> Lines {
    let printed = oriole_ptx::print(&module(file)?);
    let again = oriole_ptx::check(printed.as_bytes(), &oriole_ptx::Options::default());
    if !again.is_valid() || oriole_ptx::print(&again.module) != printed {
        return Err(format!("the printed text does not read back:\n{printed}"));
    }
    Ok(printed.lines().map(str::to_owned).collect())
}

/// Assembler text: each instruction is encoded, decoded and printed. The printed text must have the same encoding.
pub fn sass(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let target = required(target);
    let listing = Listing::read(&file.source())?;
    let words = listing.words(target)?;
    let line = |(number, &word): (usize, &u128)| {
        let address = number as u64 * 16;
        let text = print_word(word, target, address).ok_or_else(|| format!("{word:#034x} has no text"))?;
        let decoded = decode(word, target).ok_or_else(|| format!("{word:#034x} cannot be decoded"))?;
        let again = encode(&decoded, target).map_err(|error| error.to_string())?;
        if again != word {
            return Err(format!("{text}: decoded and encoded, {word:#034x} becomes {again:#034x}"));
        }
        Ok(format!("[{}] {text}", decoded.control))
    };
    words.iter().enumerate().map(line).collect()
}
