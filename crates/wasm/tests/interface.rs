//! The functions for JavaScript, called natively: the cubin is that of the compiler, and mistakes are reported, not ignored.

use std::fs;
use std::path::Path;

use oriole_isa::Target;
use oriole_wasm::{Format, Settings, check, compile, disassemble, explain, targets};

fn read(file: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

fn settings(json: &str) -> Settings {
    Settings::parse(json.as_bytes()).unwrap()
}

#[test]
fn the_cubin_is_that_of_the_driver() {
    for (file, arch) in [("examples/saxpy.ptx", "sm_90a"), ("examples/block_sum.ptx", "sm_80"), ("corpus/scan.ptx", "sm_90")] {
        let text = read(file);
        let response = compile(&text, &settings(&format!(r#"{{"arch": "{arch}"}}"#)));
        assert!(response.report.ok, "{file}: {:?}", response.report.diagnostics);
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let options = oriole_driver::Options::new(Target::parse(arch).unwrap());
        let expected = oriole_driver::compile(&[&checked.module], &options).unwrap();
        assert_eq!(response.output, expected.cubin, "{file}");
        assert_eq!(response.report.functions.len(), expected.functions.len(), "{file}");
        assert_eq!(response.report.target.as_deref(), Some(arch));
    }
}

#[test]
fn settings_have_an_effect() {
    let text = read("examples/block_sum.ptx");
    let cubin = |json: &str| compile(&text, &settings(json)).output;
    let usual = cubin(r#"{"arch": "sm_90a"}"#);
    assert!(usual.starts_with(b"\x7fELF"));
    for other in [r#"{"arch": "sm_80"}"#, r#"{"arch": "sm_90a", "opt_level": 0}"#, r#"{"arch": "sm_90a", "lineinfo": true}"#] {
        let other_cubin = cubin(other);
        assert!(other_cubin.starts_with(b"\x7fELF"), "{other}");
        assert_ne!(other_cubin, usual, "{other}");
    }
}

#[test]
fn errors_have_places_and_codes() {
    let text = String::from_utf8(read("examples/saxpy.ptx")).unwrap().replace("ld.global", "ld.golbal");
    let line = 1 + text.lines().position(|line| line.contains("ld.golbal")).unwrap();
    for response in [check(text.as_bytes(), &Settings::default()), compile(text.as_bytes(), &Settings::default())] {
        assert!(!response.report.ok && response.output.is_empty());
        let first = &response.report.diagnostics[0];
        assert_eq!(first["code"], "E0702");
        assert_eq!(first["line"], line);
        let (offset, length) = (first["offset"].as_u64().unwrap() as usize, first["length"].as_u64().unwrap() as usize);
        assert_eq!(&text[offset..offset + length], ".golbal");
        assert!(first["rendered"].as_str().unwrap().contains("did you mean `.global`?"), "{first}");
    }
    assert!(check(&read("examples/saxpy.ptx"), &Settings::default()).report.ok);
}

#[test]
fn a_cubin_can_be_listed() {
    let cubin = compile(&read("examples/saxpy.ptx"), &settings(r#"{"arch": "sm_90a"}"#)).output;
    let plain = disassemble(&cubin, &Settings::default());
    assert_eq!(plain.report.target.as_deref(), Some("sm_90a"));
    let text = String::from_utf8(plain.output).unwrap();
    assert!(text.contains(".text.saxpy:") && text.contains("FFMA") && !text.contains("[B------"), "{text}");
    let control = disassemble(&cubin, &settings(r#"{"control": true}"#));
    assert!(String::from_utf8(control.output).unwrap().contains("[B------:R-:W0:-:S01]"));
    let refused = disassemble(b"not a cubin", &Settings::default());
    assert!(!refused.report.ok && refused.report.error.is_some());
}

#[test]
fn an_explanation_has_the_format_of_the_settings() {
    let text = read("examples/saxpy.ptx");
    let begins = |format: &str| {
        let response = explain(&text, &settings(&format!(r#"{{"arch": "sm_90a", "format": "{format}"}}"#)));
        assert!(response.report.ok, "{format}");
        String::from_utf8(response.output).unwrap().chars().take(20).collect::<String>()
    };
    assert!(begins("summary").starts_with("saxpy (kernel"));
    assert!(begins("text").starts_with("saxpy (kernel"));
    assert!(begins("html").to_ascii_lowercase().starts_with("<!doctype html>"));
    assert!(begins("json").starts_with('{'));
    assert_eq!(Settings::default().format, Format::Html);
}

#[test]
fn mistakes_in_settings_are_reported() {
    assert!(Settings::parse(br#"{"archh": "sm_90a"}"#).unwrap_err().contains("archh"));
    assert!(Settings::parse(b"{").is_err());
    let text = read("examples/saxpy.ptx");
    for wrong in [r#"{"arch": "sm_99"}"#, r#"{"opt_level": 4}"#, r#"{"maxrregcount": 0}"#] {
        let response = compile(&text, &settings(wrong));
        assert!(!response.report.ok && response.report.error.is_some() && response.output.is_empty(), "{wrong}");
    }
    let names = String::from_utf8(targets().output).unwrap();
    assert!(names.lines().any(|name| name == "sm_90a") && names.lines().count() > 10, "{names}");
}
