//! The curve of live registers over the addresses of a function, with occupancy cliffs, as SVG.

use std::fmt::Write;

use crate::model::Function;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 140.0;
/// Width of the labels of the occupancy cliffs, right of the curve.
const LABELS: f64 = 150.0;
/// Largest number of points of the curve; of several instructions for one point, the largest number counts.
const MOST_POINTS: usize = 800;

/// Returns the curve of live registers. The numbers are also in the listing, so that the picture has a short description only.
pub fn live_registers(function: &Function, number: usize) -> String {
    let live: Vec<u32> = function.instructions.iter().map(|instruction| instruction.live).collect();
    let per_point = live.len().div_ceil(MOST_POINTS).max(1);
    let peaks: Vec<u32> = live.chunks(per_point).map(|chunk| chunk.iter().copied().max().unwrap_or(0)).collect();
    let registers = &function.registers;
    let above = registers.next_above.as_ref().map_or(0, |cliff| cliff.registers);
    // The curve, the number of registers and the next cliff must fit.
    let most = f64::from(registers.peak_live.max(registers.count).max(above.min(registers.count.max(8).saturating_mul(2))).max(1)) * 1.1;
    let x = |point: usize| point as f64 * WIDTH / peaks.len().max(1) as f64;
    let y = |value: f64| HEIGHT - value * HEIGHT / most;
    let mut path = String::new();
    for (point, &peak) in peaks.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}H{:.1}", if point == 0 { 'M' } else { 'L' }, x(point), y(f64::from(peak)), x(point + 1));
    }
    let mut svg = format!(
        "<svg class=\"curve\" viewBox=\"0 -12 {} {}\" role=\"img\" aria-labelledby=\"f{number}-curve\"><title id=\"f{number}-curve\">Live \
         registers from the first to the last instruction; at most {} of {}</title>\n",
        WIDTH + LABELS,
        HEIGHT + 24.0,
        registers.peak_live,
        registers.count
    );
    let mut lines: Vec<(u32, String, &str)> = vec![(registers.count, format!("{} registers", registers.count), "count")];
    for cliff in registers.next_above.iter().chain(&registers.next_below).filter(|cliff| cliff.registers != registers.count) {
        lines.push((cliff.registers, format!("{}: {:.0}% occupancy", cliff.registers, cliff.occupancy * 100.0), "cliff"));
    }
    for (value, text, class) in lines.into_iter().filter(|(value, ..)| f64::from(*value) <= most) {
        let height = y(f64::from(value));
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"0\" y1=\"{height:.1}\" x2=\"{WIDTH}\" y2=\"{height:.1}\"/><text x=\"{}\" y=\"{:.1}\">{text}</text>",
            WIDTH + 4.0,
            height + 4.0
        );
    }
    let _ = writeln!(svg, "<path d=\"{path}\"/>\n</svg>");
    svg
}
