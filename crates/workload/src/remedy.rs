//! Refuses jobs that do not fit into memory, and finds the smallest changes that make them fit.

use crate::batch::Batch;
use crate::job::Training;
use crate::layer::Layer;
use crate::memory::{Footprint, footprints};
use crate::mesh::FabricAxis;
use crate::parallel::{Axes, PIPELINE, Parallel, Recompute, TENSOR};
use crate::types::{Optimizer, Types};
use std::borrow::Cow;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::Bytes;

/// The settings of a training job that determine its memory.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// From input to output.
    pub layers: &'a [Layer],
    /// The axes that ranks can be laid out along.
    pub axes: &'a [FabricAxis],
    /// How ranks are divided among the kinds of parallelism.
    pub parallel: &'a Parallel,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Samples of a step.
    pub batch: Batch,
    /// Element types.
    pub types: Types,
}

/// A change of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Zero(u8),
    Recompute(Recompute),
    Sequence,
    Batch(u32),
    Tensor(u32),
    Pipeline(u32),
}

impl Change {
    /// The change as a `--set` argument.
    fn as_argument(self) -> String {
        let (key, value) = match self {
            Self::Zero(stage) => ("parallel.zero", stage.to_string()),
            Self::Recompute(Recompute::Selective) => ("parallel.recompute", "selective".to_owned()),
            Self::Recompute(_) => ("parallel.recompute", "full".to_owned()),
            Self::Sequence => ("parallel.sequence", "true".to_owned()),
            Self::Batch(batch) => ("batch_per_npu", batch.to_string()),
            Self::Tensor(degree) => ("parallel.tensor", degree.to_string()),
            Self::Pipeline(stages) => ("parallel.pipeline", stages.to_string()),
        };
        format!("`workload.{key}={value}`")
    }
    /// Number of the kind of change; changes of one kind are alternatives.
    const fn kind(self) -> u8 {
        match self {
            Self::Zero(_) => 0,
            Self::Recompute(_) => 1,
            Self::Sequence => 2,
            Self::Batch(_) => 3,
            Self::Tensor(_) => 4,
            Self::Pipeline(_) => 5,
        }
    }
}

/// Most remedies in a message.
const SHOWN: usize = 4;
/// Most changes that are combined.
const TOGETHER: usize = 3;

