"""The arguments of the commands that check, show, write and convert scenarios. ``show`` also shows measurements."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer

from syncline.cli.arguments.shared import Force, Json, Network, NoColour, Quiet, Set

app = typer.Typer()


class Part(StrEnum):
    """What ``show`` can print: parts of a scenario, and measurements between hosts."""

    fabric = "fabric"
    workload = "workload"
    plan = "plan"
    measurements = "measurements"


@app.command()
def check(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO...", help="Scenario files.")],
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """List every error in scenarios, without simulating them.

    Exit status: 0 no errors, 1 errors, 3 a file cannot be read.
    """
    from syncline.cli.commands.check import check as call

    return call(scenarios, set_ or [], as_json=json, quiet=quiet)


@app.command()
def show(
    part: Annotated[
        Part, typer.Argument(metavar="PART", help="The part to show: fabric, workload or plan; or measurements.")
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A scenario file, - for standard input, or the folder of a run. For measurements: the file of "
            "`syncline probe`, or .csv of pairs or a matrix.",
        ),
    ],
    network: Network = None,
    set_: Set = None,
    svg: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write a picture of the fabric or the measurements to FILE, as SVG."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With measurements: file of `syncline group --out`, whose groups are drawn."),
    ] = None,
    by: Annotated[
        Literal["rtt", "rate"] | None,
        typer.Option("--by", help="With measurements: draw round trips (the default, if there are any), or rates."),
    ] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """List and draw a part of a scenario (fabric, workload, plans of collectives), or measurements between hosts."""
    from syncline.cli.commands.options import refuse

    if part == Part.measurements:
        from syncline.cli.commands.measurements import measurements

        refuse({"--network": network, "--set": set_}, "needs a scenario", "leave it out")
        return measurements(file, svg, groups, by, as_json=json)
    from syncline.cli.commands.show import show as call

    refuse({"--groups": groups, "--by": by}, "needs measurements", "syncline show measurements FILE")
    return call(part.value, file, set_ or [], network, svg, as_json=json)


@app.command()
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The scenario's name; the file is NAME.yaml.")
    ] = "scenario",
    template: Annotated[
        str,
        typer.Option(
            "--template",
            "-t",
            metavar="TEMPLATE",
            help="The template to copy: all-reduce-3d, dlrm, resnet50-torus or transformer-hybrid.",
        ),
    ] = "resnet50-torus",
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the templates.")] = False,
    force: Force = False,
) -> int:
    """Write a scenario to start from, and the JSON schema that lets editors complete it."""
    from syncline.cli.commands.init import init as call

    return call(name, template, listing=list_, force=force)


@app.command()
def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="A scenario, a table in a run's folder, a plan, a workload of ASTRA-sim 1 or SimAI, a topology of "
            "SimAI, or what a cluster prints.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending selects the format.")],
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="MxN..", help="For an ASTRA-sim 1 workload: sizes of the dimensions, lowest first, such as 2x4x4."
        ),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="For an ASTRA-sim 1 workload: number of iterations.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="N", help="For a machine: how many such machines (default: 1).")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For several machines: what joins their interfaces: one switch, or rails, a switch for the interfaces "
            "of each number (default: switch).",
        ),
    ] = None,
    nics: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Only these interfaces, comma-separated (default: those nearest GPUs in a machine, all in a network). "
            "For Slurm's topology, how many a host has (default: 1).",
        ),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(metavar="N", help="Machines that share NVSwitches: 18 for the trays of an NVL72 (default: 1)."),
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="N", help="For a network: GPUs of each host (default: each host is one NPU).")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="LIST", help="For a network: only these hosts, such as node[001-064],gpu7.")
    ] = None,
    scale_up: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="For a network: rate of a GPU's links within its host, such as 450GB/s."),
    ] = None,
    by_link: Annotated[
        bool,
        typer.Option(
            "--by-link",
            metavar="",
            help="For a network: link by link, with names, even if it is of a family of fabrics.",
        ),
    ] = False,
    uplink: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="For Slurm's topology: rate of all links between a switch and one above it; or one for each level.",
        ),
    ] = None,
    nvlink: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate of one NVLink in one direction, such as 25GB/s.")
    ] = None,
    pcie: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate of a PCIe link in one direction, such as 32GB/s.")
    ] = None,
    cpu: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate between two processors in one direction, such as 40GB/s.")
    ] = None,
    nic: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate of a network interface, such as 400Gb/s.")
    ] = None,
    latency: Annotated[
        str | None, typer.Option(metavar="T", help="Latency of every link, such as 1us (default: 0).")
    ] = None,
    scale_up_latency: Annotated[
        str | None,
        typer.Option(metavar="T", help="Latency of links within a scale-up domain (default: that of all links)."),
    ] = None,
    pcie_latency: Annotated[
        str | None, typer.Option(metavar="T", help="Latency of PCIe links (default: that of all links).")
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="For a workload of SimAI: the fabric's file, which the scenario names."),
    ] = None,
    force: Force = False,
) -> int:
    """Convert scenarios, tables of runs, plans, other simulators' inputs, and what clusters print.

    A cluster prints `nvidia-smi topo -m`, NCCL's topology and `ibnetdiscover`, or has Slurm's `topology.conf`; the
    result is a fabric for scenarios. So is that of a topology of SimAI. A workload of ASTRA-sim 1 becomes traces, one
    of SimAI a scenario.
    """
    from syncline.cli.commands.convert import convert as call

    options = {
        "--nodes": nodes,
        "--network": network,
        "--nics": nics,
        "--domain": domain,
        "--gpus": gpus,
        "--hosts": hosts,
        "--scale-up": scale_up,
        "--uplink": uplink,
        "--nvlink": nvlink,
        "--pcie": pcie,
        "--cpu": cpu,
        "--nic": nic,
        "--latency": latency,
        "--scale-up-latency": scale_up_latency,
        "--pcie-latency": pcie_latency,
    }
    given = {flag: value for flag, value in options.items() if value is not None}
    if by_link:
        given["--by-link"] = "true"
    return call(source, target, dims, iterations, given, fabric=fabric, force=force)
