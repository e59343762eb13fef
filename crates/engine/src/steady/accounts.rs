//! Books what the repetitions of a period add to the record.

use super::skip::shift_record;
use crate::Engine;
use crate::record::{LayerRecord, MAX_COLLECTIVES, RankRecord};
use syncline_net_api::{LinkUse, NetworkModel, Repeats};
use syncline_timeline::Flow;
use syncline_units::Time;

/// The sums in the record at a boundary.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    ranks: Vec<RankRecord>,
    layers: Vec<LayerRecord>,
    axes: Vec<u128>,
    dims: Vec<Time>,
    links: Vec<LinkUse>,
    totals: [u64; 4],
    collectives: usize,
    collectives_left_out: u64,
    marks: usize,
    flows: usize,
    left_out: u64,
}

/// Adds the growth of `sum` since `before` another `times` times.
fn again(sum: &mut u64, before: u64, times: u32) {
    *sum = sum.saturating_add((*sum - before).saturating_mul(u64::from(times)));
}
fn time_again(sum: &mut Time, before: Time, times: u32) {
    again(&mut sum.0, before.0, times);
}
fn large_again(sum: &mut u128, before: u128, times: u32) {
    *sum += (*sum - before) * u128::from(times);
}

impl<N: NetworkModel> Engine<'_, N> {
    fn totals(&mut self) -> [&mut u64; 4] {
        let record = &mut self.record;
        [&mut record.messages, &mut record.sent, &mut record.delivered, &mut record.tasks_done]
    }

    pub(super) fn accounts(&mut self) -> Accounts {
        Accounts {
            totals: self.totals().map(|total| *total),
            ranks: self.record.ranks.clone(),
            layers: self.record.layers.clone(),
            axes: self.record.axes.clone(),
            dims: self.record.dims.iter().map(|dim| dim.active).collect(),
            links: self.network.repeats().map_or_else(Vec::new, Repeats::uses),
            collectives: self.record.collectives.len(),
            collectives_left_out: self.record.collectives_left_out,
            marks: self.tracer.marks.len(),
            flows: self.tracer.flows.len(),
            left_out: self.tracer.left_out,
        }
    }

    /// Adds the compute that ranks have done in watched iterations since `before` another `times` times.
    pub(super) fn compute_again(&mut self, before: &Accounts, times: u32) {
        let ranks = self.record.ranks.iter().zip(&before.ranks);
        for (computed, (now, before)) in self.watched.computed.iter_mut().zip(ranks) {
            let once = now.compute.saturating_sub(before.compute).0;
            *computed = computed.saturating_add(Time(once.saturating_mul(u64::from(times))));
        }
    }

    /// Books what happened since `before` for another `times` periods, each of `iterations` iterations and duration
    /// `length`.
    pub(super) fn book_again(&mut self, before: &Accounts, times: u32, iterations: u32, length: Time) {
        for (total, before) in self.totals().into_iter().zip(before.totals) {
            again(total, before, times);
        }
        for (rank, before) in self.record.ranks.iter_mut().zip(&before.ranks) {
            time_again(&mut rank.compute, before.compute, times);
            time_again(&mut rank.exposed_communication, before.exposed_communication, times);
            time_again(&mut rank.exposed_memory, before.exposed_memory, times);
            time_again(&mut rank.bubble, before.bubble, times);
            time_again(&mut rank.skew, before.skew, times);
            time_again(&mut rank.communication, before.communication, times);
            again(&mut rank.sent, before.sent, times);
            again(&mut rank.received, before.received, times);
        }
        for (layer, before) in self.record.layers.iter_mut().zip(&before.layers) {
            for part in 0..layer.compute.len() {
                large_again(&mut layer.compute[part], before.compute[part], times);
                large_again(&mut layer.communication[part], before.communication[part], times);
            }
            large_again(&mut layer.exposed, before.exposed, times);
            large_again(&mut layer.bytes, before.bytes, times);
        }
        for (exposed, &before) in self.record.axes.iter_mut().zip(&before.axes) {
            large_again(exposed, before, times);
        }
        for (dim, &before) in self.record.dims.iter_mut().zip(&before.dims) {
            time_again(&mut dim.active, before, times);
        }
        if let Some(network) = self.network.repeats_mut() {
            network.repeat(&before.links, times);
        }

        let rows = before.collectives..self.record.collectives.len();
        let rows_left_out = self.record.collectives_left_out - before.collectives_left_out;
        let (marks, flows) = (before.marks..self.tracer.marks.len(), before.flows..self.tracer.flows.len());
        let left_out = self.tracer.left_out - before.left_out;
        for time in 1..=times {
            let full = self.record.collectives.len() >= MAX_COLLECTIVES || rows.is_empty();
            if full && (self.tracer.is_full() || marks.is_empty()) {
                // No more records are kept, so the rest is only counted.
                let rest = u64::from(times - time + 1);
                self.record.collectives_left_out += rest * (rows.len() as u64 + rows_left_out);
                self.tracer.left_out += rest * (marks.len() as u64 + left_out);
                return;
            }
            let by = Time(length.0.saturating_mul(u64::from(time)));
            for row in rows.clone() {
                let mut record = self.record.collectives[row].clone();
                shift_record(&mut record, by, iterations * time);
                self.record.finished(record);
            }
            self.record.collectives_left_out += rows_left_out;
            let first = self.tracer.marks.len();
            for mark in marks.clone() {
                let mut mark = self.tracer.marks[mark];
                (mark.start, mark.end) = (mark.start.saturating_add(by), mark.end.saturating_add(by));
                self.tracer.mark(mark);
            }
            self.tracer.left_out += left_out;
            for flow in flows.clone() {
                let Flow { from, to } = self.tracer.flows[flow];
                let place = |mark: u32| {
                    let repeated = (mark as usize).checked_sub(marks.start)? + first;
                    (repeated < self.tracer.marks.len()).then_some(repeated as u32)
                };
                if let (Some(from), Some(to)) = (place(from), place(to)) {
                    self.tracer.flows.push(Flow { from, to });
                }
            }
        }
    }
}
