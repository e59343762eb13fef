//! The system layer's configuration: ASTRA-sim 2, `Sys.cc:initialize_sys` and `CollectiveImplLookup.cc`.

use super::json::{self, KeyAt};
use super::source::Source;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Place, Result};

/// The order in which waiting streams run (`scheduling-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// The collective that was issued last goes first.
    Lifo,
    /// The collective that was issued first goes first.
    Fifo,
    /// By the collective's `comm_priority`, highest first.
    Explicit,
}

/// How an all-reduce proceeds over several dimensions (`collective-optimization`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimization {
    /// An all-reduce in each dimension.
    Baseline,
    /// Reduce-scatters up to the last dimension, an all-reduce there, all-gathers back.
    LocalBwAware,
}

/// The algorithm of a collective in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `ring`: neighbour to neighbour.
    Ring,
    /// `direct`, `directN`: each with each, with at most `window` messages under way.
    Direct {
        /// `N`; `None` means all at once.
        window: Option<u32>,
    },
    /// `halvingDoubling`: partners at distances 1, 2, 4, ...
    HalvingDoubling,
    /// `doubleBinaryTree`: two trees that take turns.
    DoubleBinaryTree,
}

/// One entry of an implementation list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implementation {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether it runs flat over all NPUs (`oneRing`, `oneDirect`, `oneHalvingDoubling`).
    pub flat: bool,
}

impl Implementation {
    /// The name in the file.
    pub fn name(&self) -> String {
        let name = match self.algorithm {
            Algorithm::Ring => "ring".to_owned(),
            Algorithm::Direct { window: None } => "direct".to_owned(),
            Algorithm::Direct { window: Some(window) } => format!("direct{window}"),
            Algorithm::HalvingDoubling => "halvingDoubling".to_owned(),
            Algorithm::DoubleBinaryTree => "doubleBinaryTree".to_owned(),
        };
        if self.flat { format!("one{}{}", name[..1].to_uppercase(), &name[1..]) } else { name }
    }
}

/// The LogGP model of the memory bus (`L`, `o`, `g`, `G`), in nanoseconds; absent keys are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedBus {
    /// `L`: latency.
    pub latency: u64,
    /// `o`: overhead of a sender, and of a receiver.
    pub overhead: u64,
    /// `g`: gap between two transfers of a sender.
    pub gap: u64,
    /// `G`: nanoseconds per further byte.
    pub gap_per_byte: f64,
    /// `local-reduction-delay`: nanoseconds per 100 bytes that are reduced; 1 if absent.
    pub reduction_delay: u64,
}

/// Collective algorithms given as execution traces: prefixes of `prefix.<position>.et`, relative to the working
/// directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    /// `all-reduce-implementation-custom`.
    pub all_reduce: Option<String>,
    /// `all-gather-implementation-custom`.
    pub all_gather: Option<String>,
    /// `reduce-scatter-implementation-custom`.
    pub reduce_scatter: Option<String>,
    /// `all-to-all-implementation-custom`.
    pub all_to_all: Option<String>,
    /// `per-node-custom-implementation`, read from the YAML file that it names: by the id of the collective's node.
    pub per_node: BTreeMap<u64, String>,
}

impl Custom {
    /// Whether there are no custom algorithms.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The system layer.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// `scheduling-policy`.
    pub scheduling: Scheduling,
    /// `collective-optimization`; `None` if absent. ASTRA-sim then leaves it uninitialised.
    pub optimization: Option<Optimization>,
    /// `endpoint-delay` in nanoseconds; `None` if absent (10, not scaled).
    pub endpoint_delay: Option<u64>,
    /// `active-chunks-per-dimension`.
    pub active_chunks: u32,
    /// `preferred-dataset-splits`; `None` if absent (ASTRA-sim uses 0, and divides by it).
    pub splits: Option<u32>,
    /// `local-mem-bw` in decimal GB/s; 0 if absent, and reductions then take no time.
    pub local_mem_bw: f64,
    /// `peak-perf` in TFLOPS.
    pub peak_perf: f64,
    /// `roofline-enabled`.
    pub roofline: bool,
    /// `replay-only`.
    pub replay_only: bool,
    /// `trace-enabled`.
    pub trace: bool,
    /// `track-local-mem`.
    pub track_local_mem: bool,
    /// `model-shared-bus` with its parameters; `None` if it is 0 or absent.
    pub shared_bus: Option<SharedBus>,
    /// Algorithms given as execution traces.
    pub custom: Custom,
    /// `all-reduce-implementation`.
    pub all_reduce: Option<Vec<Implementation>>,
    /// `all-gather-implementation`.
    pub all_gather: Option<Vec<Implementation>>,
    /// `reduce-scatter-implementation`.
    pub reduce_scatter: Option<Vec<Implementation>>,
    /// `all-to-all-implementation`.
    pub all_to_all: Option<Vec<Implementation>>,
    /// Where it was read.
    pub source: Source,
}

