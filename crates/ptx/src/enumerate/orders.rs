//! Reorders the modifiers of legal cases.

use super::Case;

/// Returns the case with its modifiers in other orders: each pair of neighbours swapped, rotated left and right by one, and reversed.
pub fn orders(case: &Case) -> Vec<Case> {
    let (head, rest) = case.text.split_at(case.text.find([' ', ';']).unwrap_or(case.text.len()));
    let mut components = head.split('.');
    let opcode = components.next().unwrap_or_default();
    let modifiers: Vec<&str> = components.collect();
    let mut tried: Vec<Vec<&str>> = vec![modifiers.clone()];
    let mut cases = Vec::new();
    for order in permutations(&modifiers) {
        if !tried.contains(&order) {
            cases.push(Case { text: format!("{opcode}.{}{rest}", order.join(".")), ..case.clone() });
            tried.push(order);
        }
    }
    cases
}

fn permutations<'a>(modifiers: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    for position in 1..modifiers.len() {
        let mut order = modifiers.to_vec();
        order.swap(position - 1, position);
        found.push(order);
    }
    for by in [1, modifiers.len().saturating_sub(1)] {
        let mut order = modifiers.to_vec();
        order.rotate_left(by.min(modifiers.len()));
        found.push(order);
    }
    found.push(modifiers.iter().rev().copied().collect());
    found
}
