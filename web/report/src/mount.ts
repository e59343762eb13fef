// A chart on the page: drawn when it comes near the window, zoomed by buttons and keys, with its numbers as a table.

import { init } from "./echarts";
import type { EChartsType } from "./echarts";
import type { Look } from "./theme";
import type { Choice, View } from "./view";

/** The current look of the page. */
export interface Page {
  look: Look;
  patterns: boolean;
}

/** A chart that has a place on the page. */
export interface Mounted {
  draw(): void;
  resize(): void;
}

const STEP = 0.25;

/** Puts a chart into its section. */
export function mount(section: HTMLElement, view: View, finding: string, page: () => Page): Mounted {
  const place = section.querySelector<HTMLElement>(".place")!;
  const canvas = document.createElement("div");
  canvas.className = "canvas";
  canvas.setAttribute("role", "img");
  const title = section.querySelector("h2")?.textContent ?? "";
  canvas.setAttribute("aria-label", `${title}. ${finding} The numbers are in the table below.`);
  let chart: EChartsType | undefined;
  let width = 0;
  let shown: [number, number] = [0, 100];

  const controls = document.createElement("div");
  controls.className = "controls";
  if (view.choice) controls.append(chooser(view.choice, () => (draw(), list())));
  if (view.zooms) controls.append(...zoomButtons((kind) => zoom(kind)));
  if (controls.childElementCount) place.append(controls);
  place.append(canvas);

  function size(): void {
    width = place.clientWidth;
    canvas.style.height = `${view.height(width)}px`;
  }

  function draw(): void {
    size();
    const { look, patterns } = page();
    chart ??= init(canvas, null, { renderer: "canvas" });
    chart.resize();
    const option = view.option(look, width) as { series: object[] };
    // The page labels charts itself. Series that are drawn as one area (`large`) cannot have patterns.
    const series = patterns ? option.series.map((each) => ({ ...each, large: false })) : option.series;
    chart.setOption(
      { ...option, series, aria: { enabled: patterns, label: { enabled: false }, decal: { show: patterns } } },
      { notMerge: true },
    );
    if (view.zooms && (shown[0] > 0 || shown[1] < 100)) apply();
    canvas.dataset.drawn = "true";
  }

  function apply(): void {
    canvas.dataset.zoom = shown.join(" ");
    chart?.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start: shown[0], end: shown[1] });
  }

  function zoom(kind: Zoom): void {
    const zooms = (chart?.getOption() as { dataZoom?: { start: number; end: number }[] }).dataZoom;
    if (!zooms?.length) return;
    const { start, end } = zooms[0];
    const length = end - start;
    const middle = (start + end) / 2;
    const moved = (by: number): [number, number] => {
      const shift = Math.min(Math.max(by, -start), 100 - end);
      return [start + shift, end + shift];
    };
    const scaled = (by: number): [number, number] => {
      const half = Math.min((length * by) / 2, 50);
      const from = Math.min(Math.max(middle - half, 0), 100 - 2 * half);
      return [from, from + 2 * half];
    };
    shown = {
      in: () => scaled(0.5),
      out: () => scaled(2),
      left: () => moved(-length * STEP),
      right: () => moved(length * STEP),
      all: (): [number, number] => [0, 100],
    }[kind]();
    apply();
  }

  if (view.zooms) {
    canvas.tabIndex = 0;
    canvas.setAttribute("aria-keyshortcuts", "+ - ArrowLeft ArrowRight 0");
    canvas.addEventListener("keydown", (event) => {
      const kind = KEYS[event.key];
      if (!kind || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      zoom(kind);
    });
  }

  const details = section.querySelector<HTMLDetailsElement>("details.numbers");
  function list(): void {
    const scroll = details?.querySelector<HTMLElement>(".scroll");
    if (details?.open && scroll) scroll.replaceChildren(...tableOf(view));
  }
  details?.addEventListener("toggle", list);

  size();
  return {
    draw,
    resize: () => {
      if (chart && place.clientWidth !== width) draw();
      else if (!chart) size();
    },
  };
}

type Zoom = "in" | "out" | "left" | "right" | "all";

const KEYS: Record<string, Zoom> = {
  "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all", Home: "all", Escape: "all",
};

function zoomButtons(zoom: (kind: Zoom) => void): HTMLElement[] {
  const kinds: [Zoom, string, string][] = [
    ["in", "+", "Zoom in"],
    ["out", "−", "Zoom out"],
    ["left", "←", "Move left"],
    ["right", "→", "Move right"],
    ["all", "All", "Show all"],
  ];
  const group = document.createElement("div");
  group.className = "zoom";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Zoom");
  for (const [kind, text, name] of kinds) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.title = name;
    button.setAttribute("aria-label", name);
    button.addEventListener("click", () => zoom(kind));
    group.append(button);
  }
  return [group];
}

function chooser(choice: Choice, changed: () => void): HTMLElement {
  const label = document.createElement("label");
  const select = document.createElement("select");
  choice.options.forEach((text, index) => select.add(new Option(text, String(index))));
  select.value = String(choice.first ?? 0);
  select.addEventListener("change", () => {
    choice.pick(Number(select.value));
    changed();
  });
  label.append(`${choice.label} `, select);
  return label;
}

function tableOf(view: View): Node[] {
  const { head, rows, total } = view.table();
  const table = document.createElement("table");
  const line = table.createTHead().insertRow();
  for (const text of head) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = text;
    line.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const next = body.insertRow();
    row.forEach((text, at) => {
      const cell = document.createElement(at ? "td" : "th");
      if (!at) cell.scope = "row";
      cell.textContent = text;
      next.append(cell);
    });
  }
  if (total === undefined || total <= rows.length) return [table];
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = `The first ${rows.length} of ${total} rows; the tables in the results folder have all.`;
  return [table, note];
}
