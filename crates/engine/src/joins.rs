//! Records when each of several awaited events happened. The critical path then knows which of them would be the last
//! after a change ([`Trail::meet`]).

use crate::state::{ChunkRun, CollectiveSet, Iteration, Rank, Resource};
use syncline_critical_path::{Moment, Origin, Purpose, StretchId, Trail, Unit};
use syncline_units::Time;

/// Visits a stretch number.
type Visit<'a> = &'a mut dyn FnMut(&mut StretchId);

impl Iteration {
    /// A dependency of `task` has just ended with stretch `after`. If it was the last one, returns the stretch that
    /// the task follows.
    ///
    /// A dependency that `is_known` to the unit that runs `task` is not kept: compute that follows compute begins
    /// after it anyway.
    pub(crate) fn meets(
        &mut self,
        task: u32,
        is_known: bool,
        after: StretchId,
        now: Time,
        trail: &mut Trail,
    ) -> StretchId {
        let known = self.reached.get(&task).copied();
        let after = known.map_or(after, |known| trail.meet(after, now, known));
        if self.waits[task as usize] == 0 {
            self.reached.remove(&task);
        } else if !is_known || known.is_some() {
            self.reached.insert(task, trail.moment(after, now));
        }
        after
    }
}

impl Resource {
    /// A task that has been ready since `ready` begins now.
    pub(crate) fn begin_work(
        &mut self,
        ready: Moment,
        of: Purpose,
        now: Time,
        trail: &mut Trail,
        unit: Unit,
    ) {
        let after = trail.later(self.free, ready).stretch();
        self.stretch = trail.begin_work(&Origin { after, since: now, of }, unit);
    }

    fn visit(&mut self, visit: Visit<'_>) {
        visit(&mut self.stretch);
        visit(self.free.stretch_mut());
        // The order of `ready` does not depend on the stretches.
        let ready = std::mem::take(&mut self.ready).into_vec().into_iter();
        self.ready = ready
            .map(|mut entry| {
                visit(entry.0.ready.stretch_mut());
                entry
            })
            .collect();
    }
}

impl Rank {
    /// Visits the stretches that this refers to.
    pub(crate) fn visit(&mut self, visit: Visit<'_>) {
        self.compute.visit(visit);
        self.memory.visit(visit);
        self.reducing.iter_mut().for_each(&mut *visit);
        visit(self.reducer.stretch_mut());
        self.schedulers.iter_mut().for_each(|scheduler| visit(scheduler.left_first.stretch_mut()));
        let queues = self.schedulers.iter_mut().flat_map(|scheduler| &mut scheduler.queues);
        let waiting = self.iterations.iter_mut().flat_map(|iteration| iteration.reached.values_mut());
        let moments = queues.map(|queue| &mut queue.freed).chain(waiting);
        moments.for_each(|moment| visit(moment.stretch_mut()));
        for channel in self.channels.values_mut() {
            let posted = channel.posted.iter_mut().map(|receive| &mut receive.posted);
            channel.arrived.iter_mut().chain(posted).for_each(|moment| visit(moment.stretch_mut()));
        }
    }
}

impl CollectiveSet {
    /// Visits the stretches that this refers to.
    pub(crate) fn visit(&mut self, visit: Visit<'_>) {
        if let Some(issue) = &mut self.issued {
            visit(issue.moment.stretch_mut());
        }
        visit(self.reached.stretch_mut());
    }
}

impl ChunkRun {
    /// Visits the stretches that this refers to.
    pub(crate) fn visit(&mut self, visit: Visit<'_>) {
        visit(&mut self.last_left);
        visit(self.reached.stretch_mut());
        let early = self.early.iter_mut().map(|early| &mut early.arrived);
        let moments = self.streams.iter_mut().map(|stream| &mut stream.reached).chain(early);
        moments.for_each(|moment| visit(moment.stretch_mut()));
    }
}
