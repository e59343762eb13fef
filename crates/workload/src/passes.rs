//! Forward and backward passes through layers, as tasks. All training loops are built from them.
//!
//! Compute tasks form a chain, and each waits for the exchanges that provide its inputs. The rules of blocking follow
//! ASTRA-sim's training loops (astra2020 III-A, III-E): forward exchanges block the next layer; weight gradients are
//! reduced in the background, and only the layer's own next forward pass waits for them; input-gradient exchanges
//! block the layer below. Parameters that must be gathered (ZeRO stage 3) are gathered while the block before is
//! computed. Without overlap every exchange blocks, and gradients are reduced after the backward pass. Two combined passes
//! are two chains of compute tasks that begin and end together: while one waits, the other computes.

use crate::exchange::{Comm, Exchange, When};
use crate::graph::{GraphBuilder, Part, Peer, Task, TaskKind};
use crate::layer::Work;
use crate::layer_share::LayerShare;
use crate::parallel::{BackwardOrder, Messages, Overlap, Recompute, Rules, Updates};
use std::ops::Range;
use syncline_units::Bytes;

/// When gradients are reduced and parameters updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// In the last micro-batch, if the graph is one micro-batch.
    InLast,
    /// Now.
    Now,
    /// Later.
    Later,
}

/// A message to or from another stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) peer: Peer,
    pub(crate) bytes: Bytes,
    pub(crate) tag: u32,
}

/// Parameters that another stage holds too: both stages sum their gradients before these are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    /// The layer here.
    pub(crate) layer: usize,
    pub(crate) message: Message,
}

/// Gradients of a layer that are still to be reduced.
#[derive(Debug)]
struct Deferred {
    layer: usize,
    reduction: Reduction,
    shared: Vec<Shared>,
}

/// A layer whose gradients are reduced, and whose parameters are to be updated with those of all others.
#[derive(Debug)]
struct Reduced {
    layer: usize,
    /// The ends of the reduction.
    ends: Vec<u32>,
    /// Whether that is in the last micro-batch, if the graph is one micro-batch.
    in_last: bool,
}

/// Passes under construction.
pub(crate) struct Passes<'a> {
    pub(crate) graph: GraphBuilder,
    /// All layers of the model.
    pub(crate) shares: &'a [LayerShare],
    backward: BackwardOrder,
    recompute: Recompute,
    overlap: Overlap,
    /// Reductions of gradients that wait for the end of the backward pass.
    deferred: Vec<Deferred>,
    updates: Updates,
    messages: Messages,
    /// Updates that wait for the gradients of all layers.
    reduced: Vec<Reduced>,
    /// The last exchange that provides parameters for the step.
    provided: Option<u32>,
    /// The last compute task.
    pub(crate) chain: Option<u32>,
    /// Further tasks that the next compute task waits for.
    pub(crate) awaited: Vec<u32>,
    /// The first compute task.
    first: Option<u32>,
    /// For each layer, the first task of an iteration that needs its parameters.
    needs: Vec<Option<u32>>,
    /// The last compute task when the present block began; the parameters of the next block are gathered from then
    /// on.
    began: Option<u32>,
    /// The first layer of the block that was gathered last.
    gathered: Option<usize>,
    /// Tasks that wait for the end of the previous iteration.
    early: Vec<u32>,
    /// Forward exchanges that only a later layer waits for.
    late: Vec<AwaitedBy>,
    /// For each layer whose output a later layer is the first to need.
    outputs: Vec<DeferredOutput>,
}

/// The end of an exchange, and the layer that waits for it.
#[derive(Debug)]
struct AwaitedBy {
    layer: usize,
    end: u32,
}

/// A layer whose output a later layer is the first to need, and the exchange that provides the gradient of that output.
#[derive(Debug)]
struct DeferredOutput {
    layer: usize,
    needed_by: usize,
    provided: Option<u32>,
}

impl<'a> Passes<'a> {
    pub(crate) fn new(shares: &'a [LayerShare], rules: Rules) -> Self {
        let output = |(share, layer): (&LayerShare, usize)| {
            Some(DeferredOutput { layer, needed_by: share.needed_by?, provided: None })
        };
        Self {
            graph: GraphBuilder::new(),
            shares,
            backward: rules.backward,
            recompute: rules.recompute,
            overlap: rules.overlap,
            deferred: Vec::new(),
            updates: rules.updates,
            messages: rules.messages,
            reduced: Vec::new(),
            provided: None,
            chain: None,
            awaited: Vec::new(),
            first: None,
            needs: vec![None; shares.len()],
            began: None,
            gathered: None,
            early: Vec::new(),
            late: Vec::new(),
            outputs: shares.iter().zip(0..).filter_map(output).collect(),
        }
    }

