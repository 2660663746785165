//! Reads a cubin into the model and writes the model to another file: `rewrite IN OUT`.

use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, input, output] = arguments.as_slice() else { return Err("usage: rewrite IN OUT".into()) };
    let cubin = oriole_cubin::Cubin::read(&fs::read(input)?)?;
    fs::write(output, cubin.write()?)?;
    println!("{output}: {} for {}, {} kernels", input, cubin.target_name(), cubin.kernels().count());
    Ok(())
}
