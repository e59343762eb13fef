"""The schema of ``workload``: the job."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from syncline.input.base import Strict, either, form, validation_error
from syncline.input.units import Bytes, Flops, Time
from syncline.input.words import Collective, DataType, Precision

Iterations = Annotated[int, Field(ge=1, le=2**32 - 1)]
MicroBatches = Annotated[int, Field(ge=1, le=2**20)]
GlobalBatch = Annotated[int, Field(ge=1, le=2**31)]
MicroBatch = Annotated[int, Field(ge=1, le=2**20)]

Axes = Annotated[
    Literal["all", "none", "rest"] | list[str] | Annotated[int, Field(ge=1, le=2**32 - 1)],
    either("all, none, rest, a list of dimension names, or a number of ranks", "all", "none", "rest"),
]
"""A set of dimensions of the fabric; or a number of ranks, which fills the lowest dimensions first."""


AxisName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]


class RankMesh(Strict):
    """A mesh of ranks: its axes, and what each of them takes of the fabric."""

    tensor: Axes = "rest"
    """Tensor parallelism: ranks that hold parts of a layer."""
    data: Axes = "rest"
    """Data parallelism: ranks that hold copies of a layer and reduce its gradients."""
    axes: dict[AxisName, Axes] = {}
    """Further axes by name, as in `parallel`."""
    order: Annotated[list[str], Field(min_length=1)] | None = None
    """Order of the axes, as in `parallel`; without `pipeline`."""


class Parallel(Strict):
    """How the ranks divide the work: the axes of their mesh, and how they are used."""

    tensor: Axes = "rest"
    """Tensor parallelism: ranks that hold parts of one copy of the model. `all`, `none`, `rest`, a list of dimensions,
    or a number of ranks. `rest` is all ranks that the other axes leave."""
    data: Axes = "rest"
    """Data parallelism: ranks that hold copies of the model and reduce gradients. Values as for `tensor`."""
    pipeline: Axes = "none"
    """Pipeline parallelism: ranks that hold the stages of a pipeline, each with some of the layers. Values as for
    `tensor`."""
    axes: dict[AxisName, Axes] = {}
    """Further axes by name, such as `{ context: 2 }`, for the `exchanges` and `ranks` of layers. Ranks along them do
    the same work, unless layers say otherwise. Values as for `tensor`."""
    order: Annotated[list[str], Field(min_length=1)] | None = None
    """Order in which axes given as numbers of ranks fill the dimensions, lowest dimensions first; names all axes.
    Without it: `tensor`, those of `axes`, `data`, `pipeline`."""
    meshes: dict[AxisName, RankMesh] = {}
    """Further meshes by name, over the same ranks, for layers that are divided in another way, such as experts. Stages
    are those of `pipeline`."""
    backward: Literal["weight_first", "input_first"] = "weight_first"
    """Order of a layer's two gradients in the backward pass. `weight_first` starts the layer's all-reduce early;
    `input_first` overlaps the exchange of input gradients with the weight gradient."""
    schedule: Literal["gpipe", "1f1b", "interleaved"] = "1f1b"
    """Order in which a stage works on micro-batches. `gpipe`: all forward, then all backward. `1f1b`: backward as soon
    as possible. `interleaved`: `1f1b` with several `virtual_stages`."""
    virtual_stages: Annotated[int, Field(ge=1, le=2**16)] = 1
    """Parts of the model in each stage: 2 or more with `interleaved`, else 1."""
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    """Stage of ZeRO: what data-parallel ranks divide among them. 0: nothing. 1: optimizer states. 2: gradients
    too. 3: parameters too."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations that the backward pass recomputes, so that they need not be kept. `selective`: those of layers marked
    `selective`; in models, attention's scores and their softmax. If no layer is marked, as with fused attention, it
    changes nothing, and a note says so. `full`: all activations of a block but its input, which is kept."""
    divided_checkpoints: bool = False
    """With `recompute: full`: whether tensor-parallel ranks divide the kept inputs of blocks among them, and gather
    them before they recompute a block."""
    sequence: bool = False
    """Sequence parallelism: whether tensor-parallel ranks divide by tokens the layers that each of them would otherwise
    compute and keep whole, such as norms. All-reduces become reduce-scatters and all-gathers."""
    overlap: Literal["gradients", "none"] = "gradients"
    """Which communication overlaps with compute. `gradients`: the gradients of a layer are reduced as soon as they are
    computed. `none`: every exchange blocks, and gradients are reduced after the backward pass."""
    combined: bool = False
    """Whether a stage goes forward with a micro-batch while it goes backward with an earlier one: while one of the two
    waits for an exchange, the other computes. For that, one more micro-batch goes forward before. With `1f1b` and
    `interleaved`."""
    updates: Literal["each", "together"] = "each"
    """When parameters are updated. `each`: those of a layer once its gradients are reduced. `together`: those of all
    layers of a rank once all their gradients are, as an optimizer needs that limits the norm of gradients."""
    messages: Literal["overlap", "block"] = "overlap"
    """What a stage does while it sends to another one. `overlap`: it computes. `block`: it waits until the message has
    left."""


class Types(Strict):
    """Element types that differ from those of `precision`."""

    compute: DataType | None = None
    """Type of the operands of linear layers' matrix products; selects the peak rate of the accelerator. If it is
    narrower than `activations`, attention, norms, the projection to a vocabulary and the loss compute in the type of
    `activations`."""
    parameters: DataType | None = None
    """Type in which ranks hold parameters, and gather them (`zero`)."""
    activations: DataType | None = None
    """Type of the activations that layers pass on and keep."""
    gradients: DataType | None = None
    """Type in which gradients of parameters are summed, kept, and reduced over data-parallel ranks."""
    optimizer: DataType | None = None
    """Type of the optimizer's states, and of its copy of the parameters if these have a shorter type."""
    communication: DataType | None = None
    """Type in which activations and their gradients are sent between tensor-parallel ranks and between stages. Without
    it, the type of `activations`."""


