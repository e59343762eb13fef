"""The job, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from syncline.config.base import Strict, either, form, wrong
from syncline.config.quantity import Bytes, Flops, Time
from syncline.config.words import DataType, Precision

Collective = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"]
Iterations = Annotated[int, Field(ge=1, le=2**32 - 1)]
MicroBatches = Annotated[int, Field(ge=1, le=2**20)]
GlobalBatch = Annotated[int, Field(ge=1, le=2**31)]
MicroBatch = Annotated[int, Field(ge=1, le=2**20)]

Axes = Annotated[
    Literal["all", "none", "rest"] | list[str] | Annotated[int, Field(ge=1, le=2**32 - 1)],
    either("all, none, rest, a list of dimension names, or a number of ranks", "all", "none", "rest"),
]
"""A set of dimensions of the fabric; or a number of ranks, which fills the lowest dimensions first."""


class Parallel(Strict):
    """Which ranks share what."""

    model: Axes = "rest"
    """Ranks that hold parts of one copy of the model: `all`, `none`, `rest`, a list of dimensions, or a number of
    ranks."""
    data: Axes = "rest"
    """Ranks that hold copies of the model and reduce gradients: as for `model`. `rest` is what the others leave."""
    pipeline: Axes = "none"
    """Ranks that hold the stages of a pipeline, each some of the layers: as for `model`."""
    order: Annotated[list[Literal["model", "data", "pipeline"]], Field(min_length=3, max_length=3)] = [
        "model",
        "data",
        "pipeline",
    ]
    """Where numbers of ranks are given: which kind fills the lowest dimensions, and which those above."""
    backward: Literal["weight_first", "input_first"] = "weight_first"
    """Order of a layer's two gradients in the backward pass. `weight_first` starts its all-reduce early; `input_first`
    overlaps the exchange of input gradients with the weight gradient."""
    schedule: Literal["gpipe", "1f1b", "interleaved"] = "1f1b"
    """In which order a stage works on micro-batches. `gpipe`: all forward, then all backward. `1f1b`: backward as soon
    as possible. `interleaved`: the same with `virtual_stages`."""
    virtual_stages: Annotated[int, Field(ge=1, le=2**16)] = 1
    """Parts of the model in each stage, 2 or more with `interleaved`."""
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    """Stage of ZeRO: what data-parallel ranks divide among them. 0: nothing. 1: states of the optimiser. 2: gradients
    too. 3: parameters too."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations that are computed again in the backward pass rather than kept for it. `selective`: what
    layers marked `selective` keep, in models attention's scores and their softmax; where none is marked, as with fused
    attention, it changes nothing, and a note says so. `full`: all of a block, whose input is kept."""
    divided_checkpoints: bool = False
    """With `recompute: full`: whether model-parallel ranks divide the inputs of blocks that are kept, and gather them
    before they compute a block again."""
    sequence: bool = False
    """Sequence parallelism: whether model-parallel ranks divide by tokens what each of them would do and keep whole,
    such as norms. All-reduces become reduce-scatters and all-gathers."""
    overlap: Literal["gradients", "none"] = "gradients"
    """What communication goes on while compute does. `gradients`: those of a layer are reduced as soon as they are
    there. `none`: every exchange blocks, and gradients are reduced when the backward pass is over."""


class Types(Strict):
    """Element types, where they are others than `precision` means."""

    compute: DataType | None = None
    """Operands of the matrix products of linear layers: the rate of an accelerator for this type. Where it is narrower
    than `activations`, attention, norms, the projection to a vocabulary and the loss compute in the latter."""
    parameters: DataType | None = None
    """Parameters, as ranks hold them and gather them (`zero`)."""
    activations: DataType | None = None
    """Activations that layers hand on and keep."""
    gradients: DataType | None = None
    """Gradients of parameters, as they are summed up, kept, and reduced over data-parallel ranks."""
    optimizer: DataType | None = None
    """States of the optimizer, and its copy of the parameters where these have a shorter type."""
    communication: DataType | None = None
    """Activations and their gradients on the way between model-parallel ranks and between stages. Without it, the type
    of `activations`."""


class Comm(Strict):
    """A collective and its size."""

    collective: Collective
    """What it promises."""
    bytes: Bytes
    """Its size: the full vector of an all-reduce, reduce or broadcast; one rank's full input of a reduce-scatter or
    all-to-all; the full gathered vector of an all-gather."""


Size = Annotated[int, Field(ge=1, le=2**31)]


class Product(Strict):
    """Matrix products of one shape: `m` x `k` times `k` x `n`."""

    m: Size
    """Rows of the left operand: samples, tokens or positions; inputs in the weight gradient."""
    k: Size
    """What is summed over: inputs forward, outputs in the input gradient, rows in the weight gradient."""
    n: Size
    """Columns of the right operand: outputs forward, inputs in the input gradient, outputs in the weight gradient."""
    count: Size = 1
    """How many of them, such as one for each sample and head of attention."""
    memory: Bytes | None = None
    """Bytes that all of them move. Without it, each operand and the result once."""


class Ops(Strict):
    """Work that a compute model turns into time."""

    flop: Flops | None = None
    """Floating-point operations, such as `4.1GFLOP`. Without it, those of `products`."""
    memory: Bytes | None = None
    """Bytes moved between memory and the compute units. Without it, those of `products`."""
    products: Annotated[list[Product], Field(max_length=1000)] = []
    """Matrix products among these operations, for the `systolic` compute model."""
    data_type: DataType | None = None
    """Type that these operations compute in, where that is not the workload's."""

    @model_validator(mode="after")
    def _countable(self) -> Ops:
        multiply_adds = sum(each.m * each.k * each.n * each.count for each in self.products)
        elements = sum((each.m * each.k + each.k * each.n + each.m * each.n) * each.count for each in self.products)
        # Two operations each, and eight bytes at most, in 64 bits.
        if max(2 * multiply_adds, 8 * elements) >= 2**63:
            raise wrong("matrix products of more work than can be counted", allowed="less than 2^63 FLOP and bytes")
        return self


