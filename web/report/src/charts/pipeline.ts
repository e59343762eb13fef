// The stages of a pipeline over time: a row for each, with its passes, waits and bubbles.

import { percent, time, timeUnit } from "../format";
import type { Look } from "../theme";
import { base, lower, table, tip, tooltip, wrapped, zoom } from "../view";
import type { Api, View } from "../view";

interface PipelineData {
  stages: string[];
  ranks: number[];
  kinds: string[];
  unit_ps: number;
  until: number;
  row: number[];
  kind: number[];
  start: number[];
  duration: number[];
  /** Number of the micro-batch, from 1; 0 for a block that belongs to none. */
  micro_batch: number[];
  /** Seconds that each stage spends on each kind. */
  sums: number[][];
  /** Names of colours of the kinds, and how many of these are passes; without them, the kinds of a simulated run. */
  colours?: string[];
  passes?: number;
}

interface Params {
  coordSys: { x: number; width: number };
  dataIndex: number;
}

/** Height of a row, in pixels; passes take the upper part, waits the lower. */
const ROW = 44;
const PASS = 26;
const WAIT = 7;

/** Kinds that are passes, drawn above waits. */
const PASSES = 3;

export function pipeline(data: PipelineData): View {
  const unit = data.unit_ps * 1e-12;
  const whole = data.until * unit;
  const { factor, unit: shown } = timeUnit(Math.max(whole, 1e-12));
  const of = data.kinds.map((_, kind) => data.kind.map((_, at) => at).filter((at) => data.kind[at] === kind));
  const used = data.kinds.map((_, kind) => kind).filter((kind) => of[kind].length > 0);
  const passes = data.passes ?? PASSES;
  const palette = (look: Look): { [name: string]: string } => ({
    compute: look.compute, backward: look.parts[2], weight: look.parts[0], both: look.skew,
    memory: look.memory, exposed: look.exposed, bubble: look.bubble,
  });
  const colour = (look: Look, kind: number) =>
    data.colours ? palette(look)[data.colours[kind]] :
    [look.compute, look.parts[2], look.memory, look.exposed, look.bubble, look.skew][kind];
  const above = (width: number) => 30 + lower(used.map((kind) => data.kinds[kind]), width);
  return {
    zooms: true,
    height: (width) => above(width) + ROW * data.stages.length + 62,
    option: (look, width) => {
      const left = width < 700 ? 72 : 90;
      return {
        ...base(look),
        legend: wrapped(look, used.map((kind) => data.kinds[kind])),
        grid: { left, right: 30, top: above(width), height: ROW * data.stages.length, outerBoundsMode: "none" },
        xAxis: {
          type: "value",
          min: 0,
          max: whole / factor,
          axisLabel: { color: look.faint, hideOverlap: true, formatter: (value: number) => `${+value.toPrecision(4)} ${shown}` },
          splitLine: { lineStyle: { color: look.line } },
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: data.stages,
          axisLine: { lineStyle: { color: look.line } },
          axisTick: { show: false },
          axisLabel: { color: look.text, width: left - 10, overflow: "truncate" },
          splitLine: { show: true, lineStyle: { color: look.line } },
        },
        dataZoom: zoom(look, [0], 4, [left, 30]),
        tooltip: tooltip(look, "item", (item: { seriesIndex: number; dataIndex: number }) => {
          const kind = used[item.seriesIndex];
          const at = of[kind][item.dataIndex];
          const lines: [string, string][] = [
            ["stage", `${data.stages[data.row[at]]} (rank ${data.ranks[data.row[at]]})`],
            ["from", time(data.start[at] * unit)],
            ["takes", time(data.duration[at] * unit)],
          ];
          const which = data.micro_batch[at] ? ` of micro-batch ${data.micro_batch[at]}` : "";
          return tip(`${data.kinds[kind]}${which}`, lines, []);
        }),
        series: used.map((kind) => ({
          type: "custom",
          name: data.kinds[kind],
          color: colour(look, kind),
          clip: true,
          encode: { x: [0, 1], y: 2 },
          data: of[kind].map((at) => [
            (data.start[at] * unit) / factor,
            ((data.start[at] + data.duration[at]) * unit) / factor,
            data.row[at],
          ]),
          renderItem: (params: Params, api: Api) => {
            const [x0, y] = api.coord([api.value(0), api.value(2)]);
            const [x1] = api.coord([api.value(1), api.value(2)]);
            const { x, width: wide } = params.coordSys;
            const from = Math.max(x0, x);
            const to = Math.min(Math.max(x1, x0 + 0.7), x + wide);
            if (to <= from) return null;
            const pass = kind < passes;
            const top = pass ? y - ROW / 2 + 4 : y + ROW / 2 - WAIT - 4;
            const edge = pass && to - from > 5;
            const rect = {
              type: "rect",
              shape: { x: from, y: top, width: to - from, height: pass ? PASS : WAIT, r: edge ? 2 : 0 },
              style: { fill: colour(look, kind), stroke: look.page, lineWidth: edge ? 1 : 0 },
            };
            const number = data.micro_batch[of[kind][params.dataIndex]];
            if (!pass || !number || to - from < (number > 9 ? 18 : 12)) return rect;
            const style = {
              text: String(number),
              x: (from + to) / 2,
              y: top + PASS / 2,
              fontSize: 11,
              fill: look.dark || kind > 0 ? "#10151b" : "#ffffff",
              align: "center",
              verticalAlign: "middle",
            };
            return { type: "group", children: [rect, { type: "text", silent: true, style }] };
          },
        })),
      };
    },
    table: () =>
      table(
        [
          ["stage", (at) => data.stages[at]],
          [data.colours ? "first rank" : "traced rank", (at) => String(data.ranks[at])],
          ...data.kinds.map((name, kind): [string, (at: number) => string] => [name, (at) => time(data.sums[at][kind])]),
          ["bubble, part of the time", (at) => percent(data.sums[at][data.kinds.indexOf("bubble")] / whole)],
        ],
        data.stages.length,
      ),
  };
}
