// The interface between a chart and the page: an option for ECharts, and the same numbers as a table.

import type { ECBasicOption } from "echarts/types/dist/shared";
import { escaped } from "./format";
import type { Look } from "./theme";

/** A table: headings, rows as text, and the total number of rows if not all are listed. */
export interface Table {
  head: string[];
  rows: string[][];
  total?: number;
}

/** What ECharts gives the code that draws an item of a custom series: the item's numbers, and the pixel of a point. */
export interface Api {
  value(index: number): number;
  coord(point: [number, number]): [number, number];
}

/** A choice that changes what is drawn. */
export interface Choice {
  label: string;
  options: string[];
  pick(index: number): void;
  /** The option that is drawn first; without it, the first one. */
  first?: number;
}

/** A chart. */
export interface View {
  /** Its height on the page, in pixels, for a width of `width`. */
  height(width: number): number;
  option(look: Look, width: number): ECBasicOption;
  table(): Table;
  /** Whether the axis of layers or of time can be zoomed into. */
  zooms: boolean;
  choice?: Choice;
}

/** Most rows that a table lists. */
export const LISTED = 2000;

/** A table of `count` rows, from functions that give the text of each column. */
export function table(columns: [string, (index: number) => string][], count: number): Table {
  const listed = Math.min(count, LISTED);
  const rows = Array.from({ length: listed }, (_, index) => columns.map(([, text]) => text(index)));
  return { head: columns.map(([name]) => name), rows, total: count };
}

/** The HTML of a tooltip: a heading, then names and values. Escapes all texts. */
export function tip(title: string, lines: [string, string][], colours: (string | undefined)[] = []): string {
  const rows = lines.map(([name, value], index) => {
    const colour = colours[index];
    const dot = colour
      ? `<span style="display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px;background:${colour}"></span>`
      : "";
    return `<tr><td style="padding-right:14px">${dot}${escaped(name)}</td><td style="text-align:right"><b>${escaped(value)}</b></td></tr>`;
  });
  return `<div style="font-weight:600;margin-bottom:2px;white-space:normal;max-width:320px">${escaped(title)}</div><table>${rows.join("")}</table>`;
}

/** Options that all charts share. */
export function base(look: Look): ECBasicOption {
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { color: look.text, fontFamily: "system-ui, sans-serif", fontSize: 12 },
  };
}

/** A tooltip for the item at the pointer, or for all items at its place on the axis. `html` makes its HTML. */
export function tooltip<Found>(look: Look, trigger: "axis" | "item", html: (found: Found) => string): ECBasicOption {
  return {
    trigger,
    confine: true,
    backgroundColor: look.page,
    borderColor: look.line,
    textStyle: { color: look.text, fontSize: 12 },
    formatter: html,
  };
}

/** The tooltip of a chart of bars. `html` makes the HTML for the bars with an index. */
export function barTooltip(look: Look, html: (at: number) => string): ECBasicOption {
  const first = (found: { dataIndex: number }[]) => html(found[0].dataIndex);
  return { ...tooltip(look, "axis", first), axisPointer: { type: "shadow" } };
}

/** Number of lines of a legend on a page of this width, estimated from the average width of a letter. */
function legendLines(names: string[], width: number): number {
  let [lines, used] = [1, 0];
  for (const name of names) {
    const wide = 12 + 5 + 6.6 * name.length + 16;
    if (used > 0 && used + wide > width) [lines, used] = [lines + 1, 0];
    used += wide;
  }
  return lines;
}

/** Pixels by which a chart moves down for the second and further lines of its legend. */
export function lower(names: string[], width: number): number {
  return 26 * (legendLines(names, width) - 1);
}

/** A legend above the chart, with as many lines as it needs; {@link lower} gives the room for them. */
export function wrapped(look: Look, names: string[]): ECBasicOption {
  return { ...legend(look, names), type: "plain" };
}

/** A legend above the chart, in one line that can be paged. */
export function legend(look: Look, names: string[]): ECBasicOption {
  return {
    data: names,
    top: 0,
    left: 0,
    right: 0,
    type: "scroll",
    icon: "roundRect",
    itemWidth: 12,
    itemHeight: 12,
    itemGap: 16,
    textStyle: { color: look.text },
    pageTextStyle: { color: look.text },
    inactiveColor: look.wait,
  };
}

/** An axis of values. */
export function values(look: Look, name: string, text: (value: number) => string): ECBasicOption {
  return {
    type: "value",
    name,
    nameTextStyle: { color: look.faint, align: "left" },
    axisLabel: { color: look.faint, formatter: text, hideOverlap: true },
    axisLine: { show: false },
    splitLine: { lineStyle: { color: look.line } },
  };
}

/** An axis of names. */
export function names(look: Look, data: string[]): ECBasicOption {
  return {
    type: "category",
    data,
    axisTick: { show: false },
    axisLine: { lineStyle: { color: look.line } },
    axisLabel: { color: look.faint, hideOverlap: true },
  };
}

/** Layout of bars on a page of this width. */
export function packing(count: number, width: number): ECBasicOption {
  // A bar that is drawn separately is blended with the background at its edges. If bars are about as wide as a pixel,
  // this leaves visible bands; drawn as one area, they have none.
  const crowded = count > width / 6;
  return crowded ? { barCategoryGap: "0%", large: true, largeThreshold: 0 } : { barCategoryGap: "20%" };
}

/** The slider below a chart that can be zoomed, and zooming with Ctrl and the mouse wheel. */
export function zoom(look: Look, axes: number[], bottom: number, side: [number, number]): ECBasicOption[] {
  return [
    {
      type: "slider",
      xAxisIndex: axes,
      bottom,
      left: side[0],
      right: side[1],
      height: 18,
      showDetail: false,
      brushSelect: false,
      borderColor: look.line,
      backgroundColor: "transparent",
      fillerColor: look.dark ? "rgba(74,163,223,0.25)" : "rgba(0,114,178,0.15)",
      handleStyle: { color: look.page, borderColor: look.faint },
      moveHandleStyle: { color: look.wait },
      dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
      selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
      filterMode: "none",
    },
    { type: "inside", xAxisIndex: axes, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none" },
  ];
}