Work = Annotated[
    Annotated[Time, Tag("word")] | Annotated[Ops, Tag("ops")],
    Discriminator(lambda value: "ops" if isinstance(value, (dict, Ops)) else "word"),
]
"""A time, such as `5us`, or operations and memory traffic."""


class LayerCommunication(Strict):
    """Communication of a layer, given rather than derived from the parallelisation."""

    forward: Comm | None = None
    """After the forward pass; the next layer waits for it."""
    input_grad: Comm | None = None
    """After the input gradient; the layer before waits for it."""
    weight_grad: Comm | None = None
    """After the weight gradient; the parameter update waits for it."""


class Layer(Strict):
    """One layer of a model. Sizes are for one NPU's share of the batch, before any model parallelism."""

    name: Annotated[str, Field(min_length=1)]
    """Unique within the model."""
    forward: Work | None = None
    """Work of the forward pass."""
    input_grad: Work | None = None
    """Work of the gradient with respect to the input."""
    weight_grad: Work | None = None
    """Work of the gradient with respect to the parameters."""
    update: Work | None = None
    """Work of the parameter update after the gradients are reduced."""
    parameters: Annotated[int, Field(ge=0, le=2**63)] = 0
    """Number of parameters."""
    inputs: Annotated[int, Field(ge=0, le=2**63)] = 0
    """Elements of the input activations."""
    outputs: Annotated[int, Field(ge=0, le=2**63)] = 0
    """Elements of the output activations."""
    sharding: Literal["gather", "column", "row", "divided", "replicated", "exchange"] = "gather"
    """What parallelism does to the layer. `gather`: outputs are all-gathered forward, input gradients all-reduced
    backward. `column`: only the latter. `row`: outputs are all-reduced forward. `divided`: nothing is exchanged.
    `replicated`: every rank does it whole. `exchange`, for the first layer: its parameters are divided among the
    data-parallel ranks, and all-to-alls exchange outputs forward and their gradients backward."""
    communication: LayerCommunication | None = None
    """Communication given explicitly, in place of what the parallelisation would derive."""
    needed_by: str | None = None
    """Of the first layer: the layer that first needs its output, where that is not the next one. Those between them do
    not wait for its exchange; backward, its exchange starts with the input gradient of that layer."""
    block: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """Layers with one number, one behind the other, are a block: stages of a pipeline hold blocks whole, and
    `recompute: full` keeps the input of each."""
    heads: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Parts, such as heads, that model-parallel ranks can divide the layer into."""
    vocabulary: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Different tokens by which model-parallel ranks divide the layer; padded to a multiple of the ranks."""
    tokens: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Tokens of a sample, which sequence parallelism divides."""
    selective: bool = False
    """Whether `recompute: selective` computes it again."""
    kept: Bytes | None = None
    """What its forward pass keeps in memory for its backward pass. Without it, activations are not counted."""
    kept_selective: Bytes | None = None
    """What it keeps where it is `selective` and computed again; without it, nothing."""
    shares: str | None = None
    """The layer whose parameters it uses, such as a table of embeddings; it has no `parameters` of its own. Where
    another stage holds that layer, the two sum up their gradients."""


def _one_batch(workload: Any) -> Any:
    """Refuses a job that says both how many micro-batches there are and what they add up to."""
    if workload.global_batch is not None and workload.micro_batches is not None:
        help = "remove `micro_batches`: their number follows from `global_batch`"
        raise wrong("the number of micro-batches is given twice", help=help)
    return workload


class ModelWorkload(Strict):
    """A model by its name or file. Further keys are the model's own parameters, such as `sequence` of a transformer."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, Any]

    model: str
    """Name of a model that syncline can build, such as `resnet50`; or the path of a `config.json` of Hugging Face."""
    parallel: Parallel = Parallel(data="all")
    """Which ranks share what. Without it, all ranks are data-parallel."""
    iterations: Iterations = 1
    """Training iterations."""
    micro_batches: MicroBatches | None = None
    """Micro-batches of an iteration: an NPU works on them one after the other and sums up their gradients, which are
    reduced, and parameters updated, in the last one only. `batch_per_npu` is the size of one. Without it, 1."""
    global_batch: GlobalBatch | None = None
    """Samples of an iteration over all copies of the model, in place of `micro_batches`: `batch_per_npu` times
    data-parallel ranks times micro-batches."""
    types: Types = Types()
    """Element types, where they are others than `precision` means."""

    _one_batch = model_validator(mode="after")(_one_batch)


