"""Which constants of software are calibrated, and by which measured runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.estimate.software import Software

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPERTS = "experts"
"""Word in the column ``calibrates`` of rows to which constants of experts are fitted."""
BOUNDS: Mapping[str, tuple[float, float]] = {
    "products": (0.5, 1.2),
    "low_precision_products": (0.5, 1.2),
    "attention": (0.3, 1.6),
    "element_wise": (0.5, 6.0),
    "logit_bytes": (6.0, 120.0),
    "layer_cpu_s": (1e-5, 0.02),
    "staged_layer_s": (0.0, 0.01),
    "tensor_exposed": (0.0, 2.0),
    "dispatch": (0.2, 4.0),
    "expert_exposed": (0.0, 1.0),
    "expert_cpu_s": (0.0, 0.05),
    "each_expert_cpu_s": (0.0, 0.002),
    "partial_graphs": (0.1, 1.0),
    "expert_element_wise": (0.5, 10.0),
    "data_exposed": (0.0, 1.0),
    "pipeline_exposed": (0.0, 1.0),
}
"""Lowest and highest value of each constant that can be fitted."""


@dataclass(frozen=True)
class Calibration:
    """Which constants of a set are fitted, and to which rows."""

    rows: str
    """Word in the column ``calibrates`` of the rows to which the set is fitted."""
    frameworks: tuple[str, ...]
    """Frameworks that use the set; it is fitted to rows of the first."""
    accelerators: tuple[str, ...]
    """How the names of the set's accelerators begin."""
    start: Software
    """Constants before the fit; those that are not fitted stay."""
    fitted: tuple[str, ...]
    near: tuple[str, ...] = ()
    """Those of ``fitted`` that stay near ``start`` unless many rows ask for another value. Few rows tell them apart
    from the rates of products, so a fit to some of the rows would be far off."""
    experts: tuple[str, ...] = ()
    """Constants that are fitted last, to rows with ``experts`` in ``calibrates``, while the others stay."""
    like: str = ""
    """An earlier set with the same kernels, whose constants this one takes, except those that ``start`` sets."""


PLAIN = Software(fused_accumulation=False, logit_bytes=20.0, attention_library="flash-attention-2")
"""PyTorch without kernels that fuse the loss or the sum of gradients."""
CALIBRATIONS: Mapping[str, Calibration] = {
    "megatron-a100": Calibration(
        "a100",
        ("megatron-deepspeed", "megatron"),
        ("A100",),
        Software(products=0.95, layer_cpu_s=6e-3, launch_power=4.0),
        ("products", "layer_cpu_s"),
    ),
    "megatron": Calibration(
        "h100",
        ("megatron",),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        # `layer_cpu_s` is that of Megatron on A100: NVIDIA's runs have longer layers, or graphs. Exchanges of ZeRO-3
        # hide, but take 20 of 132 multiprocessors, as dispatch does. `expert_exposed`, `partial_graphs` and
        # `each_expert_cpu_s` are set by hand: few rows depend on them.
        Software(
            products=0.9,
            low_precision_products=0.9,
            # MaxText's, on the same accelerators, from its own rows.
            element_wise=1.5,
            attention_library="cudnn",
            layer_cpu_s=4.8e-3,
            launch_power=4.0,
            sharded_exposed=0.15,
            expert_exposed=0.1,
            partial_graphs=0.8,
            fused_biases=False,
            fused_yarn=False,
            # Twelve launches: products, and casts or activations beside them.
            each_expert_cpu_s=1e-4,
        ),
        (
            "products",
            "low_precision_products",
            "element_wise",
            "tensor_exposed",
            "data_exposed",
            "pipeline_exposed",
        ),
        ("element_wise", "tensor_exposed", "data_exposed", "pipeline_exposed"),
        ("expert_element_wise", "expert_cpu_s", "dispatch"),
    ),
    "maxtext": Calibration(
        "",
        ("maxtext",),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        Software(attention_library="cudnn", element_wise=1.5),
        (),
    ),
    # Linear layers, norms and attention of Transformer Engine, as in Megatron; gradients are summed by PyTorch. Its
    # kernel rotates positions for YaRN, too, and a product scales queries and keys, which is not counted.
    "automodel": Calibration(
        "",
        ("automodel",),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        Software(fused_accumulation=False, fused_yarn=True),
        (),
        like="megatron",
    ),
    "nanotron": Calibration(
        "nanotron",
        ("nanotron",),
        ("H100",),
        Software(
            products=0.87,
            attention_library="flash-attention-2",
            fused_accumulation=False,
            element_wise=3.0,
            logit_bytes=30.0,
            layer_cpu_s=4e-3,
            staged_layer_s=2e-3,
        ),
        ("element_wise", "logit_bytes", "layer_cpu_s", "staged_layer_s", "tensor_exposed", "data_exposed"),
    ),
    "llm-foundry": Calibration(
        "fsdp",
        ("llm-foundry",),
        ("H100", "A100"),
        PLAIN,
        ("products", "element_wise", "layer_cpu_s", "data_exposed"),
    ),
    "internevo": Calibration("fsdp", ("internevo",), ("A100",), PLAIN, ("products", "element_wise", "data_exposed")),
    "torchtitan": Calibration(
        "fsdp",
        ("torchtitan", "fsdp2"),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        PLAIN,
        ("products", "low_precision_products", "attention", "element_wise"),
    ),
}
"""All sets. The constants of a set hold for all its accelerators: those of newer ones are never fitted."""
