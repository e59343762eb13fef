//! A valid job in a temporary folder, in which a test changes one thing before it runs the job.

use std::path::PathBuf;
use syncline_astra_compat::{Inputs, Options, Outcome, run};
use syncline_diagnostics::{Diagnostic, Diagnostics, Severity};
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};
use tempfile::TempDir;

/// A job on a ring of 8 with `ring` everywhere, 4 chunks: the inputs of README 3.6.
pub(crate) struct Case {
    /// The network file.
    pub(crate) network: String,
    /// The system file, key by key; values are JSON.
    pub(crate) system: Vec<(String, String)>,
    /// The remote-memory file.
    pub(crate) memory: String,
    /// The communicator-group file.
    pub(crate) groups: Option<String>,
    /// The nodes of each rank.
    pub(crate) ranks: Vec<Vec<Node>>,
    folder: TempDir,
}

#[allow(dead_code)]
impl Case {
    /// The same nodes on all 8 ranks.
    pub(crate) fn new(nodes: &[Node]) -> Self {
        let keys = [
            ("scheduling-policy", "\"LIFO\""),
            ("endpoint-delay", "10"),
            ("active-chunks-per-dimension", "1"),
            ("preferred-dataset-splits", "4"),
            ("all-reduce-implementation", "[\"ring\"]"),
            ("all-gather-implementation", "[\"ring\"]"),
            ("reduce-scatter-implementation", "[\"ring\"]"),
            ("all-to-all-implementation", "[\"direct\"]"),
            ("collective-optimization", "\"localBWAware\""),
            ("local-mem-bw", "1600"),
        ];
        Self {
            network: network(&[("Ring", 8, 50.0, 500.0)]),
            system: keys.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
            memory: "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}".to_owned(),
            groups: None,
            ranks: vec![nodes.to_vec(); 8],
            folder: TempDir::new().expect("a temporary folder"),
        }
    }
    /// One all-reduce of 1 MiB on all ranks.
    pub(crate) fn all_reduce() -> Self {
        Self::new(&[collective(1, CollectiveType::AllReduce)])
    }
    /// Replaces the network, lowest dimension first: topology, NPUs, bandwidth, latency.
    pub(crate) fn on(mut self, dims: &[(&str, u32, f64, f64)]) -> Self {
        self.network = network(dims);
        let nodes = self.ranks[0].clone();
        self.ranks = vec![nodes; dims.iter().map(|dim| dim.1 as usize).product()];
        self
    }
    /// Sets a key of the system file to a JSON value.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.system.retain(|(known, _)| known != key);
        self.system.push((key.to_owned(), value.to_owned()));
        self
    }
    /// Sets all four implementation lists.
    pub(crate) fn algorithms(self, list: &str) -> Self {
        ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
            .iter()
            .fold(self, |case, name| case.set(&format!("{name}-implementation"), list))
    }
    /// Removes a key of the system file.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.system.retain(|(known, _)| known != key);
        self
    }
    /// Sets the communicator groups.
    pub(crate) fn groups(mut self, groups: &str) -> Self {
        self.groups = Some(groups.to_owned());
        self
    }
    /// Replaces the nodes of one rank.
    pub(crate) fn rank(mut self, rank: usize, nodes: &[Node]) -> Self {
        self.ranks[rank] = nodes.to_vec();
        self
    }
    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    /// Writes the files.
    pub(crate) fn write(&self) -> Inputs {
        let text = |name: &str, text: &str| std::fs::write(self.path(name), text).expect("a file is written");
        let keys: Vec<String> =
            self.system.iter().map(|(key, value)| format!("  {key:?}: {value}")).collect();
        text("system.json", &format!("{{\n{}\n}}\n", keys.join(",\n")));
        text("network.yml", &self.network);
        text("memory.json", &self.memory);
        if let Some(groups) = &self.groups {
            text("groups.json", groups);
        }
        for (rank, nodes) in self.ranks.iter().enumerate() {
            write_file(&self.path(&format!("w.{rank}.et")), &Metadata::astra(), nodes)
                .expect("a trace is written");
        }
        self.inputs()
    }
    /// The paths of the files.
    pub(crate) fn inputs(&self) -> Inputs {
        Inputs {
            workload: self.path("w"),
            system: self.path("system.json"),
            network: self.path("network.yml"),
            memory: Some(self.path("memory.json")),
            groups: self.groups.as_ref().map(|_| self.path("groups.json")),
        }
    }
    /// Writes the files and runs the job.
    pub(crate) fn run(&self, options: &Options<'_>) -> Result<Outcome, Diagnostics> {
        run(&self.write(), options)
    }
    /// Writes the files, runs the job, and returns the first error.
    pub(crate) fn error(&self, options: &Options<'_>) -> Diagnostic {
        first_error(self.run(options))
    }
    /// The cycles of each rank, in order of rank.
    pub(crate) fn cycles(&self, options: &Options<'_>) -> Vec<u64> {
        let mut ranks = self.run(options).unwrap_or_else(|errors| panic!("{errors}")).ranks;
        ranks.sort_by_key(|rank| rank.rank);
        ranks.iter().map(|rank| rank.cycles).collect()
    }
}

/// Returns the first error of a rejected run.
pub(crate) fn first_error(result: Result<Outcome, Diagnostics>) -> Diagnostic {
    let errors = result.expect_err("the job is refused");
    errors.0.into_iter().find(|problem| problem.severity == Severity::Error).expect("there is an error")
}

/// A network file.
pub(crate) fn network(dims: &[(&str, u32, f64, f64)]) -> String {
    let list = |values: Vec<String>| format!("[ {} ]", values.join(", "));
    format!(
        "topology: {}\nnpus_count: {}\nbandwidth: {}\nlatency: {}\n",
        list(dims.iter().map(|dim| dim.0.to_owned()).collect()),
        list(dims.iter().map(|dim| dim.1.to_string()).collect()),
        list(dims.iter().map(|dim| format!("{:?}", dim.2)).collect()),
        list(dims.iter().map(|dim| format!("{:?}", dim.3)).collect()),
    )
}

/// A collective of 1 MiB.
pub(crate) fn collective(id: u64, kind: CollectiveType) -> Node {
    Node::collective(id, kind.name().to_lowercase(), kind, 1 << 20)
}