class ModuleInput(Strict):
    """A tensor that a PyTorch module takes."""

    shape: Annotated[list[Size], Field(max_length=16)]
    """Its sizes for one sample; the batch comes before them."""
    type: Literal["float32", "float16", "bfloat16", "float64", "int64", "int32", "bool"] | None = None
    """Type of its elements. Without it, that of the module's parameters."""


class ModuleWorkload(Strict):
    """A PyTorch module."""

    module: Annotated[str, Field(min_length=1)]
    """A function or class that gives the module, such as `models.vision:resnet50`: Python module, colon, name. It may
    give a pair of a module and its example inputs."""
    arguments: dict[str, Any] = {}
    """What it is called with, by name."""
    inputs: Annotated[list[ModuleInput], Field(min_length=1)] | None = None
    """Tensors that the module takes, in order. Without them, the factory gives them."""
    batch_per_npu: Annotated[int, Field(ge=1, le=2**20)] | None = None
    """Samples that one NPU works on at a time: in one iteration, or in one of its `micro_batches`. Without it: 32 where
    `inputs` are given, else those of the factory's inputs."""
    precision: Precision | None = None
    """What training runs in, as for models. Without it, the type of most parameters."""
    types: Types = Types()
    """Element types, where they are others than `precision` means."""
    sharding: dict[str, Literal["gather", "column", "row", "divided", "replicated"]] = {}
    """What model parallelism does to layers, by patterns of their names, such as `"*.o_proj": row`. The first that fits
    counts; `gather` holds elsewhere."""
    costs: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = {}
    """FLOP per element of the result, for operators that are not known, such as `_fft_r2c: 20`."""
    build: Literal["meta", "real"] = "meta"
    """Where the factory makes its tensors: on PyTorch's device `meta`, where they have no values and need no memory; or
    with values, for a factory that needs them."""
    parallel: Parallel = Parallel(data="all")
    """Which ranks share what. Without it, all ranks are data-parallel."""
    iterations: Iterations = 1
    """Training iterations."""
    micro_batches: MicroBatches | None = None
    """Micro-batches of an iteration: an NPU works on them one after the other and sums up their gradients, which are
    reduced, and parameters updated, in the last one only. `batch_per_npu` is the size of one. Without it, 1."""
    global_batch: GlobalBatch | None = None
    """Samples of an iteration over all copies of the model, in place of `micro_batches`: `batch_per_npu` times
    data-parallel ranks times micro-batches."""

    _one_batch = model_validator(mode="after")(_one_batch)


