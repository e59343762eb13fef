//! The plans that a job requests: rules that name a plan, the order of the ranks or their racks, and a network. Each epoch
//! makes a [`PlanBook`] from it for the ranks that remain, and a policy that replaces it makes the book's next edition.

use crate::plan_book::{PlanBook, Rule, Selection, leading_word};
use crate::racks::RackOrder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::choice::GroupNetwork;
use syncline_plan::custom::{Custom, PlanFile};
use syncline_plan::{Algorithm, by_name};
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

/// A rule by the name of its plan, or with a plan file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRule {
    /// The collective.
    pub kind: CollectiveKind,
    /// Vectors to which the rule applies have more bytes than this; 0 includes empty ones.
    #[serde(default)]
    pub above: u64,
    /// Most bytes of a vector to which the rule applies; `None` for any size.
    pub up_to: Option<u64>,
    /// The name of the plan, without `group` if `by_rack`.
    pub algorithm: String,
    /// The text of the plan's file, if a user wrote the plan.
    #[serde(default)]
    pub file: Option<String>,
    /// Whether the racks are the plan's groups.
    #[serde(default)]
    pub by_rack: bool,
    /// Most bytes of a message, which determines the number of chunks.
    pub message: u64,
    /// The most lanes that work on the chunks; `None` for all.
    #[serde(default)]
    pub lanes: Option<u32>,
    /// How far each lane sends ahead, in bytes; `None` for as far as in other operations.
    #[serde(default)]
    pub window: Option<u64>,
}

impl NamedRule {
    /// The rule for `ranks` ranks, `group` of them in each rack if all racks have the same number.
    ///
    /// # Errors
    /// If no plan has that name, if a plan file does not compute the collective, if more than one rack differs in size,
    /// or if the plan does not offer its collective to that number of ranks.
    fn rule(&self, ranks: u32, group: Option<u32>) -> Result<Rule> {
        let algorithm: Arc<dyn Algorithm> = match (&self.file, self.by_rack, group) {
            (Some(text), ..) => Arc::new(Custom::new(&PlanFile::from_json(text, &self.algorithm)?)?),
            (None, false, _) => by_name(&self.algorithm)?,
            (None, true, Some(group)) => by_name(&format!("{}(group={group})", self.algorithm))?,
            (None, true, None) => {
                let name = &self.algorithm;
                let message = format!("racks that differ in size cannot be the groups of `{name}`");
                let allowed = format!("racks of one size, except for one smaller rack; or `{name}(group=N)`");
                return Err(Diagnostic::error(Code::BadValue, message).key("racks").allowed(allowed).into());
            }
        };
        syncline_plan::registry::check(&*algorithm, self.kind, ranks)?;
        let content = self.file.as_ref().map_or(0, |text| leading_word(&Sha256::digest(text)));
        let Self { kind, above, up_to, message, lanes, window, .. } = *self;
        Ok(Rule { kind, above, up_to, algorithm, content, message, lanes, window })
    }

    /// Checks that the plan exists, whatever the number of ranks.
    fn check_name(&self) -> Result<()> {
        match &self.file {
            Some(text) => PlanFile::from_json(text, &self.algorithm).map(drop),
            None => by_name(&self.algorithm).map(drop),
        }
    }
}

/// The network between ranks, as [`GroupNetwork::near_far`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearFarNetwork {
    /// Rate to the next rank in the order, while all ranks send.
    pub near_bytes_per_s: u64,
    /// Rate to distant ranks, while all ranks send.
    pub far_bytes_per_s: u64,
    /// Latency of a message.
    pub latency_ns: u64,
    /// Time that a message occupies its sender beyond the time of its bytes.
    pub message_ns: u64,
    /// Bytes that a switch port holds.
    pub buffer: u64,
}

impl From<NearFarNetwork> for GroupNetwork {
    fn from(network: NearFarNetwork) -> Self {
        Self::near_far(
            Rate::from_bytes_per_s(network.near_bytes_per_s),
            Rate::from_bytes_per_s(network.far_bytes_per_s),
            Time::from_ns(network.latency_ns),
            Time::from_ns(network.message_ns),
            Bytes(network.buffer),
        )
    }
}

/// Which plans run which collectives, and in which order plans number the ranks. Ranks have the numbers with which the
/// job began, or in a group their places in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanPolicy {
    /// Ranks in the order in which plans number them.
    pub order: Vec<u32>,
    /// The rack of each rank, from which the order follows; replaces `order`.
    pub racks: Option<Vec<u32>>,
    /// The first rule that fits an operation applies.
    pub rules: Vec<NamedRule>,
    /// The network on which the fastest plan is chosen if no rule fits.
    pub network: NearFarNetwork,
}

