//! The table of instruction templates, `data/ops.tbl`.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::rng::Rng;

/// A template and the lowest target number that has it.
struct Row {
    least_sm: u32,
    template: &'static str,
}

fn sections() -> &'static HashMap<&'static str, Vec<Row>> {
    static SECTIONS: OnceLock<HashMap<&'static str, Vec<Row>>> = OnceLock::new();
    SECTIONS.get_or_init(|| {
        let mut sections: HashMap<&str, Vec<Row>> = HashMap::new();
        let mut name = "";
        for line in include_str!("../data/ops.tbl").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(heading) = line.strip_prefix('[') {
                name = heading.trim_end_matches(']');
            } else {
                let (least_sm, template) = line.split_once(' ').expect("a row has two columns");
                let least_sm = least_sm.parse().expect("a row starts with a number");
                sections.entry(name).or_default().push(Row { least_sm, template });
            }
        }
        sections
    })
}

/// Picks a template of a section that exists on a target; `None` if there is none.
pub fn template(rng: &mut Rng, section: &str, sm: u32) -> Option<&'static str> {
    let rows = sections().get(section).unwrap_or_else(|| panic!("no section {section}"));
    let fitting: Vec<&Row> = rows.iter().filter(|row| row.least_sm <= sm).collect();
    (!fitting.is_empty()).then(|| rng.pick(&fitting).template)
}

/// Returns all templates with their section and lowest target number.
pub fn all() -> impl Iterator<Item = (&'static str, u32, &'static str)> {
    sections().iter().flat_map(|(name, rows)| rows.iter().map(move |row| (*name, row.least_sm, row.template)))
}
