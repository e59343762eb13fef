//! Estimates of training steps.

use crate::errors::{problem, to_python};
use crate::watch::{Listeners, watched};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_estimate::schedule::order::{Piece, Turn};
use syncline_estimate::schedule::run::{ChunkTimes, execute, timeline};
use syncline_estimate::schedule::{Place, places};
use syncline_estimate::search::{Capacity, Request, Space, search};
use syncline_estimate::{
    Cluster, Job, Measured, Memory, MemorySoftware, Model, Software, Step, blocks, check, estimate, memory,
    memory_by_stage, profile,
};
use syncline_kernels::Kernels;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Estimator>()?;
    module.add_function(wrap_pyfunction!(schedule_seconds, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_timeline, module)?)?;
    module.add_function(wrap_pyfunction!(search_parallel, module)?)
}

fn read<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(problem(&error)))
}

/// The constants of training software, with what that of a framework allocates on a cluster.
fn constants(text: &str, framework: &str, cluster: Cluster) -> PyResult<Software> {
    Ok(Software { memory: MemorySoftware::named(framework).on(cluster), ..read(text)? })
}

/// A job on a cluster, whose step can be estimated with different constants of software.
#[pyclass(frozen, module = "syncline._core")]
struct Estimator {
    model: Model,
    job: Job,
    cluster: Cluster,
    costs: Measured,
}

#[pymethods]
impl Estimator {
    /// A job. Arguments are JSON, as the types of the crate `estimate` say; `kernels` is the text of a file of kernel models,
    /// named `name`, whose memory is `memory_ratio` times as fast here.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "all that a job has")]
    fn of(
        py: Python<'_>,
        model: &str,
        job: &str,
        cluster: &str,
        kernels: &str,
        name: &str,
        memory_ratio: f64,
        nccl: &str,
    ) -> PyResult<Self> {
        let refused = |problem| to_python(py, &Diagnostics(vec![problem]));
        let (model, job): (Model, Job) = (read(model)?, read(job)?);
        let found = check::check(&model, &job);
        if !found.is_empty() {
            return Err(to_python(py, &Diagnostics(found)));
        }
        let costs = measured(kernels, name, memory_ratio, nccl, &job).map_err(refused)?;
        Ok(Self { model, job, cluster: read(cluster)?, costs })
    }

    /// The seconds of a step, with what the software of a framework allocates.
    #[pyo3(signature = (software, framework="megatron"))]
    fn seconds(&self, software: &str, framework: &str) -> PyResult<f64> {
        let software = constants(software, framework, self.cluster)?;
        Ok(estimate(&self.model, &self.job, self.cluster, &software, &self.costs).seconds())
    }

    /// The seconds of a step by its parts, of which `step` is the sum, and the seconds of a micro-batch in each stage.
    #[pyo3(signature = (software, framework="megatron"))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        software: &str,
        framework: &str,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<f64>)> {
        let software = constants(software, framework, self.cluster)?;
        let step = estimate(&self.model, &self.job, self.cluster, &software, &self.costs);
        let parts = step_parts(py, &step)?;
        Ok((parts, step.stages_s))
    }

    /// The step in detail, as JSON: the type `Profile` of the crate `estimate`, with the memory of a framework's software.
    fn profile(&self, software: &str, framework: &str) -> PyResult<String> {
        let software = constants(software, framework, self.cluster)?;
        let found = profile(&self.model, &self.job, self.cluster, &software, &software.memory, &self.costs);
        serde_json::to_string(&found).map_err(|error| PyValueError::new_err(problem(&error)))
    }

    /// The blocks of the job one by one, with the memory of a framework's software, as JSON: the type `Blocks` of the crate
    /// `estimate`.
    fn blocks(&self, software: &str, framework: &str) -> PyResult<String> {
        let software = constants(software, framework, self.cluster)?;
        let found = blocks(&self.model, &self.job, self.cluster, &software, &self.costs);
        serde_json::to_string(&found).map_err(|error| PyValueError::new_err(problem(&error)))
    }

    /// The bytes of a rank of a stage with the software of a framework, by kind, and the stage; without a stage, the fullest
    /// one. `allocated` is the sum of all tensors, `reserved` what the allocator has, and `total` everything on the accelerator,
    /// beside which `host` is in the host's memory.
    #[pyo3(signature = (framework, stage=None))]
    fn memory<'py>(
        &self,
        py: Python<'py>,
        framework: &str,
        stage: Option<usize>,
    ) -> PyResult<(Bound<'py, PyDict>, u32)> {
        let needs = MemorySoftware::named(framework).on(self.cluster);
        let found = match stage {
            None => memory(&self.model, &self.job, &needs),
            Some(stage) => *memory_by_stage(&self.model, &self.job, &needs)
                .get(stage)
                .ok_or_else(|| PyValueError::new_err("the pipeline has no such stage"))?,
        };
        Ok((memory_parts(py, &found)?, found.stage))
    }
}