class Comm(Strict):
    """A collective and its size."""

    collective: Collective
    """The kind of collective."""
    bytes: Bytes
    """Its size: the full vector of an all-reduce, reduce or broadcast; one rank's full input of a reduce-scatter or
    all-to-all; the full gathered vector of an all-gather."""


Size = Annotated[int, Field(ge=1, le=2**31)]


class Product(Strict):
    """Matrix products of one shape: `m` x `k` times `k` x `n`."""

    m: Size
    """Rows of the left operand: samples, tokens or positions; inputs in the weight gradient."""
    k: Size
    """The dimension that is summed over: inputs forward, outputs in the input gradient, rows in the weight gradient."""
    n: Size
    """Columns of the right operand: outputs forward, inputs in the input gradient, outputs in the weight gradient."""
    count: Size = 1
    """Number of such products, for example one for each sample and head of attention."""
    memory: Bytes | None = None
    """Bytes that all these products move. Without it, each operand and result is moved once."""


class Ops(Strict):
    """Work that a compute model turns into time."""

    flop: Flops | None = None
    """Floating-point operations, such as `4.1GFLOP`. Without it, those of `products`."""
    memory: Bytes | None = None
    """Bytes moved between memory and the compute units. Without it, those of `products`."""
    products: Annotated[list[Product], Field(max_length=1000)] = []
    """Matrix products among these operations, for the compute models `systolic` and
    `measured`."""
    data_type: DataType | None = None
    """Type that these operations compute in. Without it, the workload's."""

    @model_validator(mode="after")
    def _countable(self) -> Ops:
        multiply_adds = sum(each.m * each.k * each.n * each.count for each in self.products)
        elements = sum((each.m * each.k + each.k * each.n + each.m * each.n) * each.count for each in self.products)
        # Two operations each, and eight bytes at most, in 64 bits.
        if max(2 * multiply_adds, 8 * elements) >= 2**63:
            raise validation_error("matrix products with too much work", allowed="less than 2^63 FLOP and bytes")
        return self


Work = Annotated[
    Annotated[Time, Tag("word")] | Annotated[Ops, Tag("ops")],
    Discriminator(lambda value: "ops" if isinstance(value, (dict, Ops)) else "word"),
]
"""A time, such as `5us`, or operations and memory traffic."""


class Exchange(Comm):
    """A collective of a layer among ranks that differ along some axes."""

    when: Literal[
        "before_step",
        "before_use",
        "before_forward",
        "after_forward",
        "before_recompute",
        "before_backward",
        "after_input_grad",
        "before_weight_grad",
        "after_weight_grad",
        "after_update",
    ]
    """When it happens. `before_step`: before the first use in a step; those of all layers follow each other from the
    beginning of the step (parameters that the step before updated). `before_use`: before each use, while the block
    before is computed (parameters). `before_...` supplies what that pass needs: `before_backward`,
    the gradient of the output; `before_recompute`, the kept input of a block (only on the block's first layer).
    `after_...` carries the result of that pass. If a layer has several exchanges at the same moment, they run one after
    the other."""
    axis: AxisName | Annotated[list[AxisName], Field(min_length=1)]
    """The axis, or axes, along which the ranks of a group differ: `tensor`, `data`, or one of `axes`."""
    blocks: bool | None = None
    """Whether the next compute waits for it; otherwise only the next use of the layer does. Without it: `false` after
    the weight gradient and after the update, else `true`."""
    each_micro_batch: bool = False
    """With `after_weight_grad`: whether it happens in every micro-batch, and not only in the last one."""


