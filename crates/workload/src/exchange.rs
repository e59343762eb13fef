//! The exchanges of a layer: when they happen, which ranks take part, and what they carry.

use crate::role::RoleId;
use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, CollectiveKind};

/// The moment of an exchange of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the first use of the layer in a step: provides its parameters, which the step before updated. All those of
    /// a rank follow each other from the beginning of the step.
    BeforeStep,
    /// Before each use of the layer: provides its parameters (ZeRO stage 3). Starts while the block before is
    /// computed.
    BeforeUse,
    /// Before the forward pass: provides its inputs.
    BeforeForward,
    /// After the forward pass.
    AfterForward,
    /// Before a block is recomputed: provides the input that was kept. Only of a block's first layer.
    BeforeRecompute,
    /// Before the backward pass: provides the gradient of the output.
    BeforeBackward,
    /// After the gradient with respect to the input.
    AfterInputGrad,
    /// Before the gradient with respect to the parameters: provides the inputs again.
    BeforeWeightGrad,
    /// After the gradient with respect to the parameters: reduces it.
    AfterWeightGrad,
    /// After the update: distributes the parameters.
    AfterUpdate,
}

impl When {
    /// The name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeStep => "before_step",
            Self::BeforeUse => "before_use",
            Self::BeforeForward => "before_forward",
            Self::AfterForward => "after_forward",
            Self::BeforeRecompute => "before_recompute",
            Self::BeforeBackward => "before_backward",
            Self::AfterInputGrad => "after_input_grad",
            Self::BeforeWeightGrad => "before_weight_grad",
            Self::AfterWeightGrad => "after_weight_grad",
            Self::AfterUpdate => "after_update",
        }
    }

    /// Whether the next compute waits for such an exchange if the exchange does not say. Results of the last two are
    /// needed only when the layer is used next.
    pub const fn blocks(self) -> bool {
        !matches!(self, Self::AfterWeightGrad | Self::AfterUpdate)
    }

    /// Whether such an exchange provides what the next compute needs, so that it always blocks.
    pub const fn provides(self) -> bool {
        !matches!(self, Self::AfterForward | Self::AfterInputGrad | Self::AfterWeightGrad | Self::AfterUpdate)
    }
}

/// A collective and its size, as [`CollectiveKind`] defines sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comm {
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// Its size.
    pub bytes: Bytes,
}

/// An exchange of a layer among the ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// When it happens. Exchanges of one layer at the same moment follow each other.
    pub when: When,
    /// The group.
    pub role: RoleId,
    /// The collective.
    pub comm: Comm,
    /// Whether the next compute waits for it; otherwise only the layer's next use does.
    pub blocks: bool,
    /// Whether it happens in every micro-batch. Of exchanges after the weight gradient, others happen only in the
    /// last one.
    pub each_micro_batch: bool,
}

impl Exchange {
    /// An exchange that blocks as is usual at that moment; `None` if it carries nothing.
    pub fn new(when: When, role: RoleId, kind: CollectiveKind, bytes: Bytes) -> Option<Self> {
        let comm = Comm { kind, bytes };
        let exchange = Self { when, role, comm, blocks: when.blocks(), each_micro_batch: false };
        (!bytes.is_zero()).then_some(exchange)
    }
}

/// An exchange as scenarios give it: among ranks that differ along some axes of the layer's mesh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenExchange {
    /// When it happens.
    pub when: When,
    /// Names of axes.
    pub axes: Vec<String>,
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// Its size.
    pub bytes: Bytes,
    /// Whether the next compute waits for it; absent means as is usual at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<bool>,
    /// Whether it happens in every micro-batch, if it comes after the weight gradient.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each_micro_batch: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(yes: &bool) -> bool {
    !*yes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_has_its_name_and_says_what_waits() {
        // Name, whether the next compute waits unless told otherwise, and whether it always waits.
        let moments = [
            (When::BeforeStep, "before_step", true, true),
            (When::BeforeUse, "before_use", true, true),
            (When::BeforeForward, "before_forward", true, true),
            (When::AfterForward, "after_forward", true, false),
            (When::BeforeRecompute, "before_recompute", true, true),
            (When::BeforeBackward, "before_backward", true, true),
            (When::AfterInputGrad, "after_input_grad", true, false),
            (When::BeforeWeightGrad, "before_weight_grad", true, true),
            (When::AfterWeightGrad, "after_weight_grad", false, false),
            (When::AfterUpdate, "after_update", false, false),
        ];
        for (when, name, blocks, provides) in moments {
            assert_eq!((when.name(), when.blocks(), when.provides()), (name, blocks, provides));
            assert_eq!(serde_json::to_value(when).unwrap(), name);
        }
    }

    #[test]
    fn only_what_differs_from_the_default_is_written() {
        let given = |each_micro_batch| GivenExchange {
            when: When::AfterWeightGrad,
            axes: vec!["data".into()],
            kind: CollectiveKind::AllReduce,
            bytes: Bytes(4),
            blocks: None,
            each_micro_batch,
        };
        for (each, keys) in [(false, 4), (true, 5)] {
            let written = serde_json::to_value(given(each)).unwrap();
            assert_eq!(written.as_object().unwrap().len(), keys, "{written}");
            assert_eq!(serde_json::from_value::<GivenExchange>(written).unwrap(), given(each));
        }
    }

    #[test]
    fn an_exchange_of_nothing_is_none() {
        let of = |bytes| Exchange::new(When::AfterUpdate, RoleId(0), CollectiveKind::AllGather, Bytes(bytes));
        assert_eq!(of(0), None);
        assert!(of(1).is_some_and(|exchange| !exchange.blocks));
    }
}
