// The timeline, with blocks on tracks, and the critical path.

import { bytes, time, timeUnit } from "../format";
import { spread, stack } from "../lanes";
import type { Row } from "../lanes";
import { dimension } from "../theme";
import type { Look } from "../theme";
import { base, table, tip, tooltip, zoom } from "../view";
import type { Api, View } from "../view";

interface Block {
  start: number;
  end: number;
  label: string;
  tip: () => string;
  lane: number;
}

interface Track extends Row {
  lanes: number;
  colour: (look: Look) => string;
  blocks: Block[];
}

interface Params {
  coordSys: { x: number; y: number; width: number; height: number };
}

/** Tracks as series of rectangles, each with its name where there is room for it. */
function option(tracks: Track[], end: number, look: Look, width: number) {
  const rows = stack(tracks, width);
  const { factor, unit } = timeUnit(Math.max(end, 1e-12));
  return {
    ...base(look),
    title: rows.titles(look),
    grid: rows.grids,
    xAxis: tracks.map((_, at) => ({ ...rows.time(look, at, 0, end / factor, unit), axisPointer: { show: false } })),
    yAxis: tracks.map((track, at) => ({
      type: "value",
      gridIndex: at,
      min: 0,
      max: track.lanes,
      inverse: true,
      show: false,
    })),
    dataZoom: zoom(look, tracks.map((_, at) => at), 4, rows.side),
    tooltip: tooltip(look, "item", (item: { seriesIndex: number; dataIndex: number }) =>
      tracks[item.seriesIndex].blocks[item.dataIndex].tip()),
    series: tracks.map((track, at) => ({
      type: "custom",
      name: track.name,
      xAxisIndex: at,
      yAxisIndex: at,
      clip: true,
      encode: { x: [0, 1], y: 2 },
      data: track.blocks.map((block) => [block.start / factor, block.end / factor, block.lane]),
      renderItem: (params: Params, api: Api) => {
        const [x0, y0] = api.coord([api.value(0), api.value(2)]);
        const [x1, y1] = api.coord([api.value(1), api.value(2) + 1]);
        const { x, width: wide } = params.coordSys;
        const from = Math.max(x0, x);
        const to = Math.min(Math.max(x1, x0 + 0.7), x + wide);
        if (to < x || from > x + wide || to <= from) return null;
        const block = track.blocks[(params as unknown as { dataIndex: number }).dataIndex];
        const gap = y1 - y0 > 6 ? 1 : 0;
        const room = to - from - 6;
        const rect = {
          type: "rect",
          shape: { x: from, y: y0 + gap, width: to - from, height: Math.max(y1 - y0 - 2 * gap, 1) },
          style: { fill: track.colour(look), stroke: look.page, lineWidth: to - from > 6 ? 0.8 : 0 },
        };
        // Use a different type of element with a name than without, so that ECharts removes a name that no longer fits.
        if (room < 34 || y1 - y0 < 11) return rect;
        const fill = look.dark ? "#10151b" : "#ffffff";
        const text = { text: block.label, fontSize: 10, fill, width: room, overflow: "truncate", ellipsis: "…" };
        const style = { ...text, x: from + 3, y: (y0 + y1) / 2, verticalAlign: "middle" };
        return { type: "group", children: [rect, { type: "text", silent: true, style }] };
      },
    })),
  };
}

interface TimelineData {
  ranks: number[];
  tracks: string[];
  labels: string[];
  /** Index of the rank of each block; empty if there is only one rank. */
  rank: number[];
  unit_ps: number;
  track: number[];
  step: number[];
  duration: number[];
  label: number[];
  bytes: number[];
}

/** Tracks that every rank has, before those of the dimensions. */
const OWN = 6;
/** Those of these tracks that show the waits of compute. */
const WAITS = [1, 2, 3];
/** Most lanes of one track; further overlapping blocks are drawn on top of each other. */
const LANES = 12;

