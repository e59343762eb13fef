//! Parameters of the model.

use crate::sharing::{FASTEST, PARTS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_fabric::{Fabric, MAX_ROUTES};
use syncline_net_api::Owner;
use syncline_units::{CollectiveKind, LinkId};

/// Most priority classes.
const CLASSES: usize = 16;

/// What messages are classified by: the collective that they belong to, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum Traffic {
    /// Messages of this collective.
    Collective(CollectiveKind),
    /// Messages between two ranks.
    Alone(Alone),
}

/// The name of messages between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alone {
    /// Messages between two ranks.
    PointToPoint,
}

impl From<Owner> for Traffic {
    fn from(owner: Owner) -> Self {
        owner.kind.map_or(Self::Alone(Alone::PointToPoint), Self::Collective)
    }
}

/// Parameters of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowSettings {
    /// The model keeps a fair share that is wrong by less than this fraction; 0 makes sharing exact. Links
    /// may then carry more than they can, by that fraction.
    pub precision: f64,
    /// Most paths of equal length over which a message is divided evenly.
    pub paths: u32,
    /// How many times as much of a shared link these messages get as others; 1 if absent.
    pub weights: BTreeMap<Traffic, u32>,
    /// Which messages go first, highest priority first; those not listed share what these leave.
    pub priority: Vec<Traffic>,
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self { precision: 0.0, paths: 1, weights: BTreeMap::new(), priority: Vec::new() }
    }
}

impl FlowSettings {
    /// Reports what is impossible about the settings on a fabric.
    pub fn check(&self, fabric: &Fabric) -> Diagnostics {
        let mut problems = Diagnostics::new();
        let mut bad = |key: &str, message: &str, found: String, allowed: String| {
            let error = Diagnostic::error(Code::BadValue, message).key(format!("network.{key}"));
            problems.push(error.found(found).allowed(allowed));
        };
        if !(0.0..=0.25).contains(&self.precision) {
            bad("precision", "precision out of range", self.precision.to_string(), "0 to 0.25".to_owned());
        }
        if self.paths == 0 || self.paths > MAX_ROUTES {
            bad(
                "paths",
                "number of paths out of range",
                self.paths.to_string(),
                format!("1 to {MAX_ROUTES}"),
            );
        }
        for (traffic, &weight) in &self.weights {
            // Uses of links are counted in 32 bits.
            if weight == 0 || weight > u32::MAX / PARTS / 256 {
                let key = format!("weights.{}", name(*traffic));
                bad(
                    &key,
                    "weight out of range",
                    weight.to_string(),
                    format!("1 to {}", u32::MAX / PARTS / 256),
                );
            }
        }
        if self.priority.len() >= CLASSES {
            bad(
                "priority",
                "too many entries",
                self.priority.len().to_string(),
                format!("at most {}", CLASSES - 1),
            );
        }
        for (at, traffic) in self.priority.iter().enumerate() {
            if self.priority[..at].contains(traffic) {
                let key = format!("priority.{at}");
                bad(&key, "named twice", name(*traffic).to_owned(), "each at most once".to_owned());
            }
        }
        let fastest = (0..fabric.links()).map(|link| fabric.speed(LinkId(link)).0).max();
        if let Some(rate) = fastest.filter(|&rate| rate > FASTEST) {
            bad(
                "model",
                "a link is faster than the model supports",
                rate.to_string(),
                format!("at most {FASTEST}"),
            );
        }
        problems
    }

    /// Returns the precision as a power of one half; `None` if sharing is exact.
    pub(crate) fn bits(&self) -> Option<u32> {
        (self.precision > 0.0).then(|| (-self.precision.log2()).ceil().clamp(1.0, 62.0) as u32)
    }

    /// Returns the number of priority classes.
    pub(crate) fn classes(&self) -> u32 {
        self.priority.len() as u32 + 1
    }

    /// Returns the class of messages; 0 goes first.
    pub(crate) fn class(&self, traffic: Traffic) -> u32 {
        let place = self.priority.iter().position(|&named| named == traffic);
        place.unwrap_or(self.priority.len()) as u32
    }

    /// Returns the weight of messages.
    pub(crate) fn weight(&self, traffic: Traffic) -> u32 {
        self.weights.get(&traffic).copied().unwrap_or(1)
    }
}

/// Returns a name as scenarios spell it.
pub(crate) fn name(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Collective(kind) => kind.name(),
        Traffic::Alone(Alone::PointToPoint) => "point_to_point",
    }
}
