//! What a job asks of its hubs. All workers send the same terms when they join.

use super::keys::{CHUNK, Catalogue, Key};
use super::optimizer::{Chosen, Optimizer, Optimizers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use syncline_protocol::operation::Association;
use syncline_reduction::{Element, Reduction, offered};

/// The most chunks times workers: a hub keeps 16 bytes for each.
pub const MAX_PLACES: u64 = 1 << 27;

/// The most workers of a job.
pub const MAX_WORKERS: u32 = 1 << 12;

/// When a hub completes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepMode {
    /// Once all workers have pushed.
    Synchronous,
    /// With each push of any worker.
    Asynchronous,
}

/// What happens to a job that loses a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPolicy {
    /// The job ends, and all its workers learn who is at fault.
    Fail,
    /// The job goes on without the worker. If the worker is restarted, it takes part again between two steps.
    Shrink,
    /// The job waits until the worker is restarted.
    Wait,
}

/// Which interface of a hub a chunk uses (luo2020, section 6.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// All workers send a chunk through the same interface: that of its core.
    KeyByInterface,
    /// A worker sends all its chunks through the same interface.
    WorkerByInterface,
}

/// How hubs of racks exchange their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RackExchangeMode {
    /// Each rack owns a part of the chunks, and sums those for all racks.
    Sharded,
    /// The racks form a ring, in their order.
    Ring,
}

/// Racks of workers, with hubs in each that exchange their sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackTopology {
    /// The rack of each worker.
    #[serde(rename = "of")]
    pub rack_of_worker: Vec<u32>,
    /// The hubs of each rack. Racks have the same number of hubs, with the same cores and interfaces.
    pub hubs: Vec<Vec<SocketAddr>>,
    /// How the hubs exchange their sums.
    #[serde(rename = "between")]
    pub exchange: RackExchangeMode,
}

/// The most racks of a job.
pub const MAX_RACKS: usize = 1 << 8;

impl RackTopology {
    fn check(&self, workers: u32) -> Result<(), String> {
        let racks = self.hubs.len();
        if !(1..=MAX_RACKS).contains(&racks) {
            return Err(format!("the job has {racks} racks: it must have 1 to {MAX_RACKS}"));
        }
        if self.rack_of_worker.len() != workers as usize {
            return Err(format!(
                "the job names the racks of {} ranks, but has {workers} ranks",
                self.rack_of_worker.len()
            ));
        }
        if let Some(rack) = self.rack_of_worker.iter().find(|&&rack| rack as usize >= racks) {
            return Err(format!("rack {rack} does not exist: racks are 0 to {}", racks - 1));
        }
        if let Some(empty) = (0..racks as u32).find(|rack| !self.rack_of_worker.contains(rack)) {
            return Err(format!("rack {empty} has no ranks"));
        }
        let hubs = self.hubs[0].len();
        if hubs == 0 || self.hubs.iter().any(|each| each.len() != hubs) {
            let all: Vec<usize> = self.hubs.iter().map(Vec::len).collect();
            return Err(format!("racks have {all:?} hubs: each needs the same number, at least one"));
        }
        Ok(())
    }
}

/// A vector, as terms describe it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "VectorText", into = "VectorText")]
pub struct Vector {
    /// Its name in the job.
    pub name: String,
    /// The type of its elements.
    pub element: Element,
    /// The number of its elements.
    pub elements: u64,
    /// The optimizer for its gradient; the job's optimizer if absent.
    pub optimizer: Option<Chosen>,
}

/// A vector, as terms are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorText {
    name: String,
    element: String,
    elements: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    optimizer: Option<Chosen>,
}

impl TryFrom<VectorText> for Vector {
    type Error = String;

    fn try_from(text: VectorText) -> Result<Self, String> {
        let VectorText { name, element, elements, optimizer } = text;
        let element = element.parse().map_err(|error| format!("`{name}`: {error}"))?;
        Ok(Self { name, element, elements, optimizer })
    }
}

impl From<Vector> for VectorText {
    fn from(vector: Vector) -> Self {
        let Vector { name, element, elements, optimizer } = vector;
        Self { name, element: element.name().to_owned(), elements, optimizer }
    }
}

