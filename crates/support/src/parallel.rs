//! Work on many things, on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns what `work` makes of each item, in their order. At most so many items are worked on at the same time.
///
/// # Panics
/// If `work` does.
pub fn map<T: Sync, R: Send>(items: &[T], most: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(most).min(items.len());
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = items.iter().map(|item| item * item).collect();
        for most in [1, 3, 1000] {
            assert_eq!(map(&items, most, |item| item * item), squares);
        }
        assert_eq!(map(&[] as &[u64], 4, |item| *item), [0_u64; 0]);
    }
}