impl Default for System {
    /// ASTRA-sim's behaviour with `{}`.
    fn default() -> Self {
        Self {
            scheduling: Scheduling::Lifo,
            optimization: None,
            endpoint_delay: None,
            active_chunks: 1,
            splits: None,
            local_mem_bw: 0.0,
            peak_perf: 0.0,
            roofline: false,
            replay_only: false,
            trace: false,
            track_local_mem: false,
            shared_bus: None,
            custom: Custom::default(),
            all_reduce: None,
            all_gather: None,
            reduce_scatter: None,
            all_to_all: None,
            source: Source::default(),
        }
    }
}

/// Keys that ASTRA-sim 2 used to read or that its own files still contain, and that it ignores.
const IGNORED: [&str; 3] = ["boost-mode", "inter-dimension-scheduling", "intra-dimension-scheduling"];
/// `local-reduction-delay` if absent. ASTRA-sim 2, `Sys.cc`.
const REDUCTION_DELAY: u64 = 1;
/// Keys that matter only with `model-shared-bus`.
const SHARED_BUS: [&str; 5] = ["local-reduction-delay", "L", "o", "g", "G"];
/// Keys of algorithms given as execution traces.
const CUSTOM: [&str; 5] = [
    "all-reduce-implementation-custom",
    "all-gather-implementation-custom",
    "reduce-scatter-implementation-custom",
    "all-to-all-implementation-custom",
    "per-node-custom-implementation",
];
/// Every other key.
const KEYS: [&str; 17] = [
    "scheduling-policy",
    "collective-optimization",
    "endpoint-delay",
    "active-chunks-per-dimension",
    "preferred-dataset-splits",
    "local-mem-bw",
    "peak-perf",
    "roofline-enabled",
    "replay-only",
    "trace-enabled",
    "all-reduce-implementation",
    "all-gather-implementation",
    "reduce-scatter-implementation",
    "all-to-all-implementation",
    "model-shared-bus",
    "track-local-mem",
    "local-mem-trace-filename",
];
/// Keys whose absence gets a warning, and the consequence.
const DEFAULTS: [(&str, &str); 6] = [
    (
        "scheduling-policy",
        "LIFO is used; ASTRA-sim leaves it uninitialised, and it has no effect on the result",
    ),
    (
        "collective-optimization",
        "ASTRA-sim leaves it uninitialised; all-reduces over several dimensions need it",
    ),
    ("endpoint-delay", "ASTRA-sim uses 10 ns and does not apply --injection-scale to it"),
    ("active-chunks-per-dimension", "ASTRA-sim uses 1"),
    ("preferred-dataset-splits", "ASTRA-sim uses 0 and divides by it; collectives need it"),
    ("local-mem-bw", "ASTRA-sim uses 0, so local reductions take no time"),
];
const ALGORITHMS: [&str; 7] =
    ["ring", "direct", "halvingDoubling", "doubleBinaryTree", "oneRing", "oneDirect", "oneHalvingDoubling"];

