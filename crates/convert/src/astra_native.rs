//! Translates ASTRA-sim 2's input files into a scenario for syncline's own network models (`--native`).

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::QueueOrder;
use syncline_formats::astra2::memory::{Memory, MemoryKind};
use syncline_formats::astra2::network::Topology;
use syncline_formats::astra2::system::{Algorithm, Implementation, Optimization, Scheduling};
use syncline_formats::astra2::{Groups, NetworkFile, System};
use syncline_plan::Composition;
use syncline_scenario::{
    AllReduce, Collectives, Compute, Dim, Direction, Efficiency, Fabric, Limits, NetworkSettings, Placement,
    Scenario, Spread, Trace, Workload,
};
use syncline_units::{Bytes, CollectiveKind, DimKind, FlopRate, Rate, Time};

/// The files that ASTRA-sim's flags name.
#[derive(Clone, Copy, Debug)]
pub struct AstraFiles<'a> {
    /// Prefix of the traces.
    pub workload: &'a str,
    /// System JSON.
    pub system: &'a Path,
    /// Network YAML.
    pub network: &'a Path,
    /// Remote-memory JSON.
    pub memory: Option<&'a Path>,
    /// Communicator groups.
    pub groups: Option<&'a str>,
}

/// The scenario that ASTRA-sim's files describe, and warnings. A rate of 1 GB/s counts as 2^30 bytes per second, as in
/// ASTRA-sim. A reduction moves three operands at the bandwidth of local memory.
///
/// # Errors
/// Everything that is wrong with the files; keys that have a meaning only without `--native`.
pub fn astra_scenario(files: &AstraFiles<'_>, network: NetworkSettings) -> Result<(Scenario, Diagnostics)> {
    let (fabric, mut warnings) = NetworkFile::read(files.network)?;
    let (system, of_system) = System::read(files.system)?;
    warnings.extend(of_system);
    refuse_compat_only(&system)?;
    if let Some(path) = files.memory {
        warnings.extend(no_memory(path)?);
    }
    let dims: Vec<Dim> = fabric
        .dims
        .iter()
        .enumerate()
        .map(|(index, dim)| Dim {
            name: format!("dim{}", index + 1),
            shape: match dim.topology {
                Topology::Ring => DimKind::Ring,
                Topology::FullyConnected => DimKind::FullyConnected,
                Topology::Switch => DimKind::Switch,
            },
            size: dim.npus,
            count: 1,
            direction: Direction::Both,
            spread: Spread::Lane,
            rate: Some(Rate((dim.bandwidth * f64::from(1u32 << 30) * 8.0) as u64)),
            rate_per_npu: None,
            latency: Time((dim.latency * 1e3).round() as u64),
            efficiency: 1.0,
            tier: String::new(),
        })
        .collect();
    let kinds = [
        (CollectiveKind::AllReduce, &system.all_reduce),
        (CollectiveKind::AllGather, &system.all_gather),
        (CollectiveKind::ReduceScatter, &system.reduce_scatter),
        (CollectiveKind::AllToAll, &system.all_to_all),
    ];
    let mut algorithms: BTreeMap<String, BTreeMap<CollectiveKind, String>> = BTreeMap::new();
    for (kind, list) in kinds {
        for (dim, entry) in dims.iter().zip(list.iter().flatten()) {
            algorithms.entry(dim.name.clone()).or_default().insert(kind, algorithm(entry, &system)?);
        }
    }
    let all_reduce = match system.optimization {
        Some(Optimization::Baseline) => Composition::Baseline,
        Some(Optimization::LocalBwAware) | None => Composition::Hierarchical2nMerged,
    };
    let order = match system.scheduling {
        Scheduling::Lifo => QueueOrder::Lifo,
        Scheduling::Fifo | Scheduling::Explicit => QueueOrder::Fifo,
    };
    let decimal = |gigabytes: f64| Rate((gigabytes * 8e9) as u64);
    let compute = if system.roofline {
        Compute::Roofline {
            accelerator: String::new(),
            peak: FlopRate((system.peak_perf * 1e12) as u64),
            peaks: std::collections::BTreeMap::new(),
            memory: decimal(system.local_mem_bw),
            efficiency: Efficiency::default(),
            compute_power: 1.0,
        }
    } else {
        Compute::default()
    };
    let collectives = Collectives {
        all_reduce: AllReduce::Composed(all_reduce),
        algorithms,
        chunks: system.splits.unwrap_or(1).max(1),
        min_chunk: Bytes(1),
        element: Bytes(1),
        order,
        active_chunks: NonZeroU32::new(system.active_chunks),
        endpoint_delay: Time::from_ns(system.endpoint_delay.unwrap_or(10)),
        reduction_rate: (system.local_mem_bw > 0.0).then(|| decimal(system.local_mem_bw / 3.0)),
        ..Collectives::default()
    };
    let scenario = Scenario {
        faults: Vec::new(),
        jitter: syncline_scenario::Jitter::default(),
        prices: None,
        symmetry: true,
        report: true,
        schema: "syncline/1".to_owned(),
        name: "astra-sim".to_owned(),
        seed: 0,
        workload: Workload::Chakra {
            prefix: files.workload.to_owned(),
            groups: files.groups.filter(|path| !Groups::ignored(Path::new(path))).map(str::to_owned),
        },
        compute,
        npu_memory: None,
        fabric: Fabric::Dims(dims),
        placement: Placement::Linear,
        collectives,
        network,
        limits: Limits::default(),
        trace: Trace::default(),
    };
    Ok((scenario, warnings))
}

