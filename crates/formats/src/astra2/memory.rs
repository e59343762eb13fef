//! Remote memory: ASTRA-sim 2, `AnalyticalRemoteMemory.cc`.

use super::json;
use super::source::Source;
use serde_json::Value;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};

/// Which NPUs share a remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// There is none; memory nodes are refused.
    None,
    /// Every NPU has its own.
    PerNpu,
    /// `npus_per_node` NPUs share one, which serves one transaction at a time.
    PerNode {
        /// Number of nodes.
        nodes: u32,
        /// Number of NPUs that share a node's memory.
        npus_per_node: u32,
    },
    /// All NPUs share one, which serves one transaction at a time.
    Pool,
}

/// The remote memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Which NPUs share it.
    pub kind: MemoryKind,
    /// Latency of each transaction, in nanoseconds.
    pub latency: u64,
    /// Bandwidth in decimal gigabytes per second, which is bytes per nanosecond.
    pub bandwidth: f64,
    /// Where it was read.
    pub source: Source,
}

const KINDS: [&str; 4] =
    ["NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL"];
const KEYS: [&str; 5] =
    ["memory-type", "remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node"];

impl Memory {
    /// No remote memory.
    pub fn none() -> Self {
        Self { kind: MemoryKind::None, latency: 0, bandwidth: 0.0, source: Source::default() }
    }
    /// Reads a file; the diagnostics are warnings.
    pub fn read(path: &Path) -> Result<(Self, Diagnostics)> {
        Self::parse(Source::read(path)?)
    }
    /// Reads a text; the diagnostics are warnings.
    pub fn parse(source: Source) -> Result<(Self, Diagnostics)> {
        let pairs = json::object(&source, "remote-memory file")?;
        let mut problems = Diagnostics::new();
        let mut memory = Self::none();
        let (mut kind, mut nodes, mut npus_per_node, mut bandwidth) = (None, None, None, None);
        for (key, value) in &pairs {
            let place = source.place_at(key.start, key.length);
            let problem = |message: &str| {
                Diagnostic::error(Code::BadAstraFile, message).in_place(place.clone()).key(&key.name)
            };
            let wrong = |allowed: &str| {
                problem("the value is not allowed").found(json::shown(value)).allowed(allowed)
            };
            let count = || json::whole(value).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
            match key.name.as_str() {
                "memory-type" => match value.as_str().filter(|name| KINDS.contains(name)) {
                    Some(name) => kind = Some(name),
                    None => problems.push(match value {
                        Value::String(name) => problem("unknown type of memory").one_of(name, KINDS),
                        _ => wrong("a string"),
                    }),
                },
                "remote-mem-latency" => match json::whole(value).and_then(|ns| u64::try_from(ns).ok()) {
                    Some(ns) => memory.latency = ns,
                    None => problems.push(wrong("whole nanoseconds, 0 or more")),
                },
                "remote-mem-bw" => match json::number(value).filter(|&bw| bw > 0.0) {
                    Some(bw) => bandwidth = Some(bw),
                    None => problems.push(wrong("GB/s above 0")),
                },
                "num-nodes" => match count() {
                    Some(count) => nodes = Some(count),
                    None => problems.push(wrong("a whole number above 0")),
                },
                "num-npus-per-node" => match count() {
                    Some(count) => npus_per_node = Some(count),
                    None => problems.push(wrong("a whole number above 0")),
                },
                name => problems.push(
                    Diagnostic::warning(
                        Code::AstraIgnored,
                        format!("{name} has no effect: ASTRA-sim does not know it and ignores it"),
                    )
                    .in_place(place.clone())
                    .key(name)
                    .one_of(name, KEYS),
                ),
            }
        }
        let kind_place = source.json_key("memory-type");
        let absent = |key: &str| {
            Diagnostic::error(Code::BadAstraFile, format!("the key {key} is missing"))
                .in_place(kind_place.clone())
                .key(key)
                .help(format!("{} needs it", kind.unwrap_or_default()))
        };
        let known = |key: &str| pairs.iter().any(|(found, _)| found.name == key);
        memory.kind = match kind {
            None => {
                if !known("memory-type") {
                    problems.push(
                        Diagnostic::warning(
                            Code::AstraDefault,
                            "memory-type is absent; there is no remote memory",
                        )
                        .at(source.file(), 0)
                        .key("memory-type")
                        .note("ASTRA-sim leaves the type uninitialised"),
                    );
                }
                MemoryKind::None
            }
            Some("PER_NPU_MEMORY_EXPANSION") => MemoryKind::PerNpu,
            Some("MEMORY_POOL") => MemoryKind::Pool,
            Some("PER_NODE_MEMORY_EXPANSION") => {
                for (key, value) in [("num-nodes", nodes), ("num-npus-per-node", npus_per_node)] {
                    if value.is_none() && !known(key) {
                        problems.push(absent(key));
                    }
                }
                MemoryKind::PerNode { nodes: nodes.unwrap_or(1), npus_per_node: npus_per_node.unwrap_or(1) }
            }
            Some(_) => MemoryKind::None,
        };
        if memory.kind != MemoryKind::None {
            if !known("remote-mem-bw") {
                problems.push(absent("remote-mem-bw"));
            }
            if !known("remote-mem-latency") {
                problems.push(
                    Diagnostic::warning(
                        Code::AstraDefault,
                        "remote-mem-latency is absent; ASTRA-sim uses 0 ns",
                    )
                    .at(source.file(), 0)
                    .key("remote-mem-latency"),
                );
            }
        }
        memory.bandwidth = bandwidth.unwrap_or(0.0);
        let warnings = problems.into_result()?;
        memory.source = source;
        Ok((memory, warnings))
    }
}
