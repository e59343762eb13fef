//! The exchange among hubs of racks: what each has summed of its own rack becomes the sum of all (luo2020, section 2.3).
//!
//! Hubs of racks are alike, and a chunk lies with the same core in each. That core's bridge exchanges the chunk with those of
//! the other racks, one step at a time, while other chunks are still gathered.
//!
//! - *sharded*: chunk `c` has an owner, rack `c mod R`; the others send it their sums, and get the sum of all back;
//! - *ring*: the sum grows on its way round, beginning behind the owner, and what it has become goes round once more.
//!
//! Either way a hub sends and receives `2 (R - 1) / R` of the model.

use super::terms::Between;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_reduction::{Element, Reduction, reduce_tall};

/// A sum, and how many workers had a part in it.
pub(super) type Sum = (Buffer, u16);

/// What is to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// Send a sum to a rack: of some, or of all.
    Send { to: u32, total: bool, sum: Arc<Buffer>, contributors: u16 },
    /// This is the sum of all.
    Conclude(Sum),
}

/// A chunk's exchange.
#[derive(Debug, Default)]
struct Meeting {
    /// Sums that are here, by rack; in a ring that of the rack before stands for all before it.
    sums: BTreeMap<u32, Sum>,
    /// Whether what this rack owes the others is on its way.
    sent: bool,
}

/// One core's exchange with those of other racks.
#[derive(Debug)]
pub(super) struct Bridge {
    between: Between,
    rack: u32,
    racks: u32,
    meetings: BTreeMap<u32, Meeting>,
}

/// How elements are combined, and memory for it.
pub(super) struct Tools<'a> {
    pub(super) element: Element,
    pub(super) reduction: Reduction,
    pub(super) pool: &'a mut Pool,
}

impl Bridge {
    pub(super) fn new(between: Between, rack: u32, racks: u32) -> Self {
        Self { between, rack, racks, meetings: BTreeMap::new() }
    }

    /// Which rack this is.
    pub(super) fn rack(&self) -> u32 {
        self.rack
    }

    fn next(&self) -> u32 {
        (self.rack + 1) % self.racks
    }

    fn before(&self) -> u32 {
        (self.rack + self.racks - 1) % self.racks
    }

    /// Whether what a rack sends is awaited: the sum of some, or of all.
    pub(super) fn admits(&self, from: u32, chunk: u32, total: bool) -> bool {
        let owner = chunk % self.racks;
        let meeting = self.meetings.get(&chunk);
        if total {
            let source = match self.between {
                Between::Sharded => owner,
                Between::Ring => self.before(),
            };
            return self.rack != owner && from == source && meeting.is_some_and(|meeting| meeting.sent);
        }
        let awaited = match self.between {
            Between::Sharded => self.rack == owner && from != self.rack,
            // Whoever begins has nobody before it.
            Between::Ring => from == self.before() && self.before() != owner,
        };
        awaited && !meeting.is_some_and(|meeting| meeting.sums.contains_key(&from) || meeting.sent)
    }

    /// This rack has summed a chunk.
    pub(super) fn summed(&mut self, chunk: u32, sum: Sum, tools: &mut Tools<'_>) -> Vec<Step> {
        self.meetings.entry(chunk).or_default().sums.insert(self.rack, sum);
        self.go_on(chunk, tools)
    }

    /// A rack has sent a sum that [`Bridge::admits`] has let in.
    pub(super) fn received(
        &mut self,
        from: u32,
        chunk: u32,
        total: bool,
        sum: Sum,
        tools: &mut Tools<'_>,
    ) -> Vec<Step> {
        if total {
            return self.conclude(chunk, sum, tools);
        }
        self.meetings.entry(chunk).or_default().sums.insert(from, sum);
        self.go_on(chunk, tools)
    }