impl PlanPolicy {
    /// Checks that `order` and `racks` have an entry for each of `world` ranks.
    ///
    /// # Errors
    /// If one has not.
    pub fn check_lengths(&self, world: u32) -> Result<()> {
        let racks = self.racks.as_ref().map(|racks| ("racks", racks.len()));
        for (name, found) in [("order", self.order.len())].into_iter().chain(racks) {
            if found != world as usize {
                let message = format!("`{name}` lists {found} ranks, but there are {world}");
                return Err(Diagnostic::error(Code::BadValue, message).into());
            }
        }
        Ok(())
    }

    /// Checks that every rule's plan can run on all `world` ranks.
    ///
    /// # Errors
    /// The first rule that cannot.
    pub fn check(&self, world: u32) -> Result<()> {
        let ranks: Vec<u32> = (0..world).collect();
        let group = self.racks(&ranks).and_then(|racks| racks.group);
        self.rules.iter().try_for_each(|named| named.rule(world, group).map(drop))
    }

    /// Selects the plans for `ranks`, the ranks that take part. Adds to `left_out` the plans of rules that are skipped,
    /// because they do not offer their collective to this number of ranks.
    ///
    /// # Errors
    /// A rule that names no plan.
    pub fn select(&self, ranks: &[u32], left_out: &mut Vec<String>) -> Result<Selection> {
        let world = ranks.len() as u32;
        let racks = self.racks(ranks);
        let group = racks.as_ref().and_then(|racks| racks.group);
        let mut rules = Vec::with_capacity(self.rules.len());
        for named in &self.rules {
            named.check_name()?;
            match named.rule(world, group) {
                Ok(rule) => rules.push(rule),
                Err(_) => left_out.push(named.algorithm.clone()),
            }
        }
        // The order skips ranks that do not take part.
        let place = |rank: &u32| ranks.iter().position(|other| other == rank).map(|place| place as u32);
        let order = racks.map_or_else(|| self.order.iter().filter_map(place).collect(), |racks| racks.order);
        Ok(Selection { order, rules, network: Some(self.network.into()) })
    }

    /// Makes the book of an epoch for the place `seat` among `ranks`. `left_out` is as in [`PlanPolicy::select`].
    ///
    /// # Errors
    /// A rule that names no plan; an order without one of the ranks.
    pub fn book(&self, seat: u32, ranks: &[u32], left_out: &mut Vec<String>) -> Result<PlanBook> {
        PlanBook::new(seat, ranks.len() as u32, self.select(ranks, left_out)?)
    }

    /// The number of these ranks in each rack, and their order.
    fn racks(&self, ranks: &[u32]) -> Option<RackOrder> {
        self.racks.as_ref().map(|racks| RackOrder::of(racks, ranks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn policy(racks: Option<Vec<u32>>, algorithm: &str, by_rack: bool) -> PlanPolicy {
        PlanPolicy {
            order: vec![0, 2, 1, 3],
            racks,
            rules: vec![NamedRule {
                kind: CollectiveKind::AllReduce,
                above: 0,
                up_to: None,
                algorithm: algorithm.to_owned(),
                file: None,
                by_rack,
                message: 1 << 16,
                lanes: None,
                window: None,
            }],
            network: NearFarNetwork {
                near_bytes_per_s: 1_000_000_000,
                far_bytes_per_s: 1_000_000_000,
                latency_ns: 0,
                message_ns: 0,
                buffer: 0,
            },
        }
    }

    #[test]
    fn the_order_skips_ranks_that_are_gone() {
        let mut left_out = Vec::new();
        let selection = policy(None, "ring", false).select(&[0, 1, 3], &mut left_out).unwrap();
        // Ranks 0, 1 and 3 are at places 0, 1 and 2; rank 2 is gone from the order 0, 2, 1, 3.
        assert_eq!(selection.order, [0, 1, 2]);
        assert!(left_out.is_empty());
    }

    #[test]
    fn a_plan_that_no_longer_fits_is_left_out() {
        let policy = policy(None, "bcube(base=2)", false);
        policy.check(4).unwrap();
        let mut left_out = Vec::new();
        policy.book(0, &[0, 1, 2], &mut left_out).unwrap();
        assert_eq!(left_out, ["bcube(base=2)"]);
        assert!(policy.check(3).is_err());
    }

    #[test]
    fn racks_are_groups_only_if_all_but_one_are_alike() {
        policy(Some(vec![0, 0, 1, 1]), "two_level", true).check(4).unwrap();
        // One smaller rack is allowed, two are not.
        policy(Some(vec![0, 0, 0, 1]), "two_level", true).check(4).unwrap();
        let refused = policy(Some(vec![0, 0, 0, 1, 1, 2]), "two_level", true).check(6).unwrap_err();
        assert_eq!(refused.0[0].key.as_deref(), Some("racks"));
    }

    #[test]
    fn an_unknown_plan_is_an_error_and_not_left_out() {
        assert!(policy(None, "rings", false).book(0, &[0, 1], &mut Vec::new()).is_err());
    }
}