/// Refuses keys that have a meaning only in ASTRA-sim's own rules, without `--native`.
fn refuse_compat_only(system: &System) -> Result<()> {
    let mut problems = Diagnostics::new();
    let mut refuse = |key: &str, message: &str| {
        problems.push(
            Diagnostic::error(Code::AstraUnsupported, message)
                .in_place(system.source.json_key(key))
                .key(key)
                .help("leave out --native, or remove the key"),
        );
    };
    if system.shared_bus.is_some() {
        refuse("model-shared-bus", "the LogGP model of a shared memory bus has no effect with --native");
    }
    let custom = &system.custom;
    for (key, given) in [
        ("all-reduce-implementation-custom", custom.all_reduce.is_some()),
        ("all-gather-implementation-custom", custom.all_gather.is_some()),
        ("reduce-scatter-implementation-custom", custom.reduce_scatter.is_some()),
        ("all-to-all-implementation-custom", custom.all_to_all.is_some()),
        ("per-node-custom-implementation", !custom.per_node.is_empty()),
    ] {
        if given {
            refuse(key, "collective algorithms given as execution traces do not run with --native");
        }
    }
    problems.into_result().map(|_| ())
}

/// Refuses a remote memory; otherwise returns the warnings about its file.
fn no_memory(path: &Path) -> Result<Diagnostics> {
    let (memory, warnings) = Memory::read(path)?;
    if memory.kind == MemoryKind::None {
        return Ok(warnings);
    }
    Err(Diagnostic::error(Code::AstraUnsupported, "remote memory is not modelled with --native")
        .in_place(memory.source.json_key("memory-type"))
        .key("memory-type")
        .allowed("NO_MEMORY_EXPANSION")
        .help("leave out --native; or, if the traces say how long memory operations take, leave out the memory file")
        .into())
}

/// The library's name of an ASTRA-sim algorithm. Whether it offers a collective is checked when plans are made.
fn algorithm(entry: &Implementation, system: &System) -> Result<String> {
    if entry.flat {
        return Err(Diagnostic::error(
            Code::AstraUnsupported,
            "an algorithm that treats all dimensions as one is not available with --native",
        )
        .at(system.source.file(), 0)
        .found(entry.name())
        .help("leave out --native, or name an algorithm for each dimension")
        .into());
    }
    Ok(match entry.algorithm {
        Algorithm::Ring => "ring".to_owned(),
        Algorithm::Direct { window: None } => "direct".to_owned(),
        Algorithm::Direct { window: Some(window) } => format!("direct(window={window})"),
        Algorithm::HalvingDoubling => "halving_doubling".to_owned(),
        Algorithm::DoubleBinaryTree => "double_binary_tree".to_owned(),
    })
}
