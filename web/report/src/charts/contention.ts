// Which links delay which layers: delays by the link that was the bottleneck, divided by layer and collective.

import { bytes, digits, time, timeUnit } from "../format";
import { dimension } from "../theme";
import type { Look } from "../theme";
import { barTooltip, base, legend, names, table, tip, values } from "../view";
import type { View } from "../view";

interface ContentionData {
  /** Links by their ends, longest delays first. */
  link: string[];
  /** Number of links equal to each, including itself. */
  alike: number[];
  messages: number[];
  bytes: number[];
  causes: { name: string; waiting: number[] }[];
}

/** The colour of a cause; causes without their own colour share one. */
function colour(look: Look, data: ContentionData, place: number): string {
  return data.causes[place].name === "others" ? look.faint : dimension(look, place);
}

/** Delays at each link. */
export function contention(data: ContentionData): View {
  const total = data.link.map((_, at) => data.causes.reduce((sum, cause) => sum + cause.waiting[at], 0));
  const { factor, unit } = timeUnit(Math.max(...total, 1e-12));
  const facts = (at: number): [string, string][] => [
    ["total", time(total[at])],
    ["messages", data.messages[at].toLocaleString("en")],
    ["bytes", bytes(data.bytes[at])],
    ["links like it", data.alike[at].toLocaleString("en")],
  ];
  return {
    zooms: false,
    height: () => 96 + 24 * data.link.length,
    option: (look, width) => ({
      ...base(look),
      legend: legend(look, data.causes.map((cause) => cause.name)),
      grid: { left: 8, right: 24, top: 34, bottom: 40, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, `delays of messages, summed (${unit})`, digits), nameLocation: "middle", nameGap: 28 },
      yAxis: {
        ...names(look, data.link),
        inverse: true,
        axisLabel: { color: look.text, interval: 0, width: width < 600 ? 110 : 220, overflow: "truncate" },
      },
      tooltip: barTooltip(look, (at) => {
        const there = data.causes.map((cause, place) => ({ cause, place })).filter(({ cause }) => cause.waiting[at] > 0);
        const lines = there.map(({ cause }): [string, string] => [cause.name, time(cause.waiting[at])]);
        return tip(data.link[at], [...lines, ...facts(at)], there.map(({ place }) => colour(look, data, place)));
      }),
      series: data.causes.map((cause, place) => ({
        type: "bar",
        name: cause.name,
        stack: "all",
        barWidth: 14,
        color: colour(look, data, place),
        data: cause.waiting.map((value) => value / factor),
        emphasis: { focus: "series" },
      })),
    }),
    table: () =>
      table(
        [
          ["link", (at) => data.link[at]],
          ...data.causes.map((cause): [string, (at: number) => string] => [cause.name, (at) => time(cause.waiting[at])]),
          ...facts(0).map(([name], column): [string, (at: number) => string] => [name, (at) => facts(at)[column][1]]),
        ],
        data.link.length,
      ),
  };
}
