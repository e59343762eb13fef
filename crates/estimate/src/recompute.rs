//! What the backward pass computes again, if it does so for parts of a layer.

use crate::job::Module;
use crate::layer::{Pass, Setting};
use crate::machine::{Costs, Product};
use crate::model::Attention;
use crate::work::{LayerWork, Linear, Part};

const HALF: u64 = 2;

impl<C: Costs> Setting<'_, C> {
    /// The time of the chosen parts of a layer with this work and this forward pass. Products at the end of a part are not
    /// computed again where the framework discards only outputs (norms, activations, projections); a whole block is.
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
        let (mut bytes, mut routed) = (0, 0);
        if modules.has(Module::Layernorm) {
            // Two norms read and write a token each.
            bytes += self.job.tokens() * self.model.hidden * HALF * 4 / u64::from(self.sequence_parts());
        }
        if modules.has(Module::MlaUpProj) {
            again.products += self.products_of(work, Part::UpProjection);
            bytes += self.rotated(work);
        }
        let blocks = [
            (modules.has(Module::Mlp), Part::Dense),
            (modules.has(Module::SharedExperts) || modules.has(Module::Moe), Part::Shared),
            (modules.has(Module::Moe), Part::Experts),
        ];
        for (chosen, part) in blocks {
            if chosen && work.of(part).next().is_some() {
                again.products += self.products_of(work, part);
                let activated = self.activated(work, part);
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
            routed += self.routed_bytes(work);
        } else if modules.has(Module::MoeAct) {
            routed += self.activated(work, Part::Experts);
        }
        if bytes + routed > 0 {
            let software = self.software;
            again.element_wise += self
                .costs
                .memory(software.element_wise * bytes as f64 + software.expert_element_wise * routed as f64);
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

    /// Bytes of the activation between the two products of a block, which reads the outputs of the first and writes the inputs
    /// of the second.
    fn activated(&self, work: &LayerWork, part: Part) -> u64 {
        let elements = |linear: &Linear| linear.tokens * linear.groups;
        let (mut blocks, mut bytes) = (work.of(part), 0);
        if let (Some(first), Some(second)) = (blocks.next(), blocks.next()) {
            bytes = elements(first) * (first.outputs + second.inputs) * HALF;
        }
        bytes
    }

    /// Bytes in which queries and keys of latent attention are put together from their parts.
    fn rotated(&self, work: &LayerWork) -> u64 {
        let (Attention::Latent(latent), Some(shape)) = (self.model.attention, work.attention) else {
            return 0;
        };
        let key = latent.nope_dim + latent.rope_dim;
        self.job.tokens() * shape.heads * (2 * key + latent.value_dim) * HALF * 4
    }

    /// Bytes in which tokens are copied into the order of experts and back.
    fn routed_bytes(&self, work: &LayerWork) -> u64 {
        let copies: u64 = work.of(Part::Experts).next().map_or(0, |linear| linear.tokens * linear.groups);
        copies * self.model.hidden * HALF * 6
    }
}