/** The tracks of one rank. */
export function timeline(data: TimelineData): View {
  let chosen = 0;
  const unit = data.unit_ps * 1e-12;
  const start: number[] = [];
  data.step.forEach((step, at) => start.push(step + (at ? start[at - 1] : 0)));
  const end = start.reduce((most, each, at) => Math.max(most, each + data.duration[at]), 0) * unit;
  const made = new Map<number, Track[]>();

  const tracks = (): Track[] => {
    const known = made.get(chosen);
    if (known) return known;
    const found = data.tracks.map((name, track): Track => {
      const at = start.map((_, index) => index).filter((i) => (data.rank[i] ?? 0) === chosen && data.track[i] === track);
      const spans = at.map((i) => ({ start: start[i] * unit, end: (start[i] + data.duration[i]) * unit }));
      const { lane, lanes } = spread(spans, LANES);
      const blocks = at.map((i, index): Block => {
        const label = data.labels[data.label[i]];
        const lines: [string, string][] = [
          ["track", name],
          ["from", time(start[i] * unit)],
          ["takes", time(data.duration[i] * unit)],
        ];
        if (data.bytes[i]) lines.push(["bytes", bytes(data.bytes[i])]);
        return { ...spans[index], label, lane: lane[index], tip: () => tip(label, lines) };
      });
      const colour = (look: Look) =>
        [look.compute, look.exposed, look.bubble, look.skew, look.wait, look.memory][track] ?? dimension(look, track - OWN);
      return { name, height: lanes === 1 ? 26 : Math.min(lanes * 14, 120), lanes, colour, blocks };
    });
    // Without compute, all time is waiting, so do not show the waits.
    const computes = found[0].blocks.length > 0;
    const used = found.filter((track, at) => track.blocks.length > 0 && (computes || !WAITS.includes(at)));
    made.set(chosen, used);
    return used;
  };

  return {
    zooms: true,
    choice:
      data.ranks.length > 1
        ? { label: "Rank", options: data.ranks.map(String), pick: (index) => (chosen = index) }
        : undefined,
    height: (width) => stack(tracks(), width).height + 34,
    option: (look, width) => option(tracks(), end, look, width),
    table: () => {
      const rows = tracks().flatMap((track) => track.blocks.map((block): [Track, Block] => [track, block]));
      rows.sort((a, b) => a[1].start - b[1].start);
      return table(
        [
          ["track", (at) => rows[at][0].name],
          ["what", (at) => rows[at][1].label],
          ["from", (at) => time(rows[at][1].start)],
          ["takes", (at) => time(rows[at][1].end - rows[at][1].start)],
        ],
        rows.length,
      );
    },
  };
}

interface PathData {
  start: number[];
  end: number[];
  rank: number[];
  kind: string[];
  layer: string[];
  part: string[];
  what: string[];
  dimension: string[];
  tier: string[];
  sums: [string, string, number][];
}

/** The critical path: a track for each kind of segment. */
export function criticalPath(data: PathData): View {
  const end = Math.max(...data.end, 0);
  const order = ["compute", "bytes", "queueing", "latency", "reduction", "memory", "timeout"];
  const kinds = [...new Set(data.kind)].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const tracks = kinds.map((kind): Track => {
    const at = data.kind.map((_, index) => index).filter((i) => data.kind[i] === kind);
    const blocks = at.map((i): Block => {
      const label = data.layer[i] || data.what[i] || kind;
      return {
        start: data.start[i],
        end: data.end[i],
        label,
        lane: 0,
        tip: () =>
          tip(label, [
            ["what", data.what[i] || "-"],
            ["part", data.part[i] || "-"],
            ["rank", String(data.rank[i])],
            ["dimension", data.dimension[i] || "-"],
            ["tier", data.tier[i] || "-"],
            ["from", time(data.start[i])],
            ["takes", time(data.end[i] - data.start[i])],
          ]),
      };
    });
    const colour = (look: Look) =>
      ({ compute: look.compute, bytes: look.exposed, memory: look.memory })[kind] ?? look.wait;
    return { name: kind, height: 26, lanes: 1, colour, blocks };
  });
  return {
    zooms: true,
    height: (width) => stack(tracks, width).height + 34,
    option: (look, width) => option(tracks, end, look, width),
    table: () =>
      table(
        [
          ["kind", (at) => data.sums[at][0]],
          ["of", (at) => data.sums[at][1] || "-"],
          ["time on the path", (at) => time(data.sums[at][2])],
        ],
        data.sums.length,
      ),
  };
}

