// A search for strategy and topology: networks side by side, traffic, links, and the progress of the search.

import { bytes, digits, money, percent, rate, time, timeUnit } from "../format";
import { dimension, shade } from "../theme";
import { barTooltip, base, legend, names, table, tip, tooltip, values } from "../view";
import type { Api, View } from "../view";

interface NetworksData {
  network: string[];
  /** Bytes per second of a server, over all its interfaces. */
  rate: number[];
  usd: (number | null)[];
  /** Seconds of a step with the best strategy. */
  step: number[];
  /** The strategy from which the search starts, and its seconds of a step if it was tried. */
  first: string;
  first_step: (number | null)[];
}

/** Step times on each network, the direct links first. */
export function designNetworks(data: NetworksData): View {
  const { factor, unit } = timeUnit(Math.max(...data.first_step.map((value) => value ?? 0), ...data.step, 1e-12));
  const series: [string, (number | null)[], "network" | "wait"][] = [
    ["best strategy", data.step, "network"],
    [data.first, data.first_step, "wait"],
  ];
  const known = (value: number | null, text: (value: number) => string) => (value === null ? "-" : text(value));
  const worth = (at: number): number | null => {
    const [theirs, ours] = [data.usd[at], data.usd[0]];
    return theirs === null || !ours ? null : (data.step[at] * theirs) / (data.step[0] * ours);
  };
  const facts = (at: number): [string, string][] => [
    ...series.map(([name, of]): [string, string] => [name, known(of[at], time)]),
    ["rate of a server", rate(data.rate[at])],
    ["price", known(data.usd[at], money)],
    ["step x price, relative", known(worth(at), (value) => `${digits(value)}x`)],
  ];
  return {
    zooms: false,
    height: () => 92 + 44 * data.network.length,
    option: (look, width) => ({
      ...base(look),
      legend: legend(look, series.map(([name]) => name)),
      grid: { left: 8, right: 24, top: 34, bottom: 40, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, `time of a step (${unit})`, digits), nameLocation: "middle", nameGap: 26 },
      yAxis: {
        ...names(look, data.network),
        inverse: true,
        axisLabel: { color: look.text, interval: 0, width: width < 600 ? 110 : 220, overflow: "break", lineHeight: 13 },
      },
      tooltip: barTooltip(look, (at) =>
        tip(data.network[at], facts(at), [look.network, look.wait]),
      ),
      series: series.map(([name, of, colour]) => ({
        type: "bar",
        name,
        itemStyle: { color: look[colour] },
        barWidth: 13,
        barGap: "15%",
        data: of.map((value) => (value === null ? null : value / factor)),
      })),
    }),
    table: () =>
      table(
        [
          ["network", (at) => data.network[at]],
          ...facts(0).map(([name], column): [string, (at: number) => string] => [name, (at) => facts(at)[column][1]]),
        ],
        data.network.length,
      ),
  };
}

interface TrafficData {
  servers: number;
  /** Servers in a cell of the map, in each direction. */
  block: number;
  /** Cells by row (sender) and column (receiver), with the bytes of all-reduces and of other transfers. */
  row: number[];
  column: number[];
  all_reduces: number[];
  transfers: number[];
}

