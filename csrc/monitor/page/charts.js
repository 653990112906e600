// charts.js: rates over the program's life, or its last minutes, by uPlot.
const { html, useEffect, useRef } = window.htmPreact;
import { duration, rateText, short, span } from "./model.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const TICKS = 4; // parts of the axis

// How long before now the ticks are, in seconds.
function ticks(u) {
  const { min, max } = u.scales.x;
  return Array.from({ length: TICKS + 1 }, (_, i) => (max - min) * (TICKS - i) / TICKS);
}

// A line over time. `series`: { label, color, max, format }
function make(element, series, width, height) {
  const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false },
    font: "11px system-ui, sans-serif" };
  return new window.uPlot({
    width, height, padding: [6, 14, 0, 0], legend: { show: false }, cursor: { drag: { setScale: false } },
    scales: { x: { time: true, range: (u) => span(u.data[0]) },
      y: { range: (u, min, max) => [0, series.max || Math.max(max * 1.1, 1)] } },
    axes: [{ ...axis, size: 22, splits: (u) => ticks(u).map((before) => u.scales.x.max - before),
      values: (u) => ticks(u).map((before) => (before ? "−" + duration(before * 1000) : "now")) },
      { ...axis, space: 22, size: 44, values: (u, ticks) => ticks.map((v) => series.format(v)) }],
    series: [{}, { stroke: color(series.color), fill: color(series.color) + "26", width: 1.5, points: { show: false } }],
  }, [[], []], element);
}

export function Chart({ title, now, times, values, series, height = 84 }) {
  const box = useRef(null), plot = useRef(null);
  useEffect(() => {
    const draw = () => {
      if (plot.current) plot.current.destroy();
      plot.current = make(box.current, series, box.current.clientWidth, height);
      plot.current.setData([times, values]);
    };
    draw();
    const observer = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
    observer.observe(box.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)"), theme = new MutationObserver(draw);
    scheme.addEventListener("change", draw);
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] }); // the playground's switch
    return () => {
      observer.disconnect();
      scheme.removeEventListener("change", draw);
      theme.disconnect();
      plot.current.destroy();
    };
  }, [series.color]);
  useEffect(() => { if (plot.current) plot.current.setData([times.slice(), values.slice()]); });
  return html`<div class="chart"><h3>${title} <b>${now}</b></h3><div ref=${box} style=${{ height: height + "px" }}></div></div>`;
}

const PERCENT = { color: "--go", max: 100, format: (v) => v + "%" };
const RATE = { color: "--accent", format: (v) => short(v) };
const NUMBER = { color: "--dim", format: (v) => short(v) };

export function Charts({ model }) {
  const h = model.history, s = model.summary;
  return html`<div class="charts">
    <${Chart} title="values put per second" now=${rateText(model.rate)} times=${h.t} values=${h.rate} series=${RATE} />
    <${Chart} title="the scheduler is busy" now=${model.busy === undefined ? "?" : Math.round(model.busy * 100) + "%"} times=${h.t} values=${h.busy}
      series=${PERCENT} />
    <${Chart} title="go blocks" now=${model.at ? short(s.gos || 0) : "?"} times=${h.t} values=${h.gos} series=${NUMBER} />
  </div>`;
}

export function ChanCharts({ chan }) {
  return html`<${Chart} title="puts per second" now=${rateText(chan.rate)} times=${chan.times} values=${chan.rates} series=${RATE}
      height=${72} />
    <${Chart} title=${chan.limit ? "values in the buffer" : "puts that wait"} now=${chan.limit ? chan.count : chan.nputs}
      times=${chan.times} values=${chan.fills} series=${NUMBER} height=${72} />`;
}