    /// Finishes the graph. The next iteration begins when compute and blocking exchanges of this one end.
    pub(crate) fn finish(mut self) -> GraphBuilder {
        self.awaited.extend(std::mem::take(&mut self.late).into_iter().map(|late| late.end));
        if self.graph.is_empty() {
            // This rank has none of the layers.
            let nothing = Task { kind: TaskKind::Join, layer: None, part: Part::Other, name: String::new() };
            self.graph.task(nothing);
        }
        for task in self.first.into_iter().chain(self.early) {
            for on in self.chain.into_iter().chain(self.awaited.iter().copied()) {
                self.graph.after_previous(task, on);
            }
        }
        self.graph
    }

    pub(crate) fn add(&mut self, layer: usize, part: Part, kind: TaskKind) -> u32 {
        self.graph.task(Task { kind, layer: Some(layer as u32), part, name: String::new() })
    }

    /// Adds the next compute task. Work that takes no time gets a task too, so that the order is kept.
    fn compute(&mut self, layer: usize, part: Part, work: &Work) -> u32 {
        let kind = if *work == Work::None { TaskKind::Join } else { TaskKind::Compute(work.clone()) };
        let task = self.add(layer, part, kind);
        for on in self.chain.into_iter().chain(self.awaited.drain(..)) {
            self.graph.after(task, on);
        }
        self.first.get_or_insert(task);
        self.chain = Some(task);
        task
    }

    /// Adds a collective without dependencies.
    fn collective(&mut self, layer: usize, part: Part, exchange: Exchange) -> u32 {
        let Exchange { when, role, comm: Comm { kind, bytes }, blocks: blocking, .. } = exchange;
        self.add(layer, part, TaskKind::Collective { role, kind, bytes, blocking, when: Some(when) })
    }

    /// Adds a collective that starts when the chain's last task is done.
    fn exchange(&mut self, layer: usize, part: Part, exchange: Exchange) -> u32 {
        let task = self.collective(layer, part, exchange);
        match self.chain {
            Some(on) => self.graph.after(task, on),
            None => self.early.push(task),
        }
        task
    }

    /// Adds the exchanges of one moment, each after the one before. Returns the end of those that block. For the end
    /// of the others, the layer's next use waits.
    fn exchanges(&mut self, layer: usize, part: Part, when: When) -> Option<u32> {
        let (mut last, mut end) = (None, None);
        for &exchange in self.shares[layer].at(when) {
            let task = self.exchange(layer, part, exchange);
            last.into_iter().for_each(|before| self.graph.after(task, before));
            last = Some(task);
            if exchange.blocks {
                end = last;
            } else if let Some(first) = self.needs[layer] {
                self.graph.after_previous(first, task);
            }
        }
        end
    }

    /// Adds exchanges of the results that the next compute task waits for; the compute task then waits for the
    /// exchanges.
    fn exchanges_awaited(&mut self, layer: usize, part: Part, when: When) {
        for &exchange in self.shares[layer].at(when) {
            let task = self.exchange(layer, part, exchange);
            for &on in &self.awaited {
                self.graph.after(task, on);
            }
            self.awaited = vec![task];
        }
    }

    /// Receives the input of the next compute task.
    pub(crate) fn receive(&mut self, layer: usize, part: Part, message: Message) {
        let Message { peer, bytes, tag } = message;
        let task = self.add(layer, part, TaskKind::Receive { from: peer, bytes, tag });
        match self.chain {
            Some(on) => self.graph.after(task, on),
            None => self.early.push(task),
        }
        self.awaited.push(task);
    }

    /// Sends the result of the last compute task and its exchange.
    pub(crate) fn send(&mut self, layer: usize, part: Part, message: Message) {
        let Message { peer, bytes, tag } = message;
        let task = self.add(layer, part, TaskKind::Send { to: peer, bytes, tag });
        for on in self.chain.into_iter().chain(self.awaited.iter().copied()) {
            self.graph.after(task, on);
        }
        if self.messages == Messages::Block {
            self.awaited.push(task);
        }
    }

