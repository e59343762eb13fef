// Utilisation of each dimension: in the whole run, and over time.

import { bytes, percent, time, timeUnit } from "../format";
import { stack, steps } from "../lanes";
import type { Slices } from "../lanes";
import { dimension } from "../theme";
import { barTooltip, base, legend, names, table, tip, tooltip, values, zoom } from "../view";
import type { View } from "../view";

interface DimensionsData {
  name: string[];
  bytes: number[];
  whole: number[];
  busy: number[];
  /** Null if the network model does not give it. */
  busiest: (number | null)[];
  link: string[];
}

/** Utilisation in the whole run, while busy, and of the busiest link. */
export function dimensions(data: DimensionsData): View {
  const share = (value: number | null) => (value === null ? "-" : percent(value));
  const kinds: [string, (number | null)[]][] = [
    ["whole run", data.whole],
    ["while busy", data.busy],
    ["busiest link", data.busiest],
  ];
  return {
    zooms: false,
    height: () => 90 + 66 * data.name.length,
    option: (look) => {
      const colours = [look.network, look.parts[2], look.wait];
      return {
        ...base(look),
        legend: legend(look, kinds.map(([name]) => name)),
        grid: { left: 8, right: 48, top: 34, bottom: 8, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: { ...values(look, "", (value) => `${value} %`), min: 0, max: 100 },
        yAxis: { ...names(look, data.name), inverse: true, axisLabel: { color: look.text } },
        tooltip: barTooltip(look, (at) => {
          const shares = kinds.map(([name, shown]): [string, string] => [name, share(shown[at])]);
          return tip(data.name[at], [...shares, ["carried", bytes(data.bytes[at])], [data.busiest[at] === null ? "carries most" : "busiest", data.link[at]]], colours);
        }),
        series: kinds.map(([name, shown], index) => ({
          type: "bar",
          name,
          color: colours[index],
          barWidth: 13,
          barGap: "15%",
          data: shown.map((value) => (value === null ? null : 100 * value)),
          label: {
            show: true,
            position: "right",
            color: look.text,
            fontSize: 11,
            formatter: (item: { dataIndex: number }) => share(shown[item.dataIndex]),
          },
        })),
      };
    },
    table: () =>
      table(
        [
          ["dimension", (at) => data.name[at]],
          ["utilisation, whole run", (at) => percent(data.whole[at])],
          ["utilisation while busy", (at) => percent(data.busy[at])],
          ["busiest link sends", (at) => share(data.busiest[at])],
          ["busiest link", (at) => data.link[at]],
          ["carried", (at) => bytes(data.bytes[at])],
        ],
        data.name.length,
      ),
  };
}

interface Lane extends Slices {
  name: string;
  /** Number of the fabric's dimension; compute has none. */
  dimension?: number;
  mean: number[];
  busiest: number[];
}

/** Room for the labels of a lane's own axis, in pixels. */
const SHARES = 26;

/** Utilisation over time: a lane for compute and for each dimension. */
export function activity(data: { lanes: Lane[] }): View {
  const { lanes } = data;
  const end = Math.max(...lanes.flatMap((lane) => lane.end), 1e-12);
  const { factor, unit } = timeUnit(end);
  const height = 64;
  return {
    zooms: true,
    height: (width) => stack(lanes.map((lane) => ({ name: lane.name, height })), width, SHARES).height + 54,
    option: (look, width) => {
      const rows = stack(lanes.map((lane) => ({ name: lane.name, height })), width, SHARES);
      const line = (lane: Lane, of: number[]) => steps(lane, of.map((share) => 100 * share), factor);
      const colour = (lane: Lane) => (lane.dimension === undefined ? look.compute : dimension(look, lane.dimension));
      return {
        ...base(look),
        title: rows.titles(look),
        grid: rows.grids,
        xAxis: lanes.map((_, at) => rows.time(look, at, 0, end / factor, unit)),
        yAxis: lanes.map((_, at) => ({
          ...values(look, "", (value) => (value === 100 ? "100 %" : "")),
          gridIndex: at,
          min: 0,
          max: 100,
          interval: 50,
        })),
        dataZoom: zoom(look, lanes.map((_, at) => at), 4, rows.side),
        axisPointer: { link: [{ xAxisIndex: "all" }] },
        tooltip: tooltip(look, "axis", (found: { dataIndex: number; axisIndex?: number }[]) => {
          const at = found[0].dataIndex;
          const lines = lanes
            .filter((lane) => at < lane.start.length)
            .map((lane): [string, string] => [
              lane.name,
              lane.dimension === undefined ? percent(lane.mean[at]) : `${percent(lane.mean[at])}, busiest ${percent(lane.busiest[at])}`,
            ]);
          const from = lanes[0].start[Math.min(at, lanes[0].start.length - 1)];
          return tip(`from ${time(from)}`, lines, lanes.map(colour));
        }),
        series: lanes.flatMap((lane, at) => [
          {
            type: "line",
            name: lane.name,
            xAxisIndex: at,
            yAxisIndex: at,
            step: "end" as const,
            showSymbol: false,
            color: colour(lane),
            lineStyle: { width: 0 },
            areaStyle: { opacity: 0.75 },
            data: line(lane, lane.mean),
          },
          ...(lane.dimension === undefined
            ? []
            : [
                {
                  type: "line",
                  name: `${lane.name}, busiest link`,
                  xAxisIndex: at,
                  yAxisIndex: at,
                  step: "end" as const,
                  showSymbol: false,
                  color: look.text,
                  lineStyle: { width: 1, type: "dotted" as const },
                  data: line(lane, lane.busiest),
                },
              ]),
        ]),
      };
    },
    table: () => {
      const rows = lanes.flatMap((lane) => lane.start.map((_, at): [Lane, number] => [lane, at]));
      return table(
        [
          ["what", (row) => rows[row][0].name],
          ["from", (row) => time(rows[row][0].start[rows[row][1]])],
          ["to", (row) => time(rows[row][0].end[rows[row][1]])],
          ["utilisation", (row) => percent(rows[row][0].mean[rows[row][1]])],
          ["busiest link", (row) => (rows[row][0].dimension === undefined ? "-" : percent(rows[row][0].busiest[rows[row][1]]))],
        ],
        rows.length,
      );
    },
  };
}