fn step_parts<'py>(py: Python<'py>, step: &Step) -> PyResult<Bound<'py, PyDict>> {
    let parts = PyDict::new(py);
    for (name, seconds) in [
        ("products", step.stage.products),
        ("attention", step.stage.attention),
        ("element_wise", step.stage.element_wise),
        ("tensor", step.stage.tensor),
        ("context", step.stage.context),
        ("expert", step.stage.expert),
        ("launch", step.stage.launch),
        ("offload", step.stage.offload + step.copies_s),
        ("ends", step.ends_s),
        ("bubble", step.bubble_s),
        ("messages", step.messages_s),
        ("exchange", step.exchange_s),
        ("update", step.update_s),
        ("step", step.seconds()),
    ] {
        parts.set_item(name, seconds)?;
    }
    Ok(parts)
}

fn memory_parts<'py>(py: Python<'py>, found: &Memory) -> PyResult<Bound<'py, PyDict>> {
    let parts = PyDict::new(py);
    for (name, bytes) in [
        ("weights", found.weights),
        ("gradients", found.gradients),
        ("optimizer", found.optimizer),
        ("activations", found.activations),
        ("logits", found.logits),
        ("working", found.working),
        ("gathered", found.gathered),
        ("fragmentation", found.fragmentation),
        ("buffers", found.buffers),
        ("context", found.context),
        ("host", found.host),
        ("allocated", found.allocated()),
        ("reserved", found.reserved()),
        ("total", found.total()),
    ] {
        parts.set_item(name, bytes)?;
    }
    Ok(parts)
}

/// A turn of a stage: its kind, its chunk of the model, its micro-batch, its begin and its end.
type Turned = (&'static str, u32, u32, f64, f64);

/// A job with a schedule, given as JSON, and the times of each chunk of its model: seconds of the forward pass, of gradients of
/// inputs and of those of weights.
fn scheduled(py: Python<'_>, job: &str, chunks: Vec<(f64, f64, f64)>) -> PyResult<(Job, Vec<ChunkTimes>)> {
    let job: Job = read(job)?;
    let found = check::schedule(&job);
    if !found.is_empty() {
        return Err(to_python(py, &Diagnostics(found)));
    }
    if job.pipeline < 2 || chunks.len() != (job.pipeline * job.virtual_stages) as usize {
        return Err(PyValueError::new_err("not a time for each chunk of a pipeline"));
    }
    let times = |(forward, input, weight)| ChunkTimes { forward, input, weight, ..ChunkTimes::default() };
    Ok((job, chunks.into_iter().map(times).collect()))
}

/// The seconds of a pipeline, as an estimate finds them: without executing all micro-batches of a step that has many.
#[pyfunction]
fn schedule_seconds(
    py: Python<'_>,
    job: &str,
    chunks: Vec<(f64, f64, f64)>,
    message_s: f64,
) -> PyResult<f64> {
    let (job, chunks) = scheduled(py, job, chunks)?;
    Ok(execute(&job, &chunks, message_s).seconds)
}

/// The turns of each stage of a pipeline, each as early as it can be, and the seconds of the step: `chunks` has the seconds of
/// the forward pass, of gradients of inputs and of those of weights of each chunk of the model. `job` is JSON. Micro-batches of
/// the way back of `dualpipe` follow those of the other way.
#[pyfunction]
fn schedule_timeline(
    py: Python<'_>,
    job: &str,
    chunks: Vec<(f64, f64, f64)>,
    message_s: f64,
) -> PyResult<(f64, Vec<Vec<Turned>>)> {
    let (job, chunks) = scheduled(py, job, chunks)?;
    let mut lines = Vec::new();
    let mut seconds = 0.0_f64;
    for (stage, turns) in (0..).zip(timeline(&job, &chunks, message_s)) {
        let held: Vec<Place> = places(&job, stage).collect();
        let mut line = Vec::with_capacity(turns.len());
        for (turn, begin, end) in turns {
            let mut add = |kind, piece: Piece| {
                let place = held[piece.local as usize];
                let batch = piece.micro_batch + place.way * job.micro_batches / 2;
                line.push((kind, place.chunk, batch, begin, end));
            };
            match turn {
                Turn::Forward(piece) => add("forward", piece),
                Turn::Backward(piece) => add("backward", piece),
                Turn::Input(piece) => add("input", piece),
                Turn::Weight(piece) => add("weight", piece),
                Turn::Both { forward, backward } => {
                    add("forward", forward);
                    add("backward", backward);
                }
            }
            seconds = seconds.max(end);
        }
        lines.push(line);
    }
    Ok((seconds, lines))
}

/// A candidate: the job as JSON; seconds by part, and of these `computing`, the mean over stages; bytes by kind.
type Candidate<'py> = (String, Bound<'py, PyDict>, Bound<'py, PyDict>);
/// Candidates, the number of possible and of fitting ones, and the job and bytes of the smallest one if none fits.
type Searched<'py> = (Vec<Candidate<'py>>, usize, usize, Option<(String, u64)>);

