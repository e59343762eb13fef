//! Costs of kernels and collectives that were measured on the accelerator.

use crate::job::Precision;
use crate::machine::{AttentionWork, Collective, Costs, Group, Product};
use syncline_diagnostics::Diagnostic;
use syncline_kernels::{Attention, Gemm, GemmLibrary, GemmShape, Kernels, Layout, Library};
use syncline_nccl::{Call, Machine, Operation};

/// Fitted models of an accelerator's kernels, and of NCCL on its machine.
#[derive(Clone, Debug)]
pub struct Measured {
    kernels: Kernels,
    /// The models of linear layers' data type and of 16 bits.
    linear: Gemm,
    half: Gemm,
    attention: Attention,
    /// Attention in 8 bits, where the job has it.
    fp8_attention: Option<Attention>,
    nccl: Machine,
    /// Whether linear layers have 16 bits.
    half_precision: bool,
    /// Whether attention in 8 bits has a scale for each block of 32 elements.
    blocks: bool,
}

impl Measured {
    /// The costs of a job in a precision, whose attention has 8 bits if `fp8_attention`.
    ///
    /// # Errors
    /// Kernels of this precision were not measured on the accelerator.
    pub fn new(
        kernels: Kernels,
        nccl: Machine,
        precision: Precision,
        fp8_attention: bool,
    ) -> Result<Self, Diagnostic> {
        let half = kernels.gemm(SIXTEEN_BITS)?.clone();
        let linear = match precision {
            Precision::Bf16 | Precision::Fp16 => half.clone(),
            Precision::Fp8 | Precision::Mxfp8 => kernels.gemm("fp8")?.clone(),
            Precision::Nvfp4 => kernels.gemm("nvfp4")?.clone(),
        };
        let attention = kernels.attention(SIXTEEN_BITS)?.clone();
        let fp8_attention = if fp8_attention { Some(kernels.attention("fp8")?.clone()) } else { None };
        let half_precision = !precision.casts();
        let blocks = precision == Precision::Mxfp8;
        Ok(Self { kernels, linear, half, attention, fp8_attention, nccl, half_precision, blocks })
    }
}

impl Measured {
    /// Attention of this work's type.
    fn attention_of(&self, work: AttentionWork) -> &Attention {
        self.fp8_attention.as_ref().filter(|_| work.fp8).unwrap_or(&self.attention)
    }

    /// Products in a precision.
    const fn products(&self, precision: Precision) -> &Gemm {
        if precision.casts() && !self.half_precision { &self.linear } else { &self.half }
    }
}

/// The name of 16-bit data in files of kernels; both 16-bit types have the same rates.
const SIXTEEN_BITS: &str = "bf16";

impl Costs for Measured {
    fn product(&self, product: Product, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        let layout = match product {
            Product::Forward => Layout::Nt,
            Product::InputGradient => Layout::Nn,
            Product::WeightGradient => Layout::Tn,
        };
        let shape = GemmShape { m: m.max(1), n: n.max(1), k: k.max(1), groups, layout };
        let library =
            if precision == Precision::Mxfp8 { GemmLibrary::CublasMxfp8 } else { GemmLibrary::Cublas };
        self.products(precision).time_by(library, shape).seconds
    }

    fn least_product(&self, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        self.products(precision).least_seconds(GemmShape { m, n, k, groups, layout: Layout::Nt })
    }

    fn least_attention(&self, work: AttentionWork) -> f64 {
        self.attention_of(work).least_seconds(work.flop())
    }

    fn attention(&self, work: AttentionWork) -> f64 {
        // Keys and values of different sizes take the time of their mean.
        let head_dim = u64::midpoint(work.key_dim, work.value_dim);
        let library = match work.library {
            Library::Cudnn if work.fp8 && self.blocks => Library::CudnnMxfp8,
            library => library,
        };
        self.attention_of(work).time_by(library, work.shape(head_dim)).seconds
    }

    fn memory(&self, bytes: f64) -> f64 {
        self.kernels.memory_bound().time(bytes as u64).seconds
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        let operation = match collective {
            Collective::AllReduce => Operation::AllReduce,
            Collective::AllGather => Operation::AllGather,
            Collective::ReduceScatter => Operation::ReduceScatter,
            Collective::AllToAll => Operation::AllToAll,
            Collective::Send => Operation::SendRecv,
        };
        let group = syncline_nccl::Group {
            gpus_per_node: group.in_domain.max(1),
            nodes: group.domains.max(1),
            concurrent: group.concurrent.max(1),
        };
        let call = Call { operation, bytes: bytes as u64, element_bytes: 2, group };
        syncline_nccl::estimate(&self.nccl, &call).map_or(f64::INFINITY, |found| found.seconds())
    }
}
