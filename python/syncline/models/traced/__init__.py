"""PyTorch modules as models: their layers, found by running the module once without computing anything.

The module runs on *fake* tensors, which have a shape and a type and no memory, so that a module of 70 billion
parameters is traced on a laptop. Every operator that PyTorch would run is seen, with the submodule that calls it, and
costed by the rules of :mod:`syncline.models.calculus`. In reading order:

============= ===================================================================
module        what it holds
============= ===================================================================
``call``      an operator call, as the rules see it
``costs``     what each operator costs: one rule for each kind of operator
``record``    the run on fake tensors: operators, their submodules, their weights
``failure``   what is said where the run fails
``model``     ``from_torch`` and what it gives
``factory``   ``pkg:factory`` into a module and its inputs
``replay``    the passes of a layer, done again on their own
``measure``   a table of measured times
``package``   PyTorch, which is imported when it is first needed
============= ===================================================================
"""

from syncline.models.traced.model import Traced, from_torch

__all__ = ["Traced", "from_torch"]
