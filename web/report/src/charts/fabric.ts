// A drawing of the fabric with lines coloured by load, and a strip of all links for each dimension.

import { percent } from "../format";
import { coordinates, place, steps } from "../place";
import type { Npus, Point } from "../place";
import { shade } from "../theme";
import type { Look } from "../theme";
import { base, names, table, tip, tooltip } from "../view";
import type { View } from "../view";

interface Strip {
  name: string;
  links: number;
  places: number[];
  least: number;
  mean: number;
  most: number;
  most_link: string;
}

interface FabricData {
  dims: string[];
  sizes: number[];
  /** Whether only one group of each dimension is drawn, side by side. */
  groups: boolean;
  /** Text in place of each dimension that is not drawn; empty for those that are. */
  words: string[];
  /** Numbers of the NPUs that are drawn, by name. */
  npus: Record<string, number>;
  edges: [string, string, number, number, number][];
  strips: Strip[];
}

/** The links between two vertices in a dimension, in both directions if there are any back. */
interface Pair {
  from: string;
  to: string;
  dim: number;
  there: number;
  back?: number;
  links: number;
}

/** A vertex in the group of a dimension. No name has a line break. */
function within(dim: number, name: string): string {
  return `${dim}\n${name}`;
}

/** The name of a vertex without the dimension of its group. */
function plain(name: string): string {
  return name.slice(name.indexOf("\n") + 1);
}

/** Most vertices of a drawing with names. */
const NAMED = 72;
/** Most pixels that a name takes beside its vertex, and the fewest in which it is still readable. */
const WIDEST_NAME = 160;
const NARROWEST_NAME = 28;
const STRIP = 34;
/** Room around the drawing, in steps between NPUs. */
const MARGIN = 0.5;
/** Room of the group of a dimension, and the distance from one to the next. */
const ROOM: Point = { x: 2, y: 1.2 };
const APART = 2.6;

function pairs(edges: FabricData["edges"]): Pair[] {
  const found = new Map<string, Pair>();
  for (const [from, to, dim, load, links] of edges) {
    const other = found.get([dim, to, from].join("\n"));
    if (other) {
      other.back = load;
      other.links += links;
    } else found.set([dim, from, to].join("\n"), { from, to, dim, there: load, links });
  }
  return [...found.values()];
}

/** A line of the drawing: between two vertices, or a stub at a vertex for a link that closes a ring. */
interface Line {
  pair: Pair;
  from: string;
  to: string;
  bow: number;
}

/** Lines, and the ends of stubs. */
function lines(all: Pair[], sizes: number[], npus: Npus, places: Map<string, Point>): { lines: Line[]; ends: Map<string, Point> } {
  const ends = new Map<string, Point>();
  const vectors = steps(sizes);
  const drawn = all.flatMap((pair): Line[] => {
    const { from, to, dim } = pair;
    const [a, b] = [npus.get(from), npus.get(to)];
    if (sizes.length < 2 || a === undefined || b === undefined) return [{ pair, from, to, bow: 0 }];
    const [start, end] = [coordinates(a, sizes)[dim], coordinates(b, sizes)[dim]];
    const far = Math.abs(start - end);
    if (far <= 1) return [{ pair, from, to, bow: 0 }];
    const ring = !all.some((each) => each.dim === dim && distance(each, sizes, npus) > 1 && distance(each, sizes, npus) < sizes[dim] - 1);
    if (!ring || far < sizes[dim] - 1) return [{ pair, from, to, bow: 0.18 }];
    // A link that closes a ring: draw a stub at either end, as is usual for tori.
    const stub = (name: string, way: number): Line => {
      const at = places.get(name)!;
      const key = [name, dim, way].join("\n");
      const long = Math.min(0.3, 0.3 / Math.hypot(vectors[dim].x, vectors[dim].y));
      ends.set(key, { x: at.x + way * long * vectors[dim].x, y: at.y + way * long * vectors[dim].y });
      return { pair, from: name, to: key, bow: 0 };
    };
    return [stub(from, start > end ? 1 : -1), stub(to, start > end ? -1 : 1)];
  });
  return { lines: drawn, ends };
}

function distance(pair: Pair, sizes: number[], npus: Npus): number {
  const [a, b] = [npus.get(pair.from), npus.get(pair.to)];
  if (a === undefined || b === undefined) return 0;
  return Math.abs(coordinates(a, sizes)[pair.dim] - coordinates(b, sizes)[pair.dim]);
}

