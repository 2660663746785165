//! Writes two explanations side by side as one self-contained page, aligned by line, block and instruction.

use std::fmt::Write;

use super::{ROWS, SCRIPT, STYLE, details, escaped, header};
use crate::compare::{Comparison, FunctionComparison, Pair, PlaceComparison, Totals};
use crate::model::{Explanation, Function, Instruction};
use crate::text::cycles;

/// Returns the page. `comparison` is the comparison of the two explanations.
pub fn write(first: &Explanation, second: &Explanation, comparison: &Comparison) -> String {
    let mut out = String::with_capacity(1 << 20);
    let title = format!("{} against {} on {}", escaped(&first.input), escaped(&second.input), escaped(&first.target));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body class=\"comparison\">\n<a class=\"skip\" href=\"#main\">Skip to the code</a>\n"
    );
    let names: Vec<&str> = comparison.functions.iter().map(|function| function.name.as_str()).collect();
    header(&mut out, &names, &title);
    out.push_str("<div class=\"single\">\n<main id=\"main\" tabindex=\"-1\">\n");
    for (names, input) in [(&comparison.only_first, &first.input), (&comparison.only_second, &second.input)] {
        if !names.is_empty() {
            let _ = writeln!(out, "<p>Only in {}: {}</p>", escaped(input), escaped(&names.join(", ")));
        }
    }
    for (number, function) in comparison.functions.iter().enumerate() {
        let find = |side: &Explanation| side.functions.iter().position(|other| other.name == function.name);
        if let (Some(one), Some(two)) = (find(first), find(second)) {
            let sides = [(&first.input, one, &first.functions[one]), (&second.input, two, &second.functions[two])];
            function_part(&mut out, number, function, sides);
        }
    }
    out.push_str("</main>\n</div>\n");
    details(&mut out);
    // `<` only occurs in strings of JSON, where `\u003c` means the same; `</script>` would end the element.
    let json = |side: &Explanation| serde_json::to_string(side).unwrap_or_default().replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"data\">{{\"first\":{},\"second\":{}}}</script>\n<script>\n//<![CDATA[\n{SCRIPT}//]]>\n</script>\n\
         </body>\n</html>\n",
        json(first),
        json(second)
    );
    out
}

/// Name of the input, index of the function in it, and the function.
type ComparedFunction<'a> = (&'a String, usize, &'a Function);

