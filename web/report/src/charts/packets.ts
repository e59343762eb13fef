// Packets: losses and queues over time, and percentiles of round-trip times.

import type { ECBasicOption } from "echarts/types/dist/shared";
import { bytes, digits, percent, time, timeUnit } from "../format";
import { sliceAt, stack, steps } from "../lanes";
import type { Row, Slices, Stack } from "../lanes";
import { dimension } from "../theme";
import type { Look } from "../theme";
import { base, legend, table, tip, tooltip, values, zoom } from "../view";
import type { Api, View } from "../view";

/** Room for the labels of a lane's own axis, in pixels. */
const LABELS = 46;

/** Something with a name, which has its own colour if it is a dimension of the fabric. */
interface Coloured {
  name: string;
  /** Number of the fabric's dimension. */
  dimension?: number;
}

function colour(look: Look, of: Coloured): string {
  return of.dimension === undefined ? look.network : dimension(look, of.dimension);
}

/** A lane with an axis from 0 to `top`, where it is labelled. */
interface Lane extends Row {
  top: number;
  /** End of the axis, if it is not `top`. */
  until?: number;
  label: string;
  series: (look: Look) => ECBasicOption[];
}

/** Lanes over one axis of time; `html` makes the tooltip for a time in seconds. */
function lanesOption(
  lanes: Lane[],
  end: number,
  rows: Stack,
  look: Look,
  html: (time: number) => string,
): ECBasicOption {
  const { factor, unit } = timeUnit(end);
  const all = lanes.map((_, at) => at);
  return {
    ...base(look),
    title: rows.titles(look),
    grid: rows.grids,
    xAxis: all.map((at) => rows.time(look, at, 0, end / factor, unit)),
    yAxis: lanes.map((lane, at) => ({
      ...values(look, "", (value) => (value === lane.top ? lane.label : "")),
      gridIndex: at,
      min: 0,
      max: lane.until ?? lane.top,
      interval: lane.top,
    })),
    dataZoom: zoom(look, all, 4, rows.side),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: tooltip(look, "axis", (found: { axisValue: number }[]) => html(found[0].axisValue * factor)),
    series: lanes.flatMap((lane, at) =>
      lane.series(look).map((each) => ({ type: "line", xAxisIndex: at, yAxisIndex: at, symbol: "none", clip: true, ...each })),
    ),
  };
}

/** An area in steps. */
function area(slices: Slices, of: number[], end: number, fill: string): ECBasicOption {
  return {
    step: "end",
    color: fill,
    lineStyle: { width: 0 },
    areaStyle: { opacity: 0.75 },
    data: steps(slices, of, timeUnit(end).factor),
  };
}

/** Least height of a bar in pixels, so that a small count next to large ones is visible. */
const SEEN = 2;

/** A bar for each slice with a count above 0, as wide as the slice. */
function bars(slices: Slices, of: number[], end: number, fill: string): ECBasicOption {
  const { factor } = timeUnit(end);
  return {
    type: "custom",
    color: fill,
    encode: { x: [0, 1], y: 2 },
    data: of.map((count, at) => [slices.start[at] / factor, slices.end[at] / factor, count]),
    renderItem: (_: unknown, api: Api) => {
      if (!api.value(2)) return null;
      const [x0, y] = api.coord([api.value(0), api.value(2)]);
      const [x1, floor] = api.coord([api.value(1), 0]);
      // Whole pixels, so that no seam shows between two of them.
      const [left, height] = [Math.floor(x0), Math.max(floor - y, SEEN)];
      const shape = { x: left, y: floor - height, width: Math.max(Math.floor(x1) - left, 1), height };
      return { type: "rect", shape, style: { fill } };
    },
  };
}

interface Lossy extends Slices, Coloured {
  utilization: Slices & { mean: number[]; busiest: number[] };
  /** Counts in each slice, by kind of event. */
  counts: Record<string, number[]>;
}

/** Kinds of events, with their names and colours. */
const KINDS: [string, string, (look: Look) => string][] = [
  ["timeouts", "time-outs (RTO)", (look) => look.exposed],
  ["retransmissions", "segments sent again", (look) => look.exposed],
  ["dropped", "packets dropped", (look) => look.exposed],
  ["marked", "packets marked (ECN)", (look) => look.queue],
  ["pauses", "pauses (PFC)", (look) => look.queue],
];

/** The mean of values from one time to another, weighted by time. */
function meanOf(slices: Slices, of: number[], from: number, to: number): string {
  let [sum, known] = [0, 0];
  slices.start.forEach((begin, at) => {
    const shared = Math.min(slices.end[at], to) - Math.max(begin, from);
    if (shared <= 0) return;
    sum += of[at] * shared;
    known += shared;
  });
  return known > 0 ? percent(sum / known) : "-";
}

