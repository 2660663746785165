//! Work that the caller may do on several threads.

use std::sync::OnceLock;

/// Calls the function once with each number below the count, in any order and on any threads, and returns when all calls have returned.
pub type Runner<'a> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + 'a;

/// A [`Runner`] on the calling thread.
pub fn run_in_order(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(task);
}

/// Returns the results of `map` for all items, in their order. What the runner leaves out is done on the calling thread.
pub(crate) fn map_with<'i, I: Sync, R: Send + Sync>(runner: &Runner<'_>, items: &'i [I], map: impl Fn(&'i I) -> R + Sync) -> Vec<R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    runner(items.len(), &|number| {
        if let (Some(item), Some(result)) = (items.get(number), results.get(number)) {
            result.get_or_init(|| map(item));
        }
    });
    items.iter().zip(results).map(|(item, result)| result.into_inner().unwrap_or_else(|| map(item))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_done() {
        let items = [1, 2, 3, 4];
        let double = |item: &i32| 2 * item;
        let backwards = |count: usize, task: &(dyn Fn(usize) + Sync)| (1..count + 2).rev().for_each(task);
        assert_eq!(map_with(&run_in_order, &items, double), [2, 4, 6, 8]);
        assert_eq!(map_with(&backwards, &items, double), [2, 4, 6, 8]);
    }
}