class Layer(Strict):
    """One layer of a model. Sizes are for one NPU's share of the batch, before any tensor parallelism."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the layer, unique within the model."""
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
    """How tensor parallelism divides the layer. `gather`: outputs are all-gathered forward, input gradients all-reduced
    backward. `column`: only input gradients are all-reduced. `row`: outputs are all-reduced forward. `divided`: nothing
    is exchanged. `replicated`: every rank computes the whole layer. `exchange`: its parameters are
    divided among the data-parallel ranks, and all-to-alls exchange outputs forward and their gradients backward."""
    mesh: str | None = None
    """Name of one of `parallel.meshes`, which divides the layer. Without it, the axes of `parallel` do."""
    ranks: dict[AxisName, Annotated[list[Annotated[int, Field(ge=0, le=2**32 - 1)]], Field(min_length=1)]] = {}
    """Ranks that have the layer, such as `{ tensor: [0] }`: coordinates by axis. Other ranks skip the layer. Without
    it, all ranks have it."""
    exchanges: Annotated[list[Exchange], Field(max_length=1000)] | None = None
    """Exchanges of the layer, in place of those that the parallelism would derive; `[]` for none."""
    needed_by: str | None = None
    """The later layer that first needs the output. Without it, the next one. Layers between the two do not wait for the
    exchanges after the forward pass; backward, those before it start after the input gradient of that layer."""
    block: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """Number of the block: consecutive layers with one number form a block. A stage of a pipeline holds whole blocks,
    and `recompute: full` keeps the input of each block."""
    heads: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Number of parts, such as heads, into which tensor-parallel ranks can divide the layer."""
    vocabulary: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Number of different tokens, by which tensor-parallel ranks divide the layer; padded to a multiple of the
    ranks."""
    tokens: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Tokens of a sample, which sequence parallelism divides."""
    selective: bool = False
    """Whether `recompute: selective` recomputes the layer."""
    kept: Bytes | None = None
    """Memory that the forward pass keeps for the backward pass. Without it, activations are not counted."""
    kept_selective: Bytes | None = None
    """Memory that a `selective` layer keeps if it is recomputed. Without it, nothing."""
    shares: str | None = None
    """The layer whose parameters this layer uses, such as a table of embeddings; it then has no `parameters` of its
    own. If another stage holds that layer, the two stages sum their gradients."""


def _one_batch(workload: Any) -> Any:
    """Raises an error if a job gives both the number of micro-batches and the global batch."""
    if workload.global_batch is not None and workload.micro_batches is not None:
        help = "remove `micro_batches`: their number follows from `global_batch`"
        raise validation_error("the number of micro-batches is given twice", help=help)
    return workload


class ModelWorkload(Strict):
    """A model by its name or file. Further keys are the model's own parameters, such as `sequence` of a transformer."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, Any]

    model: str
    """Name of a model that syncline can build, such as `resnet50`; or the path of a `config.json` of Hugging Face."""
    parallel: Parallel = Parallel(data="all")
    """How the ranks divide the work. Without it, all ranks are data-parallel."""
    iterations: Iterations = 1
    """Training iterations."""
    micro_batches: MicroBatches | None = None
    """Micro-batches in an iteration. An NPU works on them one after the other and sums their gradients; only after the
    last one are gradients reduced and parameters updated. `batch_per_npu` is the size of one. Without it, 1."""
    global_batch: GlobalBatch | None = None
    """Samples of an iteration over all copies of the model, in place of `micro_batches`: `batch_per_npu` times
    data-parallel ranks times micro-batches."""
    types: Types = Types()
    """Element types that differ from those of `precision`."""

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
    """The factory: a function or class that returns the module, such as `models.vision:resnet50` (Python module, colon,
    name). It may return a pair of the module and its example inputs."""
    arguments: dict[str, Any] = {}
    """Keyword arguments of the factory."""
    inputs: Annotated[list[ModuleInput], Field(min_length=1)] | None = None
    """Tensors that the module takes, in order. Without it, those that the factory returns."""
    batch_per_npu: Annotated[int, Field(ge=1, le=2**20)] | None = None
    """Samples that one NPU works on at a time: in one iteration, or in one of its `micro_batches`. Without it, 32 if
    `inputs` are given, else the batch of the factory's inputs."""
    precision: Precision | None = None
    """Precision of training, as for models. Without it, the type of most parameters."""
    types: Types = Types()
    """Element types that differ from those of `precision`."""
    sharding: dict[str, Literal["gather", "column", "row", "divided", "replicated"]] = {}
    """How tensor parallelism divides layers, by patterns of their names, such as `"*.o_proj": row`. The first pattern
    that matches applies; layers without a match have `gather`."""
    costs: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = {}
    """FLOP per element of the result, for operators that syncline does not know, such as `_fft_r2c: 20`."""
    build: Literal["meta", "real"] = "meta"
    """How the factory makes its tensors. `meta`: on PyTorch's device `meta`, without values or memory. `real`: with
    values, for a factory that needs them."""
    parallel: Parallel = Parallel(data="all")
    """How the ranks divide the work. Without it, all ranks are data-parallel."""
    iterations: Iterations = 1
    """Training iterations."""
    micro_batches: MicroBatches | None = None
    """Micro-batches in an iteration. An NPU works on them one after the other and sums their gradients; only after the
    last one are gradients reduced and parameters updated. `batch_per_npu` is the size of one. Without it, 1."""
    global_batch: GlobalBatch | None = None
    """Samples of an iteration over all copies of the model, in place of `micro_batches`: `batch_per_npu` times
    data-parallel ranks times micro-batches."""

    _one_batch = model_validator(mode="after")(_one_batch)