/// Formats bytes of memory: four digits and a binary prefix, as memory sizes are usually given.
pub fn memory_size(bytes: Bytes) -> String {
    let mut scaled = bytes.0 as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while scaled >= 1023.95
        && let Some(larger) = units.next()
    {
        (scaled, unit) = (scaled / 1024.0, larger);
    }
    let digits = if scaled >= 100.0 { 1 } else { 2 };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// Checks that every stage fits into `capacity`.
///
/// # Errors
/// The stage that needs the most memory, with its parts, and with changes that would make the job fit.
pub fn fits(asked: &Asked<'_>, found: &[Footprint], capacity: Bytes) -> Result<(), Diagnostic> {
    let Some(worst) = found.iter().max_by_key(|each| each.total()) else { return Ok(()) };
    if worst.total() <= capacity {
        return Ok(());
    }
    let stage = if found.len() > 1 { format!(" of stage {}", worst.stage) } else { String::new() };
    let mut parts = vec![
        format!("parameters {}", memory_size(worst.parameters)),
        format!("gradients {}", memory_size(worst.gradients)),
        format!("optimizer states {}", memory_size(worst.optimizer)),
    ];
    if !worst.gathered.is_zero() {
        parts.push(format!("gathered parameters {}", memory_size(worst.gathered)));
    }
    match worst.activations {
        Some(bytes) if worst.live > 1 => {
            parts.push(format!("activations {} ({} micro-batches in flight)", memory_size(bytes), worst.live))
        }
        Some(bytes) => parts.push(format!("activations {}", memory_size(bytes))),
        None => {}
    }
    let problem = Diagnostic::error(
        Code::DoesNotFit,
        format!(
            "a rank{stage} needs {}, and an NPU has {}",
            memory_size(worst.total()),
            memory_size(capacity)
        ),
    )
    .key("workload.parallel")
    .found(parts.join(", "))
    .allowed(format!("{} together", memory_size(capacity)));
    let problem = match worst.activations {
        Some(_) => problem,
        None => problem.note("activations are not counted: `kept` is unknown for some layers"),
    };
    let remedies = asked.remedies(capacity);
    Err(problem.help(if remedies.is_empty() {
        format!("no combination of up to {TOGETHER} changes makes it fit: use more NPUs, or a smaller model")
    } else {
        let texts: Vec<String> = remedies
            .iter()
            .map(|(changes, total)| {
                let changes: Vec<String> = changes.iter().map(|change| change.as_argument()).collect();
                format!("{} ({})", changes.join(" and "), memory_size(*total))
            })
            .collect();
        format!("it fits with {}", texts.join("; or "))
    }))
}

impl Asked<'_> {
    /// Small sets of changes with which the job fits, and what its largest stage then needs. Sets with fewer changes
    /// come first; of each kind of change, the smallest sufficient one is used.
    fn remedies(&self, capacity: Bytes) -> Vec<(Vec<Change>, Bytes)> {
        let changes = self.changes();
        for number in 1..=TOGETHER {
            let mut fitting: Vec<(Vec<Change>, Bytes)> = Vec::new();
            // One remedy that consists of two keys (Korthikanti et al. 2022): it costs far less time than full
            // recomputation.
            let pair = [Change::Recompute(Recompute::Selective), Change::Sequence];
            if number == 1
                && pair.iter().all(|change| changes.contains(change))
                && !pair.iter().any(|&change| self.total(&[change]).is_some_and(|total| total <= capacity))
                && let Some(total) = self.total(&pair).filter(|&total| total <= capacity)
            {
                fitting.push((pair.to_vec(), total));
            }
            self.try_all(&changes, number, 0, &mut Vec::new(), capacity, &mut fitting);
            if !fitting.is_empty() {
                fitting.truncate(SHOWN);
                return fitting;
            }
        }
        Vec::new()
    }

    /// Tries all sets of `number` changes in addition to `chosen`.
    fn try_all(
        &self,
        changes: &[Change],
        number: usize,
        from: usize,
        chosen: &mut Vec<Change>,
        capacity: Bytes,
        fitting: &mut Vec<(Vec<Change>, Bytes)>,
    ) {
        if chosen.len() == number {
            let kinds = |set: &[Change]| set.iter().map(|change| change.kind()).collect::<Vec<_>>();
            if fitting.iter().any(|(set, _)| kinds(set) == kinds(chosen)) || fitting.len() == SHOWN {
                return;
            }
            if let Some(total) = self.total(chosen).filter(|&total| total <= capacity) {
                fitting.push((chosen.clone(), total));
            }
            return;
        }
        for (at, &change) in changes.iter().enumerate().skip(from) {
            if chosen.iter().all(|other| other.kind() != change.kind()) {
                chosen.push(change);
                self.try_all(changes, number, at + 1, chosen, capacity, fitting);
                chosen.pop();
            }
        }
    }

    /// Changes that may help; those of one kind from small to large.
    fn changes(&self) -> Vec<Change> {
        let Parallel { zero, recompute, sequence, .. } = *self.parallel;
        let mut found: Vec<Change> = (zero + 1..=3).map(Change::Zero).collect();
        if recompute == Recompute::None {
            found.push(Change::Recompute(Recompute::Selective));
        }
        if recompute != Recompute::Full {
            found.push(Change::Recompute(Recompute::Full));
        }
        if !sequence && self.layers.iter().any(|layer| layer.tokens.is_some()) {
            found.push(Change::Sequence);
        }
        let batch = self.batch.micro_batch.unwrap_or(1);
        found.extend((1..32).map(|by| batch >> by).take_while(|&batch| batch > 0).map(Change::Batch));
        let Ok(now) = self.training(&[]) else { return found };
        let ranks = now.mesh.ranks();
        let [tensor, stages] = [TENSOR, PIPELINE].map(|axis| now.mesh.degree(axis));
        let larger =
            |degree: u32| (1..32).filter_map(move |by| degree.checked_shl(by).filter(|&more| more <= ranks));
        let larger = |degree: u32| larger(degree).take_while(move |&more| more > degree);
        found.extend(larger(tensor).map(Change::Tensor));
        found.extend(larger(stages).map(Change::Pipeline));
        found
    }

    fn changed(&self, changes: &[Change]) -> Parallel {
        let mut parallel = self.parallel.clone();
        for &change in changes {
            match change {
                Change::Zero(stage) => parallel.zero = stage,
                Change::Recompute(what) => parallel.recompute = what,
                Change::Sequence => parallel.sequence = true,
                Change::Tensor(degree) => parallel.tensor = Axes::Degree(degree),
                Change::Pipeline(stages) => parallel.pipeline = Axes::Degree(stages),
                Change::Batch(_) => {}
            }
        }
        parallel
    }

    /// The job with these changes, if it is possible. Its layers are for the same number of samples.
    fn training(&self, changes: &[Change]) -> Result<Training<'_>, syncline_diagnostics::Diagnostics> {
        let parallel = self.changed(changes);
        Training::new(self.layers, self.axes, &parallel, 1, self.batch, self.types)
    }

    /// The memory that the largest stage needs with these changes; `None` if they are impossible.
    fn total(&self, changes: &[Change]) -> Option<Bytes> {
        let parallel = self.changed(changes);
        let smaller = changes.iter().find_map(|&change| match change {
            Change::Batch(batch) => Some(batch),
            _ => None,
        });
        let (layers, batch) = match smaller {
            Some(each) => {
                let layers = fewer(self.layers, each, self.batch.micro_batch?);
                (Cow::Owned(layers), Batch { micro_batch: Some(each), ..self.batch })
            }
            None => (Cow::Borrowed(self.layers), self.batch),
        };
        let training = Training::new(&layers, self.axes, &parallel, 1, batch, self.types).ok()?;
        // Changes without effect do not count.
        let useless = changes.iter().any(|change| match *change {
            Change::Zero(_) => training.copies() == 1,
            Change::Sequence => training.mesh.degree(TENSOR) == 1,
            _ => false,
        });
        let largest = footprints(&training, self.optimizer).iter().map(Footprint::total).max();
        largest.filter(|_| !useless)
    }
}