/** The bytes from each server to each other one. */
export function designTraffic(data: TrafficData): View {
  let shown = 0;
  const total = data.row.map((_, at) => data.all_reduces[at] + data.transfers[at]);
  const of = () => [total, data.all_reduces, data.transfers][shown];
  const block = (at: number) => {
    const [first, last] = [at * data.block, Math.min((at + 1) * data.block, data.servers) - 1];
    return first === last ? `${first}` : `${first} to ${last}`;
  };
  const count = Math.ceil(data.servers / data.block);
  const labels = Array.from({ length: count }, (_, at) => String(at * data.block));
  const side = (width: number) => Math.max(Math.min(width - 60, 620), 200);
  const moved = data.transfers.some((size) => size > 0);
  const reduced = data.all_reduces.some((size) => size > 0);
  return {
    zooms: false,
    choice:
      moved && reduced
        ? { label: "Show", options: ["all traffic", "all-reduces", "other transfers"], pick: (index) => (shown = index) }
        : undefined,
    height: (width) => side(width) + 116,
    option: (look, width) => {
      const sizes = of();
      const cells = data.row.map((_, at) => at).filter((at) => sizes[at] > 0);
      const [least, most] = cells.reduce(
        ([low, high], at) => [Math.min(low, sizes[at]), Math.max(high, sizes[at])],
        [Infinity, 0],
      );
      const log = (size: number) => Math.log10(size);
      return {
        ...base(look),
        grid: { left: 52, width: side(width), top: 42, height: side(width) },
        xAxis: {
          ...names(look, labels),
          position: "top",
          name: "receiver",
          nameLocation: "middle",
          nameGap: 24,
          nameTextStyle: { color: look.faint },
        },
        yAxis: {
          ...names(look, labels),
          inverse: true,
          name: "sender",
          nameLocation: "middle",
          nameGap: 36,
          nameTextStyle: { color: look.faint },
        },
        visualMap: {
          type: "continuous",
          // A single value has no range.
          min: cells.length ? log(least) - (least === most ? 1 : 0) : 0,
          max: cells.length ? log(most) : 1,
          dimension: 2,
          inRange: { color: look.ramp },
          orient: "horizontal",
          left: 52,
          bottom: 6,
          itemWidth: 12,
          itemHeight: Math.min(180, side(width) / 2),
          text: cells.length ? [bytes(most), bytes(least)] : ["", ""],
          textStyle: { color: look.faint },
          calculable: false,
        },
        tooltip: tooltip(look, "item", (found: { data: [number, number, number, number] }) => {
          const at = found.data[3];
          return tip(`server ${block(data.row[at])} to ${block(data.column[at])}`, [
            ["all-reduces", bytes(data.all_reduces[at])],
            ["other transfers", bytes(data.transfers[at])],
          ]);
        }),
        series: [
          {
            type: "heatmap",
            data: cells.map((at) => [data.column[at], data.row[at], log(sizes[at]), at]),
            progressive: 0,
          },
        ],
      };
    },
    table: () => {
      const order = data.row.map((_, at) => at).sort((a, b) => total[b] - total[a] || a - b);
      return table(
        [
          ["sender", (at) => block(data.row[order[at]])],
          ["receiver", (at) => block(data.column[order[at]])],
          ["all-reduces", (at) => bytes(data.all_reduces[order[at]])],
          ["other transfers", (at) => bytes(data.transfers[order[at]])],
        ],
        order.length,
      );
    },
  };
}

interface TopologyData {
  servers: number;
  /** Bytes per second of one link. */
  rate: number;
  /** What links were chosen for, such as `ring of step 5`. */
  purposes: string[];
  from: number[];
  to: number[];
  /** Parallel links. */
  count: number[];
  /** Index of the purpose. */
  purpose: number[];
  /** Share of the simulated step in which the link is busy; empty if the answer was not simulated. */
  busy: number[];
}

