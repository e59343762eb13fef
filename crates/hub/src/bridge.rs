//! The exchange among hubs of racks: turns the sums of single racks into the sum of all racks (luo2020, section 2.3).
//!
//! All racks have the same hubs, and the same core of each rack has a chunk. That core's bridge exchanges the chunk
//! with the bridges of the other racks, one step at a time, while workers still push other chunks.
//!
//! - *sharded*: chunk `c` has an owner, rack `c mod R`. The other racks send it their sums, and it sends back the
//!   total.
//! - *ring*: a partial sum goes round the ring, from the rack after the owner to the owner, and each rack adds its own.
//!   Then the total goes round once.
//!
//! Either way a hub sends and receives `2 (R - 1) / R` of the model.

use super::terms::RackExchangeMode;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_reduction::{Element, Reduction, reduce_tall};

/// A sum of contributions.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) buffer: Buffer,
    /// How many workers contributed to it.
    pub(super) contributors: u16,
}

/// What the core must do.
#[derive(Debug)]
pub(super) enum Output {
    /// Send a sum to a rack. `total` says that it is the sum of all racks.
    Send { to: u32, total: bool, sum: Arc<Buffer>, contributors: u16 },
    /// Use this sum of all racks.
    Total(Sum),
}

/// The exchange of a chunk's open step.
#[derive(Debug, Default)]
struct RackExchange {
    /// The sums received so far, by rack. In a ring, the previous rack's sum includes those of all racks before it.
    sums: BTreeMap<u32, Sum>,
    /// Whether this rack has sent its sum.
    sent: bool,
}

/// The exchange of one core with the same core of other racks.
#[derive(Debug)]
pub(super) struct Bridge {
    exchange_mode: RackExchangeMode,
    rack: u32,
    racks: u32,
    /// The number of workers of each rack.
    workers: Vec<u16>,
    exchanges: BTreeMap<u32, RackExchange>,
}

/// How to combine elements, and the memory for it.
pub(super) struct Tools<'a> {
    pub(super) element: Element,
    pub(super) reduction: Reduction,
    pub(super) pool: &'a mut Pool,
}

impl Bridge {
    /// Creates the exchange of a hub in `rack`. `workers` has the number of workers of each rack.
    pub(super) fn new(exchange_mode: RackExchangeMode, rack: u32, workers: Vec<u16>) -> Self {
        Self { exchange_mode, rack, racks: workers.len() as u32, workers, exchanges: BTreeMap::new() }
    }

    /// Returns the rack of this hub.
    pub(super) fn rack(&self) -> u32 {
        self.rack
    }

    /// Returns the racks that get a notice from this one. Every rack passes on what is new to it, so the notice overtakes
    /// nothing and reaches every rack before any sum to which this rack contributes later.
    pub(super) fn notified(&self) -> Vec<u32> {
        match self.exchange_mode {
            RackExchangeMode::Sharded => (0..self.racks).filter(|&rack| rack != self.rack).collect(),
            RackExchangeMode::Ring if self.racks > 1 => vec![self.next()],
            RackExchangeMode::Ring => Vec::new(),
        }
    }

    fn next(&self) -> u32 {
        (self.rack + 1) % self.racks
    }

    fn previous(&self) -> u32 {
        (self.rack + self.racks - 1) % self.racks
    }

    /// Returns how many workers can have contributed to a sum from a rack.
    fn most_contributors(&self, from: u32, chunk: u32, total: bool) -> u16 {
        let owner = chunk % self.racks;
        match self.exchange_mode {
            _ if total => self.workers.iter().sum(),
            RackExchangeMode::Sharded => self.workers[from as usize],
            RackExchangeMode::Ring => {
                let racks = (from + self.racks - owner - 1) % self.racks + 1;
                (1..=racks).map(|next| self.workers[((owner + next) % self.racks) as usize]).sum()
            }
        }
    }

    /// Returns whether a sum from a rack is expected now. `total` says that it is the sum of all racks. A sum of more
    /// contributors than it can have is not.
    pub(super) fn expects(&self, from: u32, chunk: u32, total: bool, contributors: u16) -> bool {
        self.expects_from(from, chunk, total) && contributors <= self.most_contributors(from, chunk, total)
    }

    fn expects_from(&self, from: u32, chunk: u32, total: bool) -> bool {
        let owner = chunk % self.racks;
        let exchange = self.exchanges.get(&chunk);
        if total {
            let source = match self.exchange_mode {
                RackExchangeMode::Sharded => owner,
                RackExchangeMode::Ring => self.previous(),
            };
            return self.rack != owner && from == source && exchange.is_some_and(|exchange| exchange.sent);
        }
        let expected = match self.exchange_mode {
            RackExchangeMode::Sharded => self.rack == owner && from != self.rack,
            // The rack after the owner begins, so nothing is sent to it.
            RackExchangeMode::Ring => from == self.previous() && self.previous() != owner,
        };
        expected && !exchange.is_some_and(|exchange| exchange.sums.contains_key(&from) || exchange.sent)
    }

