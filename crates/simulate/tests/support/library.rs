//! One collective, simulated with default settings and with every algorithm of the library.

use serde_json::{Value, json};
use std::fmt;
use syncline_plan::Composition;
use syncline_plan::registry::{ENTRIES, by_name};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};
use syncline_units::CollectiveKind;

/// A collective on a network.
pub(crate) struct Case {
    pub(crate) kind: CollectiveKind,
    pub(crate) bytes: u64,
    pub(crate) fabric: Value,
    pub(crate) model: Value,
    /// The NPU of each rank, if rank `i` is not on NPU `i`.
    pub(crate) placement: Option<Vec<u32>>,
    /// Algorithms to combine over dimensions. If absent, every algorithm of the library, the same in each dimension.
    pub(crate) algorithms: Option<&'static [&'static str]>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, bytes, fabric, .. } = self;
        let dims = fabric["dims"].as_array().into_iter().flatten();
        let shape: Vec<String> = dims.map(|dim| format!("{}({})", dim["shape"], dim["size"])).collect();
        let place =
            if shape.is_empty() { fabric["built"].to_string() } else { shape.join("_").replace('"', "") };
        write!(f, "{kind} of {bytes} B on {place}")
    }
}

/// A dimension of a fabric.
pub(crate) fn dim(name: &str, shape: &str, size: u32, rate: &str) -> Value {
    json!({"name": name, "shape": shape, "size": size, "rate": rate, "latency": "500ns"})
}

impl Case {
    pub(crate) fn new(kind: CollectiveKind, bytes: u64, fabric: Value) -> Self {
        Self { kind, bytes, fabric, model: json!({"model": "analytical"}), placement: None, algorithms: None }
    }

    /// Runs the collective with these settings; `None` if they are refused.
    pub(crate) fn run(&self, collectives: &Value) -> Option<Run> {
        let mut value = json!({"schema": "syncline/1",
            "workload": {"source": "collectives", "collectives": [
                {"kind": self.kind.name(), "bytes": format!("{}B", self.bytes)}]},
            "fabric": self.fabric, "collectives": collectives, "network": self.model});
        if let Some(npus) = &self.placement {
            value["placement"] = json!({"npus": npus});
        }
        let scenario: Scenario = serde_json::from_value(value).unwrap();
        run(&scenario, Control::default()).ok()
    }

    fn time(&self, collectives: &Value) -> Option<f64> {
        self.run(collectives).map(|run| run.timeline.summary.total_time_s)
    }

    /// Its time with default settings.
    pub(crate) fn default_time(&self) -> f64 {
        self.time(&json!({})).expect("a default can be run")
    }

    /// Settings with one algorithm, or none, for all dimensions.
    pub(crate) fn uniform(&self, name: Option<&str>) -> Value {
        name.map_or(json!({}), |name| json!({"algorithms": {"default": {self.kind.name(): name}}}))
    }

    /// The settings to compare with.
    fn settings(&self) -> Vec<Value> {
        let Some(algorithms) = self.algorithms else {
            // Relabelled trees are for fabrics that were built for them: no default considers them.
            let relabelled = |name: &&str| name.starts_with("double_binary_tree(");
            let names =
                ENTRIES.iter().flat_map(|entry| entry.examples).copied().filter(|name| !relabelled(name));
            return names.map(|name| self.uniform(Some(name))).collect();
        };
        let dims = self.fabric["dims"].as_array().unwrap();
        let mut combined = vec![json!({})];
        for dim in dims {
            let with = |base: &Value, name: &str| {
                let algorithm = by_name(name).unwrap();
                let kinds = CollectiveKind::ALL.iter().filter(|kind| algorithm.offers(**kind, 8).is_ok());
                let mut algorithms = base.clone();
                algorithms[dim["name"].as_str().unwrap()] =
                    kinds.map(|kind| (kind.name(), json!(name))).collect();
                algorithms
            };
            combined =
                combined.iter().flat_map(|base| algorithms.iter().map(|name| with(base, name))).collect();
        }
        let several = self.kind == CollectiveKind::AllReduce;
        let compositions = &Composition::ALL[..if several { Composition::ALL.len() } else { 1 }];
        let settings = compositions.iter().flat_map(|composition| {
            combined
                .iter()
                .map(move |algorithms| json!({"all_reduce": composition.name(), "algorithms": algorithms}))
        });
        settings.collect()
    }

    /// The time of the quickest algorithm of the library, and its settings.
    pub(crate) fn best(&self) -> (f64, String) {
        let found =
            self.settings().into_iter().filter_map(|settings| Some((self.time(&settings)?, settings)));
        let (time, settings) = found.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some algorithm offers it");
        (time, settings.to_string())
    }
}
