// Lanes over one axis of time: each has its own grid, with its name beside it or, on narrow pages, above it.

import type { ECBasicOption } from "echarts/types/dist/shared";
import { digits } from "./format";
import type { Look } from "./theme";

export interface Row {
  name: string;
  height: number;
}

export interface Stack {
  /** Height of all lanes and the axis, without the slider. */
  height: number;
  /** Room left and right of the lanes. */
  side: [number, number];
  grids: ECBasicOption[];
  titles(look: Look): ECBasicOption[];
  /** The axis of time of a lane; the last one has labels. */
  time(look: Look, at: number, from: number, to: number, unit: string): ECBasicOption;
}

/** The layout of lanes on a page of this width; `labels` is the room that the labels of lanes need. */
export function stack(rows: Row[], width: number, labels = 0): Stack {
  const narrow = width < 700;
  // Beside the names of wide pages there is room for labels.
  const left = narrow ? 24 + labels : 194;
  const gap = narrow ? 25 : 10;
  const tops: number[] = [];
  let bottom = 0;
  for (const row of rows) {
    tops.push(bottom + gap);
    bottom += gap + row.height;
  }
  const side: [number, number] = [left, 30];
  return {
    height: bottom + 28,
    side,
    grids: rows.map((row, at) => ({ left, right: side[1], top: tops[at], height: row.height, outerBoundsMode: "none" })),
    titles: (look) =>
      rows.map((row, at) => ({
        text: row.name,
        left: narrow ? left : 0,
        top: narrow ? tops[at] - 19 : tops[at] + row.height / 2 - 12,
        padding: [2, 0],
        textStyle: { color: look.text, fontSize: 12, fontWeight: 500, width: narrow ? width - left : 180, overflow: "truncate" },
      })),
    time: (look, at, from, to, unit) => {
      const last = at === rows.length - 1;
      return {
        type: "value",
        gridIndex: at,
        min: from,
        max: to,
        axisLine: { show: true, onZero: false, lineStyle: { color: look.line } },
        axisTick: { show: last },
        axisLabel: { show: last, color: look.faint, hideOverlap: true, formatter: (value: number) => `${digits(value)} ${unit}` },
        splitLine: { show: true, lineStyle: { color: look.line } },
        axisPointer: { show: true, type: "line", label: { show: false }, lineStyle: { color: look.faint } },
      };
    },
  };
}

/** Slices of time; a value applies from the start of its slice to the end. */
export interface Slices {
  start: number[];
  end: number[];
}

/** Points of a line in steps, from the start of each slice to its end; draw it with `step: "end"`. */
export function steps(slices: Slices, values: number[], factor: number): [number, number][] {
  const points = slices.start.map((start, at): [number, number] => [start / factor, values[at]]);
  const last = points.length - 1;
  return last < 0 ? points : [...points, [slices.end[last] / factor, values[last]]];
}

/** Index of the slice at a time: the last one that starts by then. */
export function sliceAt(slices: Slices, time: number): number {
  const after = slices.start.findIndex((start) => start > time);
  return Math.max((after < 0 ? slices.start.length : after) - 1, 0);
}

/** Assigns overlapping blocks of one track to lanes: each takes the first free lane, or the last if none is free. */
export function spread(blocks: { start: number; end: number }[], most: number): { lane: number[]; lanes: number } {
  const free: number[] = [];
  const lane = blocks.map(({ start, end }) => {
    let at = free.findIndex((until) => until <= start);
    if (at < 0) at = Math.min(free.length, most - 1);
    free[at] = Math.max(free[at] ?? 0, end);
    return at;
  });
  return { lane, lanes: Math.max(free.length, 1) };
}
