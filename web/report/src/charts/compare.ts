// Charts of two runs side by side: in each pair of bars, the faint one is A.

import { digits, percent, time, timeUnit } from "../format";
import type { Look } from "../theme";
import { barTooltip, base, legend, names, packing, table, tip, values, zoom } from "../view";
import type { Table, View } from "../view";

type Colour = "compute" | "exposed" | "queue" | "network" | "reduction" | "wait";

interface Series {
  name: string;
  colour: Colour;
  /** The run; empty if the bar is the difference between the runs. */
  side: "a" | "b" | "";
  values: number[];
}

interface PairsData {
  label: string[];
  unit: "time" | "share";
  axis: string;
  series: Series[];
  /** The noun for a row of the table. */
  row: string;
}

/** A difference of times, with its sign. */
function signed(seconds: number): string {
  return seconds < 0 ? `-${time(-seconds)}` : time(seconds);
}

const opacity = (each: Series): number => (each.side === "a" ? 0.45 : 1);
const stack = (each: Series): string => each.side || "difference";

function listed(data: PairsData): Table {
  const text = data.unit === "time" ? signed : percent;
  const columns = data.series.map((each): [string, (at: number) => string] => [each.name, (at) => text(each.values[at])]);
  return table([[data.row, (at) => data.label[at]], ...columns], data.label.length);
}

/** Options that upright and horizontal bars share: legend, tooltip, series. */
function common(data: PairsData, look: Look, factor: number) {
  const text = data.unit === "time" ? signed : percent;
  return {
    ...base(look),
    legend: legend(look, data.series.map((each) => each.name)),
    tooltip: barTooltip(look, (at) => {
      const lines = data.series.map((each): [string, string] => [each.name, text(each.values[at])]);
      return tip(data.label[at], lines, data.series.map((each) => look[each.colour]));
    }),
    series: data.series.map((each) => ({
      type: "bar",
      name: each.name,
      stack: data.unit === "time" ? stack(each) : each.name,
      itemStyle: { color: look[each.colour], opacity: opacity(each) },
      data: each.values.map((value) => value / factor),
    })),
  };
}

/** The largest sum of a stack, which determines the unit of the axis. */
function most(data: PairsData): number {
  const sums = data.label.map((_, at) =>
    Math.max(...["a", "b", ""].map((side) => data.series.reduce((sum, each) => sum + (each.side === side ? Math.abs(each.values[at]) : 0), 0))),
  );
  return Math.max(...sums, 1e-12);
}

/** Layers as pairs of upright bars. */
export function pairedLayers(data: PairsData): View {
  const { factor, unit } = timeUnit(most(data));
  const zooms = data.label.length > 8;
  return {
    zooms,
    height: () => 420,
    option: (look, width) => {
      const long = Math.max(...data.label.map((name) => name.length));
      const shared = common(data, look, factor);
      return {
        ...shared,
        series: shared.series.map((each) => ({ ...each, ...packing(data.label.length, width) })),
        grid: { left: 8, right: 12, top: 56, bottom: zooms ? 36 : 6, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: {
          ...names(look, data.label),
          axisLabel: { color: look.faint, rotate: long * data.label.length > width / 8 ? 50 : 0, hideOverlap: true, width: 120, overflow: "truncate" },
        },
        yAxis: values(look, `${data.axis} (${unit})`, digits),
        dataZoom: zooms ? zoom(look, [0], 4, [12, 16]) : [],
      };
    },
    table: () => listed(data),
  };
}

/** Pairs of horizontal bars, each with its name. */
export function pairedBars(data: PairsData): View {
  const shares = data.unit === "share";
  const { factor, unit } = shares ? { factor: 0.01, unit: "%" } : timeUnit(most(data));
  const bars = shares ? data.series.length : new Set(data.series.map(stack)).size;
  return {
    zooms: false,
    height: () => 100 + (14 + 15 * bars) * data.label.length,
    option: (look, width) => {
      const shared = common(data, look, factor);
      return {
        ...shared,
        grid: { left: 8, right: 24, top: 34, bottom: 36, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: {
          ...values(look, `${data.axis} (${unit})`, digits),
          nameLocation: "middle",
          nameGap: 26,
          ...(shares ? { min: 0, max: 100 } : {}),
        },
        yAxis: {
          ...names(look, data.label),
          inverse: true,
          axisLine: { onZero: false, lineStyle: { color: look.line } },
          axisLabel: { color: look.text, interval: 0, width: width < 600 ? 118 : 260, overflow: "break", lineHeight: 13 },
        },
        series: shared.series.map((each) => ({ ...each, barWidth: 13, barGap: "15%" })),
      };
    },
    table: () => listed(data),
  };
}
