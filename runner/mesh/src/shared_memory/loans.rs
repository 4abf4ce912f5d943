//! The packets of one rank's memory that one peer may still read.

use bytes::Bytes;

/// Loans that can be open to a peer at one time.
pub(super) const SLOTS: usize = 512;

/// The packets that one peer may still read, each with a slot.
pub(super) struct Loans {
    /// Oldest first, as long as they come back in order.
    open: Vec<Loan>,
    free: Vec<u32>,
    /// Of the last loan; from 1.
    number: u64,
}

struct Loan {
    slot: u32,
    number: u64,
    /// Keeps the memory from being used again.
    _packet: Bytes,
}

impl Default for Loans {
    fn default() -> Self {
        Self { open: Vec::new(), free: (0..SLOTS as u32).rev().collect(), number: 0 }
    }
}

impl Loans {
    /// Lends a packet; returns its slot and the number of the loan, or `None` if all slots are taken.
    pub(super) fn lend(&mut self, packet: Bytes) -> Option<(u32, u64)> {
        let slot = self.free.pop()?;
        self.number += 1;
        self.open.push(Loan { slot, number: self.number, _packet: packet });
        Some((slot, self.number))
    }

    /// Ends the loans that the peer has returned, where `returned` is the peer's mark for a slot: the number of the loan that it
    /// returned there last.
    pub(super) fn reclaim(&mut self, returned: impl Fn(usize) -> u64) {
        self.end_where(|loan| returned(loan.slot as usize) == loan.number);
    }

    /// Ends the loan with that number.
    pub(super) fn end(&mut self, number: u64) {
        self.end_where(|loan| loan.number == number);
    }

    fn end_where(&mut self, over: impl Fn(&Loan) -> bool) {
        let free = &mut self.free;
        self.open.retain(|loan| {
            let over = over(loan);
            if over {
                free.push(loan.slot);
            }
            !over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loan_ends_with_its_own_number_only() {
        let mut loans = Loans::default();
        let packet = Bytes::from(vec![1; 10]);
        assert_eq!(loans.lend(packet.clone()), Some((0, 1)));
        assert_eq!(loans.lend(packet.clone()), Some((1, 2)));
        loans.reclaim(|_| 2);
        assert_eq!(loans.free.len(), SLOTS - 1, "the mark of an earlier loan in slot 0 is not this one's");
        assert_eq!(loans.lend(packet.clone()), Some((1, 3)));
        loans.reclaim(|slot| [1, 3][slot]);
        assert!(packet.is_unique(), "all clones are gone");
    }

    #[test]
    fn slots_are_bounded() {
        let mut loans = Loans::default();
        for _ in 0..SLOTS {
            assert!(loans.lend(Bytes::new()).is_some());
        }
        assert_eq!(loans.lend(Bytes::new()), None);
        loans.reclaim(|slot| if slot == 7 { 8 } else { 0 });
        assert_eq!(loans.lend(Bytes::new()), Some((7, SLOTS as u64 + 1)));
    }
}