impl System {
    /// Reads a file; the diagnostics are warnings.
    pub fn read(path: &Path) -> Result<(Self, Diagnostics)> {
        Self::parse(Source::read(path)?)
    }
    /// Reads a text; the diagnostics are warnings.
    pub fn parse(source: Source) -> Result<(Self, Diagnostics)> {
        let pairs = json::object(&source, "system file")?;
        let mut system = Self::default();
        let bus = SharedBus {
            latency: 0,
            overhead: 0,
            gap: 0,
            gap_per_byte: 0.0,
            reduction_delay: REDUCTION_DELAY,
        };
        let mut fields = Fields { problems: Diagnostics::new(), has_bus: false, bus };
        for (key, value) in &pairs {
            let field = Field { key, value, place: source.place_at(key.start, key.length) };
            fields.read(&mut system, &field);
        }
        system.shared_bus = fields.has_bus.then_some(fields.bus);
        for (key, _) in
            pairs.iter().filter(|(key, _)| !fields.has_bus && SHARED_BUS.contains(&key.name.as_str()))
        {
            let place = source.place_at(key.start, key.length);
            fields.problems.push(ignored(&key.name, place, "it matters only with model-shared-bus"));
        }
        let known = |name: &str| pairs.iter().any(|(key, _)| key.name == name);
        for (key, meaning) in DEFAULTS {
            if !known(key) {
                fields.problems.push(
                    Diagnostic::warning(Code::AstraDefault, format!("{key} is absent: {meaning}"))
                        .at(source.file(), 0)
                        .key(key),
                );
            }
        }
        if system.roofline {
            for (key, value) in [("peak-perf", system.peak_perf), ("local-mem-bw", system.local_mem_bw)] {
                if value <= 0.0
                    && !fields.problems.0.iter().any(|problem| {
                        problem.key.as_deref() == Some(key) && problem.code != Code::AstraDefault
                    })
                {
                    fields.problems.push(
                        Diagnostic::error(Code::BadAstraFile, format!("roofline-enabled needs {key}"))
                            .in_place(source.json_key("roofline-enabled"))
                            .key(key)
                            .help("give peak-perf in TFLOPS and local-mem-bw in GB/s"),
                    );
                }
            }
        }
        let warnings = fields.problems.into_result()?;
        system.source = source;
        Ok((system, warnings))
    }
}

/// A key, its value and its place.
struct Field<'a> {
    key: &'a KeyAt,
    value: &'a Value,
    place: Place,
}

impl Field<'_> {
    fn problem(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Code::BadAstraFile, message).in_place(self.place.clone()).key(&self.key.name)
    }
    fn wrong(&self, allowed: &str) -> Diagnostic {
        self.problem("the value is not allowed").found(json::shown(self.value)).allowed(allowed)
    }
    fn ignored(&self, why: &str) -> Diagnostic {
        ignored(&self.key.name, self.place.clone(), why)
    }
}

/// The warning about a key without effect.
fn ignored(key: &str, place: Place, why: &str) -> Diagnostic {
    Diagnostic::warning(Code::AstraIgnored, format!("{key} has no effect: {why}")).in_place(place).key(key)
}

/// Stores fields into a [`System`] and collects errors.
struct Fields {
    problems: Diagnostics,
    /// `model-shared-bus`.
    has_bus: bool,
    /// Parameters of the bus, if there is one.
    bus: SharedBus,
}

