// Time by layer: compute and exposed communication, and raw communication by part of the step.

import { bytes, digits, time, timeUnit } from "../format";
import type { Look } from "../theme";
import { barTooltip, base, legend, names, packing, table, tip, values, zoom } from "../view";
import type { View } from "../view";

interface Series {
  name: string;
  colour: (look: Look) => string;
  values: number[];
}

/** Layers as stacked bars. `more` adds lines to the tooltip. */
function stacked(layer: string[], series: Series[], more: (index: number) => [string, string][]): View {
  const total = layer.map((_, index) => series.reduce((sum, each) => sum + each.values[index], 0));
  const { factor, unit } = timeUnit(Math.max(...total, 1e-12));
  return {
    zooms: layer.length > 8,
    height: () => 400,
    option: (look, width) => {
      const long = Math.max(...layer.map((name) => name.length));
      const room = Math.min(long * 5 + 14, 110);
      const bottom = layer.length > 8 ? room + 30 : room;
      return {
        ...base(look),
        legend: legend(look, series.map((each) => each.name)),
        grid: { left: 8, right: 12, top: 56, bottom: bottom - room + 6, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: {
          ...names(look, layer),
          axisLabel: { color: look.faint, rotate: 50, hideOverlap: true, width: 120, overflow: "truncate" },
        },
        yAxis: values(look, `time in a step (${unit})`, digits),
        dataZoom: layer.length > 8 ? zoom(look, [0], 4, [12, 16]) : [],
        tooltip: barTooltip(look, (at) => {
          const lines = series.map((each): [string, string] => [each.name, time(each.values[at])]);
          return tip(layer[at], [...lines, ...more(at)], series.map((each) => each.colour(look)));
        }),
        series: series.map((each) => ({
          type: "bar",
          name: each.name,
          stack: "all",
          color: each.colour(look),
          ...packing(layer.length, width),
          data: each.values.map((value) => value / factor),
          emphasis: { focus: "series" },
        })),
      };
    },
    table: () =>
      table(
        [
          ["layer", (at) => layer[at]],
          ...series.map((each): [string, (at: number) => string] => [each.name, (at) => time(each.values[at])]),
          ...more(0).map(([name], column): [string, (at: number) => string] => [name, (at) => more(at)[column][1]]),
        ],
        layer.length,
      ),
  };
}

interface LayersData {
  layer: string[];
  exposed: number[];
  compute: number[];
  parts: Record<"forward" | "input_grad" | "weight_grad" | "update", number[]>;
}

/** Compute and exposed communication. */
export function layers(data: LayersData): View {
  const { parts } = data;
  return stacked(
    data.layer,
    [
      { name: "compute", colour: (look) => look.compute, values: data.compute },
      { name: "exposed communication", colour: (look) => look.exposed, values: data.exposed },
    ],
    (at) => [
      ["forward pass", time(parts.forward[at])],
      ["gradient of inputs", time(parts.input_grad[at])],
      ["gradient of parameters", time(parts.weight_grad[at])],
      ["update", time(parts.update[at])],
    ],
  );
}

interface CommunicationData {
  layer: string[];
  bytes: number[];
  parts: Record<"forward" | "input_grad" | "weight_grad", number[]>;
}

/** Raw communication by part. Parts without any are left out. */
export function communication(data: CommunicationData): View {
  const all: Series[] = [
    { name: "forward pass", colour: (look) => look.parts[0], values: data.parts.forward },
    { name: "gradient of inputs", colour: (look) => look.parts[1], values: data.parts.input_grad },
    { name: "gradient of parameters", colour: (look) => look.parts[2], values: data.parts.weight_grad },
  ];
  const used = all.filter((each) => each.values.some((value) => value > 0));
  return stacked(data.layer, used, (at) => [["size of its collectives", bytes(data.bytes[at])]]);
}