class Sample(Strict):
    """The work of a sample, for rates such as MFU."""

    tokens: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    """Tokens of a sample."""
    model_flop: Flops
    """Operations of the matrix products in forward and backward pass, without recomputation."""
    model_flop_unmasked: Flops | None = None
    """`model_flop` plus the attention scores that a mask hides, if `model_flop` leaves them out."""


class LayersWorkload(Strict):
    """A model given layer by layer."""

    layers: Annotated[list[Layer], Field(min_length=1)]
    """Layers of the model, from input to output."""
    parallel: Parallel = Parallel(data="all")
    """How the ranks divide the work. Without it, all ranks are data-parallel."""
    iterations: Iterations = 1
    """Training iterations."""
    micro_batches: MicroBatches | None = None
    """Micro-batches in an iteration. An NPU works on them one after the other and sums their gradients; only after the
    last one are gradients reduced and parameters updated. The layers describe one micro-batch. Without it, 1."""
    batch_per_npu: MicroBatch | None = None
    """Samples in a micro-batch, for which the layers are given. Without it, results have no rates of samples."""
    sample: Sample | None = None
    """The work of a sample, for rates such as MFU. Without it, the operations of a sample are estimated as three times
    those of the forward pass: of its matrix products, or of all its operations if no products are given."""
    global_batch: GlobalBatch | None = None
    """Samples of an iteration over all copies of the model, in place of `micro_batches`: `batch_per_npu` times
    data-parallel ranks times micro-batches."""
    precision: Precision = "fp32"
    """Precision of training, as for models."""
    types: Types = Types()
    """Element types that differ from those of `precision`."""
    optimizer: Literal["sgd", "adam", "none"] = "sgd"
    """The optimizer, which determines the memory for its states: `adam` takes 12 bytes a parameter with 16-bit types.
    The time of an update is that of `update`."""

    _one_batch = model_validator(mode="after")(_one_batch)


class CollectiveWorkload(Comm):
    """One collective over all ranks."""

    iterations: Iterations = 1
    """How many times the collective runs, one after the other."""


class CollectivesWorkload(Strict):
    """Collectives over all ranks, one after the other."""

    collectives: Annotated[list[Comm], Field(min_length=1)]
    """Collectives of each iteration, in order."""
    iterations: Iterations = 1
    """Number of iterations."""


class ChakraWorkload(Strict):
    """A Chakra execution trace for each rank."""

    chakra: Annotated[str, Field(min_length=1)]
    """Path prefix of the traces: `PREFIX.0.et` for rank 0, and so on."""
    groups: str | None = None
    """Path of a JSON file with communicator groups, in ASTRA-sim's format."""


class OperatorsWorkload(Strict):
    """A model whose operators run on servers of their own, as `syncline design joint` finds; each NPU is a server."""

    operators: Annotated[str, Field(min_length=1)]
    """Path of the JSON file with the model and its strategy."""
    precision: Precision = "fp32"
    """Precision of training, which says which of an accelerator's peak rates apply."""
    iterations: Iterations = 1
    """Training iterations."""


class FlexNetWorkload(Strict):
    """A task graph of FlexNet, the simulator of TopoOpt; each NPU is a server."""

    flexnet: Annotated[str, Field(min_length=1)]
    """Path of the file, a FlatBuffer (`.fbuf`)."""
    iterations: Iterations = 1
    """Training iterations."""


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
    | Annotated[OperatorsWorkload, Tag("operators")]
    | Annotated[FlexNetWorkload, Tag("flexnet")]
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
            operators="operators",
            flexnet="flexnet",
            astra_text="astra_text",
        )
    ),
]
"""A workload in one of several forms; its first key selects the form."""
