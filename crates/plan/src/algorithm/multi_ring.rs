//! Multi-ring: several rings at once, each of which visits the ranks in another order and carries an equal part of the
//! vector.
//!
//! In the ring with stride `p`, rank `i` sends to rank `i + p` modulo `N`. It visits every rank if `p` and `N` are coprime
//! (topoopt2022 3.3 and Theorem 1), so a group of `N` ranks has as many such rings as Euler's totient function of `N`
//! says. Rings with different strides share no link between two ranks. A fabric that joins ranks directly therefore
//! carries them on links of their own, and on a fat-tree they spread the load over more pairs.
//!
//! Each ring is a stream with its own part of the vector, on which it is the all-reduce of [`super::ring`]. A stride may
//! be given several times, so that its ring gets several parts.
//!
//! Source: topoopt2022 3.3, 6 and Appendix C.
//!
//! | collective | rounds | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | `2(N-1)` | `2 S (N-1)/N` |

use super::{inverse, offers_only, ring::Circle};
use crate::program::{Algorithm, ClosedForm, Op, Refusal, Seat};
use std::num::NonZeroU32;
use syncline_units::{CollectiveKind, Turn};

/// The multi-ring algorithm. Ignores [`Seat::reverse`]: a stride says the direction, in which alone there may be links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiRing {
    name: String,
    strides: Vec<NonZeroU32>,
}

impl MultiRing {
    /// One ring for each of `strides`, which are at least one.
    pub fn new(strides: Vec<NonZeroU32>) -> Self {
        let listed: Vec<String> = strides.iter().map(NonZeroU32::to_string).collect();
        Self { name: format!("multi_ring(strides={})", listed.join("+")), strides }
    }
}

impl Algorithm for MultiRing {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(self.name(), &[CollectiveKind::AllReduce], kind, ranks)?;
        match self.strides.iter().find(|stride| ranks > 1 && inverse(stride.get() % ranks, ranks).is_none()) {
            None => Ok(()),
            Some(stride) => Err(Refusal(format!(
                "`{}` needs strides that are coprime with the number of ranks, and {stride} and {ranks} are not",
                self.name
            ))),
        }
    }

    fn closed_form(&self, _kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let n = f64::from(ranks);
        let rounds = 2 * (ranks - 1);
        Some(ClosedForm { rounds, wire: 2.0 * (n - 1.0), sent: 2.0 * (n - 1.0) / n })
    }

    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        self.strides.len() as u32
    }

    fn turn(&self, _kind: CollectiveKind, _ranks: u32) -> Option<Turn> {
        Some(Turn::Cyclic)
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        if seat.ranks == 1 {
            return None;
        }
        let stride = self.strides[seat.stream as usize].get() % seat.ranks;
        let circle = Circle::new(seat.ranks, stride, inverse(stride, seat.ranks)?);
        circle.all_reduce(circle.number(seat.index), pc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};
    use crate::registry::by_name;

    fn rings(strides: &[u32]) -> MultiRing {
        MultiRing::new(strides.iter().map(|&stride| NonZeroU32::new(stride).unwrap()).collect())
    }

    #[test]
    fn twelve_servers_have_rings_with_four_strides() {
        // topoopt2022 3.3: n = 12 has the rings p = 1, 5, 7, 11.
        let possible: Vec<u32> = (1..12)
            .filter(|&stride| rings(&[stride]).offers(CollectiveKind::AllReduce, 12).is_ok())
            .collect();
        assert_eq!(possible, [1, 5, 7, 11]);
        let all = rings(&possible);
        for (stream, &stride) in (0..).zip(&possible) {
            let peers: Vec<u32> =
                sends(&all, CollectiveKind::AllReduce, 12, 3, stream).iter().map(|&(to, ..)| to).collect();
            assert_eq!(peers, vec![(3 + stride) % 12; 22]);
        }
    }

    #[test]
    fn one_ring_of_stride_one_is_the_ring() {
        let by_ring = by_name("ring").unwrap();
        for rank in 0..7 {
            assert_eq!(
                sends(&rings(&[1]), CollectiveKind::AllReduce, 7, rank, 0),
                sends(&*by_ring, CollectiveKind::AllReduce, 7, rank, 0)
            );
        }
    }

    #[test]
    fn the_inverse_of_a_step_undoes_it() {
        for ranks in 2..60u32 {
            for stride in 1..ranks {
                let found = inverse(stride, ranks);
                let expected =
                    (1..ranks).find(|by| u64::from(stride) * u64::from(*by) % u64::from(ranks) == 1);
                assert_eq!(
                    found,
                    expected.or(if ranks == 1 { Some(0) } else { None }),
                    "{stride} of {ranks}"
                );
            }
        }
    }

    #[test]
    fn plans_are_proved_for_ranks_coprime_with_every_step() {
        // All numbers of ranks that are coprime with 5 and 7, with a stride larger than some of them.
        assert_eq!(proves(&rings(&[1, 5, 7]), CollectiveKind::AllReduce, 16), 11);
        assert_eq!(proves(&rings(&[1, 1, 3]), CollectiveKind::AllReduce, 8), 6);
    }
}
