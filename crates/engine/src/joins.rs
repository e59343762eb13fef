//! What waits for several things remembers when those that came earlier were there, so that the critical path knows what
//! would be last if another one came sooner ([`Trail::meet`]).

use crate::path::{Moment, Origin, Purpose, Trail};
use crate::state::{Cause, Iteration, Rank, Resource, Run};
use syncline_units::Time;

/// Visits the number of a stretch.
type Visit<'a> = &'a mut dyn FnMut(&mut u32);

impl Iteration {
    /// What `task` waited for is over now with stretch `after`: the stretch that it begins after, if that was the last.
    ///
    /// Compute of the rank itself is not remembered: its compute unit knows when it was done with it.
    pub(crate) fn meets(&mut self, task: u32, cause: Cause, after: u32, now: Time, trail: &mut Trail) -> u32 {
        let known = self.reached.get(&task).copied();
        let after = known.map_or(after, |known| trail.meet(after, now, known));
        if self.waits[task as usize] == 0 {
            self.reached.remove(&task);
        } else if cause != Cause::Compute || known.is_some() {
            self.reached.insert(task, trail.moment(after, now));
        }
        after
    }
}

impl Resource {
    /// A task that has been ready for it since `ready` begins now.
    pub(crate) fn works(&mut self, ready: Moment, of: Purpose, now: Time, trail: &mut Trail, memory: bool) {
        let after = trail.later(self.free, ready).stretch();
        self.stretch = trail.works(&Origin { after, since: now, of }, memory);
    }

    fn visit(&mut self, visit: Visit<'_>) {
        visit(&mut self.stretch);
        visit(self.free.stretch_mut());
        // Their order does not depend on it.
        let ready = std::mem::take(&mut self.ready).into_vec().into_iter();
        self.ready = ready
            .map(|mut entry| {
                visit(entry.0.2.stretch_mut());
                entry
            })
            .collect();
    }
}

impl Rank {
    /// Visits the stretches that it knows.
    pub(crate) fn visit(&mut self, visit: Visit<'_>) {
        self.compute.visit(visit);
        self.memory.visit(visit);
        self.reducing.iter_mut().for_each(&mut *visit);
        visit(self.reducer.stretch_mut());
        let queues = self.schedulers.iter_mut().flat_map(|scheduler| &mut scheduler.queues);
        let waiting = self.iterations.iter_mut().flat_map(|iteration| iteration.reached.values_mut());
        let moments = queues.map(|queue| &mut queue.freed).chain(waiting);
        moments.for_each(|moment| visit(moment.stretch_mut()));
        for channel in self.channels.values_mut() {
            let posted = channel.posted.iter_mut().map(|(.., moment)| moment);
            channel.arrived.iter_mut().chain(posted).for_each(|moment| visit(moment.stretch_mut()));
        }
    }
}

impl Run {
    /// Visits the stretches that it knows.
    pub(crate) fn visit(&mut self, visit: Visit<'_>) {
        visit(&mut self.last_left);
        visit(self.reached.stretch_mut());
        let early = self.early.iter_mut().map(|early| &mut early.arrived);
        let moments = self.streams.iter_mut().map(|stream| &mut stream.reached).chain(early);
        moments.for_each(|moment| visit(moment.stretch_mut()));
    }
}
