//! The table of templates, `data/ops.tbl`.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::rng::Rng;

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

/// A template of a section that a target has; none if it has none.
pub fn template(rng: &mut Rng, section: &str, sm: u32) -> Option<&'static str> {
    let rows = sections().get(section).unwrap_or_else(|| panic!("no section {section}"));
    let fitting: Vec<&Row> = rows.iter().filter(|row| row.least_sm <= sm).collect();
    (!fitting.is_empty()).then(|| rng.pick(&fitting).template)
}

/// All templates, with their sections and the least sm.
pub fn all() -> impl Iterator<Item = (&'static str, u32, &'static str)> {
    sections().iter().flat_map(|(name, rows)| rows.iter().map(move |row| (*name, row.least_sm, row.template)))
}
