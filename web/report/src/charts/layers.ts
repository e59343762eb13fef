// Time by layer: compute and exposed communication, and raw communication by part of the step.

import { bytes, digits, time, timeUnit } from "../format";
import type { Look } from "../theme";
import { barTooltip, base, lower, names, packing, table, tip, values, wrapped, zoom } from "../view";
import type { View } from "../view";

interface Series {
  name: string;
  colour: (look: Look) => string;
  values: number[];
}

/** One way to group layers: what a bar is, names of the bars, and the number of layers in each. */
interface Grouping {
  what: string;
  layer: string[];
  layers: number[];
  /** Where stages begin: the number of their first bar, and their name. */
  stages: [number, string][];
}

/** Bars of one grouping. `more` adds lines to the tooltip. */
interface Bars {
  grouping: Grouping;
  series: Series[];
  more: (index: number) => [string, string][];
}

/** Pixels that a slanted name needs beside the next one. */
const SLANTED = 15;
/** Approximate width of a letter, in pixels. */
const LETTER = 6.2;

/** The names below bars: level if there is room, else slanted; only as many as fit. */
function labels(look: Look, bars: string[], width: number): object {
  const long = Math.max(...bars.map((name) => name.length));
  const each = (width - 90) / bars.length;
  const numbered = bars.length > 24;
  if (numbered || long * LETTER + 8 < each) {
    return { color: look.faint, rotate: 0, hideOverlap: true, interval: "auto" };
  }
  const interval = Math.max(Math.ceil(SLANTED / each) - 1, 0);
  return { color: look.faint, rotate: 50, interval, width: 110, overflow: "truncate" };
}

/** Lines where stages of a pipeline begin. */
function borders(look: Look, stages: [number, string][]): object | undefined {
  if (!stages.length) return undefined;
  return {
    silent: true,
    symbol: "none",
    lineStyle: { color: look.faint, type: "dashed", width: 1 },
    label: { color: look.faint, position: "end", align: "left", distance: 2, formatter: "{b}" },
    data: stages.map(([bar, name]) => ({ xAxis: bar, name })),
  };
}

/** Layers as stacked bars, in one of several groupings. */
function stacked(all: Bars[]): View {
  let chosen = 0;
  const total = ({ series }: Bars, at: number) => series.reduce((sum, each) => sum + each.values[at], 0);
  const zoomed = all.some((each) => each.grouping.layer.length > 8);
  const plural = (what: string) => (what.startsWith("kind") ? "kinds of layers" : `${what}s`);
  return {
    zooms: zoomed,
    choice:
      all.length > 1
        ? { label: "Bars are", options: all.map((each) => plural(each.grouping.what)), pick: (index) => (chosen = index) }
        : undefined,
    height: (width) => 400 + lower(all[chosen].series.map((each) => each.name), width),
    option: (look, width) => {
      const bars = all[chosen];
      const { layer, layers } = bars.grouping;
      const { series, more } = bars;
      const { factor, unit } = timeUnit(Math.max(...layer.map((_, at) => total(bars, at)), 1e-12));
      const axis = labels(look, layer, width);
      return {
        ...base(look),
        legend: wrapped(look, series.map((each) => each.name)),
        grid: { left: 8, right: 12, top: 56 + lower(series.map((each) => each.name), width), bottom: zoomed ? 36 : 6, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: { ...names(look, layer), axisLabel: axis },
        yAxis: values(look, `time in a step (${unit})`, digits),
        dataZoom: zoomed ? zoom(look, [0], 4, [12, 16]) : [],
        tooltip: barTooltip(look, (at) => {
          const lines = series.map((each): [string, string] => [each.name, time(each.values[at])]);
          const title = layers[at] > 1 ? `${layer[at]}: ${layers[at]} layers` : layer[at];
          return tip(title, [...lines, ...more(at)], series.map((each) => each.colour(look)));
        }),
        series: series.map((each, at) => ({
          type: "bar",
          markLine: at ? undefined : borders(look, bars.grouping.stages),
          name: each.name,
          stack: "all",
          color: each.colour(look),
          ...packing(layer.length, width),
          data: each.values.map((value) => value / factor),
          emphasis: { focus: "series" },
        })),
      };
    },
    table: () => {
      const { grouping, series, more } = all[chosen];
      return table(
        [
          [grouping.what, (at) => grouping.layer[at]],
          ...(all.length > 1 ? [["layers", (at) => String(grouping.layers[at])] as [string, (at: number) => string]] : []),
          ...series.map((each): [string, (at: number) => string] => [each.name, (at) => time(each.values[at])]),
          ...more(0).map(([name], column): [string, (at: number) => string] => [name, (at) => more(at)[column][1]]),
        ],
        grouping.layer.length,
      );
    },
  };
}

interface LayersData {
  views: (Grouping & {
    exposed: number[];
    compute: number[];
    parts: Record<"forward" | "input_grad" | "weight_grad" | "update", number[]>;
  })[];
}

/** Compute and exposed communication. */
export function layers(data: LayersData): View {
  return stacked(
    data.views.map((view) => ({
      grouping: view,
      series: [
        { name: "compute", colour: (look) => look.compute, values: view.compute },
        { name: "exposed communication", colour: (look) => look.exposed, values: view.exposed },
      ],
      more: (at) => [
        ["forward pass", time(view.parts.forward[at])],
        ["gradient of inputs", time(view.parts.input_grad[at])],
        ["gradient of parameters", time(view.parts.weight_grad[at])],
        ["update", time(view.parts.update[at])],
      ],
    })),
  );
}

interface CommunicationData {
  views: (Grouping & { bytes: number[]; parts: Record<"forward" | "input_grad" | "weight_grad", number[]> })[];
}

/** Raw communication by part of the step; parts without communication are left out. */
export function communication(data: CommunicationData): View {
  return stacked(
    data.views.map((view) => {
      const all: Series[] = [
        { name: "forward pass", colour: (look) => look.parts[0], values: view.parts.forward },
        { name: "gradient of inputs", colour: (look) => look.parts[1], values: view.parts.input_grad },
        { name: "gradient of parameters", colour: (look) => look.parts[2], values: view.parts.weight_grad },
      ];
      const series = all.filter((each) => each.values.some((value) => value > 0));
      return { grouping: view, series, more: (at) => [["size of its collectives", bytes(view.bytes[at])]] };
    }),
  );
}