/// How a hub combines contributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Combination {
    /// Their sum, divided by their number.
    Mean,
    /// A reduction of collectives.
    Reduction(Reduction),
}

impl Combination {
    const MEAN: &str = "mean";

    /// Its word in terms and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => Self::MEAN,
            Self::Reduction(reduction) => reduction.name(),
        }
    }

    /// How elements are combined, before any division.
    const fn reduction(self) -> Reduction {
        match self {
            Self::Mean => Reduction::Sum,
            Self::Reduction(reduction) => reduction,
        }
    }
}

impl TryFrom<String> for Combination {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        if word == Self::MEAN {
            return Ok(Self::Mean);
        }
        word.parse().map(Self::Reduction).map_err(|_| {
            let names: Vec<&str> = Reduction::ALL.iter().map(|reduction| reduction.name()).collect();
            format!("there is no reduction `{word}`: choose {}, {}", Self::MEAN, names.join(", "))
        })
    }
}

impl From<Combination> for String {
    fn from(combination: Combination) -> Self {
        combination.name().to_owned()
    }
}

/// What a job asks of its hubs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The number of workers.
    pub workers: u32,
    /// The job's vectors. Their index in this order is their number.
    pub keys: Vec<Vector>,
    /// The bytes of a chunk.
    #[serde(default = "chunk")]
    pub chunk: u32,
    /// How contributions are combined.
    #[serde(default = "mean")]
    pub reduction: Combination,
    /// Whether contributions are combined in the order of workers and not of arrival: bit for bit the same in every
    /// run.
    #[serde(default)]
    pub in_order: bool,
    /// When the hub completes a step.
    #[serde(default = "synchronous")]
    #[serde(rename = "pace")]
    pub step_mode: StepMode,
    /// The optimizer of vectors without their own. Without any optimizer, the hub returns the combined contributions.
    #[serde(default)]
    pub optimizer: Option<Chosen>,
    /// What happens if a worker is lost.
    #[serde(default = "fail")]
    pub policy: LossPolicy,
    /// Which interface of a hub a chunk uses.
    #[serde(default = "by_key")]
    pub mapping: Mapping,
    /// The names of vectors that every worker pushes once per step: a restarted worker takes part between two steps of
    /// all of them. Other vectors are independent of each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<String>,
    /// Present if there are hubs in several racks.
    #[serde(default)]
    pub racks: Option<RackTopology>,
}

const fn chunk() -> u32 {
    CHUNK
}

const fn mean() -> Combination {
    Combination::Mean
}

const fn synchronous() -> StepMode {
    StepMode::Synchronous
}

const fn fail() -> LossPolicy {
    LossPolicy::Fail
}

const fn by_key() -> Mapping {
    Mapping::KeyByInterface
}

/// Valid terms, and what follows from them.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The terms.
    pub terms: Terms,
    /// The job's vectors and their chunks.
    pub catalogue: Catalogue,
    /// How contributions are combined.
    pub reduction: Reduction,
    /// Whether the sum is divided by the number of contributions.
    pub mean: bool,
    /// The order in which contributions are combined.
    pub association: Association,
    /// The optimizer of each vector.
    pub optimizers: Vec<Option<Arc<dyn Optimizer>>>,
    /// Vectors that are pushed together, except those without elements, whose steps hubs do not know.
    pub together: Vec<u32>,
}

