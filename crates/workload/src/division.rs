//! How a mesh divides a layer among ranks.

use crate::layer::{Layer, Sharding};
use crate::parallel::Recompute;
use crate::role::RoleId;
use crate::types::Types;

/// The groups along an axis of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its role.
    pub role: RoleId,
    /// Ranks in each group.
    pub size: u32,
}

/// How layers are divided among ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Ranks that hold parts of a copy of a layer.
    pub tensor: Group,
    /// Ranks that hold copies of it.
    pub data: Group,
    /// Element types.
    pub types: Types,
    /// How much of the training state copies divide among them: 0 to 3, the stage of ZeRO.
    pub zero: u8,
    /// Whether the ranks of a copy divide by tokens the work that each of them would otherwise do in full.
    pub sequence: bool,
    /// Whether they divide the block inputs that are kept for recomputation.
    pub divided_checkpoints: bool,
    /// What is recomputed.
    pub recompute: Recompute,
}

impl Division {
    /// A division with undivided training states and without recomputation.
    pub const fn plain(tensor: Group, data: Group, types: Types) -> Self {
        Self {
            tensor,
            data,
            types,
            zero: 0,
            sequence: false,
            divided_checkpoints: false,
            recompute: Recompute::None,
        }
    }

    /// Whether the ranks of a copy divide at least the parameters of `layer`.
    pub fn divides(&self, layer: &Layer) -> bool {
        self.tensor.size > 1 && layer.sharding != Sharding::Replicated
    }

    /// Number of parameters of `layer` that a rank uses.
    pub fn parameters(&self, layer: &Layer) -> u64 {
        if self.divides(layer) { self.portion(layer).share(layer.parameters) } else { layer.parameters }
    }

    /// Whether copies divide the training state of `layer`, which requires that its gradients are reduced.
    pub fn shards(&self, layer: &Layer) -> bool {
        let given = layer.exchanges.is_some();
        self.zero > 0 && self.data.size > 1 && layer.parameters > 0 && !given && !layer.is_exchanged()
    }

    /// A rank's portion of what the ranks of a copy divide.
    pub(crate) fn portion(&self, layer: &Layer) -> Portion {
        Portion::of(layer, self.tensor.size)
    }
}

/// One rank's portion of a layer: `part` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    part: u64,
    of: u64,
}

impl Portion {
    /// An equal portion for each of `of` ranks.
    pub(crate) fn one(of: u32) -> Self {
        Self { part: 1, of: u64::from(of) }
    }

    /// The portion of a layer for each of `ranks` ranks. A vocabulary that they do not divide is padded to the next
    /// multiple.
    fn of(layer: &Layer, ranks: u32) -> Self {
        match layer.vocabulary {
            Some(tokens) => Self { part: u64::from(tokens.div_ceil(ranks)), of: u64::from(tokens.max(1)) },
            None => Self::one(ranks),
        }
    }

    /// The portion of an amount, rounded up.
    pub(crate) fn share(self, amount: u64) -> u64 {
        let part = (u128::from(amount) * u128::from(self.part)).div_ceil(u128::from(self.of));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{by, layer};

    #[test]
    fn training_state_is_sharded_only_if_there_are_copies_gradients_and_a_stage() {
        let zero = |stage, copies| Division { zero: stage, ..by(2, copies, 4) };
        let dense = layer("dense");
        for (stage, copies, sharded) in [(0, 4, false), (1, 1, false), (1, 2, true), (3, 4, true)] {
            assert_eq!(zero(stage, copies).shards(&dense), sharded, "stage {stage}, {copies} copies");
        }
        let unlike = [
            Layer { parameters: 0, ..dense.clone() },
            Layer { exchanges: Some(Vec::new()), ..dense.clone() },
            Layer { sharding: Sharding::Exchange, ..dense.clone() },
        ];
        assert!(unlike.iter().all(|layer| !zero(3, 4).shards(layer)));
        assert!(zero(3, 4).shards(&Layer { parameters: 1, ..dense }));
    }

    #[test]
    fn ranks_of_a_copy_divide_parameters_and_pad_vocabularies() {
        let dense = layer("dense");
        let replicated = Layer { sharding: Sharding::Replicated, ..dense.clone() };
        assert_eq!([1, 2, 3].map(|ranks| by(ranks, 1, 4).parameters(&dense)), [100, 50, 34]);
        assert!(!by(1, 1, 4).divides(&dense) && by(2, 1, 4).divides(&dense));
        assert_eq!(by(4, 1, 4).parameters(&replicated), 100);
        // 10 tokens of 10 parameters: two ranks of three have 4 tokens, and so has the third, with padding.
        let embedding = Layer { vocabulary: Some(10), ..dense };
        assert_eq!(by(3, 1, 4).parameters(&embedding), 40);
    }
}