/** The links between servers, which stand on a circle. */
export function designTopology(data: TopologyData): View {
  const purposes = data.purposes.map((_, at) => at);
  let shown = 0;
  const simulated = data.busy.length > 0;
  const options = ["all links, by purpose", ...(simulated ? ["all links, by load"] : []), ...data.purposes];
  const byLoad = () => simulated && shown === 1;
  const only = () => shown - (simulated ? 2 : 1);
  const place = (server: number): [number, number] => {
    const turn = (2 * Math.PI * server) / data.servers - Math.PI / 2;
    return [Math.cos(turn), -Math.sin(turn)];
  };
  const facts = (at: number): [string, string][] => [
    ["chosen for", data.purposes[data.purpose[at]]],
    ["rate", rate(data.rate * data.count[at])],
    ...(simulated ? ([["busy", percent(data.busy[at])]] as [string, string][]) : []),
  ];
  const side = (width: number) => Math.max(Math.min(width - 60, 620), 200);
  return {
    zooms: false,
    choice: { label: "Show", options, pick: (index) => (shown = index) },
    height: (width) => side(width) + 70,
    option: (look, width) => {
      const wide = Math.max(0.5, Math.min(2, 90 / data.servers));
      const load = byLoad();
      const links = data.from.map((_, at) => at).filter((at) => only() < 0 || data.purpose[at] === only());
      const every = Math.max(1, Math.ceil(data.servers / (width < 600 ? 16 : 32)));
      const most = Math.max(...data.busy, 1e-9);
      const colour = (at: number) => (load ? shade(look, data.busy[at] / most) : dimension(look, data.purpose[at]));
      const line = (name: string, of: number[], paint: (at: number) => string) => ({
        type: "custom",
        name,
        color: paint(of[0] ?? 0),
        coordinateSystem: "cartesian2d",
        encode: { x: 0, y: 1 },
        progressive: 0,
        data: of.map((at) => [...place(data.from[at]), ...place(data.to[at]), at]),
        renderItem: (_: unknown, api: Api) => {
          const [x1, y1] = api.coord([api.value(0), api.value(1)]);
          const [x2, y2] = api.coord([api.value(2), api.value(3)]);
          const at = api.value(4);
          const style = { stroke: paint(at), lineWidth: wide * data.count[at], opacity: load ? 0.9 : 0.55 };
          return { type: "line", shape: { x1, y1, x2, y2 }, style };
        },
      });
      const bound = { type: "value", min: -1.12, max: 1.12, show: false };
      return {
        ...base(look),
        legend: load ? undefined : legend(look, data.purposes),
        visualMap: load
          ? {
              type: "continuous", min: 0, max: 100 * most, seriesIndex: [], inRange: { color: look.ramp },
              orient: "horizontal", left: 8, top: 0, itemWidth: 12, itemHeight: 120, calculable: false,
              text: [percent(most), "0 % busy"], textStyle: { color: look.faint },
            }
          : undefined,
        grid: { left: 30, width: side(width), top: 44, height: side(width) },
        xAxis: bound,
        yAxis: bound,
        tooltip: tooltip(look, "item", (found: { seriesType: string; data: number[] }) => {
          const at = found.data[4];
          if (at === undefined) return tip(`server ${found.data[2]}`, []);
          return tip(`server ${data.from[at]} to ${data.to[at]}`, facts(at));
        }),
        series: [
          ...(load
            ? [line("links", links.sort((a, b) => data.busy[a] - data.busy[b]), colour)]
            : purposes.map((of) => line(data.purposes[of], links.filter((at) => data.purpose[at] === of), colour))),
          {
            type: "scatter",
            symbolSize: Math.max(3, Math.min(11, 300 / data.servers)),
            itemStyle: { color: look.text },
            z: 3,
            data: Array.from({ length: data.servers }, (_, server) => [...place(server), server]),
          },
          // Numbers of servers, outside the circle.
          {
            type: "scatter",
            symbolSize: 0,
            silent: true,
            label: {
              show: true,
              color: look.faint,
              position: "inside",
              formatter: (found: { data: number[] }) => String(found.data[2]),
            },
            data: Array.from({ length: data.servers }, (_, server) => server)
              .filter((server) => server % every === 0)
              .map((server) => [...place(server).map((at) => 1.07 * at), server]),
          },
        ],
      };
    },
    table: () =>
      table(
        [
          ["from", (at) => String(data.from[at])],
          ["to", (at) => String(data.to[at])],
          ...facts(0).map(([name], column): [string, (at: number) => string] => [name, (at) => facts(at)[column][1]]),
        ],
        data.from.length,
      ),
  };
}

interface ProgressData {
  /** Networks, each with the proposals after which the best step became shorter. */
  searches: { network: string; proposal: number[]; step: number[]; until: number }[];
}

/** The best step so far, by the number of proposals. */
export function designProgress(data: ProgressData): View {
  const all = data.searches.flatMap((each) => each.step);
  const { factor, unit } = timeUnit(Math.max(...all, 1e-12));
  const rows = data.searches.flatMap((each) => each.proposal.map((proposal, at) => ({ each, proposal, step: each.step[at] })));
  return {
    zooms: false,
    height: () => 300,
    option: (look) => ({
      ...base(look),
      legend: legend(look, data.searches.map((each) => each.network)),
      grid: { left: 8, right: 24, top: 52, bottom: 40, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, "proposals of a chain", (value) => value.toLocaleString("en")), nameLocation: "middle", nameGap: 26 },
      yAxis: { ...values(look, `best step so far (${unit})`, digits), scale: true },
      tooltip: tooltip(look, "item", (found: { seriesName: string; data: [number, number] }) =>
        tip(found.seriesName, [
          ["after proposals", found.data[0].toLocaleString("en")],
          ["best step so far", time(found.data[1] * factor)],
        ]),
      ),
      series: data.searches.map((each, at) => ({
        type: "line",
        name: each.network,
        step: "end",
        symbolSize: 5,
        color: dimension(look, at),
        data: [
          ...each.proposal.map((proposal, index) => [proposal, each.step[index] / factor]),
          [each.until, each.step[each.step.length - 1] / factor],
        ],
      })),
    }),
    table: () =>
      table(
        [
          ["network", (at) => rows[at].each.network],
          ["after proposals", (at) => rows[at].proposal.toLocaleString("en")],
          ["best step so far", (at) => time(rows[at].step)],
        ],
        rows.length,
      ),
  };
}
