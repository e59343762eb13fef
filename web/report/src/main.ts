// The report's page: reads the data in the page, draws each chart when it comes into view, and applies the theme that
// the reader chose.

import { collectives, phases } from "./charts/collectives";
import { pairedBars, pairedLayers } from "./charts/compare";
import { contention } from "./charts/contention";
import { cost } from "./charts/cost";
import { designNetworks, designProgress, designTopology, designTraffic } from "./charts/design";
import { activity, dimensions } from "./charts/dimensions";
import { designFrontier, estimateCommunication, estimateKernels, estimateMemory, estimateStep } from "./charts/estimate";
import { fabric } from "./charts/fabric";
import { communication, layers } from "./charts/layers";
import { criticalPath, timeline } from "./charts/moments";
import { losses, queues, roundTrips } from "./charts/packets";
import { pipeline } from "./charts/pipeline";
import { mount } from "./mount";
import type { Mounted } from "./mount";
import { DARK, LIGHT } from "./theme";
import type { View } from "./view";

const views = {
  layers,
  communication,
  collectives,
  phases,
  dimensions,
  activity,
  contention,
  losses,
  queues,
  round_trips: roundTrips,
  pipeline,
  timeline,
  fabric,
  cost,
  critical_path: criticalPath,
  compare_layers: pairedLayers,
  compare_difference: pairedBars,
  compare_collectives: pairedBars,
  compare_phases: pairedBars,
  compare_dimensions: pairedBars,
  design_networks: designNetworks,
  design_traffic: designTraffic,
  design_topology: designTopology,
  design_progress: designProgress,
  design_frontier: designFrontier,
  estimate_step: estimateStep,
  estimate_communication: estimateCommunication,
  estimate_memory: estimateMemory,
  estimate_kernels: estimateKernels,
};

/** The numbers that each chart takes, as the package writes them. */
type Data = { [Name in keyof typeof views]: Parameters<(typeof views)[Name]>[0] };
type Name = keyof Data;
type Page = { [Each in Name]: { finding: string; data: Data[Each] } };

const VIEWS: { [Each in Name]: (data: Data[Each]) => View } = views;

/** Puts a chart into its section, without drawing it. */
function mounted<Each extends Name>(section: HTMLElement, name: Each, all: Page): Mounted {
  const { data, finding } = all[name];
  return mount(section, VIEWS[name](data), finding, page);
}

type Theme = "auto" | "light" | "dark";

const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
let theme: Theme = "auto";
let patterns = false;
let printing = false;

const dark = () => !printing && (theme === "auto" ? prefersDark.matches : theme === "dark");
const page = () => ({ look: dark() ? DARK : LIGHT, patterns });

const charts: { section: HTMLElement; mounted: Mounted; drawn: boolean }[] = [];

function redraw(): void {
  root.dataset.theme = dark() ? "dark" : "light";
  for (const chart of charts) if (chart.drawn) chart.mounted.draw();
}

function show(chart: (typeof charts)[number]): void {
  if (chart.drawn) return;
  chart.drawn = true;
  chart.mounted.draw();
}

function start(): void {
  const text = document.getElementById("data")?.textContent ?? "{}";
  const data: Page = JSON.parse(text);
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const chart = charts.find((each) => each.section === entry.target);
        if (entry.isIntersecting && chart) {
          seen.unobserve(entry.target);
          show(chart);
        }
      }
    },
    { rootMargin: "600px" },
  );
  for (const section of document.querySelectorAll<HTMLElement>("section[data-chart]")) {
    const chart = { section, mounted: mounted(section, section.dataset.chart as Name, data), drawn: false };
    charts.push(chart);
    seen.observe(section);
  }
  tools();
  redraw();

  prefersDark.addEventListener("change", redraw);
  new ResizeObserver(() => charts.forEach((chart) => chart.mounted.resize())).observe(document.body);
  // Print with the light theme, and draw all charts first, since they cannot come into view on paper.
  const print = (on: boolean) => () => {
    printing = on;
    root.classList.toggle("printing", on);
    if (on) charts.forEach(show);
    redraw();
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
}

/** Adds the controls for theme, patterns and printing. */
function tools(): void {
  const place = document.getElementById("tools");
  if (!place) return;
  const look = document.createElement("select");
  look.setAttribute("aria-label", "Colours");
  for (const [value, text] of [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]]) look.add(new Option(text, value));
  look.addEventListener("change", () => {
    theme = look.value as Theme;
    redraw();
  });
  const pattern = document.createElement("button");
  pattern.type = "button";
  pattern.textContent = "Patterns";
  pattern.title = "Draw areas with patterns besides colours";
  pattern.setAttribute("aria-pressed", "false");
  pattern.addEventListener("click", () => {
    patterns = !patterns;
    pattern.setAttribute("aria-pressed", String(patterns));
    redraw();
  });
  const paper = document.createElement("button");
  paper.type = "button";
  paper.textContent = "Print";
  paper.addEventListener("click", () => print());
  place.append(look, pattern, paper);
}

start();
