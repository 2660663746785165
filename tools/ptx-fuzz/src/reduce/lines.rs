//! Removes lines from a module, in runs of decreasing length, as long as the checker accepts the rest (delta debugging).

/// Returns a text that still fails and from which no line can be removed, or the best text after `tries` attempts.
pub fn reduce_lines(text: &str, tries: usize, fails: &mut dyn FnMut(&str) -> bool) -> String {
    let mut left = tries;
    let mut lines: Vec<&str> = text.lines().collect();
    loop {
        let before = lines.len();
        let mut run = lines.len().next_power_of_two() / 2;
        while run > 0 {
            let mut start = 0;
            while start < lines.len() && left > 0 {
                let end = (start + run).min(lines.len());
                let candidate: Vec<&str> = lines[..start].iter().chain(&lines[end..]).copied().collect();
                let text = candidate.join("\n") + "\n";
                left -= 1;
                if oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).is_valid() && fails(&text) {
                    lines = candidate;
                } else {
                    start = end;
                }
            }
            run /= 2;
        }
        if lines.len() == before || left == 0 {
            return lines.join("\n") + "\n";
        }
    }
}
