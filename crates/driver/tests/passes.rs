//! The pass table. Its order is checked when the crate is compiled.
//!
//! These tests are not next to the table, because a unit test that refers to the table makes the compiler generate the whole pipeline a
//! second time.

use oriole_driver::{PASSES, Pass};

/// Users identify passes by name; `all` and `help` have a meaning of their own on the command line.
#[test]
fn names_are_unique_and_described() {
    for (position, pass) in PASSES.iter().enumerate() {
        assert!(PASSES[..position].iter().all(|other| other.name != pass.name), "two passes are called {}", pass.name);
        assert!(!pass.name.is_empty() && pass.name != "all" && pass.name != "help", "{} is reserved", pass.name);
        assert!(pass.description.len() < 90 && !pass.description.is_empty(), "{}", pass.name);
    }
}

#[test]
fn misspelt_names_get_a_suggestion() {
    assert_eq!(Pass::find("legalise").unwrap_err(), "no pass is called `legalise`; did you mean `legalize`?");
    assert_eq!(Pass::find("vectorize").unwrap_err(), "no pass is called `vectorize`");
}
