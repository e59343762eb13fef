"""The Perfetto trace, read with Perfetto's own messages."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import syncline
from tests.report.runs import resnet

messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed")


class Trace:
    """Processes, tracks and slices of a trace."""

    def __init__(self, file: Path) -> None:
        trace = messages.Trace()
        trace.ParseFromString(file.read_bytes())
        self.processes: dict[int, str] = {}
        self.tracks: dict[int, tuple[str, str]] = {}
        self.notes: list[str] = []
        self.slices: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        opened: dict[int, list[int]] = defaultdict(list)
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                self._track(packet.track_descriptor)
            elif packet.HasField("track_event"):
                event = packet.track_event
                if event.type == event.TYPE_SLICE_BEGIN:
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


def test_every_traced_rank_is_a_process_with_its_tracks(tmp_path: Path) -> None:
    result = resnet()
    result.save(tmp_path / "run")
    trace = Trace(tmp_path / "run" / "trace.pftrace")
    # All ranks do the same: they are one class.
    assert set(trace.processes.values()) == {"rank 0"}
    names = {name for _, name in trace.tracks.values()}
    assert {"compute", "communication", "exposed communication", "local", "vertical", "horizontal"} <= names
    compute = sum(end - start for start, end in trace.slices["rank 0", "compute"])
    assert compute == pytest.approx(1e9 * result.table("ranks")["compute_s"][0], rel=1e-6)
    exposed = sum(end - start for start, end in trace.slices["rank 0", "exposed communication"])
    assert exposed == pytest.approx(1e9 * result.table("ranks")["exposed_communication_s"][0], abs=2)
    assert not trace.notes


def test_ranks_can_be_chosen_and_the_cap_says_what_it_cut(tmp_path: Path) -> None:
    scenario = {
        "workload": {"collective": "all_reduce", "bytes": "1MiB"},
        "fabric": {"shape": "Ring(8)", "rate": "25GB/s"},
        "trace": {"ranks": [1, 6], "max_spans": 20},
    }
    syncline.simulate(scenario).save(tmp_path / "run")
    trace = Trace(tmp_path / "run" / "trace.pftrace")
    assert set(trace.processes.values()) == {"rank 1", "rank 6"}
    assert [note for note in trace.notes if note.startswith("trace was cut: ") and note.endswith(" spans left out")]
