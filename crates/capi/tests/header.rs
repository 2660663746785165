//! `include/oriole.h` is what cbindgen generates from the source. `ORIOLE_BLESS=1` writes it.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_current() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["types.rs", "compiler.rs", "calls.rs", "result.rs"] {
        builder = builder.with_src(package.join("src/own").join(file));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    let generated = String::from_utf8(generated).unwrap();
    assert_eq!(generated.matches("oriole_compile(").count(), 1, "{generated}");
    let path = package.join("include/oriole.h");
    if env::var_os("ORIOLE_BLESS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == generated, "ORIOLE_BLESS=1 cargo test -p oriole-capi --test header writes the header");
}