fn function_part(out: &mut String, number: usize, comparison: &FunctionComparison, [first, second]: [ComparedFunction<'_>; 2]) {
    let name = escaped(&comparison.name);
    let _ = write!(
        out,
        "<section class=\"function\" id=\"f{number}\" data-number=\"{number}\" data-first=\"{}\" data-second=\"{}\" \
         aria-labelledby=\"f{number}-name\">\n<h2 id=\"f{number}-name\">{name}</h2>\n",
        first.1, second.1
    );
    totals(out, comparison, first.0, second.0);
    let by = match comparison.matched_by.as_str() {
        "ptx" => "PTX line",
        "source" => "source line",
        _ => "block",
    };
    let _ = write!(
        out,
        "<h3>Code by {by}</h3>\n<p><label><input type=\"checkbox\" class=\"filter\"/> Only places that differ</label></p>\n<div class=\"pane \
         sass\" id=\"f{number}-sass\" role=\"region\" aria-label=\"Machine code of {name} in both files\" tabindex=\"0\">\n"
    );
    for place in &comparison.places {
        place_part(out, number, by, place, [first.2, second.2]);
    }
    out.push_str("</div>\n</section>\n");
}

/// Returns a figure as text.
type Figure = fn(&Totals) -> String;

/// Writes the figures of both functions.
fn totals(out: &mut String, comparison: &FunctionComparison, first: &str, second: &str) {
    let _ = writeln!(
        out,
        "<table class=\"totals\"><caption>Both files</caption><thead><tr><th scope=\"col\">Figure</th><th scope=\"col\">{}</th><th scope=\"col\">{}\
         </th></tr></thead><tbody>",
        escaped(first),
        escaped(second)
    );
    let rows: [(&str, Figure); 5] = [
        ("Registers", |totals| totals.registers.to_string()),
        ("Instructions", |totals| totals.instructions.to_string()),
        ("Stall cycles", |totals| totals.stalls.to_string()),
        ("Waiting cycles, predicted", |totals| totals.waits.to_string()),
        ("Cycles, weighted with executions", |totals| cycles(totals.cycles)),
    ];
    for (what, figure) in rows {
        let (one, two) = (figure(&comparison.first), figure(&comparison.second));
        let _ = writeln!(out, "<tr><th scope=\"row\">{what}</th><td>{one}</td><td>{two}</td></tr>");
    }
    out.push_str("</tbody></table>\n");
}

/// Writes the instructions of one place, in tables that the browser lays out when they come into view.
fn place_part(out: &mut String, number: usize, by: &str, place: &PlaceComparison, sides: [&Function; 2]) {
    let name = if place.place.is_empty() { "no line" } else { &place.place };
    let same = if is_same(place, sides) { " same" } else { "" };
    let caption = format!(
        "{by} {name}: {} | {} instructions, {} | {} cycles  {}",
        place.first.instructions,
        place.second.instructions,
        cycles(place.first.cycles),
        cycles(place.second.cycles),
        place.text
    );
    for (piece, pairs) in place.pairs.chunks(ROWS).enumerate() {
        let height = (pairs.len() + 2) * 22;
        let caption = if piece == 0 { escaped(&caption) } else { format!("{by} {}, continued", escaped(name)) };
        let _ = writeln!(
            out,
            "<div class=\"chunk{same}\" style=\"contain-intrinsic-size: auto {height}px\"><table class=\"listing both\"><caption>{caption}\
             </caption><thead><tr><th scope=\"col\">Address</th><th scope=\"col\">First</th><th scope=\"col\">Stall</th><th scope=\"col\">Wait</th>\
             <th scope=\"col\">Address</th><th scope=\"col\">Second</th><th scope=\"col\">Stall</th><th scope=\"col\">Wait</th></tr></thead><tbody>"
        );
        pairs.iter().for_each(|pair| row(out, number, *pair, sides));
        out.push_str("</tbody></table></div>\n");
    }
}

fn find(function: &Function, address: Option<u64>) -> Option<&Instruction> {
    let address = address?;
    let place = function.instructions.binary_search_by_key(&address, |instruction| instruction.address).ok()?;
    function.instructions.get(place)
}

/// Returns whether both files have the same instructions with the same control words at a place, apart from the numbers of registers.
fn is_same(place: &PlaceComparison, [first, second]: [&Function; 2]) -> bool {
    let letters = |text: &str| text.split(|letter: char| !letter.is_ascii_alphabetic()).collect::<String>();
    place.pairs.iter().all(|pair| match (find(first, pair.first), find(second, pair.second)) {
        (Some(one), Some(two)) => one.stall == two.stall && letters(&one.text) == letters(&two.text),
        _ => false,
    })
}

fn row(out: &mut String, number: usize, pair: Pair, sides: [&Function; 2]) {
    let both = [find(sides[0], pair.first), find(sides[1], pair.second)];
    // The row has the address of the first file if there is one; the second address is an element of its own.
    let id = |side: usize, address: u64| format!("f{number}-{}{address:04x}", ['i', 'j'][side]);
    let own = pair.first.map(|address| id(0, address)).or_else(|| pair.second.map(|address| id(1, address))).unwrap_or_default();
    let class = match both {
        [Some(_), Some(_)] => "",
        [Some(_), None] => " class=\"only-first\"",
        _ => " class=\"only-second\"",
    };
    let _ = write!(out, "<tr id=\"{own}\"{class}");
    for (name, address) in [("first", pair.first), ("second", pair.second)] {
        if let Some(address) = address {
            let _ = write!(out, " data-{name}=\"{address:x}\"");
        }
    }
    out.push('>');
    for (side, instruction) in both.into_iter().enumerate() {
        let Some(instruction) = instruction else {
            out.push_str("<td></td><td></td><td></td><td></td>");
            continue;
        };
        let this = id(side, instruction.address);
        let anchor = if this == own { String::new() } else { format!(" id=\"{this}\"") };
        let wait = if instruction.waiting.cycles > 0 { instruction.waiting.cycles.to_string() } else { String::new() };
        let _ = write!(
            out,
            "<td><a{anchor} href=\"#{this}\">{:04x}</a></td><td>{}</td><td>{}</td><td>{wait}</td>",
            instruction.address,
            escaped(&instruction.text),
            instruction.stall
        );
    }
    out.push_str("</tr>\n");
}
