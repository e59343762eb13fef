//! Parameter server: workers send their vectors to hubs, which reduce them and send the result back.
//!
//! The vector is cut into as many shards as there are hubs. Placements differ in two ways (luo2020 1.1.5, Fig. 1.7):
//! *central* (one hub) or *sharded* (several hubs), and *colocated* (each hub is a worker's rank) or not (each hub
//! has its own seat, numbered from `N`). Colocated hubs are spread evenly over the ranks, the first at rank 0. A
//! colocated hub's own share of its shard does not cross the network, "reducing total data movement by 1/N".
//!
//! Workers serve the hubs in turn, each starting with a different hub, so that no hub is the first of all.
//!
//! Source: luo2020 1.1.5 "Parameter Servers" and Table 4.1.
//!
//! With `H` hubs, for all-reduce:
//!
//! | placement | rounds | bytes on the wire | bytes sent by a worker and by a hub |
//! |---|---|---|---|
//! | colocated (CC, CS) | 2 | `2 S (N-1)` | `S` or `S (H-1)/H`; a hub `S (N-1)/H` more |
//! | not colocated (NCC, NCS) | 2 | `2 S N` | `S`; `S N/H` |

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use std::num::NonZeroU32;
use syncline_units::CollectiveKind;

/// Where the hubs are (luo2020 1.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// CC: one hub, at rank 0.
    ColocatedCentral,
    /// CS: several hubs, at ranks of workers.
    ColocatedSharded,
    /// NCC: one hub with its own seat.
    Central,
    /// NCS: several hubs with their own seats.
    Sharded,
}

impl Placement {
    /// Every placement.
    pub const ALL: [Self; 4] = [Self::ColocatedCentral, Self::ColocatedSharded, Self::Central, Self::Sharded];

    /// The dissertation's abbreviation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ColocatedCentral => "CC",
            Self::ColocatedSharded => "CS",
            Self::Central => "NCC",
            Self::Sharded => "NCS",
        }
    }
    /// Whether hubs share a seat with workers.
    pub const fn colocated(self) -> bool {
        matches!(self, Self::ColocatedCentral | Self::ColocatedSharded)
    }
    /// Whether there is only one hub.
    pub const fn central(self) -> bool {
        matches!(self, Self::ColocatedCentral | Self::Central)
    }
}

/// The parameter-server algorithm.
#[derive(Clone, Debug)]
pub struct ParameterServer {
    placement: Placement,
    hubs: Option<NonZeroU32>,
    name: String,
}

impl ParameterServer {
    /// A parameter server with `hubs` hubs (sharded placements only; by default as many as there are ranks). `None`
    /// if a central placement is given a number other than one.
    pub fn new(placement: Placement, hubs: Option<NonZeroU32>) -> Option<Self> {
        if placement.central() && hubs.is_some_and(|hubs| hubs.get() != 1) {
            return None;
        }
        let hubs = hubs.filter(|_| !placement.central());
        let name = match (placement, hubs) {
            (Placement::ColocatedSharded, None) => "parameter_server".to_owned(),
            (_, None) => format!("parameter_server(placement={})", placement.name()),
            (_, Some(hubs)) => format!("parameter_server(placement={}, hubs={hubs})", placement.name()),
        };
        Some(Self { placement, hubs, name })
    }

    /// Number of hubs.
    #[inline]
    pub fn hubs(&self, ranks: u32) -> u32 {
        if self.placement.central() { 1 } else { self.hubs.map_or(ranks, NonZeroU32::get) }
    }
}

impl Default for ParameterServer {
    fn default() -> Self {
        let name = "parameter_server".to_owned();
        Self { placement: Placement::ColocatedSharded, hubs: None, name }
    }
}

impl Algorithm for ParameterServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(&self.name, &[CollectiveKind::AllReduce], kind, ranks)?;
        let hubs = self.hubs(ranks);
        if self.placement.colocated() && hubs > ranks {
            return Err(Refusal(format!("`{}` needs at least {hubs} ranks, not {ranks}", self.name)));
        }
        if ranks.checked_add(hubs).is_none() {
            return Err(Refusal(format!("`{}` has too many seats for {ranks} ranks", self.name)));
        }
        Ok(())
    }

    fn closed_form(&self, _: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let (n, hubs) = (f64::from(ranks), f64::from(self.hubs(ranks)));
        let (wire, sent) = if self.placement.colocated() {
            (2.0 * (n - 1.0), (hubs - 1.0) / hubs + (n - 1.0) / hubs)
        } else {
            (2.0 * n, (n / hubs).max(1.0))
        };
        Some(ClosedForm { rounds: 2, wire, sent })
    }

    fn seats(&self, ranks: u32) -> u32 {
        if self.placement.colocated() { ranks } else { ranks + self.hubs(ranks) }
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let roles =
            Roles { ranks: seat.ranks, hubs: self.hubs(seat.ranks), colocated: self.placement.colocated() };
        let hub = roles.hub_at(seat.index);
        let worker = seat.index < seat.ranks;
        // A worker first pushes to the other hubs. A hub then reduces, waits and sends back. A worker then pulls.
        let hubs = if worker { roles.hubs - u32::from(hub.is_some()) } else { 0 };
        let workers = if hub.is_some() { roles.ranks - u32::from(worker) } else { 0 };
        if pc < hubs {
            let shard = roles.shard(seat.index, hub, pc);
            return Some(Op::Send { to: roles.seat(shard), blocks: roles.blocks(shard) });
        }
        let pc = pc - hubs;
        let pc = match hub {
            Some(own) if workers > 0 => {
                let blocks = roles.blocks(own);
                match pc {
                    _ if pc < workers => {
                        let from = roles.worker(seat.index, own, pc);
                        return Some(Op::Receive { from, blocks, reduce: true });
                    }
                    _ if pc == workers => return Some(Op::Wait),
                    _ if pc <= 2 * workers => {
                        let to = roles.worker(seat.index, own, pc - workers - 1);
                        return Some(Op::Send { to, blocks });
                    }
                    _ => pc - 2 * workers - 1,
                }
            }
            _ => pc,
        };
        (pc < hubs).then(|| {
            let shard = roles.shard(seat.index, hub, pc);
            Op::Receive { from: roles.seat(shard), blocks: roles.blocks(shard), reduce: false }
        })
    }
}

