// The cost of the fabric: its bill, with a bar for each line.

import { digits, money, percent, scaled } from "../format";
import { dimension } from "../theme";
import { barTooltip, base, names, table, tip, values } from "../view";
import type { View } from "../view";

interface CostData {
  /** What is bought, such as `switch port`. */
  component: string[];
  /** The part of the fabric for which it is bought. */
  part: string[];
  which: string[];
  count: number[];
  each: number[];
  usd: number[];
  watts: (number | null)[];
  /** The sum of all lines, including those that are not drawn. */
  total: number;
}

/** A label cut to a length that fits. */
function short(text: string, width: number): string {
  const most = width < 600 ? 20 : 40;
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Price of each line, coloured by what is bought. */
export function cost(data: CostData): View {
  const parts = new Set(data.part).size > 1;
  const label = data.component.map((component, at) => (parts ? `${component}, ${data.part[at]}` : component));
  const kinds = [...new Set(data.component)];
  const share = (at: number) => percent(data.usd[at] / data.total);
  const powered = data.watts.some((watts) => watts !== null);
  const power = (at: number) => (data.watts[at] === null ? "-" : scaled(data.watts[at], "W"));
  const most = Math.max(...data.usd, 0);
  const [factor, unit] = most >= 1e6 ? [1e6, "million dollars"] : most >= 1e4 ? [1e3, "thousand dollars"] : [1, "dollars"];
  return {
    zooms: false,
    height: () => 62 + 26 * label.length + (label.length < 3 ? 24 : 0),
    option: (look, width) => ({
      ...base(look),
      grid: { left: 8, right: width < 600 ? 64 : 128, top: 6, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: { ...values(look, unit, digits), nameLocation: "middle", nameGap: 26 },
      yAxis: {
        // Lines of different parts may have the same name.
        ...names(look, label.map((_, at) => String(at))),
        inverse: true,
        axisLabel: {
          color: look.text,
          formatter: (_: string, at: number) => short(label[at], width),
          interval: 0,
        },
      },
      tooltip: barTooltip(look, (at) => {
        return tip(label[at], [
          ["which", data.which[at]],
          ["number", data.count[at].toLocaleString("en")],
          ["each", money(data.each[at])],
          ["total", money(data.usd[at])],
          ["of the total", share(at)],
          ...(powered ? [["power", power(at)] as [string, string]] : []),
        ]);
      }),
      series: [
        {
          type: "bar",
          barWidth: 15,
          data: data.usd.map((usd, at) => ({
            value: usd / factor,
            itemStyle: { color: dimension(look, kinds.indexOf(data.component[at])) },
          })),
          label: {
            show: true,
            position: "right",
            color: look.text,
            fontSize: 11,
            formatter: (item: { dataIndex: number }) =>
              width < 600 ? money(data.usd[item.dataIndex]) : `${money(data.usd[item.dataIndex])}  (${share(item.dataIndex)})`,
          },
        },
      ],
    }),
    table: () =>
      table(
        [
          ["what is bought", (at) => data.component[at]],
          ["for", (at) => data.part[at]],
          ["which", (at) => data.which[at]],
          ["number", (at) => data.count[at].toLocaleString("en")],
          ["each", (at) => money(data.each[at])],
          ["total", (at) => money(data.usd[at])],
          ["share", share],
          ...(powered ? [["power", power] as [string, (at: number) => string]] : []),
        ],
        label.length,
      ),
  };
}
