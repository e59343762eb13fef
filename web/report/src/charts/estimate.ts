// An estimate of a training step: its parts, its communication, memory over time, kernels against their roofline, and the
// configurations that a search found.

import { bytes, digits, money, percent, scaled, time, timeUnit } from "../format";
import { dimension } from "../theme";
import type { Look } from "../theme";
import { barTooltip, base, legend, lower, names, table, tip, tooltip, values, wrapped } from "../view";
import type { View } from "../view";

/** Colours of parts of a step. */
type Colour = "compute" | "exposed" | "memory" | "bubble" | "wait" | "skew";

interface StepData {
  part: string[];
  /** Where it happens: computing, NVLink, network, waiting. */
  where: string[];
  colour: Colour[];
  seconds: number[];
}

/** The parts of a step, each beginning where the one before ends, so that they add up to the step. */
export function estimateStep(data: StepData): View {
  const whole = data.seconds.reduce((sum, each) => sum + each, 0);
  const { factor, unit } = timeUnit(Math.max(whole, 1e-12));
  const before = data.seconds.map((_, at) => data.seconds.slice(0, at).reduce((sum, each) => sum + each, 0));
  const kinds = [...new Set(data.where)];
  const label = [...data.part, "step"];
  return {
    zooms: false,
    height: (width) => 72 + lower(kinds, width) + 27 * label.length,
    option: (look, width) => ({
      ...base(look),
      legend: wrapped(look, kinds),
      grid: { left: 8, right: width < 600 ? 58 : 118, top: 34 + lower(kinds, width), bottom: 36, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, `time (${unit})`, digits), nameLocation: "middle", nameGap: 26, max: (whole / factor) * 1.0001, axisLabel: { color: look.faint, hideOverlap: true, showMaxLabel: false, formatter: digits } },
      yAxis: {
        ...names(look, label),
        inverse: true,
        axisLabel: { color: look.text, interval: 0, width: width < 600 ? 118 : 260, overflow: "break", lineHeight: 12 },
      },
      tooltip: barTooltip(look, (at) =>
        at < data.part.length
          ? tip(data.part[at], [["time", time(data.seconds[at])], ["part of the step", percent(data.seconds[at] / whole)], ["where", data.where[at]]], [look[data.colour[at]]])
          : tip("step", [["time", time(whole)]]),
      ),
      series: [
        {
          type: "bar",
          stack: "step",
          silent: true,
          itemStyle: { color: "transparent" },
          barWidth: 17,
          data: [...before.map((each) => each / factor), 0],
        },
        ...kinds.map((kind, number) => ({
          type: "bar",
          stack: "step",
          name: kind,
          color: look[data.colour[data.where.indexOf(kind)]],
          data: [
            ...data.seconds.map((each, at) => (data.where[at] === kind ? each / factor : null)),
            number === 0 ? { value: whole / factor, itemStyle: { color: look.faint } } : null,
          ],
          label: {
            show: true,
            position: "right",
            color: look.text,
            fontSize: 11,
            formatter: (item: { dataIndex: number }) => {
              const seconds = item.dataIndex < data.seconds.length ? data.seconds[item.dataIndex] : whole;
              return width < 600 ? time(seconds) : `${time(seconds)}  (${percent(seconds / whole)})`;
            },
          },
        })),
      ],
    }),
    table: () =>
      table(
        [
          ["part", (at) => label[at]],
          ["where", (at) => data.where[at] ?? ""],
          ["begins at", (at) => time(before[at] ?? 0)],
          ["time", (at) => time(data.seconds[at] ?? whole)],
          ["part of the step", (at) => percent((data.seconds[at] ?? whole) / whole)],
        ],
        label.length,
      ),
  };
}

interface CommunicationData {
  label: string[];
  collective: string[];
  tier: string[];
  ranks: string[];
  bytes: number[];
  times: number[];
  exposed: number[];
  hidden: number[];
}