impl Fields {
    fn read(&mut self, system: &mut System, field: &Field<'_>) {
        match field.key.name.as_str() {
            "scheduling-policy" => {
                let words = [
                    ("LIFO", Scheduling::Lifo),
                    ("FIFO", Scheduling::Fifo),
                    ("EXPLICIT", Scheduling::Explicit),
                ];
                if let Some(value) = self.word(field, &words) {
                    system.scheduling = value;
                }
            }
            "collective-optimization" => {
                let words =
                    [("baseline", Optimization::Baseline), ("localBWAware", Optimization::LocalBwAware)];
                if let Some(value) = self.word(field, &words) {
                    system.optimization = Some(value);
                }
            }
            "endpoint-delay" => {
                if let Some(value) = self.count(field, "whole nanoseconds above 0; ASTRA-sim aborts with 0") {
                    system.endpoint_delay = Some(value.into());
                }
            }
            "active-chunks-per-dimension" => {
                if let Some(value) =
                    self.count(field, "a whole number above 0; with 0, ASTRA-sim runs nothing")
                {
                    system.active_chunks = value;
                }
            }
            "preferred-dataset-splits" => {
                let allowed =
                    "a whole number above 0; ASTRA-sim divides by it, and never ends with negative values";
                if let Some(value) = self.count(field, allowed) {
                    system.splits = Some(value);
                }
            }
            "local-mem-bw" => {
                if let Some(value) = self.number(field, "GB/s (10^9 bytes per second), 0 or more") {
                    system.local_mem_bw = value;
                }
            }
            "peak-perf" => {
                if let Some(value) = self.number(field, "TFLOPS, 0 or more") {
                    system.peak_perf = value;
                }
            }
            "roofline-enabled" => self.flag(field, &mut system.roofline),
            "replay-only" => self.flag(field, &mut system.replay_only),
            "trace-enabled" => self.flag(field, &mut system.trace),
            "all-reduce-implementation" => system.all_reduce = self.implementations(field),
            "all-gather-implementation" => system.all_gather = self.implementations(field),
            "reduce-scatter-implementation" => system.reduce_scatter = self.implementations(field),
            "all-to-all-implementation" => system.all_to_all = self.implementations(field),
            // ASTRA-sim turns it on only with exactly 1.
            "model-shared-bus" => match json::whole(field.value) {
                Some(value) => self.has_bus = value == 1,
                None => self.problems.push(field.wrong("0 or 1")),
            },
            "L" => self.ticks(field, |bus| &mut bus.latency),
            "o" => self.ticks(field, |bus| &mut bus.overhead),
            "g" => self.ticks(field, |bus| &mut bus.gap),
            "local-reduction-delay" => self.ticks(field, |bus| &mut bus.reduction_delay),
            "G" => {
                if let Some(value) = self.number(field, "nanoseconds per byte, 0 or more") {
                    self.bus.gap_per_byte = value;
                }
            }
            "track-local-mem" => {
                self.flag(field, &mut system.track_local_mem);
                if system.track_local_mem {
                    self.problems.push(
                        field
                            .ignored("tensors are not tracked here; times still equal those of ASTRA-sim")
                            .note(
                                "with it, ASTRA-sim needs the attributes `inputs` and `outputs` on every node; \
                                 without them no rank finishes",
                            ),
                    );
                }
            }
            "local-mem-trace-filename" => {
                self.problems.push(field.ignored("no file of memory events is written"))
            }
            "all-reduce-implementation-custom" => system.custom.all_reduce = self.custom(field),
            "all-gather-implementation-custom" => system.custom.all_gather = self.custom(field),
            "reduce-scatter-implementation-custom" => system.custom.reduce_scatter = self.custom(field),
            "all-to-all-implementation-custom" => system.custom.all_to_all = self.custom(field),
            "per-node-custom-implementation" => system.custom.per_node = self.per_node(field),
            name if IGNORED.contains(&name) => self.problems.push(field.ignored("ASTRA-sim 2 ignores it")),
            name => {
                let names = KEYS.into_iter().chain(IGNORED).chain(SHARED_BUS).chain(CUSTOM);
                let unknown = field.ignored("ASTRA-sim does not know it, ignores it and uses the default");
                let mut problem = unknown.one_of(name, names);
                problem.allowed = Some(KEYS.join(", "));
                self.problems.push(problem);
            }
        }
    }

