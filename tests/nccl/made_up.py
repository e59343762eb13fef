"""Output of nccl-tests with times from constants that are known."""

from __future__ import annotations

US = 1e-6
LAUNCH, HOP_LL, HOP_LL128, LAUNCH_SIMPLE, HOP_SIMPLE, PACE = 6 * US, 0.8 * US, 1.2 * US, 14 * US, 0.9 * US, 5 * US
RATE_LL, RATE_LL128, LOCAL, BUS = 12e9, 220e9, 1100e9, 700e9
ALL_CHANNELS, SIMPLE_PER_GPU = 350e3, 1.5e6

HEADING = """\
# Collective test starting: {program}
# nThread 1 nGpus {gpus} minBytes 1024 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
{ranks}
NCCL version 2.27.3+cuda12.9
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def seconds(size: int, gpus: int, *, reduces: bool) -> float:
    """The time of an all-reduce or all-gather, written out by hand from ``docs/explanation/nccl.md``."""
    hops = (2 if reduces else 1) * (gpus - 1)
    link = size * hops / gpus / BUS
    if size > SIMPLE_PER_GPU * gpus:
        pieces = 2 * (hops * HOP_SIMPLE * link) ** 0.5
        return LAUNCH_SIMPLE + hops * HOP_SIMPLE + pieces + max(hops * PACE, link) + size / LOCAL
    return LAUNCH + min(
        hops * HOP_LL + size / RATE_LL,
        hops * HOP_LL128 + max(size, ALL_CHANNELS) / RATE_LL128,
    )


def output(program: str, gpus: int, *, nodes: int = 1, reduces: bool = True, heading: str = HEADING) -> str:
    """What a program prints for sizes from 1 kB to 1 GB."""
    ranks = "\n".join(
        f"#  Rank {rank:2} Group  0 Pid {4000 + rank} on node{rank * nodes // gpus} device  {rank} [0x{rank:02x}] "
        f"NVIDIA H100 80GB HBM3"
        for rank in range(gpus)
    )
    lines = [heading.format(program=program, gpus=gpus, ranks=ranks).rstrip("\n")]
    for exponent in range(10, 31):
        size = 1 << exponent
        time = seconds(size, gpus, reduces=reduces)
        rate = size / time / 1e9
        redop = "sum" if reduces else "none"
        cells = f"{time * 1e6:.2f}  {rate:.2f}  {rate:.2f}"
        lines.append(f"  {size:>12}  {size // 4:>12}     float     {redop}      -1  {cells}      0  {cells}      0")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 100.0", "#"]
    return "\n".join(lines) + "\n"