/** Communication by axis: how much of it is exposed, and how much is hidden. */
export function estimateCommunication(data: CommunicationData): View {
  const sums = data.label.map((_, at) => data.exposed[at] + data.hidden[at]);
  const { factor, unit } = timeUnit(Math.max(...sums, 1e-12));
  const series: [string, number[], "exposed" | "wait"][] = [
    ["exposed", data.exposed, "exposed"],
    ["hidden behind computing", data.hidden, "wait"],
  ];
  const facts = (at: number): [string, string][] => [
    ["exposed", time(data.exposed[at])],
    ["hidden", time(data.hidden[at])],
    ["collective", data.collective[at]],
    ["ranks", data.ranks[at]],
    ["through", data.tier[at]],
    ["size", bytes(data.bytes[at])],
    ["times in a step", digits(data.times[at])],
  ];
  return {
    zooms: false,
    height: () => 84 + 40 * data.label.length,
    option: (look, width) => ({
      ...base(look),
      legend: legend(look, series.map(([name]) => name)),
      grid: { left: 8, right: 24, top: 34, bottom: 38, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, `time in a step (${unit})`, digits), nameLocation: "middle", nameGap: 26 },
      yAxis: {
        ...names(look, data.label.map((name, at) => `${name} (${data.tier[at]})`)),
        inverse: true,
        axisLabel: { color: look.text, interval: 0, width: width < 600 ? 118 : 280, overflow: "break", lineHeight: 13 },
      },
      tooltip: barTooltip(look, (at) => tip(data.label[at], facts(at), [look.exposed, look.wait])),
      series: series.map(([name, of, colour]) => ({
        type: "bar",
        name,
        stack: "time",
        barWidth: 17,
        color: look[colour],
        data: of.map((each) => each / factor),
      })),
    }),
    table: () =>
      table(
        [
          ["what", (at) => data.label[at]],
          ...facts(0).map(([name], column): [string, (at: number) => string] => [name, (at) => facts(at)[column][1]]),
        ],
        data.label.length,
      ),
  };
}

interface MemoryData {
  /** Kinds, from those that stay to those that come and go. */
  kinds: string[];
  stages: string[];
  capacity: number;
  /** The stage that needs most. */
  fullest: number;
  /** Seconds of the points of each stage. */
  time: number[][];
  /** Bytes by stage and kind: one value if it does not change, else one for each point. */
  bytes: number[][][];
}

const GIB = 2 ** 30;

function gib(value: number): string {
  return `${digits(value / GIB)} GiB`;
}

