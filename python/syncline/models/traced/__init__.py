"""PyTorch modules as models: their layers, found by running the module once without computing anything.

The module runs on *fake* tensors, which have a shape and a type but no memory, so that a module of 70 billion
parameters can be traced on a laptop. Every operator that PyTorch would run is recorded with the submodule that calls
it, and costed by the rules of :mod:`syncline.models.calculus`. In reading order:

============= ===================================================================
module        what it holds
============= ===================================================================
``call``      an operator call, as input of the rules
``costs``     the cost of each operator: one rule for each kind of operator
``record``    the run on fake tensors: operators, their submodules, their weights
``failure``   errors for a run that fails
``model``     ``from_torch`` and its result
``factory``   finds a module and its inputs by ``pkg:factory``
``replay``    repeats the passes of a layer on their own
``measure``   a table of measured times
``package``   PyTorch, which is imported when it is first needed
============= ===================================================================
"""

from syncline.models.traced.model import Traced, from_torch

__all__ = ["Traced", "from_torch"]