class Sample(Strict):
    """What a model does with a sample, for rates of work such as MFU."""

    tokens: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Its tokens."""
    model_flop: Flops
    """Operations of the matrix products of its forward and backward pass, without what is computed again."""
    model_flop_unmasked: Flops | None = None
    """The same with the scores of attention that a mask hides, where these are not part of it."""


class LayersWorkload(Strict):
    """A model given layer by layer."""

    layers: Annotated[list[Layer], Field(min_length=1)]
    """From input to output."""
    parallel: Parallel = Parallel(data="all")
    """Which ranks share what. Without it, all ranks are data-parallel."""
    iterations: Iterations = 1
    """Training iterations."""
    micro_batches: MicroBatches | None = None
    """Micro-batches of an iteration: an NPU works on them one after the other and sums up their gradients, which are
    reduced, and parameters updated, in the last one only. Layers are given for one. Without it, 1."""
    batch_per_npu: MicroBatch | None = None
    """Samples that the layers are given for, which is a micro-batch. Without it, rates of samples are not known."""
    sample: Sample | None = None
    """What a sample is, for rates of work. Without it, its operations are three times those of the matrix products of
    the forward pass, or of all of the forward pass where no products are given."""
    global_batch: GlobalBatch | None = None
    """Samples of an iteration over all copies of the model, in place of `micro_batches`: `batch_per_npu` times
    data-parallel ranks times micro-batches."""
    precision: Precision = "fp32"
    """What training runs in, as for models."""
    types: Types = Types()
    """Element types, where they are others than `precision` means."""
    optimizer: Literal["sgd", "adam", "none"] = "sgd"
    """What updates parameters, for the memory that its states take: `adam`, 12 bytes a parameter with 16-bit types. The
    time of updates is that of `update`."""

    _one_batch = model_validator(mode="after")(_one_batch)


class CollectiveWorkload(Comm):
    """One collective over all ranks."""

    iterations: Iterations = 1
    """How often, one after the other."""


class CollectivesWorkload(Strict):
    """Collectives over all ranks, one after the other."""

    collectives: Annotated[list[Comm], Field(min_length=1)]
    """What is done in each iteration."""
    iterations: Iterations = 1
    """How often."""


class ChakraWorkload(Strict):
    """A Chakra execution trace for each rank."""

    chakra: Annotated[str, Field(min_length=1)]
    """Path prefix of the traces: `PREFIX.0.et` for rank 0, and so on."""
    groups: str | None = None
    """Path of a JSON file with communicator groups, in ASTRA-sim's form."""


class AstraTextWorkload(Strict):
    """A text workload of ASTRA-sim 1."""

    astra_text: Annotated[str, Field(min_length=1)]
    """Path of the file."""
    iterations: Iterations = 1
    """Training iterations."""


Workload = Annotated[
    Annotated[ModelWorkload, Tag("model")]
    | Annotated[ModuleWorkload, Tag("module")]
    | Annotated[LayersWorkload, Tag("layers")]
    | Annotated[CollectiveWorkload, Tag("collective")]
    | Annotated[CollectivesWorkload, Tag("collectives")]
    | Annotated[ChakraWorkload, Tag("chakra")]
    | Annotated[AstraTextWorkload, Tag("astra_text")],
    Discriminator(
        form(
            word=False,
            model="model",
            module="module",
            layers="layers",
            collective="collective",
            collectives="collectives",
            chakra="chakra",
            astra_text="astra_text",
        )
    ),
]
"""One of several forms, told apart by their first key."""