impl Terms {
    /// Checks the terms, and derives what follows from them.
    ///
    /// # Errors
    /// A sentence that says what is invalid.
    pub fn contract(self, optimizers: &Optimizers) -> Result<Contract, String> {
        if !(1..=MAX_WORKERS).contains(&self.workers) {
            return Err(format!("the job has {} ranks: it must have 1 to {MAX_WORKERS}", self.workers));
        }
        let (mean, reduction) = (self.reduction == Combination::Mean, self.reduction.reduction());
        let keys = self.keys.iter().map(|key| {
            let Vector { name, element, elements, optimizer } = key.clone();
            offered(element, reduction).map_err(|refusal| format!("`{name}`: {refusal}"))?;
            let float = matches!(element, Element::F32 | Element::F64 | Element::F16 | Element::Bf16);
            if mean && !float {
                return Err(format!("`{name}` has no mean, because its elements are {element}: use a sum"));
            }
            if optimizer.or_else(|| self.optimizer.clone()).is_some()
                && !matches!(element, Element::F32 | Element::F64)
            {
                return Err(format!("the elements of `{name}` are {element}: optimizers need f32 or f64"));
            }
            Ok(Key { name, element, elements })
        });
        let catalogue = Catalogue::new(keys.collect::<Result<_, String>>()?, self.chunk)?;
        let places = u64::from(catalogue.chunks()) * u64::from(self.workers);
        if places > MAX_PLACES {
            let (chunks, workers) = (catalogue.chunks(), self.workers);
            return Err(format!(
                "{chunks} chunks times {workers} ranks is more than the {MAX_PLACES} that a hub allows: use larger \
                 chunks"
            ));
        }
        // Vectors of one optimizer share it.
        let mut made: BTreeMap<String, Arc<dyn Optimizer>> = BTreeMap::new();
        let chosen = self.keys.iter().map(|key| {
            let Some(chosen) = key.optimizer.as_ref().or(self.optimizer.as_ref()) else { return Ok(None) };
            Ok(Some(match made.entry(format!("{chosen:?}")) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(place) => Arc::clone(place.insert(optimizers.make(chosen)?)),
            }))
        });
        let chosen: Vec<_> = chosen.collect::<Result<_, String>>()?;
        if let Some(chosen) = &self.optimizer {
            optimizers.make(chosen)?;
        }
        if (self.optimizer.is_some() || chosen.iter().any(Option::is_some)) && reduction != Reduction::Sum {
            return Err(format!("an optimizer needs a sum or a mean, not {}", self.reduction.name()));
        }
        if self.step_mode == StepMode::Asynchronous && self.policy == LossPolicy::Wait {
            return Err("an asynchronous job cannot have policy wait: use fail or shrink".to_owned());
        }
        if let Some(racks) = &self.racks {
            racks.check(self.workers)?;
            if self.policy == LossPolicy::Wait || self.step_mode != StepMode::Synchronous {
                return Err(
                    "a job with hubs in several racks must be synchronous and have policy fail or shrink"
                        .to_owned(),
                );
            }
        }
        let mut together = Vec::new();
        let mut named: BTreeMap<&str, (u32, u64)> =
            (0u32..).zip(catalogue.keys()).map(|(key, of)| (of.name.as_str(), (key, of.elements))).collect();
        for name in &self.together {
            let (key, elements) = named.remove(name.as_str()).ok_or_else(|| {
                format!("`together` names `{name}`, which is not a vector of the job or is named twice")
            })?;
            if elements > 0 {
                together.push(key);
            }
        }
        let association = if self.in_order { Association::Seats } else { Association::Arrival };
        Ok(Contract { terms: self, catalogue, reduction, mean, association, optimizers: chosen, together })
    }

    /// Returns the first difference between these terms, which are those of the job, and another worker's, if there is
    /// one.
    pub fn differs(&self, other: &Self) -> Option<String> {
        fn pair<T: PartialEq + fmt::Debug>(name: &str, ours: &T, theirs: &T) -> Option<String> {
            (ours != theirs).then(|| format!("`{name}` is {theirs:?}, but {ours:?} in the job"))
        }
        if self.keys.len() != other.keys.len() {
            return Some(format!("{} vectors, but the job has {}", other.keys.len(), self.keys.len()));
        }
        let keys = self.keys.iter().zip(&other.keys).find(|(ours, theirs)| ours != theirs);
        let key = keys.map(|(ours, theirs)| {
            let same = |one: &Vector, other: &Vector| {
                Vector { optimizer: None, ..one.clone() } == Vector { optimizer: None, ..other.clone() }
            };
            if same(ours, theirs) {
                let (name, ours, theirs) = (&ours.name, &ours.optimizer, &theirs.optimizer);
                return format!("the optimizer of `{name}` is {theirs:?}, but {ours:?} in the job");
            }
            let word = |key: &Vector| format!("`{}` of {} {}", key.name, key.elements, key.element);
            format!("{}, but {} in the job", word(theirs), word(ours))
        });
        key.or_else(|| pair("workers", &self.workers, &other.workers))
            .or_else(|| pair("chunk", &self.chunk, &other.chunk))
            .or_else(|| pair("reduction", &self.reduction.name(), &other.reduction.name()))
            .or_else(|| pair("in_order", &self.in_order, &other.in_order))
            .or_else(|| pair("pace", &self.step_mode, &other.step_mode))
            .or_else(|| pair("optimizer", &self.optimizer, &other.optimizer))
            .or_else(|| pair("policy", &self.policy, &other.policy))
            .or_else(|| pair("mapping", &self.mapping, &other.mapping))
            .or_else(|| pair("together", &self.together, &other.together))
            .or_else(|| pair("racks", &self.racks, &other.racks))
    }
}

