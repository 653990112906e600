// charts.mjs: the charts of bench/ as a part of the page, so that they have its colours.
import { readFileSync } from "node:fs";
import { escape } from "./lua_html.mjs";

// The colours that scripts of bench/ write, and the page's.
const COLOURS = { "#fff": "card", "#222": "text", "#555": "dim", "#e5e5e5": "line", "#000": "text", "#dc2626": "chart-red",
  "#7c3aed": "chart-violet", "#16a34a": "chart-green", "#d97706": "chart-orange", "#475569": "chart-grey", "#0891b2": "chart-blue",
  "#155e75": "chart-blue", "#db2777": "chart-pink", "#c4a5f5": "chart-lilac", "#f59e9e": "chart-rose", "#ccc": "line", "#eee": "line" };

// The SVG of a file with the page's colours; one that has no counterpart is an error.
export function chartHtml(file, alt) {
  const svg = readFileSync(file, "utf8").replace(/^<\?xml[^>]*>\s*/, "").replace(/(fill|stroke)="(#[0-9a-f]+)"/g, (_, what, colour) => {
    if (!COLOURS[colour]) throw new Error(`${file}: site/charts.mjs has no colour for ${colour}`);
    return `${what}="var(--${COLOURS[colour]})"`;
  }).replace(/<title>[\s\S]*?<\/title>/, "");
  return `<div class="table chart">${svg.replace("<svg ", `<svg role="img" aria-label="${escape(alt)}" `)}</div>`;
}
