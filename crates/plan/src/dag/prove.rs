//! Proves a materialised plan by executing it symbolically, in two opposite orders.

use super::{Action, Plan};
use crate::program::Seat;
use crate::symbolic::{MAX_WORDS, Storage, Values};
use crate::verify::{check_result, check_size, common_multiple, diagnostics, extent, flat};
use crate::walk::{Fault, Site};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use syncline_diagnostics::Diagnostics;
use syncline_units::Extent;

impl Plan {
    /// Proves that the plan computes its collective, in whatever order ready nodes are started: two opposite orders
    /// are executed symbolically.
    ///
    /// # Errors
    /// [`Code::WrongPlan`] for a fault, including an edge that does not point backwards; [`Code::BadValue`] if the
    /// plan is too large to be verified.
    ///
    /// [`Code::WrongPlan`]: syncline_diagnostics::Code::WrongPlan
    /// [`Code::BadValue`]: syncline_diagnostics::Code::BadValue
    pub fn verify(&self) -> Result<(), Diagnostics> {
        self.check_shape().map_err(|sentence| diagnostics(&[Fault { site: None, sentence }]))?;
        let mut counts = BTreeSet::from([1, self.ranks]);
        for node in self.seats.iter().flat_map(|seat| &seat.nodes) {
            match node.action {
                Action::Send { blocks, .. } | Action::Receive { blocks, .. } => _ = counts.insert(blocks.of),
                Action::Copy { from, to, .. } => counts.extend([from.of, to.of]),
                Action::Fetch | Action::Join | Action::Deliver => {}
            }
        }
        let elements = common_multiple(counts, if self.split { self.streams } else { 1 })?;
        check_size(self.seats.len() as u64, self.ranks, elements, MAX_WORDS)?;
        for last_first in [false, true] {
            let mut storage = flat(self.kind, self.ranks, self.seats.len() as u32, elements);
            self.execute(elements, last_first, &mut storage).map_err(|f| diagnostics(&[f]))?;
            check_result(self.result, self.kind, self.ranks, elements, &storage)?;
        }
        Ok(())
    }

    /// Checks that the plan has all its seats and that edges point backwards.
    fn check_shape(&self) -> Result<(), String> {
        if self.ranks == 0 || self.streams == 0 || self.seats.len() < self.ranks as usize {
            let seats = self.seats.len();
            return Err(format!("the plan is for {} ranks and has {seats} seats", self.ranks));
        }
        for (index, seat) in self.seats.iter().enumerate() {
            for (number, node) in seat.nodes.iter().enumerate() {
                if node.after.iter().any(|&after| after as usize >= number) || node.stream >= self.streams {
                    return Err(format!(
                        "node {number} of seat {index} depends on one that is not before it"
                    ));
                }
            }
        }
        Ok(())
    }

    fn execute(&self, elements: u64, last_first: bool, storage: &mut Storage) -> Result<(), Fault> {
        let whole = Extent::whole(elements);
        let mut missing: Vec<Vec<usize>> =
            self.seats.iter().map(|seat| seat.nodes.iter().map(|node| node.after.len()).collect()).collect();
        let mut followers: Vec<Vec<Vec<u32>>> =
            self.seats.iter().map(|seat| vec![Vec::new(); seat.nodes.len()]).collect();
        let mut ready: VecDeque<(usize, u32)> = VecDeque::new();
        for (seat, plan) in self.seats.iter().enumerate() {
            for (number, node) in (0u32..).zip(&plan.nodes) {
                for &before in &node.after {
                    followers[seat][before as usize].push(number);
                }
                if node.after.is_empty() {
                    ready.push_back((seat, number));
                }
            }
        }
        let mut mail: BTreeMap<(u32, u32, u32, u32), Values> = BTreeMap::new();
        let mut posted: BTreeMap<(u32, u32, u32, u32), (usize, u32)> = BTreeMap::new();
        let mut done = 0;
        while let Some((seat, number)) = if last_first { ready.pop_back() } else { ready.pop_front() } {
            let node = &self.seats[seat].nodes[number as usize];
            let at = Site { seat: seat as u32, stream: node.stream, pc: number };
            let fault = |what| Fault::at(at, what);
            let extent = |blocks| {
                let Site { seat: index, stream, .. } = at;
                let seat = Seat { kind: self.kind, ranks: self.ranks, index, stream, reverse: false };
                extent(&seat, self.part(stream, whole), blocks).map_err(fault)
            };
            match node.action {
                Action::Fetch | Action::Join | Action::Deliver => {}
                Action::Send { to, blocks, channel, number } => {
                    let values = storage.read(seat, blocks.buffer, extent(blocks)?).map_err(fault)?;
                    let key = (at.seat, to, channel, number);
                    mail.insert(key, values);
                    ready.extend(posted.remove(&key));
                }
                Action::Receive { from, blocks, reduce, channel, number: message } => {
                    let key = (from, at.seat, channel, message);
                    let Some(values) = mail.remove(&key) else {
                        posted.insert(key, (seat, number));
                        continue;
                    };
                    storage.write(seat, blocks.buffer, extent(blocks)?, &values, reduce).map_err(fault)?;
                }
                Action::Copy { from, to, reduce } => {
                    let values = storage.read(seat, from.buffer, extent(from)?).map_err(fault)?;
                    storage.write(seat, to.buffer, extent(to)?, &values, reduce).map_err(fault)?;
                }
            }
            done += 1;
            for &follower in &followers[seat][number as usize] {
                let missing = &mut missing[seat][follower as usize];
                *missing -= 1;
                if *missing == 0 {
                    ready.push_back((seat, follower));
                }
            }
        }
        if done == self.nodes() && mail.is_empty() {
            return Ok(());
        }
        let sentence =
            format!("{} nodes never start, {} messages are never received", self.nodes() - done, mail.len());
        Err(Fault { site: None, sentence })
    }
}