    /// Adds two passes that begin and end together. While one waits for an exchange, the other computes; if both can, the
    /// first one does.
    pub(crate) fn both(&mut self, first: impl FnOnce(&mut Self), second: impl FnOnce(&mut Self)) {
        let begun = (self.chain, self.awaited.clone(), self.began, self.gathered);
        first(self);
        let ends: Vec<u32> = self.chain.into_iter().chain(std::mem::take(&mut self.awaited)).collect();
        (self.chain, self.awaited, self.began, self.gathered) = begun;
        second(self);
        self.awaited.extend(ends);
    }

    /// Adds the exchanges that provide the parameters of a layer for the step, if it is the first one to use them: each after
    /// that of another layer.
    fn provide_step(&mut self, layer: usize) {
        if self.needs[layer].is_some() {
            return;
        }
        for &exchange in self.shares[layer].at(When::BeforeStep) {
            let task = self.collective(layer, Part::Forward, exchange);
            match self.provided.replace(task) {
                Some(on) => self.graph.after(task, on),
                None => self.early.push(task),
            }
            self.needs[layer].get_or_insert(task);
            self.awaited.push(task);
        }
    }

    /// Gathers the parameters of `layers` while the block before is computed. Returns the collectives by layer that
    /// are to be awaited; without overlap, the next compute task waits for all of them.
    fn gather(&mut self, layers: Range<usize>, part: Part) -> Vec<Option<u32>> {
        // The block that was just computed is released first.
        let again = self.gathered.replace(layers.start) == Some(layers.start);
        let began = std::mem::replace(&mut self.began, self.chain);
        let before = if again || self.overlap == Overlap::None { self.chain } else { began };
        let one = |this: &mut Self, layer: usize| {
            let mut last = None;
            for &exchange in this.shares[layer].at(When::BeforeUse) {
                let task = this.collective(layer, part, exchange);
                match last.or(before) {
                    Some(on) => this.graph.after(task, on),
                    None => this.early.push(task),
                }
                this.needs[layer].get_or_insert(task);
                last = Some(task);
            }
            last
        };
        let tasks: Vec<Option<u32>> = layers.map(|layer| one(self, layer)).collect();
        match self.overlap {
            Overlap::Gradients => tasks,
            Overlap::None => {
                self.awaited.extend(tasks.iter().flatten());
                vec![None; tasks.len()]
            }
        }
    }

    /// The forward pass through one layer. The next compute task waits for its exchanges, unless only a later layer
    /// needs them.
    fn forward_layer(&mut self, layer: usize) {
        if self.shares[layer].absent {
            return;
        }
        self.provide_step(layer);
        self.exchanges_awaited(layer, Part::Forward, When::BeforeForward);
        let task = self.compute(layer, Part::Forward, &self.shares[layer].forward);
        self.needs[layer].get_or_insert(task);
        let end = self.exchanges(layer, Part::Forward, When::AfterForward);
        match self.shares[layer].needed_by {
            Some(by) if by > layer + 1 => self.late.extend(end.map(|end| AwaitedBy { layer: by, end })),
            _ => self.awaited.extend(end),
        }
    }

    /// The forward pass through `layers`.
    pub(crate) fn forward(&mut self, layers: Range<usize>) {
        for block in blocks(self.shares, layers) {
            let gathered = self.gather(block.clone(), Part::Forward);
            for (layer, gathered) in block.zip(gathered) {
                self.awaited.extend(gathered);
                self.forward_layer(layer);
                let next = self.late.extract_if(.., |late| late.layer == layer + 1);
                self.awaited.extend(next.map(|late| late.end));
            }
        }
    }

    /// The backward pass through `layers`, from the last to the first.
    pub(crate) fn backward(&mut self, layers: Range<usize>, reduction: Reduction, shared: &[Shared]) {
        for block in blocks(self.shares, layers).into_iter().rev() {
            let gathered = self.gather(block.clone(), Part::InputGrad);
            if self.recompute == Recompute::Full && self.shares[block.start].block.is_some() {
                self.awaited.extend(gathered.into_iter().flatten());
                self.exchanges_awaited(block.start, Part::InputGrad, When::BeforeRecompute);
                self.again(block.clone());
                for layer in block.rev() {
                    self.backward_layer(layer, reduction, shared);
                }
                continue;
            }
            for (layer, gathered) in block.clone().zip(gathered).rev() {
                self.awaited.extend(gathered);
                let ends_run = |layer: usize| layer + 1 == block.end || !self.shares[layer + 1].selective;
                if self.recompute == Recompute::Selective && self.shares[layer].selective && ends_run(layer) {
                    let run = (block.start..=layer).rev().take_while(|&at| self.shares[at].selective).count();
                    self.again(layer + 1 - run..layer + 1);
                }
                self.backward_layer(layer, reduction, shared);
            }
        }
    }