impl Contract {
    /// Returns the type of a chunk's elements.
    pub fn element(&self, chunk: u32) -> Element {
        self.catalogue.keys()[self.catalogue.piece(chunk).key as usize].element
    }

    /// Returns the optimizer of a chunk.
    pub fn optimizer(&self, chunk: u32) -> Option<&Arc<dyn Optimizer>> {
        self.optimizers[self.catalogue.piece(chunk).key as usize].as_ref()
    }

    /// Returns the name of a chunk's vector.
    pub fn name(&self, chunk: u32) -> &str {
        &self.catalogue.keys()[self.catalogue.piece(chunk).key as usize].name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(rest: &str) -> Result<Contract, String> {
        let text = format!(
            "{{\"workers\": 2, \"keys\": [{{\"name\": \"w\", \"element\": \"f32\", \"elements\": 9}}]{rest}}}"
        );
        let terms: Terms = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        terms.contract(&Optimizers::default())
    }

    #[test]
    fn absent_terms_have_defaults() {
        let contract = terms("").unwrap();
        assert!(contract.mean && contract.optimizer(0).is_none() && contract.catalogue.chunks() == 1);
        assert_eq!(
            (contract.terms.policy, contract.terms.step_mode),
            (LossPolicy::Fail, StepMode::Synchronous)
        );
    }

    #[test]
    fn invalid_terms_are_refused() {
        let refused = |rest| terms(rest).unwrap_err();
        assert!(refused(", \"workers\": 3").contains("duplicate field"));
        assert!(refused(", \"reduction\": \"avg\"").contains("choose mean, sum, product"));
        assert!(refused(", \"reduction\": \"bit_or\"").contains("`w`"));
        assert!(refused(", \"optimizer\": {\"name\": \"sgd\"}, \"reduction\": \"max\"").contains("not max"));
        assert!(
            refused(", \"pace\": \"asynchronous\", \"policy\": \"wait\"").contains("cannot have policy wait")
        );
        assert!(refused(", \"together\": [\"w\", \"v\"]").contains("`together` names `v`"));
        assert!(refused(", \"chunks\": 3").contains("unknown field `chunks`"));
    }

    #[test]
    fn terms_are_written_as_they_are_read() {
        for reduction in ["mean", "sum", "max"] {
            let terms = terms(&format!(", \"reduction\": \"{reduction}\"")).unwrap().terms;
            let text = serde_json::to_string(&terms).unwrap();
            assert!(text.contains(&format!("\"reduction\":\"{reduction}\"")), "{text}");
            assert!(text.contains("{\"name\":\"w\",\"element\":\"f32\",\"elements\":9}"), "{text}");
            assert_eq!(serde_json::from_str::<Terms>(&text).unwrap(), terms);
        }
    }

    #[test]
    fn a_difference_is_reported_with_both_values() {
        let ours = terms("").unwrap().terms;
        assert_eq!(ours.differs(&ours.clone()), None);
        let theirs = terms(", \"in_order\": true").unwrap().terms;
        assert_eq!(ours.differs(&theirs).unwrap(), "`in_order` is true, but false in the job");
        let mut theirs = ours.clone();
        theirs.keys[0].elements = 8;
        assert_eq!(ours.differs(&theirs).unwrap(), "`w` of 8 f32, but `w` of 9 f32 in the job");
        let theirs = terms(", \"reduction\": \"sum\"").unwrap().terms;
        assert_eq!(ours.differs(&theirs).unwrap(), "`reduction` is \"sum\", but \"mean\" in the job");
    }
}
