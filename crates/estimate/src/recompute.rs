//! What the backward pass recomputes, if it does so for parts of a layer.

use crate::job::{ELEMENT_BYTES, Module};
use crate::layer::{Pass, Setting};
use crate::machine::{Costs, Product};
use crate::work::{LayerWork, Part, limited};

impl<C: Costs> Setting<'_, C> {
    /// The time of the chosen parts of a layer with this work and this forward pass. Products at the end of a part are not
    /// recomputed where the framework discards only outputs (norms, activations, projections); a whole block is.
    pub(crate) fn parts_again(&self, work: &LayerWork, forward: &Pass) -> Pass {
        let modules = self.job.modules_again();
        let mut again = Pass::default();
        if modules.is_empty() {
            return again;
        }
        if modules.has(Module::CoreAttention) {
            again.attention += forward.attention;
            again.context += forward.context;
        }
        // Between products, and what experts move.
        let (mut bytes, mut routed, mut rotated) = (0, 0, 0.0);
        if modules.has(Module::Layernorm) {
            // Two norms read and write a token each.
            bytes +=
                self.job.tokens() * self.model.hidden * ELEMENT_BYTES * 4 / u64::from(self.sequence_parts());
        }
        if modules.has(Module::MlaUpProj) {
            again.products += self.products_of(work, Part::UpProjection);
            rotated = self.rotated(work, false);
        }
        let blocks = [
            (modules.has(Module::Mlp), Part::Dense),
            (modules.has(Module::SharedExperts) || modules.has(Module::Moe), Part::Shared),
            (modules.has(Module::Moe), Part::Experts),
        ];
        for (chosen, part) in blocks {
            if chosen && work.of(part).next().is_some() {
                again.products += self.products_of(work, part);
                let activated = work.activated(part);
                *if part == Part::Experts { &mut routed } else { &mut bytes } += activated;
            }
        }
        let gathers = (modules.has(Module::Mlp) && work.of(Part::Dense).next().is_some())
            || (modules.has(Module::SharedExperts) && work.of(Part::Shared).next().is_some());
        let experts = work.of(Part::Experts).next().is_some();
        if gathers || (modules.has(Module::Moe) && experts) {
            again.tensor += self.around_block(work);
        }
        if modules.has(Module::Moe) && experts {
            again.expert += forward.expert;
            routed += work.ordered_bytes;
        } else if modules.has(Module::MoeAct) {
            routed += work.activated(Part::Experts);
        }
        // The limits of activations are computed with these, biases with the products that they follow.
        let biased = match work.of(Part::Experts).next() {
            Some(_) if modules.has(Module::Moe) => work.biased_bytes[0],
            Some(first) if modules.has(Module::MoeAct) && work.biased_bytes[0] > 0 => {
                limited(first.tokens * first.groups * first.outputs)
            }
            _ => 0,
        };
        let moved = self.between(bytes, routed) + rotated + self.biased(biased);
        if moved > 0.0 {
            again.element_wise += self.costs.memory(moved);
        }
        again
    }

    fn products_of(&self, work: &LayerWork, part: Part) -> f64 {
        work.of(part).map(|linear| self.product(Product::Forward, linear)).sum()
    }

    /// Ranks that divide what is between products.
    fn sequence_parts(&self) -> u32 {
        if self.job.sequence_parallel { self.job.tensor } else { 1 }
    }
}
