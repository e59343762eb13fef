// Where NPUs and switches are drawn: by the fabric's dimensions, in tiers, or on a circle.

export interface Point {
  x: number;
  y: number;
}

/** Numbers of NPUs by their names, which may be the user's own; switches are not among them. */
export type Npus = ReadonlyMap<string, number>;

/** Coordinates of an NPU, lowest dimension first. */
export function coordinates(npu: number, sizes: number[]): number[] {
  let rest = npu;
  return sizes.map((size) => {
    const at = rest % size;
    rest = Math.floor(rest / size);
    return at;
  });
}

/** The step from one NPU to the next in each dimension. The lowest of three is drawn diagonally, as if receding. */
export function steps(sizes: number[]): Point[] {
  if (sizes.length === 1) return [{ x: 1, y: 0 }];
  const found: Point[] = [];
  const extent = { x: 0, y: 0 };
  const [slanted, ...flat] = sizes.length > 2 ? sizes : [1, ...sizes];
  if (sizes.length > 2) {
    found.push({ x: 0.42, y: 0.3 });
    extent.x += 0.42 * (slanted - 1);
    extent.y += 0.3 * (slanted - 1);
  }
  // The last dimension goes across, the one before it down, and so on, so that drawings are wider than high.
  flat.forEach((size, at) => {
    const axis = (flat.length - at) % 2 ? "x" : "y";
    const step = extent[axis] + (axis === "x" ? 1 : 0.8);
    found.push(axis === "x" ? { x: step, y: 0 } : { x: 0, y: step });
    extent[axis] += step * (size - 1);
  });
  return found;
}

function circle(vertices: string[]): Map<string, Point> {
  const turn = (2 * Math.PI) / vertices.length;
  return new Map(
    vertices.map((name, at) => [name, { x: 1.6 * Math.cos(turn * at - Math.PI / 2), y: Math.sin(turn * at - Math.PI / 2) }]),
  );
}

/** NPUs by their coordinates; switches beside their NPUs. */
function grid(vertices: string[], neighbours: Map<string, string[]>, sizes: number[], npus: Npus): Map<string, Point> {
  const places = new Map<string, Point>();
  const vectors = steps(sizes);
  for (const name of vertices) {
    const npu = npus.get(name);
    if (npu === undefined) continue;
    const point = { x: 0, y: 0 };
    coordinates(npu, sizes).forEach((at, dim) => {
      point.x += at * vectors[dim].x;
      point.y += at * vectors[dim].y;
    });
    places.set(name, point);
  }
  // Wider than high: there is more room across.
  const all = [...places.values()];
  const wide = Math.max(...all.map((each) => each.x)) + 1;
  const high = Math.max(...all.map((each) => each.y)) + 1;
  const stretch = Math.min(Math.max((1.8 * high) / wide, 1), 2.5);
  for (const point of all) point.x *= stretch;
  // Place switches of the same NPUs side by side.
  const taken = new Map<string, number>();
  for (const name of vertices) {
    if (places.has(name)) continue;
    const mine = (neighbours.get(name) ?? []).map((each) => places.get(each)).filter((each) => each !== undefined);
    if (mine.length === 0) continue;
    const middle = { x: 0, y: 0 };
    for (const each of mine) {
      middle.x += each.x / mine.length;
      middle.y += each.y / mine.length;
    }
    const row = mine.every((each) => Math.abs(each.y - mine[0].y) < 1e-9);
    const key = `${middle.x.toFixed(3)} ${middle.y.toFixed(3)}`;
    const count = taken.get(key) ?? 0;
    taken.set(key, count + 1);
    const side = (count % 2 ? 1 : -1) * Math.ceil(count / 2) * (row ? 0.75 : 0.45);
    places.set(name, row ? { x: middle.x + side, y: middle.y - 0.4 } : { x: middle.x - 0.3 * stretch, y: middle.y + side });
  }
  return places;
}

/** Places in tiers by distance from the NPUs, which are at the bottom; in a circle if there are only NPUs. */
function tiers(vertices: string[], neighbours: Map<string, string[]>, npus: Npus): Map<string, Point> {
  const places = new Map<string, Point>();
  const tier = new Map(vertices.filter((name) => npus.has(name)).map((name) => [name, 0]));
  if (tier.size === vertices.length) return circle(vertices);
  const queue = [...tier.keys()];
  for (let at = 0; at < queue.length; at += 1) {
    for (const next of neighbours.get(queue[at]) ?? []) {
      if (tier.has(next)) continue;
      tier.set(next, (tier.get(queue[at]) ?? 0) + 1);
      queue.push(next);
    }
  }
  const rows: string[][] = [];
  for (const name of vertices) (rows[tier.get(name) ?? 0] ??= []).push(name);
  const widest = Math.max(...rows.map((row) => row.length));
  rows.forEach((row, level) =>
    row.forEach((name, at) => {
      // Links between neighbours in a row would hide each other, so draw every other vertex a little lower.
      const shift = level === 0 && at % 2 ? 0.35 : 0;
      places.set(name, { x: ((at + 0.5) * widest) / row.length, y: -level * Math.max(widest / 5, 1.2) + shift });
    }),
  );
  return places;
}

/** A place for each vertex. */
export function place(vertices: string[], edges: [string, string][], sizes: number[], npus: Npus): Map<string, Point> {
  const neighbours = new Map<string, string[]>();
  for (const [from, to] of edges) {
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
    neighbours.set(to, [...(neighbours.get(to) ?? []), from]);
  }
  const lone = sizes.length === 1 && vertices.every((name) => npus.has(name));
  if (lone) return circle(vertices);
  return sizes.length > 0 ? grid(vertices, neighbours, sizes, npus) : tiers(vertices, neighbours, npus);
}