    /// Takes this rack's sum of a chunk.
    pub(super) fn summed(&mut self, chunk: u32, sum: Sum, tools: &mut Tools<'_>) -> Vec<Output> {
        self.exchanges.entry(chunk).or_default().sums.insert(self.rack, sum);
        self.advance(chunk, tools)
    }

    /// Takes a sum from a rack that [`Bridge::expects`] has allowed.
    pub(super) fn received(
        &mut self,
        from: u32,
        chunk: u32,
        total: bool,
        sum: Sum,
        tools: &mut Tools<'_>,
    ) -> Vec<Output> {
        if total {
            return self.pass_on(chunk, sum, tools);
        }
        self.exchanges.entry(chunk).or_default().sums.insert(from, sum);
        self.advance(chunk, tools)
    }

    fn advance(&mut self, chunk: u32, tools: &mut Tools<'_>) -> Vec<Output> {
        let owner = chunk % self.racks;
        let needed = match self.exchange_mode {
            RackExchangeMode::Sharded if self.rack == owner => self.racks,
            RackExchangeMode::Sharded => 1,
            RackExchangeMode::Ring if self.racks == 1 || self.previous() == owner => 1,
            RackExchangeMode::Ring => 2,
        };
        let (rack, previous) = (self.rack, self.previous());
        let Some(exchange) = self.exchanges.get_mut(&chunk).filter(|exchange| !exchange.sent) else {
            return Vec::new();
        };
        if exchange.sums.len() < needed as usize {
            return Vec::new();
        }
        exchange.sent = true;
        let mut sums = std::mem::take(&mut exchange.sums);
        // `expects` has checked each number, so this is at most the number of the job's workers.
        let contributors = sums.values().map(|sum| sum.contributors).sum();
        // In a ring, the sum that was received comes first, and this rack's sum is added to it.
        let order: Vec<u32> = match self.exchange_mode {
            RackExchangeMode::Sharded => sums.keys().copied().collect(),
            RackExchangeMode::Ring => {
                [previous, rack].into_iter().filter(|each| sums.contains_key(each)).collect()
            }
        };
        let mut all: Vec<Buffer> = order.iter().filter_map(|each| Some(sums.remove(each)?.buffer)).collect();
        let buffer = if all.len() == 1 {
            all.pop().expect("there is one")
        } else {
            let mut sum = tools.pool.take(all[0].as_slice().len());
            let slices: Vec<&[u8]> = all.iter().map(Buffer::as_slice).collect();
            reduce_tall(tools.element, tools.reduction, sum.as_mut_slice(), &slices)
                .expect("checked with the terms");
            all.into_iter().for_each(|buffer| tools.pool.give(buffer));
            sum
        };
        if self.rack == owner {
            return self.pass_on(chunk, Sum { buffer, contributors }, tools);
        }
        let to = match self.exchange_mode {
            RackExchangeMode::Sharded => owner,
            RackExchangeMode::Ring => self.next(),
        };
        vec![Output::Send { to, total: false, sum: Arc::new(buffer), contributors }]
    }

