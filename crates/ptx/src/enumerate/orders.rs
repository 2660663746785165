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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Platform, PtxVersion, Target};

    fn orders_of(text: &str) -> Vec<String> {
        let platform = Platform { version: PtxVersion::new(9, 0), target: Target::plain(90) };
        orders(&Case { text: text.to_string(), platform, independent_textures: false }).into_iter().map(|case| case.text).collect()
    }

    #[test]
    fn each_order_is_tried_once_and_never_the_usual_one() {
        assert_eq!(orders_of("exit;"), Vec::<String>::new());
        assert_eq!(orders_of("bra.uni L;"), Vec::<String>::new());
        assert_eq!(orders_of("add.sat.s32 a, b, c;"), ["add.s32.sat a, b, c;"]);
        assert_eq!(
            orders_of("vote.sync.any.pred p, q, m;"),
            [
                "vote.any.sync.pred p, q, m;",
                "vote.sync.pred.any p, q, m;",
                "vote.any.pred.sync p, q, m;",
                "vote.pred.sync.any p, q, m;",
                "vote.pred.any.sync p, q, m;"
            ]
        );
        assert_eq!(orders_of("cvt.f32.f32 a, b;"), Vec::<String>::new());
    }
}