/** The memory of a stage over the step, by kind. */
export function estimateMemory(data: MemoryData): View {
  let shown = data.fullest;
  const at = (stage: number, kind: number, point: number) => {
    const of = data.bytes[stage][kind];
    return of.length === 1 ? of[0] : of[point];
  };
  const total = (stage: number, point: number) => data.kinds.reduce((sum, _, kind) => sum + at(stage, kind, point), 0);
  const peakAt = data.stages.map((_, stage) =>
    data.time[stage].reduce((best, __, point) => (total(stage, point) > total(stage, best) ? point : best), 0),
  );
  const colours = (look: Look) => [look.wait, look.faint, look.skew, look.memory, look.compute, look.dims[5], look.bubble, look.parts[0], look.exposed, look.parts[2]];
  const end = Math.max(...data.time.map((each) => each[each.length - 1] ?? 0), 1e-12);
  const { factor, unit } = timeUnit(end);
  const used = () => data.kinds.map((_, kind) => kind).filter((kind) => data.bytes[shown][kind].some((value) => value > 0));
  return {
    zooms: true,
    choice:
      data.stages.length > 1
        ? { label: "Show", options: data.stages.map((name, stage) => (stage === data.fullest ? `${name} (fullest)` : name)), pick: (index) => (shown = index), first: data.fullest }
        : undefined,
    height: (width) => 420 + lower(data.kinds, width),
    option: (look, width) => ({
      ...base(look),
      legend: wrapped(look, used().map((kind) => data.kinds[kind])),
      grid: { left: 8, right: 24, top: 48 + lower(used().map((kind) => data.kinds[kind]), width), bottom: 58, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: {
        type: "value",
        min: 0,
        max: end / factor,
        axisLabel: { color: look.faint, hideOverlap: true, formatter: (value: number) => `${+value.toPrecision(4)} ${unit}` },
        splitLine: { lineStyle: { color: look.line } },
      },
      yAxis: { ...values(look, "memory (GiB)", digits), max: (range: { max: number }) => 10 * Math.ceil((Math.max(range.max, data.capacity / GIB) * 1.05) / 10) },
      dataZoom: [
        { type: "slider", xAxisIndex: [0], bottom: 4, height: 18, showDetail: false, brushSelect: false, borderColor: look.line, filterMode: "none", handleStyle: { color: look.page, borderColor: look.faint }, fillerColor: look.dark ? "rgba(74,163,223,0.25)" : "rgba(0,114,178,0.15)", backgroundColor: "transparent", dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } } },
        { type: "inside", xAxisIndex: [0], zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none" },
      ],
      tooltip: tooltip(look, "axis", (found: { dataIndex: number }[]) => {
        const point = found[0]?.dataIndex ?? 0;
        const kinds = [...used()].reverse();
        return tip(
          `${data.stages[shown]} at ${time(data.time[shown][point])}`,
          [["all", gib(total(shown, point))], ...kinds.map((kind): [string, string] => [data.kinds[kind], gib(at(shown, kind, point))])],
          [undefined, ...kinds.map((kind) => colours(look)[kind])],
        );
      }),
      series: used().map((kind, place) => ({
        type: "line",
        name: data.kinds[kind],
        stack: "memory",
        symbol: "none",
        lineStyle: { width: 0 },
        color: colours(look)[kind],
        areaStyle: { opacity: 0.9 },
        data: data.time[shown].map((each, point) => [each / factor, at(shown, kind, point) / GIB]),
        markLine:
          place === 0
            ? {
                silent: true,
                symbol: "none",
                // Above the areas, which cover it where a job does not fit.
                z: 10,
                lineStyle: { color: look.exposed, type: "dashed", width: 2 },
                label: { color: look.text, backgroundColor: look.page, padding: [1, 4], position: "insideStartTop", formatter: `memory that may be used: ${gib(data.capacity)}` },
                data: [{ yAxis: data.capacity / GIB }],
              }
            : undefined,
      })),
    }),
    table: () =>
      table(
        [
          ["at the peak of", (stage) => data.stages[stage]],
          ["at", (stage) => time(data.time[stage][peakAt[stage]])],
          ...data.kinds.map((name, kind): [string, (stage: number) => string] => [name, (stage) => gib(at(stage, kind, peakAt[stage]))]),
          ["all", (stage) => gib(total(stage, peakAt[stage]))],
        ],
        data.stages.length,
      ),
  };
}

interface KernelsData {
  name: string[];
  /** What is computed: one of `GROUPS`. */
  group: string[];
  times: number[];
  each: number[];
  flop: number[];
  bytes: number[];
  /** Index of its peak; -1 for kernels that only move bytes. */
  peak: number[];
  peaks: { name: string; flop_per_s: number }[];
  bytes_per_s: number;
}

/** Operations a byte at which kernels stand that compute nothing. */
const ALONE = 0.5;

/** Groups of kernels, so that each always has the same colour. */
const GROUPS = ["matrix products", "attention", "only bytes"];