/// The fastest parallel configurations of a model. `setting` is model, job, space, cluster and software, each as JSON, as the
/// types of the crate `estimate` say; `machine` the text and name of a file of kernel models, the ratio of memory rates, and
/// NCCL's machine as JSON. `framework` decides what memory software needs, of which there are `capacity` bytes on the accelerator
/// and for it on the host. Ctrl-C ends it.
#[pyfunction]
fn search_parallel<'py>(
    py: Python<'py>,
    setting: (String, String, String, String, String),
    machine: (String, String, f64, String),
    framework: &str,
    capacity: (u64, u64),
    keep: usize,
) -> PyResult<Searched<'py>> {
    let refused = |problem| to_python(py, &Diagnostics(vec![problem]));
    let (model, base, space): (Model, Job, Space) = (read(&setting.0)?, read(&setting.1)?, read(&setting.2)?);
    let cluster: Cluster = read(&setting.3)?;
    let software = constants(&setting.4, framework, cluster)?;
    let costs = measured(&machine.0, &machine.1, machine.2, &machine.3, &base).map_err(refused)?;
    let (found, interrupted) = watched(py, &Listeners::default(), |stop, _| {
        Ok(search(&Request {
            model: &model,
            base: &base,
            space: &space,
            cluster,
            software: &software,
            costs: &costs,
            capacity: Capacity { device: capacity.0, host: capacity.1 },
            keep,
            stop,
        }))
    })?;
    if interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    let text = |job: &Job| serde_json::to_string(job).map_err(|error| PyValueError::new_err(problem(&error)));
    let mut best = Vec::new();
    for each in &found.best {
        let bytes = memory(&model, &each.job, &software.memory);
        let parts = step_parts(py, &each.step)?;
        parts.set_item("computing", each.step.computing_s + each.step.update_s)?;
        best.push((text(&each.job)?, parts, memory_parts(py, &bytes)?));
    }
    let smallest = match &found.smallest {
        Some((job, bytes)) => Some((text(job)?, *bytes)),
        None => None,
    };
    Ok((best, found.possible, found.fitting, smallest))
}

fn measured(text: &str, name: &str, ratio: f64, nccl: &str, job: &Job) -> Result<Measured, Diagnostic> {
    let mut models = Kernels::parse(text, name)?;
    if ratio.to_bits() != 1.0_f64.to_bits() {
        let accelerator = models.accelerator.clone();
        models = models.with_memory(accelerator, ratio);
    }
    let machine = serde_json::from_str(nccl).map_err(|error| {
        Diagnostic::error(Code::BadValue, "not constants of NCCL").found(error.to_string())
    })?;
    Measured::new(models, machine, job.precision, job.fp8_attention)
}