    /// Recomputes `layers` for their backward pass.
    fn again(&mut self, layers: Range<usize>) {
        for layer in layers {
            self.forward_layer(layer);
            let late = std::mem::take(&mut self.late);
            self.awaited.extend(late.into_iter().map(|late| late.end));
        }
    }

    /// The backward pass through one layer.
    fn backward_layer(&mut self, layer: usize, reduction: Reduction, shared: &[Shared]) {
        if self.shares[layer].absent {
            self.provide(layer);
            return;
        }
        if self.shares[layer].needed_by.is_some() {
            let output = self.outputs.iter_mut().find(|output| output.layer == layer);
            self.awaited.extend(output.and_then(|output| output.provided.take()));
        } else {
            self.exchanges_awaited(layer, Part::InputGrad, When::BeforeBackward);
        }
        let inputs = self.exchanges(layer, Part::WeightGrad, When::BeforeWeightGrad);
        match self.backward {
            BackwardOrder::WeightFirst => {
                self.awaited.extend(inputs);
                self.weight_grad(layer, reduction, shared);
                self.input_grad(layer);
            }
            BackwardOrder::InputFirst => {
                self.input_grad(layer);
                // The exchange of the input gradient overlaps the weight gradient of the same layer.
                let overlaps = layer > 0 && self.overlap == Overlap::Gradients;
                let exchange = if overlaps { std::mem::take(&mut self.awaited) } else { Vec::new() };
                self.awaited.extend(inputs);
                self.weight_grad(layer, reduction, shared);
                self.awaited.extend(exchange);
            }
        }
    }

    fn input_grad(&mut self, layer: usize) {
        // The gradient with respect to the samples is not needed.
        if layer > 0 {
            self.compute(layer, Part::InputGrad, &self.shares[layer].input_grad);
            let end = self.exchanges(layer, Part::InputGrad, When::AfterInputGrad);
            self.awaited.extend(end);
        }
        self.provide(layer);
    }

    /// Starts the exchanges that provide the gradients of outputs that `layer` is the first to need.
    fn provide(&mut self, layer: usize) {
        for at in 0..self.outputs.len() {
            let DeferredOutput { layer: of, needed_by, .. } = self.outputs[at];
            if needed_by == layer {
                self.outputs[at].provided = self.exchanges(of, Part::InputGrad, When::BeforeBackward);
            }
        }
    }

    fn weight_grad(&mut self, layer: usize, reduction: Reduction, shared: &[Shared]) {
        self.compute(layer, Part::WeightGrad, &self.shares[layer].weight_grad);
        match self.overlap {
            Overlap::Gradients => {
                let ends = self.reduce(layer, reduction, shared);
                if self.shares[layer].at(When::AfterWeightGrad).any(|exchange| exchange.blocks) {
                    self.awaited.extend(ends);
                }
            }
            Overlap::None => {
                let shared = shared.iter().copied().filter(|shared| shared.layer == layer).collect();
                self.deferred.push(Deferred { layer, reduction, shared });
            }
        }
    }

    /// Reduces the gradients that were deferred to the end of the backward pass, for which the next compute task waits, and
    /// makes the updates that wait for all gradients.
    pub(crate) fn end_step(&mut self) {
        let mut ends = Vec::new();
        for Deferred { layer, reduction, shared } in std::mem::take(&mut self.deferred) {
            ends.extend(self.reduce(layer, reduction, &shared));
        }
        self.awaited.extend(ends);
        self.update_together();
    }