    fn word<T: Copy>(&mut self, field: &Field<'_>, words: &[(&'static str, T)]) -> Option<T> {
        let names = words.iter().map(|&(name, _)| name);
        let Some(text) = field.value.as_str() else {
            let allowed = names.collect::<Vec<_>>().join(", ");
            self.problems.push(field.wrong(&allowed));
            return None;
        };
        let value = words.iter().find(|&&(name, _)| name == text).map(|&(_, value)| value);
        if value.is_none() {
            self.problems.push(field.problem("the value is not allowed").one_of(text, names));
        }
        value
    }

    fn count(&mut self, field: &Field<'_>, allowed: &str) -> Option<u32> {
        let value = json::whole(field.value).filter(|&n| n > 0 && n <= i32::MAX.into()).map(|n| n as u32);
        if value.is_none() {
            self.problems.push(field.wrong(allowed));
        }
        value
    }

    fn number(&mut self, field: &Field<'_>, allowed: &str) -> Option<f64> {
        let value = json::number(field.value).filter(|&value| value >= 0.0);
        if value.is_none() {
            self.problems.push(field.wrong(allowed));
        }
        value
    }

    fn flag(&mut self, field: &Field<'_>, flag: &mut bool) {
        match json::number(field.value) {
            Some(value) => *flag = value != 0.0,
            None => self.problems.push(
                field
                    .wrong("0 or 1")
                    .note("ASTRA-sim compares it with the number 0, so even `false` turns it on"),
            ),
        }
    }

    /// Stores a number of nanoseconds of the shared bus.
    fn ticks(&mut self, field: &Field<'_>, of: impl Fn(&mut SharedBus) -> &mut u64) {
        match json::whole(field.value).and_then(|value| u32::try_from(value).ok()) {
            Some(value) => *of(&mut self.bus) = value.into(),
            None => self.problems.push(field.wrong("whole nanoseconds from 0 to 4294967295")),
        }
    }

    /// The prefix of an algorithm's traces: a list with exactly one entry.
    fn custom(&mut self, field: &Field<'_>) -> Option<String> {
        let only = match field.value.as_array().map(Vec::as_slice) {
            Some([Value::String(only)]) => Some(only.clone()),
            _ => None,
        };
        if only.is_none() {
            self.problems.push(
                field.wrong("a list of one prefix, such as [\"folder/ring\"] for folder/ring.0.et, ..."),
            );
        }
        only
    }

    /// Reads the file that maps node ids to prefixes.
    fn per_node(&mut self, field: &Field<'_>) -> BTreeMap<u64, String> {
        let Some(path) = field.value.as_str() else {
            self.problems.push(field.wrong("the path of a YAML file that maps node ids to prefixes"));
            return BTreeMap::new();
        };
        super::per_node::read(Path::new(path)).unwrap_or_else(|errors| {
            self.problems.extend(errors);
            BTreeMap::new()
        })
    }

    fn implementations(&mut self, field: &Field<'_>) -> Option<Vec<Implementation>> {
        let names: Option<Vec<&str>> =
            field.value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            let mut problem = field.wrong("a list of names, one for each dimension");
            if let Value::String(name) = field.value {
                problem = problem.help(format!("write [\"{name}\"]"));
            }
            self.problems.push(problem);
            return None;
        };
        let list: Vec<Option<Implementation>> = names
            .iter()
            .map(|name| {
                let parsed = implementation(name);
                if parsed.is_none() {
                    self.problems.push(
                        field
                            .problem("unknown algorithm")
                            .one_of(name, ALGORITHMS)
                            .help("direct and oneDirect may have a window from 1 to 99999, such as direct4"),
                    );
                }
                parsed
            })
            .collect();
        let list: Option<Vec<Implementation>> = list.into_iter().collect();
        // The error is already reported if there is no entry; an empty list prevents a second report that the key is
        // absent.
        Some(list.unwrap_or_default())
    }
}

/// The algorithm with this name.
fn implementation(name: &str) -> Option<Implementation> {
    let of = |algorithm, flat| Some(Implementation { algorithm, flat });
    match name {
        "ring" => of(Algorithm::Ring, false),
        "oneRing" => of(Algorithm::Ring, true),
        "halvingDoubling" => of(Algorithm::HalvingDoubling, false),
        "oneHalvingDoubling" => of(Algorithm::HalvingDoubling, true),
        "doubleBinaryTree" => of(Algorithm::DoubleBinaryTree, false),
        _ => {
            let (digits, flat) = match name.strip_prefix("direct") {
                Some(digits) => (digits, false),
                None => (name.strip_prefix("oneDirect")?, true),
            };
            if digits.is_empty() {
                return of(Algorithm::Direct { window: None }, flat);
            }
            // ASTRA-sim reads at most five digits.
            let plain = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let window = plain.then(|| digits.parse().ok()).flatten().filter(|&window: &u32| window > 0)?;
            of(Algorithm::Direct { window: Some(window) }, flat)
        }
    }
}
