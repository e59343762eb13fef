"""One rank of Gloo, for a Python with PyTorch but no syncline: ``PYTHON benches/gloo.py BYTES`` times all-reduces."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from timing import timed

if __name__ == "__main__":
    nbytes = int(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    vector = torch.ones(nbytes // 4)
    timed(lambda: dist.all_reduce(vector), nbytes, first=dist.get_rank() == 0)
    dist.destroy_process_group()