/// Which seats are hubs.
#[derive(Clone, Copy)]
struct Roles {
    ranks: u32,
    hubs: u32,
    colocated: bool,
}

impl Roles {
    /// The seat of a hub.
    #[inline]
    fn seat(self, hub: u32) -> u32 {
        if self.colocated {
            (u64::from(hub) * u64::from(self.ranks) / u64::from(self.hubs)) as u32
        } else {
            self.ranks + hub
        }
    }
    /// The hub at a seat.
    #[inline]
    fn hub_at(self, seat: u32) -> Option<u32> {
        if !self.colocated {
            return seat.checked_sub(self.ranks);
        }
        // The smallest hub whose seat is not below this seat.
        let hub = (u64::from(seat) * u64::from(self.hubs)).div_ceil(u64::from(self.ranks)) as u32;
        (hub < self.hubs && self.seat(hub) == seat).then_some(hub)
    }
    /// The shard of a hub.
    #[inline]
    fn blocks(self, hub: u32) -> Blocks {
        Blocks::data(hub, 1, self.hubs)
    }
    /// The shard that a worker sends at its `turn`: a hub starts after its own shard, another worker starts where its
    /// share of the hubs begins.
    #[inline]
    fn shard(self, seat: u32, own: Option<u32>, turn: u32) -> u32 {
        let first = match own {
            Some(own) => own + 1,
            None => (u64::from(seat) * u64::from(self.hubs) / u64::from(self.ranks)) as u32,
        };
        ((u64::from(first) + u64::from(turn)) % u64::from(self.hubs)) as u32
    }
    /// The worker that a hub serves at its `turn`: starts after the hub's own seat, or where its share of the workers
    /// begins.
    #[inline]
    fn worker(self, seat: u32, hub: u32, turn: u32) -> u32 {
        let first = if self.colocated {
            seat + 1
        } else {
            (u64::from(hub) * u64::from(self.ranks) / u64::from(self.hubs)) as u32
        };
        ((u64::from(first) + u64::from(turn)) % u64::from(self.ranks)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    fn with(placement: Placement, hubs: u32) -> ParameterServer {
        ParameterServer::new(placement, NonZeroU32::new(hubs)).unwrap()
    }

    #[test]
    fn a_central_hub_has_a_seat_of_its_own() {
        let server = with(Placement::Central, 0);
        assert_eq!(server.seats(4), 5);
        assert_eq!(sends(&server, CollectiveKind::AllReduce, 4, 2, 0), [(4, 0, 1, 1)]);
        let back: Vec<u32> =
            sends(&server, CollectiveKind::AllReduce, 4, 4, 0).iter().map(|sent| sent.0).collect();
        assert_eq!(back, [0, 1, 2, 3]);
    }

    #[test]
    fn two_hubs_among_four_ranks_hold_half_of_the_vector_each() {
        let server = with(Placement::ColocatedSharded, 2);
        let sent = |rank| sends(&server, CollectiveKind::AllReduce, 4, rank, 0);
        assert_eq!(sent(0), [(2, 1, 1, 2), (1, 0, 1, 2), (2, 0, 1, 2), (3, 0, 1, 2)]);
        assert_eq!(sent(1), [(0, 0, 1, 2), (2, 1, 1, 2)]);
        assert_eq!(sent(3), [(2, 1, 1, 2), (0, 0, 1, 2)]);
    }

    #[test]
    fn every_hub_is_found_at_its_seat() {
        for ranks in 1..40 {
            for hubs in 1..=ranks {
                let roles = Roles { ranks, hubs, colocated: true };
                let found: Vec<u32> = (0..ranks).filter_map(|rank| roles.hub_at(rank)).collect();
                assert_eq!(found, (0..hubs).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn plans_are_proved_for_every_placement() {
        for placement in Placement::ALL {
            assert_eq!(proves(&with(placement, 0), CollectiveKind::AllReduce, 12), 12);
        }
        assert_eq!(proves(&with(Placement::ColocatedSharded, 3), CollectiveKind::AllReduce, 12), 10);
        assert_eq!(proves(&with(Placement::Sharded, 3), CollectiveKind::AllReduce, 12), 12);
    }

    #[test]
    fn impossible_hubs_are_refused() {
        assert!(ParameterServer::new(Placement::Central, NonZeroU32::new(2)).is_none());
        let refusal = with(Placement::ColocatedSharded, 8).offers(CollectiveKind::AllReduce, 4).unwrap_err();
        assert_eq!(refusal.0, "`parameter_server(placement=CS, hubs=8)` needs at least 8 ranks, not 4");
    }
}
