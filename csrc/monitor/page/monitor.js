// monitor.js: the page.
const { html, render, useEffect, useState } = window.htmPreact;
import { Model, count, duration } from "./model.js";
import { Profile, connect, isFrame, learn, send, shows } from "./stream.js";
import { Charts } from "./charts.js";
import { Details, Hints } from "./details.js";
import { Flows } from "./flows.js";
import { Graph } from "./graph.js";
import { Leaks } from "./leaks.js";
import { Queues } from "./queues.js";
import { Runs } from "./runs.js";
import { Chans, Gos } from "./tables.js";
import { Timeline } from "./timeline.js";

const KEPT = "runnel.history"; // so that a reload keeps the charts
const OLD = 5000; // ms: the age of a picture that is mentioned

const model = new Model();

function restore() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT));
    if (kept && kept.url === location.href) model.history = kept.history;
  } catch { /* begins with empty charts */ }
}

addEventListener("pagehide", () => {
  sessionStorage.setItem(KEPT, JSON.stringify({ url: location.href, history: model.history }));
});

// ---- the head ----

function status(paused) {
  if (model.status === "ended") return ["ended", `${model.why || "the program has ended"}; ${model.last}`];
  if (model.status === "lost") return ["lost", `no connection: the program was killed or has ended, and the page tries again; ${model.last}`];
  if (model.status === "connecting") return ["", "connecting"];
  if (paused) return ["paused", "the picture is paused; the program runs"];
  if (model.summary.busy >= 100) return ["busy", `computing for ${duration(model.summary.busy)}`];
  if (model.reading) return ["paused", model.reading];
  const old = model.summary.t - model.at;
  if (old > OLD) return ["paused", `live, as of ${duration(old)} ago`];
  return ["live", model.summary.virtual ? "live, in virtual time" : "live"];
}

function Head({ paused, onPause }) {
  const [kind, text] = status(paused), s = model.summary;
  const name = model.hello ? model.hello.program.split("/").pop() : "";
  return html`<header>
    <h1>${name || "runnel"}</h1>
    <span id="status" class=${`status ${kind}`}>${text}</span>
    <span class="numbers">${model.at ? `${count(s.gos || 0, "go block")} · ${count(s.chans || 0, "channel")} · ` +
      `${((s.memory || 0) / 1048576).toFixed(1)} MB of Lua memory` : "no picture yet"}${model.hello?.pid ? ` · pid ${model.hello.pid}` : ""}</span>
    ${model.status === "live" && html`<button id="pause" aria-pressed=${paused} onClick=${onPause}>${paused ? "resume" : "pause"}</button>`}
  </header>`;
}

// ---- the page ----

// A frame has no room for the charts beside the graph.
const VIEWS = { graph: "graph", ...(isFrame && { charts: "charts" }), chans: "channels", gos: "go blocks", timeline: "timeline",
  ...(Profile && { profile: "profile" }), flows: "flows", queues: "queues", ...(!isFrame && { runs: "runs" }), leaks: "leaks" };

function App() {
  const [, redraw] = useState(0), [paused, setPaused] = useState(false), [view, setView] = useState("graph");
  const [selection, setSelection] = useState(null), [message, setMessage] = useState(null), [values, setValues] = useState(null);
  const [records, setRecords] = useState(null), [flows, setFlows] = useState(""), [queues, setQueues] = useState(null);
  const [runs, setRuns] = useState(null), [leaks, setLeaks] = useState(null), [profile, setProfile] = useState(null);
  const control = useState(() => ({ paused: false, waiting: new Map(), early: new Map() }))[0];

  const say = (ok, text) => {
    setMessage({ ok, text });
    clearTimeout(control.timer);
    control.timer = setTimeout(() => setMessage(null), ok ? 5000 : 15000);
  };

  useEffect(() => {
    restore();
    connect(model, () => { if (!control.paused || model.status !== "live") redraw((n) => n + 1); }, ([number, ok, ...lines]) => {
      const then = control.waiting.get(number);
      control.waiting.delete(number);
      if (then) then(ok, lines);
      else control.early.set(number, [ok, lines]); // for another page, or before the command's answer
      if (control.early.size > 100) control.early.clear();
    });
  }, []);

  const command = async (what, fields, quiet) => {
    if (model.status !== "live") return;
    const then = (ok, lines) => {
      if (what === "values") setValues([ok, ...lines]);
      else if (what === "timeline") setRecords([ok, ...lines]);
      else if (what === "flows") {
        setFlows(ok ? "" : lines[0]);
        if (ok) model.setFlows(lines);
      }
      else if (what === "queues") setQueues([ok, ...lines]);
      else if (what === "runs") setRuns([ok, ...lines]);
      else if (what === "leaks" || what === "collect") setLeaks([ok, ...lines]);
      else if (what === "profile") setProfile((before) => learn(before, ok, lines));
      else {
        say(ok, lines[0]);
        if (what.startsWith("flow_")) command("flows", {}, true); // shows the change at once
      }
    };
    try {
      const number = await send(what, fields);
      if (control.early.has(number)) then(...control.early.get(number));
      else control.waiting.set(number, then);
    } catch (err) {
      if (!quiet) say(false, err.message);
    }
  };

  const select = (what) => {
    setValues(null);
    setSelection(what);
  };
  const open = (key) => {
    setView(key);
    shows(key);
  };
  // The states of stages are part of the picture.
  useEffect(() => { if (model.status === "live") command("flows", {}, true); }, [Math.floor(model.at / 1000)]);
  const groups = model.groups();
  const selectNode = (node) => select(node.isChan ? { chan: node.chans[0].id } : { go: node.label });
  const shared = { model, groups, selection, onSelect: select };
  document.title = `${model.hello ? model.hello.program.split("/").pop() : "runnel"}${model.status === "ended" ? " (ended)" : ""}`;
  return html`
    <${Head} paused=${paused} onPause=${() => { control.paused = !paused; setPaused(!paused); }} />
    ${!isFrame && html`<${Charts} model=${model} />`}
    <main class=${selection ? "selected" : ""}>
      <section class="views">
        <nav>${Object.entries(VIEWS).map(([key, title]) => html`<button id=${"view-" + key} aria-pressed=${view === key}
          onClick=${() => open(key)}>${title}</button>`)}</nav>
        ${view === "graph" && html`<${Graph} ...${shared} onSelect=${selectNode} />`}
        ${view === "charts" && html`<${Charts} model=${model} />`}
        ${view === "chans" && html`<${Chans} ...${shared} />`}
        ${view === "timeline" && html`<${Timeline} model=${model} command=${command} lines=${records} />`}
        ${view === "flows" && html`<${Flows} model=${model} command=${command} why=${flows} />`}
        ${view === "queues" && html`<${Queues} model=${model} command=${command} lines=${queues} />`}
        ${view === "runs" && html`<${Runs} model=${model} command=${command} lines=${runs} />`}
        ${view === "leaks" && html`<${Leaks} model=${model} command=${command} lines=${leaks} />`}
        ${view === "profile" && html`<${Profile} model=${model} command=${command} known=${profile} paused=${paused} />`}
        ${view === "gos" && html`<${Gos} ...${shared} />`}
      </section>
      <aside>
        <h3>hints</h3><${Hints} model=${model} groups=${groups} onSelect=${select} onView=${open} />
        <div id="details"><${Details} ...${shared} command=${command} values=${values} /></div>
      </aside>
    </main>
    ${message && html`<div id="message" role="status" class=${message.ok ? "ok" : "bad"}>${message.text}</div>`}`;
}

document.body.classList.toggle("frame", isFrame);
render(html`<${App} />`, document.getElementById("app"));
