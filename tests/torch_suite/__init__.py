"""PyTorch's own tests of process groups, run over Gloo and over ``syncline``, side by side.

The tests come with PyTorch (``torch.testing._internal.distributed.distributed_test``); none of their code is copied.

- ``__main__``: runs the tests over both backends and prints a table;
- ``suite``: makes tests for "gloo" run over another backend;
- ``cpu``: makes tests for GPUs run on CPUs;
- ``runner``: the process that runs tests over one backend.
"""