    fn go_on(&mut self, chunk: u32, tools: &mut Tools<'_>) -> Vec<Step> {
        let owner = chunk % self.racks;
        let needed = match self.between {
            Between::Sharded if self.rack == owner => self.racks,
            Between::Sharded => 1,
            Between::Ring if self.racks == 1 || self.before() == owner => 1,
            Between::Ring => 2,
        };
        let (rack, before) = (self.rack, self.before());
        let Some(meeting) = self.meetings.get_mut(&chunk).filter(|meeting| !meeting.sent) else {
            return Vec::new();
        };
        if meeting.sums.len() < needed as usize {
            return Vec::new();
        }
        meeting.sent = true;
        let mut sums = std::mem::take(&mut meeting.sums);
        // There are at most 4096 workers, and whoever says that there are more is not believed.
        let contributors =
            sums.values().fold(0u16, |sum, &(_, contributors)| sum.saturating_add(contributors));
        // In a ring what has come stands first, and then what is added to it.
        let order: Vec<u32> = match self.between {
            Between::Sharded => sums.keys().copied().collect(),
            Between::Ring => [before, rack].into_iter().filter(|each| sums.contains_key(each)).collect(),
        };
        let mut all: Vec<Buffer> = order.iter().filter_map(|each| Some(sums.remove(each)?.0)).collect();
        let sum = if all.len() == 1 {
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
            return self.conclude(chunk, (sum, contributors), tools);
        }
        let to = match self.between {
            Between::Sharded => owner,
            Between::Ring => self.next(),
        };
        vec![Step::Send { to, total: false, sum: Arc::new(sum), contributors }]
    }

    /// The sum of all is here: it goes on to whoever has it from this rack.
    fn conclude(&mut self, chunk: u32, (sum, contributors): Sum, tools: &mut Tools<'_>) -> Vec<Step> {
        self.meetings.remove(&chunk);
        let owner = chunk % self.racks;
        let to: Vec<u32> = match self.between {
            Between::Sharded if self.rack == owner => (0..self.racks).filter(|&rack| rack != owner).collect(),
            Between::Ring if self.next() != owner => vec![self.next()],
            Between::Sharded | Between::Ring => Vec::new(),
        };
        if to.is_empty() {
            return vec![Step::Conclude((sum, contributors))];
        }
        let mut own = tools.pool.take(sum.as_slice().len());
        own.as_mut_slice().copy_from_slice(sum.as_slice());
        let sum = Arc::new(sum);
        let send = |to| Step::Send { to, total: true, sum: Arc::clone(&sum), contributors };
        to.into_iter().map(send).chain([Step::Conclude((own, contributors))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// On its way: whether it is the sum of all, what it is, and how many had a part in it.
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
            let between = if ring { Between::Ring } else { Between::Sharded };
            let mut bridges: Vec<Bridge> = (0..racks).map(|rack| Bridge::new(between, rack, racks)).collect();
            let mut pool = Pool::default();
            let mut tools = Tools { element: Element::I32, reduction: Reduction::Sum, pool: &mut pool };
            // Two steps, one after the other at each rack, as connections have it.
            let mut wires: BTreeMap<(u32, u32), VecDeque<Message>> = BTreeMap::new();
            let mut steps = vec![0; racks as usize];
            let mut begun = vec![0; racks as usize];
            for choice in order {
                let able: Vec<u32> = (0..racks).filter(|&r| begun[r as usize] == steps[r as usize] && steps[r as usize] < 2).collect();
                let ready: Vec<(u32, u32)> = wires.iter().filter(|(_, wire)| !wire.is_empty()).map(|(&pair, _)| pair).collect();
                if able.len() + ready.len() == 0 {
                    break;
                }
                let pick = choice.index(able.len() + ready.len());
                let (rack, done) = if let Some(&rack) = able.get(pick) {
                    begun[rack as usize] += 1;
                    let value = (rack as i32 + 1) * 10i32.pow(begun[rack as usize]);
                    (rack, bridges[rack as usize].summed(chunk, (one(value), 1), &mut tools))
                } else {
                    let (from, to) = ready[pick - able.len()];
                    let (total, value, contributors) = wires.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                    prop_assert!(bridges[to as usize].admits(from, chunk, total), "{} {} {}", from, to, total);
                    (to, bridges[to as usize].received(from, chunk, total, (one(value), contributors), &mut tools))
                };
                for step in done {
                    match step {
                        Step::Send { to, total, sum, contributors } => {
                            wires.entry((rack, to)).or_default().push_back((total, read(&sum), contributors));
                        }
                        Step::Conclude((sum, contributors)) => {
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
    fn what_nobody_awaits_is_not_let_in() {
        let sharded = Bridge::new(Between::Sharded, 1, 3);
        // Rack 1 owns chunk 1, and gets nothing of others' chunks before it has sent its own part.
        assert!(sharded.admits(0, 1, false) && !sharded.admits(0, 1, true) && !sharded.admits(1, 1, false));
        assert!(!sharded.admits(0, 0, false) && !sharded.admits(0, 0, true));
        let ring = Bridge::new(Between::Ring, 1, 3);
        assert!(ring.admits(0, 1, false) && !ring.admits(2, 1, false));
        // Behind the owner the sum begins.
        assert!(!ring.admits(0, 0, false));
    }
}
