//! One dimension of a regular fabric: how NPUs that differ only in this coordinate are joined.

use crate::Link;
use serde::{Deserialize, Serialize};
use syncline_units::{DimKind, LinkId, Rate, Time};

/// The direction of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Each ring is a pair of rings, one in either direction.
    #[default]
    Both,
    /// One way, towards higher coordinates.
    OneWay,
}

/// What selects one of the parallel switches of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// The lane, and how far around the message goes. So an NPU's messages to all others use all switches,
    /// and so do its messages to one other NPU in all lanes.
    #[default]
    Lane,
    /// The two NPUs: switch (source + destination) mod count, by their coordinates (dlrm2020 III-C.2).
    Pair,
}

/// A dimension (hier2021 Fig. 6; astra2020 III-C). Each NPU has these links, `count` times in parallel:
///
/// | kind | links of one NPU | hops between neighbours |
/// |---|---|---|
/// | ring | to the next NPU (and to the one before, unless one-way) | 1 per step |
/// | fully connected | to each other NPU | 1 |
/// | switch | up to the switch and down from it | 2 |
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// How NPUs are joined.
    pub kind: DimKind,
    /// How many NPUs are joined.
    pub size: u32,
    /// Parallel rings, parallel links per pair, or switches.
    pub count: u32,
    /// Direction of rings.
    pub direction: Direction,
    /// What selects one of the switches.
    pub spread: Spread,
    /// Payload rate of one link.
    pub rate: Rate,
    /// Rate of one link including headers, which is what is paid for.
    pub wire_rate: Rate,
    /// Latency of one link.
    pub latency: Time,
    /// Its name in price lists; empty if that is `name`.
    pub tier: String,
    pub(crate) stride: u32,
    pub(crate) first_link: u32,
    /// [`Dimension::links_per_npu`], known once the dimension is part of a fabric.
    pub(crate) per_npu: u32,
    pub(crate) first_switch: u32,
}

/// Returns `x % n`. Avoids the division if possible, because routes are requested once per message.
#[inline]
fn wrapped(x: u32, n: u32) -> u32 {
    match n {
        _ if x < n => x,
        1 => 0,
        _ => x % n,
    }
}

