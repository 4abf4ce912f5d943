//! Values of functions that are asked for at the same arguments again and again.

use std::cell::RefCell;
use std::collections::HashMap;

/// Values that are kept: 100 KiB.
const MOST: usize = 4_096;

/// The values of a function of two numbers that this thread has computed. When it is full it forgets all of them.
#[derive(Default)]
pub(super) struct Memo(RefCell<HashMap<(u64, u64), f64>>);

impl Memo {
    /// The value at these arguments, computed where it is not known.
    pub(super) fn get(&self, arguments: (f64, f64), compute: impl FnOnce() -> Option<f64>) -> Option<f64> {
        let key = (arguments.0.to_bits(), arguments.1.to_bits());
        if let Some(known) = self.0.borrow().get(&key) {
            return Some(*known);
        }
        let value = compute()?;
        let mut known = self.0.borrow_mut();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, value);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once_and_none_is_no_value() {
        let memo = Memo::default();
        assert_eq!(memo.get((1.0, 2.0), || None), None);
        assert_eq!(memo.get((1.0, 2.0), || Some(3.0)), Some(3.0));
        assert_eq!(memo.get((1.0, 2.0), || panic!("it is known")), Some(3.0));
        assert_eq!(memo.get((2.0, 1.0), || Some(4.0)), Some(4.0));
    }

    #[test]
    fn it_stays_small() {
        let memo = Memo::default();
        for number in 0..3 * MOST {
            let number = number as f64;
            assert_eq!(memo.get((number, 0.0), || Some(-number)), Some(-number));
        }
        assert!(memo.0.borrow().len() <= MOST);
    }
}
