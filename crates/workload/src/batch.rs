//! The number of samples in a training step, and their division into micro-batches.
//!
//! The *global batch* of a step is micro-batch x data-parallel ranks x micro-batches. A job gives either the number
//! of micro-batches, or the global batch, from which their number follows.

use syncline_diagnostics::{Code, Diagnostic};

/// The samples of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Samples of a micro-batch on one copy of the model, if known.
    pub micro_batch: Option<u32>,
    /// Number of micro-batches.
    pub number: Number,
}

/// How the number of micro-batches of a step is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// This many.
    MicroBatches(u32),
    /// As many as make up this number of samples over all copies.
    Global(u32),
}

impl Batch {
    /// This many micro-batches, of unknown size.
    pub const fn of(micro_batches: u32) -> Self {
        Self { micro_batch: None, number: Number::MicroBatches(micro_batches) }
    }

    /// The number of micro-batches in a step, for a given number of copies of the model.
    ///
    /// # Errors
    /// A global batch that copies and micro-batches do not divide, with the nearest one that they do; or a global
    /// batch without a micro-batch.
    pub fn micro_batches(&self, copies: u32) -> Result<u32, Diagnostic> {
        let global = match self.number {
            Number::MicroBatches(number) => return Ok(number),
            Number::Global(global) => u64::from(global),
        };
        let bad = |message: &str| {
            Diagnostic::error(Code::BadWorkload, message)
                .key("workload.global_batch")
                .found(global.to_string())
        };
        let Some(each) = self.micro_batch else {
            return Err(
                bad("the number of samples in a micro-batch is not given").help("add `batch_per_npu`")
            );
        };
        let at_once = u64::from(each) * u64::from(copies);
        if at_once > 0 && global > 0 && global.is_multiple_of(at_once) {
            return Ok(u32::try_from(global / at_once).unwrap_or(u32::MAX));
        }
        let below = global / at_once.max(1) * at_once;
        let nearest =
            if below == 0 || global - below > below + at_once - global { below + at_once } else { below };
        Err(bad("the global batch does not divide evenly into micro-batches")
            .allowed(format!(
                "multiples of {at_once}: a micro-batch of {each} on {copies} data-parallel rank{}",
                if copies == 1 { "" } else { "s" }
            ))
            .help(format!("use the nearest, `global_batch: {nearest}`, or another `batch_per_npu`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(global: u32, micro_batch: u32) -> Batch {
        Batch { micro_batch: Some(micro_batch), number: Number::Global(global) }
    }

    #[test]
    fn micro_batches_follow_from_the_global_batch() {
        // GPT-3 in Narayanan et al. 2021, Table 1: 1,536 samples, 12 copies on 1,536 GPUs (tensor 8, pipeline 16).
        assert_eq!(global(1536, 1).micro_batches(12), Ok(128));
        assert_eq!(global(1536, 2).micro_batches(12), Ok(64));
        assert_eq!(Batch::of(7).micro_batches(12), Ok(7));
    }

    #[test]
    fn uneven_global_batches_are_refused_with_the_nearest() {
        for (asked, nearest) in [(1000, 1024), (1070, 1088), (40, 64), (1, 64), (0, 64)] {
            let refused = global(asked, 2).micro_batches(32).unwrap_err();
            assert_eq!(refused.key.as_deref(), Some("workload.global_batch"));
            assert!(
                refused.help.clone().unwrap().contains(&format!("`global_batch: {nearest}`")),
                "{refused}"
            );
            // The suggested value works.
            assert!(global(nearest, 2).micro_batches(32).is_ok());
        }
        let without = Batch { micro_batch: None, number: Number::Global(8) };
        assert!(without.micro_batches(1).unwrap_err().help.unwrap().contains("batch_per_npu"));
    }
}
