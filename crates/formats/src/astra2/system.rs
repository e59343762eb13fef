//! The system layer's configuration: ASTRA-sim 2, `Sys.cc:initialize_sys` and `CollectiveImplLookup.cc`.

use super::json::{self, KeyAt};
use super::source::Source;
use serde_json::Value;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Place, Result};

/// In which order waiting streams run (`scheduling-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// The collective that was issued last goes first.
    Lifo,
    /// The collective that was issued first goes first.
    Fifo,
    /// By the collective's `comm_priority`, highest first.
    Explicit,
}

/// How an all-reduce visits several dimensions (`collective-optimization`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimization {
    /// An all-reduce in every dimension.
    Baseline,
    /// Reduce-scatters up to the last dimension, an all-reduce there, all-gathers back.
    LocalBwAware,
}

/// How a collective runs in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `ring`: neighbour to neighbour.
    Ring,
    /// `direct`, `directN`: each to each, at most `window` messages under way.
    Direct {
        /// `N`; `None` for all at once.
        window: Option<u32>,
    },
    /// `halvingDoubling`: partners at distances 1, 2, 4, ...
    HalvingDoubling,
    /// `doubleBinaryTree`: two trees in turn.
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

/// The system layer.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// `scheduling-policy`.
    pub scheduling: Scheduling,
    /// `collective-optimization`; `None` where it is absent, which ASTRA-sim leaves to chance.
    pub optimization: Option<Optimization>,
    /// `endpoint-delay` in nanoseconds; `None` where it is absent (10, not scaled).
    pub endpoint_delay: Option<u64>,
    /// `active-chunks-per-dimension`.
    pub active_chunks: u32,
    /// `preferred-dataset-splits`; `None` where it is absent (0, by which ASTRA-sim divides).
    pub splits: Option<u32>,
    /// `local-mem-bw` in decimal GB/s; 0 where it is absent: reductions cost nothing.
    pub local_mem_bw: f64,
    /// `peak-perf` in TFLOPS.
    pub peak_perf: f64,
    /// `roofline-enabled`.
    pub roofline: bool,
    /// `replay-only`.
    pub replay_only: bool,
    /// `trace-enabled`.
    pub trace: bool,
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
    /// What ASTRA-sim does with `{}`.
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
            all_reduce: None,
            all_gather: None,
            reduce_scatter: None,
            all_to_all: None,
            source: Source::default(),
        }
    }
}

/// Keys that ASTRA-sim 2 once read or its own files still carry, and that it ignores.
const IGNORED: [&str; 4] =
    ["boost-mode", "inter-dimension-scheduling", "intra-dimension-scheduling", "local-mem-trace-filename"];
