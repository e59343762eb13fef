"""Rates of the libraries of training, over those of the measured kernels, which are of inference.

Products: cuBLAS, of operands that have the data type already, over the measured kernels without their cast. Transformer
Engine measured them on a B300, four layers of a model forward and backward; a rate is what a data type reaches over
products in FP8 with one scale for each tensor, so that the clock under load cancels
(``validation/kernels/transformer-engine-products.csv``).

Attention: a rate holds for heads of one size: ``[size, forward, backward]``. Keys and values of different sizes have
the mean of both (DeepSeek's 192 and 128: 160). NVIDIA measured heads of 64 with windows alone (GPT-OSS: 1,024 tokens on
Hopper, 128 on Blackwell), of which both libraries' kernels compute little but their ends: in 16 bits, these rates hold
for windows, and heads of 64 without one have the rates of 128. In 8 bits, the backward pass skips no window, so that
its rate holds for both. cuDNN's are geometric means over causal shapes of 2,048 to 16,384 tokens, from NVIDIA's tables
in ``validation/kernels/cudnn-attention.csv``; ``tests/kernels/test_libraries.py`` computes them again.
"""

from __future__ import annotations

from typing import Any

_HOPPER_OVER_AMPERE = (132 * 1830) / (108 * 1410)
"""Multiprocessors and clock of an H100 over those of an A100 (NVIDIA's white papers on both, 2020 and 2022)."""
_CUDNN = "NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results"
_ON_H200 = f"{_CUDNN}/h200_919_only_cudnn"
_ON_GB200, _ON_GB300 = (f"{_CUDNN}, on a {each} with cuDNN 9.22" for each in ("GB200", "GB300"))
_SKIPS_NO_WINDOW = {"masked": "window"}
"""The backward pass in 8 bits computes what lies beyond the window: its time grows with the square of the sequence."""
_SKIPS_NOTHING = {"masked": "all"}
"""On Hopper, the causal backward pass in 8 bits takes nearly as long as the one without a mask."""

_BLACKWELL_ULTRA: dict[str, dict[str, dict[str, Any]]] = {
    "bf16": {
        "cudnn": {
            "heads": [[128, 1.545, 1.156], [160, 1.404, 0.943]],
            "windowed": [[64, 1.42, 1.631]],
            "source": _ON_GB300,
        },
    },
    "fp8": {
        "cudnn": {
            "heads": [[64, 1.607, 1.098], [128, 1.898, 1.089], [160, 1.898, 1.301]],
            **_SKIPS_NO_WINDOW,
            "source": _ON_GB300,
        },
        "cudnn-mxfp8": {
            "heads": [[64, 1.529, 0.864], [128, 1.69, 0.88], [160, 1.717, 0.994]],
            **_SKIPS_NO_WINDOW,
            "source": _ON_GB300,
        },
    },
}
"""Those of GB300 and B300, which have the same chip."""

ATTENTION: dict[str, dict[str, dict[str, dict[str, Any]]]] = {
    "A100-SXM4-80GB": {
        "bf16": {
            "triton": {
                "heads": [[64, 0.84, 0.56]],
                "source": "triton-lang/triton, pull request 1917, before it: 122 TFLOP/s forward and 81 backward on an "
                "A100 (heads of 64, causal, 16,384 tokens), where the measured kernels reach 145",
            },
        },
    },
    "H100-SXM5-80GB": {
        "bf16": {
            "triton": {
                "heads": [[64, round(122 * _HOPPER_OVER_AMPERE / 467, 2), round(81 * _HOPPER_OVER_AMPERE / 467, 2)]],
                "source": "that of an A100 by multiprocessors and clock: it has no instructions of Hopper. The "
                "measured kernels reach 467 TFLOP/s (heads of 64, causal, 16,384 tokens)",
            },
            "flash-attention-2": {
                "heads": [[128, 0.63, 0.565]],
                "source": "measured with PyTorch 2.11 and CUDA 13.0 on an H100 SXM: 323 TFLOP/s forward and 290 "
                "backward (bf16, heads of 128, causal, long sequences), where the measured kernels reach 513",
            },
            "cudnn": {
                "heads": [[128, 1.19, 1.014], [160, 1.15, 0.751]],
                "windowed": [[64, 1.284, 1.098]],
                "source": "heads of 128: measured with PyTorch 2.11 and CUDA 13.0 on an H100 SXM, 610 TFLOP/s forward "
                "and 520 backward (causal, long sequences), where the measured kernels reach 513; others: "
                f"{_ON_H200}, which has 1.216 and 0.992 for heads of 128",
            },
        },
        "fp8": {
            "cudnn": {
                "heads": [[128, 1.458, 1.17]],
                **_SKIPS_NOTHING,
                "source": _ON_H200,
            },
        },
    },
    "B200-SXM-180GB": {
        "bf16": {
            "cudnn": {
                "heads": [[128, 1.472, 1.193], [160, 1.346, 0.967]],
                "windowed": [[64, 1.463, 1.662]],
                "source": _ON_GB200,
            },
        },
        "fp8": {
            "cudnn": {
                "heads": [[64, 1.487, 1.116], [128, 1.596, 1.075], [160, 1.653, 1.275]],
                **_SKIPS_NO_WINDOW,
                "source": _ON_GB200,
            },
            "cudnn-mxfp8": {
                "heads": [[64, 1.378, 0.929], [128, 1.49, 0.956], [160, 1.53, 1.02]],
                **_SKIPS_NO_WINDOW,
                "source": _ON_GB200,
            },
        },
    },
    "GB300-NVL72": _BLACKWELL_ULTRA,
    "B300-SXM-270GB": _BLACKWELL_ULTRA,
}
"""Rates of attention by accelerator and data type."""

_PRODUCTS = "NVIDIA/TransformerEngine, docs/examples/gemm_profiling: operands cast before, on a B300"
_MXFP8: dict[str, dict[str, dict[str, Any]]] = {"fp8": {"cublas-mxfp8": {"rate": 0.951, "source": _PRODUCTS}}}
"""The matrix units of Blackwell in 8 bits are those of Blackwell Ultra."""

PRODUCTS: dict[str, dict[str, dict[str, dict[str, Any]]]] = {
    "B200-SXM-180GB": _MXFP8,
    "GB300-NVL72": _MXFP8,
    "B300-SXM-270GB": {**_MXFP8, "nvfp4": {"cublas": {"rate": 0.9, "source": _PRODUCTS}}},
}
"""Rates of products by accelerator and data type."""

LIBRARIES = {"gemm": PRODUCTS, "attention": ATTENTION}
"""Rates of libraries by operation, accelerator and data type."""


def libraries(accelerator: str, operation: str, data_type: str) -> dict[str, dict[str, Any]]:
    """Rates of libraries for ``gemm`` or ``attention`` on an accelerator in a data type; none if none were measured."""
    return LIBRARIES[operation].get(accelerator, {}).get(data_type, {})
