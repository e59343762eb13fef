"""The Perfetto trace, read with Perfetto's own messages."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import syncline
from tests.report.runs import packets, resnet

messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed")


class Trace:
    """Processes, tracks, slices and counters of a trace."""

    def __init__(self, file: Path) -> None:
        trace = messages.Trace()
        trace.ParseFromString(file.read_bytes())
        self.processes: dict[int, str] = {}
        self.tracks: dict[int, tuple[str, str]] = {}
        self.notes: list[str] = []
        self.slices: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        self.groups: dict[int, str] = {}
        self.counters: dict[int, tuple[str, str]] = {}
        self.values: dict[tuple[str, str], list[tuple[int, float]]] = {}
        opened: dict[int, list[int]] = defaultdict(list)
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                self._track(packet.track_descriptor)
            elif packet.HasField("track_event"):
                event = packet.track_event
                if event.type == event.TYPE_COUNTER:
                    values = self.values[self.counters[event.track_uuid]]
                    values.append((packet.timestamp, event.double_counter_value))
                elif event.type == event.TYPE_SLICE_BEGIN:
                    opened[event.track_uuid].append(packet.timestamp)
                    if event.track_uuid not in self.tracks:
                        self.notes.append(event.name)
                else:
                    start = opened[event.track_uuid].pop()
                    place = self.tracks.get(event.track_uuid, ("", ""))
                    self.slices[place].append((start, packet.timestamp))
        assert not any(opened.values()), "every slice ends"

    def _track(self, track: Any) -> None:
        if track.HasField("process"):
            self.processes[track.process.pid] = track.process.process_name
        elif track.HasField("thread"):
            self.tracks[track.uuid] = (self.processes[track.thread.pid], track.thread.thread_name)
        elif track.HasField("counter"):
            self.counters[track.uuid] = (self.groups[track.parent_uuid], track.name)
            self.values[self.counters[track.uuid]] = []
        elif track.child_ordering == track.EXPLICIT:
            self.groups[track.uuid] = track.name

    def at(self, counter: tuple[str, str], ns: int) -> float:
        """The value of a counter at a time."""
        return [value for time, value in self.values[counter] if time <= ns][-1]


def test_every_traced_rank_is_a_process_with_its_tracks(tmp_path: Path) -> None:
    result = resnet()
    result.save(tmp_path / "run")
    trace = Trace(tmp_path / "run" / "trace.pftrace")
    # All ranks do the same, so they are one class.
    assert set(trace.processes.values()) == {"rank 0"}
    names = {name for _, name in trace.tracks.values()}
    assert {"compute", "communication", "exposed communication", "local", "vertical", "horizontal"} <= names
    compute = sum(end - start for start, end in trace.slices["rank 0", "compute"])
    assert compute == pytest.approx(1e9 * result.table("ranks")["compute_s"][0], rel=1e-6)
    exposed = sum(end - start for start, end in trace.slices["rank 0", "exposed communication"])
    assert exposed == pytest.approx(1e9 * result.table("ranks")["exposed_communication_s"][0], abs=2)
    assert not trace.notes


def test_traced_ranks_can_be_chosen_and_a_cut_trace_says_so(tmp_path: Path) -> None:
    scenario = {
        "workload": {"collective": "all_reduce", "bytes": "1MiB"},
        "fabric": {"shape": "Ring(8)", "rate": "25GB/s"},
        "trace": {"ranks": [1, 6], "max_spans": 20},
    }
    syncline.simulate(scenario).save(tmp_path / "run")
    trace = Trace(tmp_path / "run" / "trace.pftrace")
    assert set(trace.processes.values()) == {"rank 1", "rank 6"}
    assert [note for note in trace.notes if note.startswith("trace was cut: ") and note.endswith(" spans left out")]


def test_counters_equal_the_slices_of_the_tables(tmp_path: Path) -> None:
    result = packets()
    result.save(tmp_path / "run")
    trace = Trace(tmp_path / "run" / "trace.pftrace")
    dims = [dim.name for dim in result.summary.dims]
    assert list(dict.fromkeys(group for group, _ in trace.values)) == dims
    queues, activity = result.table("queues"), result.table("activity")
    for table, column, name, scale in (
        (activity, "utilization", "utilisation", 100),
        (queues, "mean_queue_bytes", "mean queue of a port", 1),
        (queues, "longest_queue_bytes", "longest queue", 1),
        (queues, "dropped", "dropped packets", 1),
        (queues, "timeouts", "retransmission time-outs", 1),
    ):
        assert any(table[column]), name
        kinds = table.get("kind", ["links"] * len(table["dimension"]))
        for kind, dimension, start, end, value in zip(
            kinds, *(table[each] for each in ("dimension", "start_s", "end_s", column)), strict=True
        ):
            if kind == "compute" or (dimension, name) not in trace.values:
                assert kind == "compute" or not value
                continue
            middle = round(5e8 * (start + end))
            assert trace.at((dimension, name), middle) == pytest.approx(scale * value), (dimension, name, start)
    # No packet was marked in this run, so there is no counter of marked packets.
    assert not [name for _, name in trace.values if name == "marked packets"]
    assert all(values[-1][1] == 0 for values in trace.values.values())


def test_models_without_packets_have_only_counters_of_utilisation(tmp_path: Path) -> None:
    resnet().save(tmp_path / "run")
    trace = Trace(tmp_path / "run" / "trace.pftrace")
    assert {name for _, name in trace.values} == {"utilisation", "utilisation of the busiest link"}
    assert {group for group, _ in trace.values} == {"local", "vertical", "horizontal"}
