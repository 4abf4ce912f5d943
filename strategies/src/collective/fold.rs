//! Any number of places for methods that need a power of two.
//!
//! With q the largest power of two up to p, and r = p - q places too many: the first 2 r places form pairs, the
//! odd one of each pair is the guest of the even one, gives it its vector before, and takes the sum from it
//! afterwards. The others are numbered 0..q. With p = 6, so that q = 4 and r = 2:
//!
//! ```text
//!   place         0 <- 1    2 <- 3    4    5       then the method among four, then   0 -> 1   2 -> 3
//!   number        0         1         2    3
//! ```
//!
//! Index formula: place k < 2 r has number k / 2 where k is even and none where it is odd; place k >= 2 r has
//! number k - r.
//!
//! Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
//! 2005. They let both of a pair add half of the vector; whole vectors, as here and in MPICH itself, take one
//! message less.

use super::Rates;
use crate::GroupRank;

/// How p places become a power of two.
pub(super) struct Fold {
    places: usize,
    /// Places that take part: a power of two.
    pub(super) hosts: usize,
    /// Places that do not.
    pub(super) guests: usize,
}

/// Role of a place in a [`Fold`].
pub(super) enum FoldRole {
    /// Takes part in the rounds.
    Host {
        /// Its number among the hosts.
        number: usize,
        /// Guest whose vector it takes along; `None` for a host without one.
        guest: Option<GroupRank>,
    },
    /// Gives its vector to this place and gets the sum from there.
    Guest(GroupRank),
}

impl Fold {
    /// The fold of `places` places.
    pub(super) fn of(places: usize) -> Self {
        let hosts = 1 << places.ilog2();
        Self { places, hosts, guests: places - hosts }
    }

    /// Rounds in which numbers that differ in one bit meet.
    pub(super) fn rounds(&self) -> usize {
        self.hosts.ilog2() as usize
    }

    /// Role of a place: of the first `2 * guests`, each even one hosts the next; all others are hosts without guests.
    pub(super) fn role(&self, place: GroupRank) -> FoldRole {
        let GroupRank(k) = place;
        debug_assert!(k < self.places, "a place of the group");
        match (k < 2 * self.guests, k % 2) {
            (true, 0) => FoldRole::Host { number: k / 2, guest: Some(GroupRank(k + 1)) },
            (true, _) => FoldRole::Guest(GroupRank(k - 1)),
            (false, _) => FoldRole::Host { number: k - self.guests, guest: None },
        }
    }

    /// Which place has this number.
    pub(super) fn place(&self, number: usize) -> GroupRank {
        GroupRank(if number < self.guests { 2 * number } else { number + self.guests })
    }

    /// Time that folding adds: a vector in, its sum, and a vector out.
    pub(super) fn time(&self, elements: usize, rates: Rates) -> f64 {
        if self.guests == 0 { 0.0 } else { 2.0 * rates.message(elements) + rates.sum(elements) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_places_are_one_to_one_and_every_guest_has_a_host() {
        for places in 1..70 {
            let fold = Fold::of(places);
            assert!(fold.hosts <= places && places < 2 * fold.hosts);
            let mut visited = vec![0; places];
            for number in 0..fold.hosts {
                let place = fold.place(number);
                visited[place.0] += 1;
                let FoldRole::Host { number: same, guest } = fold.role(place) else {
                    panic!("{place:?} is a guest")
                };
                assert_eq!(same, number);
                if let Some(guest) = guest {
                    visited[guest.0] += 1;
                    assert!(matches!(fold.role(guest), FoldRole::Guest(host) if host == place));
                }
            }
            assert_eq!(visited, vec![1; places], "{places} places");
        }
    }
}
