//! Writes a source file in which each chosen mutant is conditional on its number.
//!
//! ```text
//! a + b < c      →      (if ::oriole_mutant::active(7) { (a + b) <= (c) } else { a + b < c })
//! ```
//!
//! Sites nest. The text of a mutant contains its parts unchanged, because only one mutant is active at a time; only the original text
//! contains instrumented inner sites. Therefore the output grows linearly, not exponentially, with the nesting depth.

use std::fmt::Write as _;
use std::ops::Range;

use crate::sites::{Replacement, Site};

/// A site with its chosen mutants.
pub struct Chosen<'a> {
    pub site: &'a Site,
    /// For each mutant, its number and its index in the site.
    pub mutants: Vec<(usize, usize)>,
}

/// The numbers of a site's mutants, and the byte range of the site in the output.
pub type SiteRange = (Vec<usize>, Range<usize>);

/// Returns the new text and the place of each chosen site in it. `chosen` must be in the order of [`crate::sites::find`].
pub fn render(text: &str, chosen: &[Chosen<'_>]) -> (String, Vec<SiteRange>) {
    let mut writer = Writer { text, chosen, next: 0, output: String::new(), places: Vec::new() };
    writer.copy(0..text.len());
    (writer.output, writer.places)
}

/// State of the output.
struct Writer<'a> {
    text: &'a str,
    chosen: &'a [Chosen<'a>],
    /// Index of the first site that is not written yet.
    next: usize,
    output: String,
    places: Vec<SiteRange>,
}

impl<'a> Writer<'a> {
    /// Copies a range of the original text and instruments the sites in it.
    fn copy(&mut self, range: Range<usize>) {
        let mut at = range.start;
        let chosen = self.chosen;
        while let Some(next) = chosen.get(self.next)
            && next.site.range.end <= range.end
        {
            self.output.push_str(&self.text[at..next.site.range.start]);
            at = next.site.range.end;
            self.next += 1;
            self.site(next);
        }
        self.output.push_str(&self.text[at..range.end]);
    }

    /// Writes an instrumented site.
    fn site(&mut self, chosen: &Chosen<'a>) {
        let start = self.output.len();
        let range = chosen.site.range.clone();
        match chosen.site.shape {
            Replacement::Expression => {
                self.output.push('(');
                for &(number, mutant) in &chosen.mutants {
                    let text = &chosen.site.mutants[mutant].text;
                    write!(self.output, "if ::oriole_mutant::active({number}) {{ {text} }} else ").expect("writing to a string");
                }
                self.output.push_str("{ ");
                self.copy(range);
                self.output.push_str(" })");
            }
            Replacement::Statement => {
                write!(self.output, "if !::oriole_mutant::active({}) {{ ", chosen.mutants[0].0).expect("writing to a string");
                self.copy(range);
                self.output.push_str(" }");
            }
            Replacement::Entry => {
                for &(number, mutant) in &chosen.mutants {
                    let text = &chosen.site.mutants[mutant].text;
                    write!(self.output, " if ::oriole_mutant::active({number}) {{ {text} }}").expect("writing to a string");
                }
            }
        }
        self.places.push((chosen.mutants.iter().map(|&(number, _)| number).collect(), start..self.output.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites;

    #[test]
    fn nested_sites_are_instrumented_in_the_original_only() {
        let text = "fn f(a: u8) -> S { g(a + 1) }";
        let found = sites::find(text).unwrap();
        let chosen: Vec<Chosen<'_>> = found.iter().enumerate().map(|(number, site)| Chosen { site, mutants: vec![(number, 0)] }).collect();
        let (output, places) = render(text, &chosen);
        let inner = "(if ::oriole_mutant::active(1) { 2 } else { 1 })";
        let outer = format!("(if ::oriole_mutant::active(0) {{ (a) - (1) }} else {{ a + {inner} }})");
        assert_eq!(output, format!("fn f(a: u8) -> S {{ g({outer}) }}"));
        assert_eq!(&output[places[0].1.clone()], inner);
        assert_eq!(&output[places[1].1.clone()], outer);
    }
}