/** Kernels below the roofs of their accelerator. */
export function estimateKernels(data: KernelsData): View {
  const computes = (at: number) => data.flop[at] > 0 && data.peak[at] >= 0;
  const x = (at: number) => (computes(at) ? data.flop[at] / data.bytes[at] : ALONE);
  const y = (at: number) => (computes(at) ? data.flop[at] / data.each[at] : (data.bytes[at] / data.each[at]) * ALONE);
  const peak = (at: number) => (computes(at) ? data.peaks[data.peak[at]].flop_per_s : Infinity);
  const roof = (at: number) => Math.min(peak(at), x(at) * data.bytes_per_s);
  const whole = data.times.map((times, at) => times * data.each[at]);
  const all = whole.reduce((sum, each) => sum + each, 0);
  const groups = GROUPS.filter((group) => data.group.includes(group));
  const order = data.name.map((_, at) => at).sort((a, b) => whole[b] - whole[a]);
  let drawn = 0;
  const most = Math.max(...data.name.map((_, at) => x(at)), ...data.peaks.map((each) => (2 * each.flop_per_s) / data.bytes_per_s)) * 2;
  const facts = (at: number): [string, string][] => [
    ["time in a step", time(whole[at])],
    ["part of kernels", percent(whole[at] / all)],
    ["each", time(data.each[at])],
    ["times", digits(data.times[at])],
    ["rate", computes(at) ? scaled(data.flop[at] / data.each[at], "FLOP/s") : scaled(data.bytes[at] / data.each[at], "B/s")],
    ["bound by", computes(at) && peak(at) <= x(at) * data.bytes_per_s ? "operations" : "memory"],
    ["of its roof", percent(y(at) / roof(at))],
  ];
  const colour = (look: Look, group: string) => [look.compute, look.exposed, look.reduction][GROUPS.indexOf(group)];
  const highest = 1.6 * Math.max(...data.peaks.map((each) => each.flop_per_s));
  const [left, bottom] = [ALONE / 2, 10 ** Math.floor(Math.log10(ALONE * data.bytes_per_s * 0.3))];
  const right = 10 ** Math.ceil(Math.log10(most));
  const listed = order.slice(0, 24);
  const bars = (look: Look, width: number) => ({
    ...base(look),
    legend: legend(look, groups),
    grid: { left: 8, right: width < 600 ? 62 : 150, top: 34, bottom: 38, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: { ...values(look, width < 600 ? "part of the roof (%)" : "rate, part of the roof (%)", digits), min: 0, max: 100, nameLocation: "middle", nameGap: 26 },
    yAxis: {
      ...names(look, listed.map((at) => data.name[at])),
      inverse: true,
      axisLabel: { color: look.text, interval: 0, fontSize: width < 600 ? 10 : 12, width: width < 600 ? 128 : 300, overflow: "break", lineHeight: width < 600 ? 11 : 13 },
    },
    tooltip: barTooltip(look, (at) => tip(data.name[listed[at]], facts(listed[at]), [colour(look, data.group[listed[at]])])),
    series: groups.map((group) => ({
      type: "bar",
      stack: "kernel",
      name: group,
      color: colour(look, group),
      barWidth: 13,
      data: listed.map((at) => (data.group[at] === group ? (100 * y(at)) / roof(at) : null)),
      label: {
        show: true,
        position: "right",
        color: look.text,
        fontSize: 11,
        formatter: (item: { dataIndex: number }) => {
          const at = listed[item.dataIndex];
          return width < 600 ? percent(y(at) / roof(at)) : `${percent(y(at) / roof(at))}  (${time(whole[at])} a step)`;
        },
      },
    })),
  });
  const roofs = (look: Look) => ({
    ...base(look),
    legend: legend(look, groups),
    grid: { left: 8, right: 24, top: 52, bottom: 40, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: { ...values(look, "operations for each byte of memory", digits), type: "log", min: left, max: right, nameLocation: "middle", nameGap: 26, axisLabel: { color: look.faint, showMinLabel: false, formatter: digits } },
    yAxis: { ...values(look, "operations per second", (value: number) => scaled(value, "")), type: "log", min: bottom, max: highest, axisLabel: { color: look.faint, showMaxLabel: false, formatter: (value: number) => scaled(value, "") } },
    tooltip: tooltip(look, "item", (found: { data: [number, number, number] }) => {
      const index = found.data[2];
      return index === undefined ? "" : tip(data.name[index], facts(index), [colour(look, data.group[index])]);
    }),
    series: [
      ...data.peaks.map((each, number) => ({
        type: "line",
        silent: true,
        symbol: "none",
        lineStyle: { color: look.faint, width: 1.5, type: number === 0 ? "solid" : "dashed" },
        data: [
          [left, left * data.bytes_per_s],
          [each.flop_per_s / data.bytes_per_s, each.flop_per_s],
          [right, each.flop_per_s],
        ],
      })),
      {
        type: "scatter",
        silent: true,
        symbolSize: 0,
        label: { show: true, position: [0, -18], align: "right", color: look.faint, fontSize: 11, formatter: (item: { dataIndex: number }) => `${data.peaks[item.dataIndex].name}: ${scaled(data.peaks[item.dataIndex].flop_per_s, "FLOP/s")}` },
        data: data.peaks.map((each) => [right, each.flop_per_s]),
      },
      ...groups.map((group) => ({
        type: "scatter",
        name: group,
        color: colour(look, group),
        itemStyle: { opacity: 0.8, borderColor: look.page, borderWidth: 1 },
        symbolSize: (value: number[]) => 7 + 30 * Math.sqrt(whole[value[2]] / all),
        data: order.filter((at) => data.group[at] === group).map((at) => [x(at), y(at), at]),
      })),
    ],
  });
  return {
    zooms: false,
    choice: { label: "Show", options: ["parts of the roof", "roofline"], pick: (index) => (drawn = index) },
    height: (width: number) => (drawn ? 460 : 76 + (width < 600 ? 27 : 20) * listed.length),
    option: (look, width) => (drawn ? roofs(look) : bars(look, width)),
    table: () =>
      table(
        [
          ["kernel", (at) => data.name[order[at]]],
          ...facts(0).map(([name], column): [string, (at: number) => string] => [name, (at) => facts(order[at])[column][1]]),
        ],
        order.length,
      ),
  };
}

interface FrontierData {
  configuration: string[];
  gpus: number[];
  /** Days of a trillion tokens. */
  days: number[];
  /** Dollars of a trillion tokens, or hours of accelerators. */
  spent: number[];
  unit: "dollars" | "GPU-hours";
  joules: number[];
  simulated: (number | null)[];
  step: number[];
  /** Numbers of the configurations on the frontier, the slowest first. */
  frontier: number[];
  best: number;
}

/** Time against dollars of the best configurations. */
export function designFrontier(data: FrontierData): View {
  const counts = [...new Set(data.gpus)].sort((a, b) => a - b);
  const spent = (value: number) => (data.unit === "dollars" ? money(value) : scaled(value, "h"));
  const facts = (at: number): [string, string][] => [
    ["accelerators", data.gpus[at].toLocaleString("en")],
    ["step", time(data.step[at])],
    ...(data.simulated.some((each) => each !== null)
      ? [["simulated", data.simulated[at] === null ? "-" : time(data.simulated[at] ?? 0)] as [string, string]]
      : []),
    ["days of a trillion tokens", digits(data.days[at])],
    [`${data.unit} of a trillion tokens`, spent(data.spent[at])],
    ["energy of a trillion tokens", scaled(data.joules[at] / 3600, "Wh")],
  ];
  const named = (count: number) => `${count.toLocaleString("en")} accelerators`;
  return {
    zooms: false,
    height: (width) => 400 + lower(counts.map(named), width),
    option: (look, width) => ({
      ...base(look),
      legend: wrapped(look, counts.map(named)),
      grid: { left: 8, right: 24, top: 52 + lower(counts.map(named), width), bottom: 40, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, "days for a trillion tokens", digits), type: Math.max(...data.days) > 10 * Math.min(...data.days) ? "log" : "value", scale: true, nameLocation: "middle", nameGap: 26 },
      yAxis: { ...values(look, `${data.unit} for a trillion tokens`, spent), scale: true },
      tooltip: tooltip(look, "item", (found: { data: number[] }) => {
        const at = found.data[2];
        return at === undefined ? "" : tip(data.configuration[at], facts(at));
      }),
      series: [
        {
          type: "line",
          silent: true,
          symbol: "none",
          lineStyle: { color: look.faint, width: 1.5, type: "dashed" },
          data: data.frontier.map((at) => [data.days[at], data.spent[at]]),
        },
        ...counts.map((count, number) => ({
          type: "scatter",
          name: named(count),
          color: dimension(look, number),
          data: data.gpus
            .map((_, at) => at)
            .filter((at) => data.gpus[at] === count)
            .map((at) => ({
              value: [data.days[at], data.spent[at], at],
              symbol: at === data.best ? "diamond" : "circle",
              symbolSize: at === data.best ? 18 : data.frontier.includes(at) ? 12 : 7,
              itemStyle: { opacity: at === data.best || data.frontier.includes(at) ? 1 : 0.55 },
              label: { show: at === data.best, position: "top", color: look.text, fontSize: 11, formatter: "best" },
            })),
        })),
      ],
    }),
    table: () =>
      table(
        [
          ["configuration", (at) => data.configuration[at]],
          ...facts(0).map(([name], column): [string, (at: number) => string] => [name, (at) => facts(at)[column][1]]),
        ],
        data.configuration.length,
      ),
  };
}