    /// Takes the sum of all racks, and passes it on to the racks that get it from this one.
    fn pass_on(&mut self, chunk: u32, total: Sum, tools: &mut Tools<'_>) -> Vec<Output> {
        self.exchanges.remove(&chunk);
        let owner = chunk % self.racks;
        let to: Vec<u32> = match self.exchange_mode {
            RackExchangeMode::Sharded if self.rack == owner => {
                (0..self.racks).filter(|&rack| rack != owner).collect()
            }
            RackExchangeMode::Ring if self.next() != owner => vec![self.next()],
            RackExchangeMode::Sharded | RackExchangeMode::Ring => Vec::new(),
        };
        if to.is_empty() {
            return vec![Output::Total(total)];
        }
        let Sum { buffer, contributors } = total;
        let mut own = tools.pool.take(buffer.as_slice().len());
        own.as_mut_slice().copy_from_slice(buffer.as_slice());
        let sum = Arc::new(buffer);
        let send = |to| Output::Send { to, total: true, sum: Arc::clone(&sum), contributors };
        to.into_iter().map(send).chain([Output::Total(Sum { buffer: own, contributors })]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A message in transit: whether it is the sum of all racks, its value, and its number of contributors.
    type Message = (bool, i32, u16);

    fn one(value: i32) -> Buffer {
        let mut buffer = Buffer::new(4);
        buffer.as_mut_slice().copy_from_slice(&value.to_ne_bytes());
        buffer
    }

    fn read(buffer: &Buffer) -> i32 {
        i32::from_ne_bytes(buffer.as_slice().try_into().unwrap())
    }

    proptest! {
        #[test]
        fn every_rack_gets_the_sum_of_all(
            racks in 1u32..6,
            chunk in 0u32..7,
            ring in any::<bool>(),
            order in prop::collection::vec(any::<prop::sample::Index>(), 200),
        ) {
            let exchange_mode = if ring { RackExchangeMode::Ring } else { RackExchangeMode::Sharded };
            let mut bridges: Vec<Bridge> = (0..racks).map(|rack| Bridge::new(exchange_mode, rack, vec![1; racks as usize])).collect();
            let mut pool = Pool::default();
            let mut tools = Tools { element: Element::I32, reduction: Reduction::Sum, pool: &mut pool };
            // Two steps, one after the other at each rack.
            let mut network: BTreeMap<(u32, u32), VecDeque<Message>> = BTreeMap::new();
            let mut steps = vec![0; racks as usize];
            let mut begun = vec![0; racks as usize];
            for choice in order {
                let able: Vec<u32> = (0..racks)
                    .filter(|&r| begun[r as usize] == steps[r as usize] && steps[r as usize] < 2)
                    .collect();
                let ready: Vec<(u32, u32)> =
                    network.iter().filter(|(_, queue)| !queue.is_empty()).map(|(&pair, _)| pair).collect();
                if able.len() + ready.len() == 0 {
                    break;
                }
                let pick = choice.index(able.len() + ready.len());
                let (rack, done) = if let Some(&rack) = able.get(pick) {
                    begun[rack as usize] += 1;
                    let value = (rack as i32 + 1) * 10i32.pow(begun[rack as usize]);
                    let sum = Sum { buffer: one(value), contributors: 1 };
                    (rack, bridges[rack as usize].summed(chunk, sum, &mut tools))
                } else {
                    let (from, to) = ready[pick - able.len()];
                    let (total, value, contributors) = network.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                    prop_assert!(
                        bridges[to as usize].expects(from, chunk, total, contributors),
                        "{} {} {}", from, to, total
                    );
                    let sum = Sum { buffer: one(value), contributors };
                    (to, bridges[to as usize].received(from, chunk, total, sum, &mut tools))
                };
                for step in done {
                    match step {
                        Output::Send { to, total, sum, contributors } => {
                            network.entry((rack, to)).or_default().push_back((total, read(&sum), contributors));
                        }
                        Output::Total(Sum { buffer: sum, contributors }) => {
                            steps[rack as usize] += 1;
                            let all = (1..=racks as i32).sum::<i32>();
                            prop_assert_eq!(read(&sum), all * 10i32.pow(steps[rack as usize]));
                            prop_assert_eq!(u32::from(contributors), racks);
                        }
                    }
                }
            }
            prop_assert_eq!(steps, vec![2; racks as usize]);
        }
    }

    #[test]
    fn a_sum_is_expected_only_from_the_right_rack_at_the_right_time() {
        let sharded = Bridge::new(RackExchangeMode::Sharded, 1, vec![1; 3]);
        let ring = Bridge::new(RackExchangeMode::Ring, 1, vec![1; 3]);
        let expects = |bridge: &Bridge, from, chunk, total| bridge.expects(from, chunk, total, 1);
        // Rack 1 owns chunk 1. It gets nothing of other chunks before it has sent its own sum.
        assert!(
            expects(&sharded, 0, 1, false)
                && !expects(&sharded, 0, 1, true)
                && !expects(&sharded, 1, 1, false)
        );
        assert!(!expects(&sharded, 0, 0, false) && !expects(&sharded, 0, 0, true));
        assert!(expects(&ring, 0, 1, false) && !expects(&ring, 2, 1, false));
        // Rack 1 comes after the owner of chunk 0, so it begins.
        assert!(!expects(&ring, 0, 0, false));
    }
    #[test]
    fn a_rack_cannot_count_more_contributors_than_its_sum_can_have() {
        let mut sharded = Bridge::new(RackExchangeMode::Sharded, 1, vec![2, 3, 4]);
        assert!(sharded.expects(0, 1, false, 2) && !sharded.expects(0, 1, false, 3));
        let mut pool = Pool::default();
        let mut tools = Tools { element: Element::I32, reduction: Reduction::Sum, pool: &mut pool };
        sharded.summed(0, Sum { buffer: one(1), contributors: 3 }, &mut tools);
        assert!(sharded.expects(0, 0, true, 9) && !sharded.expects(0, 0, true, 10));
        // A sum of chunk 1, which rack 1 owns, includes racks 2 and 0; one of chunk 2, which rack 2 owns, only rack 0.
        let ring = Bridge::new(RackExchangeMode::Ring, 1, vec![2, 3, 4]);
        assert!(ring.expects(0, 1, false, 6) && !ring.expects(0, 1, false, 7));
        assert!(ring.expects(0, 2, false, 2) && !ring.expects(0, 2, false, 3));
    }
}