impl Dimension {
    /// A dimension with one ring, link or switch, no latency and no rate yet.
    pub fn new(name: String, kind: DimKind, size: u32) -> Self {
        Self {
            name,
            kind,
            size,
            count: 1,
            direction: Direction::Both,
            spread: Spread::Lane,
            rate: Rate(0),
            wire_rate: Rate(0),
            latency: Time::ZERO,
            tier: String::new(),
            stride: 1,
            first_link: 0,
            per_npu: 0,
            first_switch: 0,
        }
    }
    /// Sets the number of parallel rings, links or switches.
    #[must_use]
    pub fn with_count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }
    /// Sets the direction of rings.
    #[must_use]
    pub fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }
    /// Sets what selects one of the switches.
    #[must_use]
    pub fn with_spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }
    /// Sets the rate of one link.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self.wire_rate = rate;
        self
    }
    /// Sets the rate at which one NPU sends into this dimension, divided evenly over its links (hier2021 Eq.
    /// 8).
    #[must_use]
    pub fn with_rate_per_npu(mut self, rate: Rate) -> Self {
        self.rate = Rate(rate.0 / u64::from(self.egress_links()));
        self.wire_rate = self.rate;
        self
    }
    /// Sets the payload rate of one link, if headers take part of its rate.
    #[must_use]
    pub fn with_payload(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }
    /// Sets its name in price lists.
    #[must_use]
    pub fn with_tier(mut self, tier: String) -> Self {
        self.tier = tier;
        self
    }
    /// Sets the latency of one link.
    #[must_use]
    pub fn with_latency(mut self, latency: Time) -> Self {
        self.latency = latency;
        self
    }

    /// Returns the difference of NPU numbers between neighbours.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Returns the number of directions: 2 for a ring that runs both ways, else 1.
    #[inline]
    pub fn ways(&self) -> u32 {
        if self.kind == DimKind::Ring && self.direction == Direction::Both { 2 } else { 1 }
    }

    /// Returns the number of links by which one NPU sends.
    #[inline]
    pub fn egress_links(&self) -> u32 {
        match self.kind {
            DimKind::Ring => self.count.saturating_mul(self.ways()),
            DimKind::FullyConnected => self.count.saturating_mul(self.size.saturating_sub(1).max(1)),
            DimKind::Switch => self.count,
        }
    }

    /// Returns the number of independent lanes for chunks (astra2020 IV-B): rings by direction, or switches;
    /// 1 if every NPU has a link to every other, or if the pair selects the switch.
    pub fn lanes(&self) -> u32 {
        match self.kind {
            DimKind::Switch if self.spread == Spread::Pair => 1,
            DimKind::Ring | DimKind::Switch => self.egress_links(),
            DimKind::FullyConnected => self.count,
        }
    }

    /// Returns the rate at which one NPU can send into this dimension, over all its links.
    pub fn rate_per_npu(&self) -> Rate {
        Rate(self.rate.0.saturating_mul(u64::from(self.egress_links())))
    }

    /// Returns the part of that rate that can be used. If the pair selects the switch, an NPU uses at most as
    /// many switches as it has peers.
    pub fn usable_rate_per_npu(&self) -> Rate {
        match (self.kind, self.spread) {
            (DimKind::Switch, Spread::Pair) => {
                let links = self.count.min(self.size.saturating_sub(1).max(1));
                Rate(self.rate.0.saturating_mul(u64::from(links)))
            }
            _ => self.rate_per_npu(),
        }
    }

    /// Returns the number of links numbered per NPU. A dimension of one NPU has none.
    #[inline]
    pub(crate) fn links_per_npu(&self) -> u32 {
        match (self.size, self.kind) {
            (1, _) => 0,
            (_, DimKind::Switch) => self.count.saturating_mul(2),
            _ => self.egress_links(),
        }
    }

    /// Returns the number of switches of this dimension in a fabric of `npus` NPUs.
    pub(crate) fn switches(&self, npus: u32) -> u32 {
        match self.kind {
            DimKind::Switch if self.size > 1 => (npus / self.size).saturating_mul(self.count),
            _ => 0,
        }
    }

    /// Returns an NPU's coordinate in this dimension.
    #[inline]
    pub fn coordinate(&self, npu: u32) -> u32 {
        wrapped(if self.stride == 1 { npu } else { npu / self.stride }, self.size)
    }

    /// Returns the NPU at coordinate `to` whose other coordinates are those of `npu`.
    fn moved(&self, npu: u32, to: u32) -> u32 {
        npu + to * self.stride - self.coordinate(npu) * self.stride
    }

    /// Returns the number of the group of joined NPUs that `npu` belongs to.
    fn group(&self, npu: u32) -> u32 {
        npu % self.stride + npu / (self.stride * self.size) * self.stride
    }

    #[inline]
    fn id(&self, npu: u32, local: u32) -> LinkId {
        LinkId(self.first_link + npu * self.per_npu + local)
    }

    /// Returns link `id` of this dimension, which is number `dim` in the fabric.
    pub(crate) fn link(&self, id: LinkId, dim: u16) -> Link {
        let per_npu = self.links_per_npu();
        let npu = (id.0 - self.first_link) / per_npu;
        let local = (id.0 - self.first_link) % per_npu;
        let here = self.coordinate(npu);
        let (from, to) = match self.kind {
            DimKind::Ring => {
                let back = self.ways() == 2 && local % 2 == 1;
                let next = if back { (here + self.size - 1) % self.size } else { (here + 1) % self.size };
                (npu, self.moved(npu, next))
            }
            DimKind::FullyConnected => (npu, self.moved(npu, (here + 1 + local / self.count) % self.size)),
            DimKind::Switch => {
                let switch = self.first_switch + self.group(npu) * self.count + local % self.count;
                if local < self.count { (npu, switch) } else { (switch, npu) }
            }
        };
        Link { from, to, rate: self.rate, latency: self.latency, dim }
    }

    /// Splits an NPU number already divided by the stride: returns the coordinate, and the number divided by
    /// the next stride.
    #[inline]
    pub(crate) fn split(&self, number: u32) -> (u32, u32) {
        if self.size.is_power_of_two() {
            (number & (self.size - 1), number >> self.size.trailing_zeros())
        } else {
            (number % self.size, number / self.size)
        }
    }

    /// Appends the links from `at`, whose coordinate is `here`, to coordinate `there`. Returns the NPU at
    /// that coordinate.
    #[inline]
    pub(crate) fn route(&self, at: u32, here: u32, there: u32, lane: u32, path: &mut Vec<LinkId>) -> u32 {
        let base = at - here * self.stride;
        let target = base + there * self.stride;
        let forward = if there > here { there - here } else { there + self.size - here };
        match self.kind {
            DimKind::Ring => {
                let ways = self.ways();
                let ring = wrapped(lane / ways, self.count);
                let backward = self.size - forward;
                let back = ways == 2 && (backward < forward || (backward == forward && lane % 2 == 1));
                let (hops, local) = if back { (backward, ring * 2 + 1) } else { (forward, ring * ways) };
                let mut coordinate = here;
                for _ in 0..hops {
                    path.push(self.id(base + coordinate * self.stride, local));
                    coordinate = match back {
                        true if coordinate == 0 => self.size - 1,
                        true => coordinate - 1,
                        false if coordinate + 1 == self.size => 0,
                        false => coordinate + 1,
                    };
                }
            }
            DimKind::FullyConnected => {
                path.push(self.id(at, (forward - 1) * self.count + wrapped(lane, self.count)));
            }
            DimKind::Switch => {
                let switch = match self.spread {
                    // Peers are spread over the switches, so direct exchanges use all of them at once.
                    Spread::Lane => wrapped(lane + forward - 1, self.count),
                    Spread::Pair => ((u64::from(here) + u64::from(there)) % u64::from(self.count)) as u32,
                };
                path.push(self.id(at, switch));
                path.push(self.id(target, self.count + switch));
            }
        }
        target
    }
}
