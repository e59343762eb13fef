// Collectives against their bounds, and the delays of their phases.

import { bytes, digits, rate, time, timeUnit } from "../format";
import { barTooltip, base, legend, names, table, tip, values } from "../view";
import type { View } from "../view";

interface CollectivesData {
  label: string[];
  part: string[];
  bytes: number[];
  ranks: number[];
  count: number[];
  duration: number[];
  bound: number[];
  bus: number[];
}

/** Duration as bars, bounds as lines across them. */
export function collectives(data: CollectivesData): View {
  const { factor, unit } = timeUnit(Math.max(...data.duration, 1e-12));
  return {
    zooms: false,
    height: (width) => 90 + (width < 600 ? 42 : 22) * data.label.length + (data.label.length < 4 ? 30 : 0),
    option: (look, width) => ({
      ...base(look),
      legend: legend(look, ["duration", "bound"]),
      grid: { left: 8, right: 24, top: 30, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, `time (${unit})`, digits), nameLocation: "middle", nameGap: 26 },
      yAxis: {
        ...names(look, data.label),
        inverse: true,
        axisLabel: {
          color: look.faint,
          interval: 0,
          width: width < 600 ? 124 : 300,
          overflow: "break",
          fontSize: width < 600 ? 11 : 12,
          lineHeight: 13,
        },
      },
      tooltip: barTooltip(look, (at) => {
        return tip(data.label[at], [
          ["part", data.part[at] || "-"],
          ["duration", time(data.duration[at])],
          ["bound", time(data.bound[at])],
          ["size", bytes(data.bytes[at])],
          ["ranks", String(data.ranks[at])],
          ["bus bandwidth", rate(data.bus[at])],
          ["of this kind", String(data.count[at])],
        ]);
      }),
      series: [
        {
          type: "bar",
          name: "duration",
          color: look.network,
          barWidth: 12,
          data: data.duration.map((value) => value / factor),
        },
        {
          type: "scatter",
          name: "bound",
          symbol: "rect",
          symbolSize: [3, 18],
          color: look.text,
          data: data.bound.map((value, at) => [value / factor, at]),
          z: 5,
        },
      ],
    }),
    table: () =>
      table(
        [
          ["collective", (at) => data.label[at]],
          ["part", (at) => data.part[at]],
          ["size", (at) => bytes(data.bytes[at])],
          ["ranks", (at) => String(data.ranks[at])],
          ["of this kind", (at) => String(data.count[at])],
          ["duration", (at) => time(data.duration[at])],
          ["bound", (at) => time(data.bound[at])],
          ["bus bandwidth", (at) => rate(data.bus[at])],
        ],
        data.label.length,
      ),
  };
}

interface PhasesData {
  names: string[];
  views: string[];
  rows: [number, number, number, number][][];
}

/** Queue delay, network delay and reduction of each phase, stacked. */
export function phases(data: PhasesData): View {
  let chosen = 0;
  const labels = data.views.map((view) => view || "all collectives");
  return {
    zooms: false,
    choice:
      labels.length > 1
        ? { label: "Collectives of", options: labels, pick: (index) => (chosen = index) }
        : undefined,
    height: (width) => 110 + (width < 600 ? 48 : 34) * data.rows[chosen].length,
    option: (look, width) => {
      const rows = data.rows[chosen];
      const { factor, unit } = timeUnit(Math.max(...rows.map((row) => row[1] + row[2] + row[3]), 1e-12));
      const kinds: [string, string, number][] = [
        ["queue delay", look.queue, 1],
        ["network delay", look.network, 2],
        ["reduction", look.reduction, 3],
      ];
      const used = kinds.filter(([, , column]) => column < 3 || rows.some((row) => row[3] > 0));
      return {
        ...base(look),
        legend: legend(look, used.map(([name]) => name)),
        grid: { left: 8, right: 24, top: 34, bottom: 36, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: { ...values(look, `mean time (${unit})`, digits), nameLocation: "middle", nameGap: 26 },
        yAxis: {
          ...names(look, rows.map((row) => data.names[row[0]])),
          inverse: true,
          axisLabel: {
            color: look.text,
            interval: 0,
            width: width < 600 ? 118 : 260,
            overflow: "break",
            lineHeight: 13,
          },
        },
        tooltip: barTooltip(look, (at) => {
          const row = rows[at];
          return tip(
            data.names[row[0]],
            used.map(([name, , column]) => [name, time(row[column])]),
            used.map(([, colour]) => colour),
          );
        }),
        series: used.map(([name, colour, column]) => ({
          type: "bar",
          name,
          stack: "all",
          color: colour,
          barWidth: 18,
          data: rows.map((row) => row[column] / factor),
        })),
      };
    },
    table: () => {
      const rows = data.rows[chosen];
      return table(
        [
          [`phase (${labels[chosen]})`, (at) => data.names[rows[at][0]]],
          ["queue delay", (at) => time(rows[at][1])],
          ["network delay", (at) => time(rows[at][2])],
          ["reduction", (at) => time(rows[at][3])],
        ],
        rows.length,
      );
    },
  };
}
