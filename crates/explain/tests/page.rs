//! The page is well-formed, self-contained and complete.

use std::collections::HashSet;
use std::path::Path;

use oriole_explain::{Explanation, Options, compare, explain_ptx, html};
use oriole_isa::Target;

fn explanation(file: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read(path).unwrap();
    explain_ptx(file, &text, &Options::new(Target::parse("sm_90a").unwrap())).unwrap()
}

/// Checks that elements are closed in the reverse order in which they are opened; returns the ids.
fn check_elements(page: &str) -> HashSet<String> {
    const EMPTY: [&str; 2] = ["meta", "input"];
    let mut open: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("an end of the tag");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        if let Some(id) = tag.split(" id=\"").nth(1).and_then(|id| id.split('"').next()) {
            assert!(ids.insert(id.to_owned()), "two elements have the id {id}");
        }
        if tag.ends_with('/') {
            continue;
        }
        assert!(!EMPTY.contains(&name), "{name} is not closed");
        open.push(name);
        // The contents of scripts and styles are no elements.
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("an end")..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
    ids
}

#[test]
fn pages_are_well_formed_and_complete() {
    for file in ["examples/block_sum.ptx", "corpus/calls.ptx", "corpus/softmax_layernorm.lineinfo.ptx"] {
        let explanation = explanation(file);
        let page = html::write(&explanation);
        let ids = check_elements(&page);
        for (number, function) in explanation.functions.iter().enumerate() {
            for instruction in &function.instructions {
                assert!(ids.contains(&format!("f{number}-i{:04x}", instruction.address)), "{file} {:#x}", instruction.address);
            }
        }
        for line in 1..=explanation.ptx.len() {
            assert!(ids.contains(&format!("ptx-{line}")), "{file} line {line}");
        }
        // Every link leads to an element of the page.
        for link in page.split(" href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(link.strip_prefix('#').is_some_and(|id| ids.contains(id)), "{file}: {link}");
        }
        let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
        assert_eq!(serde_json::from_str::<Explanation>(data).unwrap(), explanation);
    }
}

/// Two files side by side: well-formed, and every instruction of both files is in exactly one row, next to one with the same opcode and line
/// if there is such a one.
#[test]
fn comparisons_are_well_formed_and_complete() {
    for file in ["examples/block_sum.ptx", "corpus/calls.ptx", "corpus/softmax_layernorm.lineinfo.ptx"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let mut options = Options::new(Target::parse("sm_90a").unwrap());
        options.compiler.level = 1;
        let (first, second) = (explanation(file), explain_ptx("old.ptx", &std::fs::read(path).unwrap(), &options).unwrap());
        let comparison = compare::compare(&first, &second);
        let page = html::comparison::write(&first, &second, &comparison);
        let ids = check_elements(&page);
        for link in page.split(" href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(link.strip_prefix('#').is_some_and(|id| ids.contains(id)), "{file}: {link}");
        }
        let mut aligned = 0;
        for function in &comparison.functions {
            let find = |side: &'_ Explanation| side.functions.iter().position(|other| other.name == function.name).unwrap();
            let (one, two) = (&first.functions[find(&first)], &second.functions[find(&second)]);
            let pairs = || function.places.iter().flat_map(|place| &place.pairs);
            let (mut ones, mut twos): (Vec<u64>, Vec<u64>) =
                (pairs().filter_map(|pair| pair.first).collect(), pairs().filter_map(|pair| pair.second).collect());
            ones.sort_unstable();
            twos.sort_unstable();
            assert_eq!(ones, one.instructions.iter().map(|instruction| instruction.address).collect::<Vec<_>>(), "{file}");
            assert_eq!(twos, two.instructions.iter().map(|instruction| instruction.address).collect::<Vec<_>>(), "{file}");
            for pair in pairs() {
                if let (Some(first), Some(second)) = (pair.first, pair.second) {
                    let (first, second) = (&one.instructions[first as usize / 16], &two.instructions[second as usize / 16]);
                    assert_eq!(first.origin.ptx_line, second.origin.ptx_line, "{file}");
                    let opcode = |text: &str| {
                        let rest = if text.starts_with('@') { text.split_once(' ').unwrap().1 } else { text };
                        rest.split([' ', '.']).next().unwrap().to_owned()
                    };
                    assert_eq!(opcode(&first.text), opcode(&second.text), "{file}: {} {}", first.text, second.text);
                    aligned += 1;
                }
            }
        }
        assert!(aligned > 10, "{file}: {aligned}");
    }
}

#[test]
fn pages_load_nothing() {
    let page = html::write(&explanation("examples/saxpy.ptx"));
    let (markup, data) = page.split_once("<script type=\"application/json\"").unwrap();
    let script = data.split_once("</script>").unwrap().1;
    for part in [markup, script] {
        for word in ["http://", "https://", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
            assert!(!part.contains(word), "{word}");
        }
    }
}

/// Names from the input are text, not markup.
#[test]
fn texts_are_escaped() {
    let mut explanation = explanation("examples/saxpy.ptx");
    explanation.input = "</title><script>alert(1)</script>&\"'".to_owned();
    explanation.ptx[0] = "</script><b>".to_owned();
    explanation.functions[0].warnings.clear();
    let page = html::write(&explanation);
    check_elements(&page);
    assert!(!page.contains("<script>alert") && !page.contains("</script><b>"));
}
