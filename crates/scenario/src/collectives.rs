//! How collectives are carried out.

use crate::limit;
use crate::nccl::Nccl;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use syncline_diagnostics::nearest;
use syncline_engine::{QueueOrder, Schedulers};
use syncline_plan::Composition;
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

/// How the collectives of one group, kind and size are carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmsOf {
    /// Their group: the name of its role, such as `data`.
    pub group: String,
    /// Their kind.
    pub collective: CollectiveKind,
    /// Their size.
    pub bytes: Bytes,
    /// Algorithm and collective of each phase, in order, such as `ring reduce_scatter`.
    pub phases: Vec<String>,
}

/// How an all-reduce is composed over dimensions. Scenarios write it as a word: `auto`, or the name of a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AllReduce {
    /// The quickest composition; if algorithms are named, the first composition in which they have a phase.
    #[default]
    Auto,
    /// This composition.
    Composed(Composition),
}

impl AllReduce {
    /// The word that scenarios use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Composed(composition) => composition.name(),
        }
    }
}

impl Serialize for AllReduce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for AllReduce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        if found.trim() == Self::Auto.name() {
            return Ok(Self::Auto);
        }
        found.parse().map(Self::Composed).map_err(|_| {
            let names = || [Self::Auto.name()].into_iter().chain(Composition::ALL.map(Composition::name));
            let meant = nearest(&found, names()).map(|name| format!(", did you mean `{name}`?"));
            let (meant, names) = (meant.unwrap_or_default(), names().collect::<Vec<_>>().join(", "));
            serde::de::Error::custom(format!(
                "`collectives.all_reduce`: there is no composition `{found}`{meant} (use one of {names})"
            ))
        })
    }
}

/// How collectives are carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collectives {
    /// How an all-reduce is composed over dimensions.
    pub all_reduce: AllReduce,
    /// Algorithm by dimension name, or `default` for all others; a value is an algorithm's name.
    /// If absent, the quickest of the library is chosen.
    pub algorithms: BTreeMap<String, BTreeMap<CollectiveKind, String>>,
    /// Algorithms of the collectives of one group, kind and size. They take precedence over `algorithms` and
    /// `all_reduce`.
    pub algorithms_of: Vec<AlgorithmsOf>,
    /// Path of the user's own plan, by collective.
    pub plans: BTreeMap<CollectiveKind, String>,
    /// Sizes of the logical grid that plans assume, lowest first, if it differs from the fabric's.
    pub logical: Option<Vec<u32>>,
    /// Number of chunks into which a collective is cut (astra2020 `preferred-set-splits`).
    pub chunks: u32,
    /// Number of chunks for kinds of collective that differ from `chunks`.
    pub chunks_of: BTreeMap<CollectiveKind, u32>,
    /// Smallest chunk. A small collective is cut into fewer chunks, not into smaller ones.
    pub min_chunk: Bytes,
    /// Size of the elements at whose borders data is cut.
    pub element: Bytes,
    /// Which collective's chunks go first.
    pub order: QueueOrder,
    /// Which chunks share the limits that follow. If absent, see [`Collectives::schedulers`].
    pub schedulers: Option<Schedulers>,
    /// T of astra2020 IV-B: new chunks are issued while fewer than this many are in their first phase;
    /// without a limit if absent, as in the limits that follow.
    #[serde(with = "limit::unlimited")]
    pub issue_threshold: Option<NonZeroU32>,
    /// P of astra2020 IV-B: how many chunks are issued at once.
    #[serde(with = "limit::unlimited")]
    pub issue_batch: Option<NonZeroU32>,
    /// Logical scheduling queues per phase; if absent, one for each ring or switch of the dimension (astra2020 IV-B).
    #[serde(with = "limit::per_link")]
    pub queues: Option<NonZeroU32>,
    /// Running chunks per queue.
    #[serde(with = "limit::unlimited")]
    pub active_chunks: Option<NonZeroU32>,
    /// Running chunks per dimension and NPU (64 in dlrm2020 III-C).
    #[serde(with = "limit::unlimited")]
    pub outstanding: Option<NonZeroU32>,
    /// Collectives of one rank that may be in progress at once.
    #[serde(with = "limit::unlimited")]
    pub concurrent: Option<NonZeroU32>,
    /// Constant delay after a message is received.
    pub endpoint_delay: Time,
    /// Time for a message from memory to the network interface (dlrm2020 III-C).
    pub injection_latency: Time,
    /// Rate at which received data is combined with local data. If absent, that takes no time.
    pub reduction_rate: Option<Rate>,
    /// The machine whose NCCL carries out collectives. It decides algorithms, chunks and the limits above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<Nccl>,
}

impl Default for Collectives {
    fn default() -> Self {
        Self {
            all_reduce: AllReduce::Auto,
            algorithms: BTreeMap::new(),
            algorithms_of: Vec::new(),
            plans: BTreeMap::new(),
            logical: None,
            chunks: 16,
            chunks_of: BTreeMap::new(),
            min_chunk: Bytes(4096),
            element: Bytes(4),
            order: QueueOrder::Fifo,
            schedulers: None,
            issue_threshold: NonZeroU32::new(8),
            issue_batch: NonZeroU32::new(16),
            queues: None,
            active_chunks: NonZeroU32::new(4),
            outstanding: None,
            concurrent: None,
            endpoint_delay: Time::ZERO,
            injection_latency: Time::ZERO,
            reduction_rate: None,
            nccl: None,
        }
    }
}

impl Collectives {
    /// Which chunks share the endpoint's limits. By default, the chunks of a process group; with an `order` that
    /// compares collectives of different groups, all chunks of a rank.
    pub fn schedulers(&self) -> Schedulers {
        self.schedulers.unwrap_or(match self.order {
            QueueOrder::Fifo => Schedulers::PerGroup,
            QueueOrder::Lifo | QueueOrder::Priority => Schedulers::PerRank,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compositions_are_written_as_words() {
        assert_eq!(Collectives::default().all_reduce.name(), "auto");
        for known in [AllReduce::Auto].into_iter().chain(Composition::ALL.map(AllReduce::Composed)) {
            let written = serde_json::to_value(known).unwrap();
            assert_eq!(written, known.name());
            assert_eq!(serde_json::from_value::<AllReduce>(written).unwrap(), known);
        }
        let error = |name: &str| {
            let text = format!(r#"{{"all_reduce": "{name}"}}"#);
            serde_json::from_str::<Collectives>(&text).unwrap_err().to_string()
        };
        let expected = "`collectives.all_reduce`: there is no composition `enhanecd`, did you mean `enhanced`? (use \
                        one of auto, baseline, enhanced, hierarchical_2n, hierarchical_2n_merged, hierarchical, \
                        hierarchical_optimal)";
        assert!(error("enhanecd").starts_with(expected), "{}", error("enhanecd"));
        assert!(error("atuo").contains("did you mean `auto`?"), "{}", error("atuo"));
        assert!(error("spanning").contains("no composition `spanning` (use one of"), "{}", error("spanning"));
    }
}