/// Keys that only matter with `model-shared-bus`.
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
const KEYS: [&str; 16] = [
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
];
/// Keys whose absence is worth a warning, and what happens then.
const DEFAULTS: [(&str, &str); 6] = [
    (
        "scheduling-policy",
        "LIFO is taken; ASTRA-sim leaves it uninitialised, and it has no effect on the result",
    ),
    (
        "collective-optimization",
        "ASTRA-sim leaves it uninitialised; all-reduces over several dimensions need it",
    ),
    ("endpoint-delay", "ASTRA-sim takes 10 ns and does not apply --injection-scale to it"),
    ("active-chunks-per-dimension", "ASTRA-sim takes 1"),
    ("preferred-dataset-splits", "ASTRA-sim takes 0 and divides by it; collectives need it"),
    ("local-mem-bw", "ASTRA-sim takes 0, with which local reductions cost nothing"),
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
        let mut fields = Fields { problems: Diagnostics::new() };
        for (key, value) in &pairs {
            let field = Field { key, value, place: source.place_at(key.start, key.length) };
            fields.read(&mut system, &field);
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
    fn unsupported(&self, message: &str) -> Diagnostic {
        Diagnostic::error(Code::AstraUnsupported, message).in_place(self.place.clone()).key(&self.key.name)
    }
    fn ignored(&self, why: &str) -> Diagnostic {
        Diagnostic::warning(Code::AstraIgnored, format!("{} has no effect: {why}", self.key.name))
            .in_place(self.place.clone())
            .key(&self.key.name)
    }
}

/// Takes fields into a [`System`] and collects what is wrong.
struct Fields {
    problems: Diagnostics,
}

impl Fields {
    fn read(&mut self, system: &mut System, field: &Field<'_>) {
        match field.key.name.as_str() {
            "scheduling-policy" => {
                let words =
                    [("LIFO", Scheduling::Lifo), ("FIFO", Scheduling::Fifo), ("EXPLICIT", Scheduling::Explicit)];
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
                if let Some(value) = self.count(field, "whole nanoseconds above 0; ASTRA-sim aborts at 0") {
                    system.endpoint_delay = Some(value.into());
                }
            }
            "active-chunks-per-dimension" => {
                if let Some(value) = self.count(field, "a whole number above 0; ASTRA-sim runs nothing at 0") {
                    system.active_chunks = value;
                }
            }
            "preferred-dataset-splits" => {
                let allowed = "a whole number above 0; ASTRA-sim divides by it, and never ends below 0";
                if let Some(value) = self.count(field, allowed) {
                    system.splits = Some(value);
                }
            }
            "local-mem-bw" => {
                if let Some(value) = self.number(field, "GB/s (10^9 bytes a second), 0 or more") {
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
            "model-shared-bus" => self.refused(
                field,
                "the LogGP model of a shared memory bus is not supported",
                "remove model-shared-bus; the plain endpoint-delay is supported",
            ),
            "track-local-mem" => self.refused(
                field,
                "tracking of local memory is not supported",
                "remove track-local-mem; with it, ASTRA-sim itself needs string lists `inputs` and `outputs` on every \
                 node and silently finishes nothing without them",
            ),
            name if CUSTOM.contains(&name) => self.problems.push(
                field
                    .unsupported("collective algorithms given as execution traces are not supported")
                    .help("name ring, direct, halvingDoubling or doubleBinaryTree instead"),
            ),
            name if IGNORED.contains(&name) => self.problems.push(field.ignored("ASTRA-sim 2 ignores it")),
            name if SHARED_BUS.contains(&name) => {
                self.problems.push(field.ignored("it only matters with model-shared-bus"));
            }
            name => {
                let names = KEYS.into_iter().chain(IGNORED).chain(SHARED_BUS).chain(CUSTOM);
                let mut problem = field.problem("unknown key").one_of(name, names);
                problem.allowed = Some(KEYS.join(", "));
                self.problems.push(problem.note("ASTRA-sim ignores it and takes the default"));
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
                    .note("ASTRA-sim compares with the number 0, so that even `false` switches it on"),
            ),
        }
    }

    /// Refuses a feature where it is switched on.
    fn refused(&mut self, field: &Field<'_>, message: &str, help: &str) {
        match json::number(field.value) {
            Some(0.0) => {}
            Some(_) => {
                self.problems.push(field.unsupported(message).found(json::shown(field.value)).help(help))
            }
            None => self.problems.push(field.wrong("0")),
        }
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
                            .help("direct and oneDirect may carry a window of 1 to 99999, such as direct4"),
                    );
                }
                parsed
            })
            .collect();
        let list: Option<Vec<Implementation>> = list.into_iter().collect();
        // Without an entry the problem is reported; an empty list keeps "absent" from being reported as well.
        Some(list.unwrap_or_default())
    }
}

/// The algorithm of that name.
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
            // ASTRA-sim reads five digits at most.
            let plain = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let window = plain.then(|| digits.parse().ok()).flatten().filter(|&window: &u32| window > 0)?;
            of(Algorithm::Direct { window: Some(window) }, flat)
        }
    }
}
