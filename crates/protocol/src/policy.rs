//! The plans that a job requests: rules that name a plan, the order of the ranks or their racks, and a network. Each epoch
//! makes a [`PlanBook`] from it for the ranks that remain.

use crate::racks::RackOrder;
use crate::shape::{PlanBook, Rule};
use serde::Deserialize;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::by_name;
use syncline_plan::choice::GroupNetwork;
use syncline_units::CollectiveKind;

/// A rule by the name of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRule {
    /// The collective.
    pub kind: CollectiveKind,
    /// Most bytes of a vector to which the rule applies; `None` for any size.
    pub up_to: Option<u64>,
    /// The name of the plan, without `group` if `by_rack`.
    pub algorithm: String,
    /// Whether the racks are the plan's groups.
    #[serde(default)]
    pub by_rack: bool,
    /// Most bytes of a message, which determines the number of chunks.
    pub message: u64,
}

impl NamedRule {
    /// The rule for `ranks` ranks, `group` of them in each rack if all racks have the same number.
    ///
    /// # Errors
    /// If no plan has that name, if more than one rack differs in size, or if the plan does not offer its collective to
    /// that number of ranks.
    fn rule(&self, ranks: u32, group: Option<u32>) -> Result<Rule> {
        let algorithm = match (self.by_rack, group) {
            (false, _) => by_name(&self.algorithm)?,
            (true, Some(group)) => by_name(&format!("{}(group={group})", self.algorithm))?,
            (true, None) => {
                let name = &self.algorithm;
                let message = format!("racks that differ in size cannot be the groups of `{name}`");
                let allowed = format!("racks of one size, except for one smaller rack; or `{name}(group=N)`");
                return Err(Diagnostic::error(Code::BadValue, message).key("racks").allowed(allowed).into());
            }
        };
        syncline_plan::registry::check(&*algorithm, self.kind, ranks)?;
        Ok(Rule { kind: self.kind, up_to: self.up_to, algorithm, message: self.message })
    }
}

/// Which plans run which collectives, and in which order plans number the ranks.
#[derive(Clone, Debug)]
pub struct PlanPolicy {
    /// Ranks in the order in which plans number them.
    pub order: Vec<u32>,
    /// The rack of each rank, from which the order follows; replaces `order`.
    pub racks: Option<Vec<u32>>,
    /// The first rule that fits an operation applies.
    pub rules: Vec<NamedRule>,
    /// The network on which the fastest plan is chosen if no rule fits.
    pub network: GroupNetwork,
}

impl PlanPolicy {
    /// Checks that every rule's plan can run on all `world` ranks.
    ///
    /// # Errors
    /// The first rule that cannot.
    pub fn check(&self, world: u32) -> Result<()> {
        let ranks: Vec<u32> = (0..world).collect();
        let group = self.racks(&ranks).and_then(|racks| racks.group);
        self.rules.iter().try_for_each(|named| named.rule(world, group).map(drop))
    }

    /// Makes the book of an epoch for the place `seat` among `ranks`. Adds to `left_out` the plans of rules that are
    /// skipped, because they do not offer their collective to this number of ranks.
    ///
    /// # Errors
    /// A rule that names no plan; an order without one of the ranks.
    pub fn book(&self, seat: u32, ranks: &[u32], left_out: &mut Vec<String>) -> Result<PlanBook> {
        let world = ranks.len() as u32;
        let racks = self.racks(ranks);
        let group = racks.as_ref().and_then(|racks| racks.group);
        let mut rules = Vec::with_capacity(self.rules.len());
        for named in &self.rules {
            by_name(&named.algorithm)?;
            match named.rule(world, group) {
                Ok(rule) => rules.push(rule),
                Err(_) => left_out.push(named.algorithm.clone()),
            }
        }
        // The order skips ranks that do not take part.
        let place = |rank: &u32| ranks.iter().position(|other| other == rank).map(|place| place as u32);
        let order = racks.map_or_else(|| self.order.iter().filter_map(place).collect(), |racks| racks.order);
        Ok(PlanBook::new(seat, world, order, rules)?.with_network(self.network.clone()))
    }

    /// The number of these ranks in each rack, and their order.
    fn racks(&self, ranks: &[u32]) -> Option<RackOrder> {
        self.racks.as_ref().map(|racks| RackOrder::of(racks, ranks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_plan::choice::Wiring;
    use syncline_units::{Rate, Time};

    fn policy(racks: Option<Vec<u32>>, algorithm: &str, by_rack: bool) -> PlanPolicy {
        let rate = Rate::from_bytes_per_s(1_000_000_000);
        PlanPolicy {
            order: vec![0, 2, 1, 3],
            racks,
            rules: vec![NamedRule {
                kind: CollectiveKind::AllReduce,
                up_to: None,
                algorithm: algorithm.to_owned(),
                by_rack,
                message: 1 << 16,
            }],
            network: GroupNetwork {
                wiring: Wiring::Graph { far: rate, all: rate, far_latency: Time::ZERO },
                rate,
                count: 1,
                latency: Time::ZERO,
                overhead: Time::ZERO,
                gap: Time::ZERO,
                reduction: None,
                buffer: None,
                paths: None,
            },
        }
    }

    #[test]
    fn the_order_skips_ranks_that_are_gone() {
        let mut left_out = Vec::new();
        let book = policy(None, "ring", false).book(0, &[0, 1, 3], &mut left_out).unwrap();
        // Ranks 0, 1 and 3 are at places 0, 1 and 2; rank 2 is gone from the order 0, 2, 1, 3.
        assert_eq!(book.order(), [0, 1, 2]);
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