/** Utilisation of a dimension, and below it losses, marks and pauses. */
export function losses(data: { dims: Lossy[] }): View {
  const { dims } = data;
  let chosen = 0;
  const end = Math.max(...dims.flatMap((dim) => [...dim.end, ...dim.utilization.end]), 1e-12);
  const kinds = (dim: Lossy) => KINDS.filter(([kind]) => kind in dim.counts);
  const lanes = (dim: Lossy): Lane[] => [
    {
      name: `${dim.name}: utilisation`,
      height: 64,
      top: 100,
      label: "100 %",
      series: (look) => [
        area(dim.utilization, dim.utilization.mean.map((share) => 100 * share), end, colour(look, dim)),
        {
          step: "end",
          color: look.text,
          lineStyle: { width: 1, type: "dotted" },
          data: steps(dim.utilization, dim.utilization.busiest.map((share) => 100 * share), timeUnit(end).factor),
        },
      ],
    },
    ...kinds(dim).map(([kind, name, of]): Lane => {
      const top = Math.max(...dim.counts[kind]);
      return {
        name,
        height: 38,
        top,
        label: digits(top),
        series: (look) => [bars(dim, dim.counts[kind], end, of(look))],
      };
    }),
  ];
  const shares = ({ utilization: used }: Lossy, from: number, to: number): [string, string][] => [
    ["utilisation", meanOf(used, used.mean, from, to)],
    ["busiest link", meanOf(used, used.busiest, from, to)],
  ];
  return {
    zooms: true,
    choice:
      dims.length > 1
        ? { label: "Dimension", options: dims.map((dim) => dim.name), pick: (index) => (chosen = index) }
        : undefined,
    height: (width) => stack(lanes(dims[chosen]), width, LABELS).height + 34,
    option: (look, width) => {
      const dim = dims[chosen];
      const shown = lanes(dim);
      return lanesOption(shown, end, stack(shown, width, LABELS), look, (now) => {
        const at = sliceAt(dim, now);
        const [from, to] = [dim.start[at], dim.end[at]];
        return tip(
          `${dim.name}, ${time(from)} to ${time(to)}`,
          [
            ...shares(dim, from, to),
            ...kinds(dim).map(([kind, name]): [string, string] => [name, String(dim.counts[kind][at])]),
          ],
          [colour(look, dim), undefined, ...kinds(dim).map(([, , of]) => of(look))],
        );
      });
    },
    table: () => {
      const dim = dims[chosen];
      return table(
        [
          [`${dim.name}, from`, (row) => time(dim.start[row])],
          ["to", (row) => time(dim.end[row])],
          ...[0, 1].map((of): [string, (row: number) => string] => [
            ["utilisation", "busiest link"][of],
            (row) => shares(dim, dim.start[row], dim.end[row])[of][1],
          ]),
          ...kinds(dim).map(([kind, name]): [string, (row: number) => string] => [name, (row) => String(dim.counts[kind][row])]),
        ],
        dim.start.length,
      );
    },
  };
}

interface Queued extends Slices, Coloured {
  mean: number[];
  longest: number[];
  /** The most that a port's queue may hold, if that is known. */
  limit?: number;
}

/** A limit above this multiple of the longest queue is not drawn, since it would leave no room for the queue. */
const FAR = 4;

/** Mean and longest queue over time: a lane for each dimension. */
export function queues(data: { lanes: Queued[] }): View {
  const end = Math.max(...data.lanes.flatMap((lane) => lane.end), 1e-12);
  const { factor } = timeUnit(end);
  const lanes = data.lanes.map((lane): Lane => {
    const longest = Math.max(...lane.longest, 1);
    const near = lane.limit !== undefined && lane.limit < FAR * longest ? lane.limit : undefined;
    const top = near ?? longest;
    return {
      name: lane.name,
      height: 90,
      top,
      until: near && Math.max(1.1 * near, longest),
      label: bytes(Number(top.toPrecision(3))),
      series: (look) => [
        { name: "mean of ports", ...area(lane, lane.mean, end, colour(look, lane)) },
        {
          name: "longest",
          step: "end",
          color: colour(look, lane),
          lineStyle: { width: 1.6 },
          data: steps(lane, lane.longest, factor),
        },
        ...(near
          ? [
              {
                name: "most that a port may hold",
                color: look.text,
                lineStyle: { width: 1, type: "dashed" },
                data: [[0, near], [end / factor, near]],
              },
            ]
          : []),
      ],
    };
  });
  const lines = (lane: Queued, at: number): [string, string][] => [
    [`${lane.name}: mean`, bytes(lane.mean[at])],
    [`${lane.name}: longest`, bytes(lane.longest[at])],
    ...(lane.limit === undefined ? [] : [[`${lane.name}: may hold`, bytes(lane.limit)] as [string, string]]),
  ];
  return {
    zooms: true,
    height: (width) => stack(lanes, width, LABELS).height + 34,
    option: (look, width) =>
      lanesOption(lanes, end, stack(lanes, width, LABELS), look, (now) => {
        const [first] = data.lanes;
        const at = sliceAt(first, now);
        const texts = data.lanes.map((lane) => lines(lane, sliceAt(lane, now)));
        const colours = data.lanes.flatMap((lane, of) => texts[of].map((_, line) => (line ? undefined : colour(look, lane))));
        return tip(`${time(first.start[at])} to ${time(first.end[at])}`, texts.flat(), colours);
      }),
    table: () => {
      const rows = data.lanes.flatMap((lane) => lane.start.map((_, at): [Queued, number] => [lane, at]));
      return table(
        [
          ["dimension", (row) => rows[row][0].name],
          ["from", (row) => time(rows[row][0].start[rows[row][1]])],
          ["to", (row) => time(rows[row][0].end[rows[row][1]])],
          ["mean queue", (row) => bytes(rows[row][0].mean[rows[row][1]])],
          ["longest queue", (row) => bytes(rows[row][0].longest[rows[row][1]])],
          ["may hold", (row) => (rows[row][0].limit === undefined ? "-" : bytes(rows[row][0].limit!))],
        ],
        rows.length,
      );
    },
  };
}