    /// Updates the parameters of all layers once all gradients are reduced. Exchanges after updates follow each other.
    fn update_together(&mut self) {
        let mut reduced = std::mem::take(&mut self.reduced);
        let Some(&Reduced { layer, in_last, .. }) = reduced.first() else { return };
        reduced.sort_by_key(|each| each.layer);
        let all: Vec<u32> = reduced.iter().flat_map(|each| each.ends.iter().copied()).collect();
        let mut updated = self.follow(layer, TaskKind::Join, &all, in_last);
        for &Reduced { layer, .. } in &reduced {
            let work = &self.shares[layer].update;
            if *work != Work::None {
                updated = self.follow(layer, TaskKind::Compute(work.clone()), &[updated], in_last);
            }
        }
        let mut last = updated;
        for &Reduced { layer, .. } in &reduced {
            let mut end = updated;
            for &exchange in self.shares[layer].at(When::AfterUpdate) {
                last = self.exchange_after_update(layer, exchange, &[last], in_last);
                end = last;
            }
            if let Some(first) = self.needs[layer] {
                self.graph.after_previous(first, end);
            }
        }
        if self.overlap == Overlap::None {
            self.awaited.push(last);
        }
    }

    fn exchange_after_update(
        &mut self,
        layer: usize,
        exchange: Exchange,
        after: &[u32],
        in_last: bool,
    ) -> u32 {
        let Exchange { when, role, comm: Comm { kind, bytes }, blocks: blocking, .. } = exchange;
        let kind = TaskKind::Collective { role, kind, bytes, blocking, when: Some(when) };
        self.follow(layer, kind, after, in_last)
    }

    /// Reduces the gradients of a layer and updates its parameters. Returns the tasks that end it.
    fn reduce(&mut self, layer: usize, reduction: Reduction, shared: &[Shared]) -> Vec<u32> {
        let share = &self.shares[layer];
        let in_last = reduction == Reduction::InLast;
        let behind = match self.overlap {
            Overlap::Gradients => Vec::new(),
            Overlap::None => self.awaited.clone(),
        };
        if reduction == Reduction::Later {
            let mut last = behind;
            let each = share.at(When::AfterWeightGrad).filter(|exchange| exchange.each_micro_batch);
            let mut reduced = false;
            for &exchange in each {
                let task = self.exchange(layer, Part::WeightGrad, exchange);
                self.after_all(task, &last);
                (last, reduced) = (vec![task], true);
            }
            return if reduced { last } else { Vec::new() };
        }
        // Sums with another stage come before all others.
        let mut on: Vec<u32> = Vec::new();
        for &Shared { message: Message { peer, bytes, tag }, .. } in
            shared.iter().filter(|shared| shared.layer == layer)
        {
            let sent = self.add(layer, Part::WeightGrad, TaskKind::Send { to: peer, bytes, tag });
            let received = self.add(layer, Part::WeightGrad, TaskKind::Receive { from: peer, bytes, tag });
            for task in [sent, received] {
                self.chain.into_iter().for_each(|on| self.graph.after(task, on));
                self.after_all(task, &behind);
            }
            on.push(received);
        }
        for &exchange in share.at(When::AfterWeightGrad) {
            let task = self.exchange(layer, Part::WeightGrad, exchange);
            self.after_all(task, if on.is_empty() { &behind } else { &on });
            if in_last && !exchange.each_micro_batch {
                self.graph.only_in_last(task);
            }
            on = vec![task];
        }
        if on.is_empty() {
            on.extend(self.chain);
            on.extend(behind);
        }
        if self.updates == Updates::Together {
            self.reduced.push(Reduced { layer, ends: on.clone(), in_last });
            return on;
        }
        if share.update != Work::None {
            on = vec![self.follow(layer, TaskKind::Compute(share.update.clone()), &on, in_last)];
        }
        for &exchange in share.at(When::AfterUpdate) {
            on = vec![self.exchange_after_update(layer, exchange, &on, in_last)];
        }
        if let Some(first) = self.needs[layer] {
            on.iter().for_each(|&on| self.graph.after_previous(first, on));
        }
        on
    }

    fn after_all(&mut self, task: u32, others: &[u32]) {
        others.iter().for_each(|&on| self.graph.after(task, on));
    }

    /// Adds a task of the update after others.
    fn follow(&mut self, layer: usize, kind: TaskKind, after: &[u32], in_last: bool) -> u32 {
        let task = self.add(layer, Part::Update, kind);
        if in_last {
            self.graph.only_in_last(task);
        }
        self.after_all(task, after);
        task
    }
}

/// The blocks among `layers`, in order; a layer without a block is a block by itself.
pub(crate) fn blocks(shares: &[LayerShare], layers: Range<usize>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for layer in layers {
        match found.last_mut() {
            Some(last)
                if shares[layer].block.is_some() && shares[last.start].block == shares[layer].block =>
            {
                last.end = layer + 1;
            }
            _ => found.push(layer..layer + 1),
        }
    }
    found
}