/// Layers for `batch` samples, computed from layers for `of` samples.
fn fewer(layers: &[Layer], batch: u32, of: u32) -> Vec<Layer> {
    let part = |amount: u64| (u128::from(amount) * u128::from(batch)).div_ceil(u128::from(of.max(1))) as u64;
    let part_of = |bytes: Option<Bytes>| bytes.map(|bytes| Bytes(part(bytes.0)));
    let one = |layer: &Layer| Layer {
        inputs: part(layer.inputs),
        outputs: part(layer.outputs),
        kept: part_of(layer.kept),
        kept_selective: part_of(layer.kept_selective),
        ..layer.clone()
    };
    layers.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Number;
    use crate::layer::Sharding;
    use syncline_units::DataType;

    /// Four blocks of 1,000 parameters and 12,000 bytes of activations for 8 samples.
    fn layers() -> Vec<Layer> {
        let layer = |block: u32| Layer {
            name: format!("l{block}"),
            parameters: 1000,
            inputs: 400,
            outputs: 400,
            kept: Some(Bytes(12_000)),
            block: Some(block),
            heads: Some(4),
            sharding: Sharding::Divided,
            ..Layer::default()
        };
        (0..4).map(layer).collect()
    }

    fn refusal(capacity: u64, parallel: &Parallel) -> Option<Diagnostic> {
        let types = Types { optimizer: DataType::Float32, ..Types::uniform(DataType::Float16) };
        let batch = Batch { micro_batch: Some(8), number: Number::MicroBatches(4) };
        let layers = layers();
        let axes = [FabricAxis { name: "d".to_owned(), size: 8, dim: Some(0) }];
        let asked =
            Asked { layers: &layers, axes: &axes, parallel, optimizer: Optimizer::Adam, batch, types };
        let training = Training::new(&layers, &axes, parallel, 1, batch, types).unwrap();
        fits(&asked, &footprints(&training, Optimizer::Adam), Bytes(capacity)).err()
    }

    #[test]
    fn jobs_that_do_not_fit_are_refused_with_remedies() {
        // 64,000 bytes of state and 48,000 of activations.
        assert_eq!(refusal(112_000, &Parallel::default()), None);
        let refused = refusal(111_999, &Parallel::default()).unwrap();
        assert_eq!(refused.code, Code::DoesNotFit);
        assert_eq!(refused.message, "a rank needs 109.4 KiB, and an NPU has 109.4 KiB");
        let refused = refusal(100_000, &Parallel::default()).unwrap();
        assert_eq!(refused.message, "a rank needs 109.4 KiB, and an NPU has 97.66 KiB");
        assert_eq!(
            refused.found.as_deref(),
            Some(
                "parameters 7.81 KiB, gradients 7.81 KiB, optimizer states 46.88 KiB, activations 46.88 KiB"
            )
        );
        // The smallest sufficient change of each kind: an eighth of 48 kB of states; 4 x 800 + 11,200 of activations;
        // half of them; half of everything.
        assert_eq!(
            refused.help.as_deref(),
            Some(
                "it fits with `workload.parallel.zero=1` (68.36 KiB); or `workload.parallel.recompute=full` (76.56 KiB); or \
                 `workload.batch_per_npu=4` (85.94 KiB); or `workload.parallel.tensor=2` (54.69 KiB)"
            )
        );
    }

    #[test]
    fn changes_are_combined_if_none_is_enough() {
        let help = |capacity| refusal(capacity, &Parallel::default()).unwrap().help.unwrap();
        // Two copies of a quarter each: 4 kB, half of 12 kB, and a quarter of 48 kB.
        let expected = "it fits with `workload.parallel.zero=1` and `workload.parallel.tensor=4` (21.48 KiB); or `workload.p";
        assert!(help(25_000).starts_with(expected), "{}", help(25_000));
        assert!(help(10).starts_with("no combination of up to 3 changes makes it fit"), "{}", help(10));
    }

    #[test]
    fn the_largest_stage_is_named() {
        let parallel = Parallel { pipeline: Axes::Degree(4), ..Parallel::default() };
        let refused = refusal(50_000, &parallel).unwrap();
        assert_eq!(refused.message, "a rank of stage 0 needs 62.5 KiB, and an NPU has 48.83 KiB");
        assert!(refused.found.unwrap().ends_with("activations 46.88 KiB (4 micro-batches in flight)"));
    }

    #[test]
    fn selective_recomputation_with_sequence_parallelism_is_one_remedy() {
        // Four blocks of 1,000 bytes in replicated layers, and 9,000 of attention, which leave 1,000 if recomputed.
        let layer = |block: u32, name: &str, kept: u64, attention: bool| Layer {
            name: format!("{name}{block}"),
            inputs: 100,
            outputs: 100,
            kept: Some(Bytes(kept)),
            kept_selective: attention.then_some(Bytes(1000)),
            selective: attention,
            sharding: if attention { Sharding::Divided } else { Sharding::Replicated },
            block: Some(block),
            tokens: Some(4),
            ..Layer::default()
        };
        let layers: Vec<Layer> = (0..4)
            .flat_map(|block| [layer(block, "norm", 8000, false), layer(block, "attention", 9000, true)])
            .collect();
        let axes = [FabricAxis { name: "d".to_owned(), size: 4, dim: Some(0) }];
        let parallel = Parallel { tensor: Axes::Degree(4), ..Parallel::default() };
        let (types, batch) = (Types::uniform(DataType::Float16), Batch::of(1));
        let training = Training::new(&layers, &axes, &parallel, 1, batch, types).unwrap();
        let asked = Asked {
            layers: &layers,
            axes: &axes,
            parallel: &parallel,
            optimizer: Optimizer::None,
            batch,
            types,
        };
        let found = footprints(&training, Optimizer::None);
        // Whole: 4 x (8000 + 2250). With `selective` 4 x 8250 + 2000, with `sequence` 4 x 4250: neither fits into
        // 12,000 bytes, and both together are 4 x 2250 + 2000.
        assert_eq!(found[0].total(), Bytes(41_000));
        let help = fits(&asked, &found, Bytes(12_000)).unwrap_err().help.unwrap();
        assert!(
            help.starts_with("it fits with `workload.parallel.recompute=selective` and `workload.parallel.sequence=true` (10.74 KiB); or"),
            "{help}"
        );
        assert!(help.contains("`workload.parallel.recompute=full`"), "{help}");
    }
}
