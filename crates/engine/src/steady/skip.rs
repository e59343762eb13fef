//! Advances the engine over iterations that are skipped.

use crate::event::EventKind;
use crate::record::CollectiveRecord;
use crate::slab::Id;
use crate::state::{At, Before, Issue, MessageOf, QueuedRun, Resource, RunningTask};
use crate::{Engine, QueueOrder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use syncline_net_api::NetworkModel;
use syncline_units::Time;
use syncline_workload::RoleId;

fn later(time: &mut Time, by: Time) {
    *time = time.saturating_add(by);
}

fn shift_at(at: &mut At, iterations: u32) {
    at.iteration = at.iteration.wrapping_add(iterations);
}

fn shift_heap<T: Ord>(heap: &mut BinaryHeap<Reverse<T>>, mut shift: impl FnMut(&mut T)) {
    let mut entries = std::mem::take(heap).into_vec();
    for Reverse(entry) in &mut entries {
        shift(entry);
    }
    *heap = entries.into();
}

fn shift_resource(resource: &mut Resource, by: Time, iterations: u32) {
    shift_heap(&mut resource.ready, |task| shift_at(&mut task.at, iterations));
    if let Some(RunningTask { at, start }) = &mut resource.running {
        shift_at(at, iterations);
        later(start, by);
    }
}

/// Moves the record of a collective by this time and number of iterations.
pub(super) fn shift_record(record: &mut CollectiveRecord, by: Time, iterations: u32) {
    for time in [&mut record.first_issue, &mut record.last_issue, &mut record.finish] {
        later(time, by);
    }
    record.micro_batch = record.micro_batch.wrapping_add(iterations);
}

impl<N: NetworkModel> Engine<'_, N> {
    /// Moves everything `by` later and `iterations` iterations on. Free slots are moved too, which is harmless.
    pub(super) fn skip(&mut self, by: Time, iterations: u32) {
        // The iterations are whole steps or lie within one, so all numberings advance by the same amount from any
        // point.
        let start = self.ranks[0].opened;
        let roles = (0..).map(RoleId).zip(&self.windows);
        let sequences: Vec<u32> =
            roles.map(|(role, _)| self.numbers.of_role_in(role, start, iterations)).collect();
        let numbers = self.numbers.all_in(start, iterations);
        let issued: Vec<u64> =
            self.classes.iter().map(|class| self.numbers.issued_in(class, start, iterations)).collect();
        let order = self.job.schedule.order;
        let shift_priority = |priority: &mut u64, issued: u64| match order {
            QueueOrder::Fifo => *priority = priority.wrapping_add(issued),
            QueueOrder::Lifo | QueueOrder::Priority => *priority = priority.wrapping_sub(issued),
        };

        self.calendar.overflow |= self.now.0.saturating_add(by.0) > u64::MAX / 4;
        later(&mut self.now, by);
        for index in self.rank_indices() {
            let tasks = self.graph(index).tasks.len() as u64;
            let rank = &mut self.ranks[index.index()];
            let own = issued[rank.class as usize];
            rank.first_iteration += iterations;
            rank.opened += iterations;
            rank.tasks_left -= tasks * u64::from(iterations);
            rank.issued += own;
            shift_resource(&mut rank.compute, by, iterations);
            shift_resource(&mut rank.memory, by, iterations);
            shift_heap(&mut rank.held, |queued| shift_priority(&mut queued.priority, own));
            for scheduler in &mut rank.schedulers {
                shift_heap(&mut scheduler.ready, |queued| shift_priority(&mut queued.priority, own));
            }
            for queue in rank.schedulers.iter_mut().flat_map(|scheduler| &mut scheduler.queues) {
                let shift = |mut queued: QueuedRun| {
                    let instance = self.runs[queued.run].instance;
                    let role = self.instances[instance].record.role.index();
                    shift_priority(&mut queued.priority, own);
                    queued.sequence = queued.sequence.wrapping_add(sequences[role]);
                    queued
                };
                queue.waiting = std::mem::take(&mut queue.waiting).into_iter().map(shift).collect();
            }
            later(&mut rank.reducer_free, by);
            let shifted = |(mut at, mut before): (At, Before)| {
                shift_at(&mut at, iterations);
                later(&mut before.until, by);
                (at, before)
            };
            rank.before = std::mem::take(&mut rank.before).into_iter().map(shifted).collect();
            for receive in rank.channels.values_mut().flat_map(|channel| &mut channel.posted) {
                shift_at(&mut receive.at, iterations);
                later(&mut receive.since, by);
            }
        }
        for set in self.sets.slots_mut() {
            let class = self.ranks[set.rank.index()].class as usize;
            shift_priority(&mut set.priority, issued[class]);
            if let Some(Issue { at, time, .. }) = &mut set.issued {
                shift_at(at, iterations);
                later(time, by);
            }
        }
        for run in self.runs.slots_mut() {
            later(&mut run.entered, by);
            // If nothing was sent, this is a time in the past, and stays one.
            later(&mut run.last_sent, by);
        }
        for instance in self.instances.slots_mut() {
            let role = instance.record.role.index();
            instance.sequence = instance.sequence.wrapping_add(sequences[role]);
            instance.number = instance.number.wrapping_add(numbers);
            shift_record(&mut instance.record, by, iterations);
        }
        for (window, &sequences) in
            self.windows.iter_mut().zip(&sequences).flat_map(|(w, s)| w.iter_mut().map(move |w| (w, s)))
        {
            window.base = window.base.wrapping_add(sequences);
        }
        for begun in self.to_tell.slots_mut() {
            begun.sequence = begun.sequence.wrapping_add(sequences[begun.role.index()]);
        }
        for leaving in self.leaving.slots_mut() {
            shift_at(&mut leaving.at, iterations);
        }
        for send in self.point_to_point.slots_mut() {
            shift_at(&mut send.at, iterations);
        }

        let keys = self.keys;
        let shift_key = |key: u64| keys.later(key, numbers);
        for message in self.messages.slots_mut() {
            later(&mut message.sent, by);
            if matches!(message.of, MessageOf::Collective { .. }) {
                message.key = shift_key(message.key);
            }
        }
        let messages = &self.messages;
        let of_message = |number: u32, key: u64| match messages[Id::new(number)].of {
            MessageOf::PointToPoint(_) => key,
            MessageOf::Collective { .. } => shift_key(key),
        };
        let network = self.network.repeats();
        self.calendar.shift(by, |event| match EventKind::of(event) {
            EventKind::Network | EventKind::NetworkLast => {
                network.map_or(event.key(), |network| of_message(network.message(event.subject), event.key()))
            }
            EventKind::Deliver | EventKind::Inject | EventKind::Left => {
                of_message(event.subject, event.key())
            }
            EventKind::Reduced | EventKind::PhaseEnd => shift_key(event.key()),
            // Notifications are handled at the time at which they are made, so none is pending here.
            EventKind::Admit
            | EventKind::ComputeDone
            | EventKind::MemoryDone
            | EventKind::Sent
            | EventKind::Begin => event.key(),
        });
        if let Some(network) = self.network.repeats_mut() {
            network.shift(by, &mut |number| messages[Id::new(number)].key);
        }
    }
}