/** The drawing, and below it the strips. */
export function fabric(data: FabricData): View {
  const { dims, strips } = data;
  const npus: Npus = new Map(Object.entries(data.npus));
  // NPUs by number, then all others by name.
  const order = (a: string, b: string) =>
    (npus.get(a) ?? Infinity) < (npus.get(b) ?? Infinity)
      ? -1
      : (npus.get(b) ?? Infinity) < (npus.get(a) ?? Infinity)
        ? 1
        : a.localeCompare(b, "en", { numeric: true });
  const of = (edges: FabricData["edges"]) => [...new Set(edges.flatMap(([from, to]) => [from, to]))];
  const between = (edges: FabricData["edges"]) => edges.map(([from, to]): [string, string] => [from, to]);
  const places = new Map<string, Point>();
  if (data.groups) {
    // An NPU is in a group of each dimension, so vertices have the number of the dimension before their names.
    dims.forEach((_, dim) => {
      const mine = data.edges.filter((edge) => edge[2] === dim);
      const found = place(of(mine).sort(order), between(mine), [], npus);
      const xs = [...found.values()].map((point) => point.x);
      const ys = [...found.values()].map((point) => point.y);
      const [wide, high] = [Math.max(...xs) - Math.min(...xs) || 1, Math.max(...ys) - Math.min(...ys) || 1];
      for (const [name, { x, y }] of found) {
        places.set(within(dim, name), {
          x: APART * dim + (ROOM.x * (x - Math.min(...xs))) / wide,
          y: (ROOM.y * (y - Math.min(...ys))) / high,
        });
      }
    });
  } else {
    const found = place(of(data.edges).sort(order), between(data.edges), data.sizes, npus);
    found.forEach((point, name) => places.set(name, point));
  }
  const vertices = [...places.keys()];
  const edges = data.groups
    ? data.edges.map((edge): (typeof data.edges)[number] => [within(edge[2], edge[0]), within(edge[2], edge[1]), edge[2], edge[3], edge[4]])
    : data.edges;
  const sizes = data.groups ? [] : data.sizes;
  const { lines: drawn, ends } = lines(pairs(edges), sizes, npus, places);
  const most = Math.max(...strips.map((strip) => strip.most), 1e-9);
  const columns = Math.max(...strips.map((strip) => strip.places.length));
  const points = [...places.values(), ...ends.values()];
  // Each dimension takes its room, whether it is drawn or not.
  if (data.groups && drawn.length) {
    dims.forEach((_, dim) => points.push({ x: APART * dim, y: 0 }, { x: APART * dim + ROOM.x, y: ROOM.y }));
  }
  const span = (of: (point: Point) => number) => Math.max(...points.map(of)) - Math.min(...points.map(of)) + MARGIN;
  // The distance between the two nearest vertices, so that none hides another.
  const nearest = () => {
    const all = [...places.values()];
    const apart = all.flatMap((a, at) => all.slice(at + 1).map((b) => Math.hypot(a.x - b.x, a.y - b.y)));
    return apart.length > 0 ? Math.min(...apart.filter((each) => each > 1e-9), 1e9) : 1;
  };
  const drawing = (width: number) => {
    if (!drawn.length) return 0;
    const ratio = span((point) => point.y) / span((point) => point.x);
    return Math.round(Math.min(Math.max(width * ratio, 200), 520));
  };

  return {
    zooms: false,
    height: (width) => drawing(width) + 70 + STRIP * strips.length,
    option: (look, width) => {
      const top = drawing(width);
      const narrow = width < 600;
      const scale = drawn.length
        ? Math.min(width / span((point) => point.x), top / span((point) => point.y))
        : 1;
      const size = Math.max(4, Math.min(narrow ? 14 : 22, scale * 0.3, scale * nearest() * 0.9));
      const above = data.groups ? 24 : 4;
      const high = Math.max(top - above - 4, 0);
      const put = frame(width - 24, high);
      return {
        ...base(look),
        tooltip: tooltip(look, "item", (item: { seriesName: string; dataIndex: number; data: number[] }) =>
          item.seriesName === "strips"
            ? stripTip(strips[item.data[1]], item.data[2])
            : item.seriesName === "links"
              ? pairTip(drawn[item.dataIndex].pair, dims)
              : tip(plain(vertices[item.dataIndex]), [])),
        title:
          data.groups && drawn.length
            ? dims.flatMap((name, dim) => {
                const [x, y] = put({ x: APART * dim + ROOM.x / 2, y: ROOM.y / 2 });
                const wide = put({ x: ROOM.x, y: 0 })[0] - put({ x: 0, y: 0 })[0];
                const line = { left: 12 + x, textAlign: "center", padding: 2 };
                const style = { fontSize: 12, width: wide, overflow: "break" };
                return [
                  { ...line, text: name, top: 2, textStyle: { ...style, color: look.text, fontWeight: 500, overflow: "truncate" } },
                  { ...line, text: data.words[dim], top: above + y - 10, textStyle: { ...style, color: look.faint, fontWeight: 400 } },
                ];
              })
            : [],
        visualMap: {
          type: "continuous",
          min: 0,
          max: most,
          dimension: 2,
          seriesIndex: drawn.length ? 2 : 0,
          orient: "horizontal",
          left: narrow ? 0 : 122,
          bottom: 0,
          itemWidth: 12,
          itemHeight: narrow ? 110 : 180,
          text: [`load ${percent(most)}`, "0 %"],
          textStyle: { color: look.faint },
          inRange: { color: look.ramp },
          hoverLink: false,
        },
        grid: [
          { left: narrow ? 102 : 128, right: 12, top: top + 14, height: STRIP * strips.length },
          { left: 12, right: 12, top: above, height: high },
        ],
        xAxis: [
          { type: "value", min: 0, max: columns, show: false },
          { type: "value", gridIndex: 1, min: 0, max: width - 24, show: false },
        ],
        yAxis: [{
          ...names(look, strips.map((strip) => strip.name)),
          inverse: true,
          axisLine: { show: false },
          axisLabel: {
            interval: 0,
            color: look.text,
            width: narrow ? 98 : 122,
            overflow: "truncate",
            formatter: (_: string, at: number) => `${strips[at].name}\n{share|${range(strips[at])}}`,
            lineHeight: 13,
            rich: { share: { color: look.faint, fontSize: 10, lineHeight: 13 } },
          },
        }, { type: "value", gridIndex: 1, min: 0, max: Math.max(high, 1), inverse: true, show: false }],
        series: [
          ...(drawn.length ? drawingOf(look, put, size) : []),
          {
            type: "custom",
            name: "strips",
            encode: { x: 0, y: 1 },
            data: strips.flatMap((strip, row) =>
              Array.from({ length: columns }, (_, at) => [
                at,
                row,
                strip.places[Math.floor((at * strip.places.length) / columns)],
              ]),
            ),
            renderItem: (_: unknown, api: StripApi) => {
              const [x, y] = api.coord([api.value(0), api.value(1)]);
              const [wide] = api.size([1, 0]);
              // Whole pixels, so that no seam shows between two of them.
              const left = Math.floor(x);
              const shape = { x: left, y: y - STRIP / 2 + 4, width: Math.ceil(x + wide) - left, height: STRIP - 8 };
              return { type: "rect", shape, style: { fill: api.visual("color") } };
            },
          },
        ],
      };
    },
    table: () =>
      table(
        [
          ["links of", (at) => strips[at].name],
          ["links", (at) => String(strips[at].links)],
          ["least load", (at) => percent(strips[at].least)],
          ["mean load", (at) => percent(strips[at].mean)],
          ["most load", (at) => percent(strips[at].most)],
          ["most loaded link", (at) => strips[at].most_link],
        ],
        strips.length,
      ),
  };

  /** Converts places to pixels, for a drawing of this size. */
  function frame(width: number, height: number): (point: Point) => [number, number] {
    const least = { x: Math.min(...points.map((point) => point.x)), y: Math.min(...points.map((point) => point.y)) };
    const [wide, high] = [span((point) => point.x), span((point) => point.y)];
    const scale = Math.min(width / wide, height / high);
    return (point) => [
      (point.x - least.x + MARGIN / 2) * scale + (width - wide * scale) / 2,
      (point.y - least.y + MARGIN / 2) * scale + (height - high * scale) / 2,
    ];
  }

  /** Links and vertices. */
  function drawingOf(look: Look, put: (point: Point) => [number, number], size: number) {
    const at = (name: string): [number, number] => put(places.get(name) ?? ends.get(name)!);
    const named = vertices.length <= NAMED && size > 11;
    const own = Object.entries(data.npus).some(([name, npu]) => name !== `NPU ${npu}`);
    // Pixels from a vertex to the nearest one in its row, which is the room for its name.
    const room = (name: string) => {
      const [x, y] = at(name);
      const row = vertices.filter((each) => each !== name).map(at).filter((each) => Math.abs(each[1] - y) < 1);
      return Math.min(...row.map((each) => Math.abs(each[0] - x) - 6), WIDEST_NAME);
    };
    const series = { type: "custom", xAxisIndex: 1, yAxisIndex: 1, encode: { x: 0, y: 1 } };
    const thick = drawn.length > 800 ? 1 : 2.4;
    return [
      {
        ...series,
        name: "links",
        data: drawn.map((line) => at(line.from)),
        renderItem: (params: { dataIndex: number }, api: StripApi) => {
          const { pair, from, to, bow } = drawn[params.dataIndex];
          const [x1, y1] = api.coord(at(from));
          const [x2, y2] = api.coord(at(to));
          const style = {
            stroke: shade(look, Math.max(pair.there, pair.back ?? 0) / most),
            lineWidth: thick,
            fill: "none",
          };
          const middle = { cpx1: (x1 + x2) / 2 - (y2 - y1) * bow, cpy1: (y1 + y2) / 2 + (x2 - x1) * bow };
          const curve = { type: "bezierCurve", shape: { x1, y1, x2, y2, ...middle }, style };
          if (pair.back !== undefined || drawn.length > 400) return curve;
          // A link in one direction only: draw an arrow in the middle.
          const turn = Math.atan2(y2 - y1, x2 - x1);
          const tipAt = (angle: number, long: number): [number, number] => [
            (x1 + x2) / 2 + long * Math.cos(turn + angle),
            (y1 + y2) / 2 + long * Math.sin(turn + angle),
          ];
          const head = [tipAt(0, 7), tipAt(2.5, 7), tipAt(-2.5, 7)];
          return { type: "group", children: [curve, { type: "polygon", shape: { points: head }, style: { fill: style.stroke } }] };
        },
      },
      {
        ...series,
        name: "vertices",
        z: 3,
        data: vertices.map(at),
        renderItem: (params: { dataIndex: number }, api: StripApi) => {
          const name = vertices[params.dataIndex];
          const [x, y] = api.coord(at(name));
          const npu = npus.has(plain(name));
          const style = { fill: look.page, stroke: look.faint, lineWidth: 1.2 };
          const shape = npu
            ? { type: "circle", shape: { cx: x, cy: y, r: size / 2 } }
            : { type: "rect", shape: { x: x - size * 0.75, y: y - size / 2, width: size * 1.5, height: size, r: 2 } };
          const fontSize = size > 16 ? 10 : 8;
          if (own) {
            // Names are wider than the vertex, so draw them below NPUs and above switches if there is room.
            const wide = room(name);
            const text = { style: { text: name, fontSize, fill: look.text, stroke: look.page, lineWidth: 3, width: wide, overflow: "truncate" } };
            const textConfig = { position: npu ? "bottom" : "top", distance: 3 };
            return { ...shape, style, textConfig, textContent: wide >= NARROWEST_NAME ? text : undefined };
          }
          const text = { style: { text: plain(name).replace(/^\D+/, ""), fontSize, fill: look.text } };
          return { ...shape, style, textConfig: { position: "inside" }, textContent: named ? text : undefined };
        },
      },
    ];
  }
}

interface StripApi {
  value(index: number): number;
  coord(point: [number, number]): [number, number];
  size(extent: [number, number]): [number, number];
  visual(what: string): string;
}

function range(strip: Strip): string {
  const [least, most] = [percent(strip.least), percent(strip.most)];
  return least === most ? most : `${least} to ${most}`;
}

function stripTip(strip: Strip, load: number): string {
  return tip(strip.name, [
    ["a link here", percent(load)],
    ["least loaded", percent(strip.least)],
    ["mean", percent(strip.mean)],
    ["most loaded", percent(strip.most)],
    ["which is", strip.most_link],
    ["links", String(strip.links)],
  ]);
}

function pairTip(pair: Pair, dims: string[]): string {
  const back: [string, string][] =
    pair.back === undefined ? [] : [[`${plain(pair.to)} to ${plain(pair.from)}`, percent(pair.back)]];
  return tip(dims[pair.dim], [
    [`${plain(pair.from)} to ${plain(pair.to)}`, percent(pair.there)],
    ...back,
    ["links", String(pair.links)],
  ]);
}
