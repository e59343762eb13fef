"""DNN models and accelerators, derived from their architecture and their data sheets.

``build("resnet50", batch_per_npu=32)`` returns the layers of a model in the form of a scenario: work of each pass in
FLOP and bytes, parameters and activations in elements. All numbers are computed from shapes.

In reading order:

================== ========================================================================
module             what it holds
================== ========================================================================
``calculus``       what one operation computes, moves and holds
``layer``          a chain of operations as one layer of a scenario
``resnet50`` ...   one file for each model: ``vgg16``, ``transformer``, ``decoder``, ``dlrm``, ``mlp``
``optimizer``      the work of an update of the parameters
``parameters``     the parameters of models, and their checks
``info``           the registry's entry for a model
``registry``       models by name: ``MODELS``, ``build``, ``layers``, ``check``
``hugging_face``   decoders as ``config.json`` files describe them: ``from_config``
``operators``      models as graphs of operators, each of which may be split and placed on its own
``times``          measured times of layers, from YAML or CSV files
``accelerators``   peak rates, memory and links of accelerators, with sources
``data_types``     element types and their sizes
``types``          the element types of a job, and those of each precision
``traced``         PyTorch modules as models: ``from_torch``
``errors``         ``ModelError`` and its kinds
================== ========================================================================
"""

from syncline.models.accelerators import Accelerator
from syncline.models.data_types import DATA_TYPES
from syncline.models.errors import ModelError, ModelErrorKind
from syncline.models.hugging_face import from_config
from syncline.models.info import ModelInfo
from syncline.models.layer import Layer
from syncline.models.parameters import Parameter
from syncline.models.registry import MODELS, build, check, layers
from syncline.models.traced import Traced, from_torch

__all__ = [
    "DATA_TYPES",
    "MODELS",
    "Accelerator",
    "Layer",
    "ModelError",
    "ModelErrorKind",
    "ModelInfo",
    "Parameter",
    "Traced",
    "build",
    "check",
    "from_config",
    "from_torch",
    "layers",
]
