// Builds the script and the style sheet of report.html into the Python package, with the licences of what is bundled.
// `node build.mjs FOLDER` writes them elsewhere, which is how a test compares them with what is committed.

import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../../python/syncline/report/assets");
const common = { bundle: true, minify: true, charset: "ascii", legalComments: "none", write: false, absWorkingDir: here };

const script = await build({ ...common, entryPoints: ["src/main.ts"], format: "iife", target: "es2020" });
const style = await build({ ...common, entryPoints: ["src/style.css"], target: ["chrome100", "firefox100", "safari15"] });

const text = script.outputFiles[0].text;
// Either would end or hide the script element that holds it.
for (const sign of ["</script", "<!--"]) {
  if (text.toLowerCase().includes(sign)) throw new Error(`the script contains ${sign}`);
}
mkdirSync(out, { recursive: true });
writeFileSync(join(out, "report.js"), text);
writeFileSync(join(out, "report.css"), style.outputFiles[0].text);

const modules = ["echarts", "zrender", "tslib"].map((name) => {
  const folder = join(here, "node_modules", name);
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const licence = readFileSync(join(folder, name === "tslib" ? "LICENSE.txt" : "LICENSE"), "utf8").trim();
  const notice = name === "echarts" ? `\n\n${readFileSync(join(folder, "NOTICE"), "utf8").trim()}` : "";
  return `${name} ${version}\n${"=".repeat(name.length + version.length + 1)}\n\n${licence}${notice}\n`;
});
const intro = "report.js is built from web/report and bundles these libraries.\n\n";
writeFileSync(join(out, "report.js.LICENSES.txt"), (intro + modules.join("\n\n")).replaceAll("\r\n", "\n"));