interface Curve extends Coloured {
  count: number;
  /** The 1st to the 100th percentile. */
  values: number[];
}

interface RoundTripsData {
  curves: Curve[];
  mean: number;
  p50: number;
  p99: number;
}

/** The axis is logarithmic if the ratio of the largest to the smallest value is above this. */
const WIDE = 20;

/** Round-trip times, over the share of connections with at most this round-trip time. */
export function roundTrips(data: RoundTripsData): View {
  const { curves, mean, p50, p99 } = data;
  const all = curves.flatMap((curve) => curve.values);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const wide = most > WIDE * least;
  const lone = curves.length === 1;
  const tint = (look: Look, curve: Curve) =>
    curve.dimension === undefined ? (lone ? look.network : look.text) : dimension(look, curve.dimension);
  return {
    zooms: false,
    height: () => 340,
    option: (look, width) => ({
      ...base(look),
      legend: legend(look, [...curves.map((curve) => curve.name), "mean"]),
      grid: { left: 8, right: 24, top: 58, bottom: 36, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: {
        ...values(look, width < 600 ? "connections" : "connections, from the shortest round trip to the longest", (value) => `${value} %`),
        nameLocation: "middle",
        nameGap: 26,
        nameTextStyle: { color: look.faint, align: "center" },
        min: 0,
        max: 100,
        axisPointer: { show: true, type: "line", label: { show: false }, lineStyle: { color: look.faint } },
      },
      yAxis: {
        ...values(look, wide ? "round-trip time (logarithmic)" : "round-trip time", time),
        type: wide ? "log" : "value",
        ...(wide ? {} : { min: 0 }),
      },
      tooltip: tooltip(look, "axis", (found: { axisValue: number }[]) => {
        const at = Math.min(Math.max(Math.ceil(found[0].axisValue), 1), 100);
        return tip(
          `${at} % of connections: at most`,
          curves.map((curve): [string, string] => [curve.name, time(curve.values[at - 1])]),
          curves.map((curve) => tint(look, curve)),
        );
      }),
      series: [
        ...curves.map((curve) => ({
          type: "line",
          name: curve.name,
          step: "start",
          showSymbol: false,
          color: tint(look, curve),
          lineStyle: { width: 2, ...(lone || curve.dimension !== undefined ? {} : { type: "dotted" }) },
          data: [[0, curve.values[0]], ...curve.values.map((value, at) => [at + 1, value])],
        })),
        {
          type: "line",
          name: "mean",
          showSymbol: false,
          color: look.queue,
          lineStyle: { width: 1.4, type: "dashed" },
          data: [[0, mean], [100, mean]],
        },
        {
          type: "scatter",
          name: "marks",
          symbolSize: 9,
          color: look.text,
          z: 5,
          data: [[50, p50], [99, p99]],
          label: {
            show: true,
            // Rising curves leave the area above and to the left free for the label.
            position: "top",
            align: "right",
            color: look.text,
            backgroundColor: look.page,
            padding: [1, 3],
            fontWeight: 600,
            formatter: (item: { dataIndex: number }) => (item.dataIndex ? `p99 ${time(p99)}` : `p50 ${time(p50)}`),
          },
        },
      ],
    }),
    table: () =>
      table(
        [
          ["connections", (row) => `${row + 1} %`],
          ...curves.map((curve): [string, (row: number) => string] => [
            `${curve.name} (${curve.count})`,
            (row) => time(curve.values[row]),
          ]),
        ],
        100,
      ),
  };
}
