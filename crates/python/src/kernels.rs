//! Models of single kernels.

use crate::errors::to_python;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::{DeserializeOwned, IntoDeserializer};
use syncline_diagnostics::{Diagnostic, Diagnostics};
use syncline_kernels::{AttentionShape, Estimate, GemmLibrary, GemmShape, Kernels, Layout, Library, Pass};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<KernelModels>()
}

/// Seconds, bound, and whether the model extrapolates.
type Answer = (f64, &'static str, bool);

/// Models of the kernels of one accelerator.
#[pyclass(frozen, module = "syncline._core")]
struct KernelModels {
    kernels: Kernels,
}

fn refused(py: Python<'_>, problem: Diagnostic) -> PyErr {
    to_python(py, &Diagnostics(vec![problem]))
}

fn answer(estimate: Estimate) -> Answer {
    (estimate.seconds, estimate.bound.name(), estimate.extrapolates)
}

/// The library with a name.
fn named<T: DeserializeOwned>(library: &str) -> PyResult<T> {
    T::deserialize(library.into_deserializer())
        .map_err(|problem: serde::de::value::Error| PyValueError::new_err(problem.to_string()))
}

fn same_lengths(lengths: &[usize]) -> PyResult<()> {
    if lengths.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    Err(PyValueError::new_err("columns have different lengths"))
}

#[pymethods]
impl KernelModels {
    /// The models in a file's text; `name` is the file's name for messages.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        Ok(Self { kernels: Kernels::parse(text, name).map_err(|problem| refused(py, problem))? })
    }

    /// The models of an accelerator whose memory is `ratio` times as fast.
    fn with_memory(&self, accelerator: String, ratio: f64) -> PyResult<Self> {
        if !(ratio > 0.0 && ratio.is_finite()) {
            return Err(PyValueError::new_err("a ratio of memory rates is above zero"));
        }
        Ok(Self { kernels: self.kernels.clone().with_memory(accelerator, ratio) })
    }

    /// The accelerator's name.
    fn accelerator(&self) -> &str {
        &self.kernels.accelerator
    }

    /// What ran the measured kernels.
    fn software(&self) -> &str {
        &self.kernels.software
    }

    /// Data types with models of matrix products.
    fn gemm_types(&self) -> Vec<&str> {
        self.kernels.gemm_types().collect()
    }

    /// Data types with models of attention.
    fn attention_types(&self) -> Vec<&str> {
        self.kernels.attention_types().collect()
    }

    /// Time of a matrix product by the kernels of a library.
    #[allow(clippy::too_many_arguments, reason = "the sizes of a kernel")]
    fn gemm(
        &self,
        py: Python<'_>,
        data_type: &str,
        m: u64,
        n: u64,
        k: u64,
        groups: u64,
        layout: &str,
        library: &str,
    ) -> PyResult<Answer> {
        let library = named::<GemmLibrary>(library)?;
        let layout =
            Layout::named(layout).ok_or_else(|| PyValueError::new_err("a layout is nt, nn or tn"))?;
        let model = self.kernels.gemm(data_type).map_err(|problem| refused(py, problem))?;
        Ok(answer(model.time_by(library, GemmShape { m, n, k, groups, layout })))
    }

    /// Times of forward matrix products, without corrections unless `corrected`.
    #[pyo3(signature = (data_type, m, n, k, *, corrected))]
    fn gemm_times(
        &self,
        py: Python<'_>,
        data_type: &str,
        m: Vec<u64>,
        n: Vec<u64>,
        k: Vec<u64>,
        corrected: bool,
    ) -> PyResult<Vec<f64>> {
        same_lengths(&[m.len(), n.len(), k.len()])?;
        let model = self.kernels.gemm(data_type).map_err(|problem| refused(py, problem))?;
        let shapes = m.iter().zip(&n).zip(&k).map(|((&m, &n), &k)| GemmShape::forward(m, n, k));
        Ok(shapes
            .map(|each| if corrected { model.time(each).seconds } else { model.physical(each).0 })
            .collect())
    }

    /// What distinguishes forward matrix products: for each, the logarithms of each tile's time over the model's, of
    /// computation over memory traffic, of cache over memory traffic, and of the split of the best choice.
    fn gemm_features(
        &self,
        py: Python<'_>,
        data_type: &str,
        m: Vec<u64>,
        n: Vec<u64>,
        k: Vec<u64>,
    ) -> PyResult<Vec<Vec<f64>>> {
        same_lengths(&[m.len(), n.len(), k.len()])?;
        let model = self.kernels.gemm(data_type).map_err(|problem| refused(py, problem))?;
        let shapes = m.iter().zip(&n).zip(&k).map(|((&m, &n), &k)| GemmShape::forward(m, n, k));
        Ok(shapes.map(|shape| model.features(shape)).collect())
    }

    /// Time of attention by the kernels of a library.
    #[allow(clippy::too_many_arguments, reason = "the sizes of a kernel")]
    fn attention(
        &self,
        py: Python<'_>,
        data_type: &str,
        batch: u64,
        sequence: u64,
        heads: u64,
        kv_heads: u64,
        head_dim: u64,
        causal: bool,
        window: u64,
        backward: bool,
        prepare: bool,
        library: &str,
    ) -> PyResult<Answer> {
        let library = named::<Library>(library)?;
        let pass = if backward { Pass::Backward } else { Pass::Forward };
        let shape =
            AttentionShape { batch, sequence, heads, kv_heads, head_dim, causal, window, pass, prepare };
        let model = self.kernels.attention(data_type).map_err(|problem| refused(py, problem))?;
        Ok(answer(model.time_by(library, shape)))
    }

    /// Times of attention, for rows of batch, sequence, heads, kv heads, head size and window; without corrections unless
    /// `corrected`.
    #[pyo3(signature = (data_type, rows, causal, *, backward, corrected))]
    fn attention_times(
        &self,
        py: Python<'_>,
        data_type: &str,
        rows: Vec<[u64; 6]>,
        causal: Vec<bool>,
        backward: bool,
        corrected: bool,
    ) -> PyResult<Vec<f64>> {
        same_lengths(&[rows.len(), causal.len()])?;
        let model = self.kernels.attention(data_type).map_err(|problem| refused(py, problem))?;
        let pass = if backward { Pass::Backward } else { Pass::Forward };
        let time = |(&[batch, sequence, heads, kv_heads, head_dim, window], &causal): (&[u64; 6], &bool)| {
            let shape = AttentionShape {
                batch,
                sequence,
                heads,
                kv_heads,
                head_dim,
                causal,
                window,
                pass,
                prepare: true,
            };
            if corrected { Some(model.time(shape).seconds) } else { model.physical(shape) }
        };
        let times: Option<Vec<f64>> = rows.iter().zip(&causal).map(time).collect();
        times.ok_or_else(|| PyValueError::new_err("the backward pass of this model follows by rule"))
    }

    /// Time of a kernel that moves bytes.
    fn memory_bound(&self, nbytes: u64) -> Answer {
        answer(self.kernels.memory_bound().time(nbytes))
    }

    /// Time of an empty kernel.
    fn launch(&self) -> f64 {
        self.kernels.memory_bound().launch()
    }
}
