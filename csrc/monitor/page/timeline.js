// timeline.js: what the go blocks did in the last moments, from the records of the trace's ring (csrc/tracing/trace.h). How
// far back that goes depends on how much happens.
const { html, useEffect, useState } = window.htmPreact;
import { duration } from "./model.js";

const RUN = 1, PARK = 2, END = 4, IDLE = 5, PUT = 6, TAKE = 7;
const WHAT = ["take", "put", "alts", "sleep", "yield", "loop"];
const FIFO = 2; // a flag of a channel: what was put first is taken first, so the nth take has taken the value of the nth put
const LANES = 40, HEIGHT = 22, LABELS = 190, WIDTH = 1000;
const FEW = 60, ARROWS = 200; // up to FEW messages are all shown; of more, only those of the selected go block, at most ARROWS

// Reads the text of lua/runnel/monitor.lua: { lanes: [{ id, name, runs, parks, busy }], arrows, to }, times in us.
// `called`: of the model.
function read(text, called) {
  const [head, body] = text.split("\n\n");
  const names = new Map(head.split("\n").map((line) => {
    const at = line.indexOf(" ");
    const name = line.slice(at + 1);
    return [Number(line.slice(0, at)), called.get(name) ?? name];
  }));
  const lanes = new Map(), lane = (id, label) => {
    const key = id || `label ${label}`;
    if (!lanes.has(key)) lanes.set(key, { id, name: names.get(label) || "?", runs: [], parks: [], busy: 0 });
    return lanes.get(key);
  };
  const puts = new Map(), arrows = []; // of messages: { from, to, at, till, chan }
  const move = (kind, chan, seq, l) => {
    const key = `${chan} ${seq}`, put = puts.get(key);
    if (kind === PUT) puts.set(key, { from: l, at: time });
    else if (put && put.from !== l) arrows.push({ ...put, to: l, till: time, chan });
  };
  let time = 0, running = null;
  const stop = () => {
    if (!running) return;
    const [l, since] = running;
    l.runs.push([since, time]);
    l.busy += time - since;
    running = null;
  };
  for (const line of (body || "").split("\n").filter(Boolean)) {
    const [kind, go, chan, what, label, us, seq] = line.split(" ").map(Number);
    time += us;
    if (kind === RUN) {
      stop();
      const l = lane(go, label), last = l.parks[l.parks.length - 1];
      if (last && last.to === undefined) last.to = time;
      running = [l, time];
    } else if (kind === PARK) {
      const l = lane(go, label);
      if (running && running[0] === l) stop();
      l.parks.push({ from: time, what: WHAT[what], chan });
    } else if (kind === END || kind === IDLE) stop();
    else if ((kind === PUT || kind === TAKE) && what & FIFO) move(kind, chan, seq, lane(go, label));
  }
  stop();
  for (const l of lanes.values()) for (const p of l.parks) p.to ??= time;
  const all = [...lanes.values()].filter((l) => l.runs.length + l.parks.length > 0);
  const shown = all.sort((a, b) => b.busy - a.busy || b.parks.length - a.parks.length).slice(0, LANES)
    .sort((a, b) => a.name.localeCompare(b.name) || a.id - b.id);
  shown.forEach((l, i) => { l.row = i; });
  return { lanes: shown, arrows: arrows.filter((a) => a.from.row !== undefined && a.to.row !== undefined), left: all.length - shown.length, to: Math.max(time, 1) };
}

function Lane({ lane, i, scale, on, chosen, onChoose }) {
  const y = i * HEIGHT + 4, h = HEIGHT - 8;
  return html`<g>
    <text class=${`name ${chosen ? "chosen" : ""}`} x="0" y=${y + h - 3} onClick=${onChoose}>
      <title>${lane.name}</title>${short(lane)}</text>
    ${lane.parks.map((p) => html`<rect class=${`park ${p.what}`} x=${LABELS + p.from * scale} y=${y + h / 2 - 2}
      width=${Math.max(0.3, (p.to - p.from) * scale)} height="4">
      <title>${lane.name}: ${p.what} ${on(p)} for ${duration((p.to - p.from) / 1000)}</title></rect>`)}
    ${lane.runs.map(([from, to]) => html`<rect class="run" x=${LABELS + from * scale} y=${y}
      width=${Math.max(0.8, (to - from) * scale)} height=${h}>
      <title>${lane.name}: runs for ${duration((to - from) / 1000)}</title></rect>`)}
  </g>`;
}

// A message, from where it was put to where it was taken.
function Arrow({ arrow, scale, on }) {
  const { from, to, at, till, chan } = arrow, down = to.row > from.row ? 1 : -1;
  const x = LABELS + till * scale, y = (row) => row * HEIGHT + HEIGHT / 2, end = y(to.row) - 4 * down;
  return html`<g class="arrow"><title>${short(from)} → ${short(to)} on ${on({ chan })}</title>
    <path d=${`M${LABELS + at * scale},${y(from.row) + 4 * down}L${x},${end}`} />
    <path class="head" d=${`M${x - 2},${end - 4 * down}L${x},${end}L${x + 2},${end - 4 * down}z`} /></g>`;
}

function short(lane) {
  const name = lane.name.split("/").pop() + (lane.id ? ` #${lane.id}` : "");
  return name.length > 26 ? name.slice(0, 25) + "…" : name;
}

export function Timeline({ model, command, lines }) {
  const [frozen, setFrozen] = useState(null), [chosen, setChosen] = useState(null);
  const second = Math.floor((model.summary.t || 0) / 1000);
  useEffect(() => { if (!frozen) command("timeline", {}, true); }, [second, !frozen]);
  const text = frozen || (lines && lines[0] === true && lines[1]);
  if (!text) return html`<p class="calm">${lines && lines[0] === false ? lines[1] : model.status === "live" ? "recording" : model.looking}</p>`;
  const { lanes, arrows: all, left, to } = read(text, model.called), scale = (WIDTH - LABELS) / to;
  const is = (lane) => lane.id + lane.name === chosen;
  const arrows = chosen ? all.filter((a) => is(a.from) || is(a.to)).slice(-ARROWS) : all.length <= FEW ? all : [];
  const on = (p) => (model.chans.get(p.chan)?.label ?? (p.chan ? `#${p.chan}` : ""));
  return html`<div class="timeline">
    <p class="calm">The last ${duration(to / 1000)}${left ? `; ${left} go blocks that ran less are left out` : ""}.
      ${" "}<i class="key run"></i> runs <i class="key put"></i> waits to put <i class="key take"></i> waits to take
      ${" "}<i class="key alts"></i> alts <i class="key sleep"></i> sleeps
      ${" "}→ messages${all.length > FEW && !chosen && ": click a name"}
      ${" "}${model.status === "live" && html`<button id="freeze" aria-pressed=${!!frozen} onClick=${() => setFrozen(frozen ? null : text)}>
        ${frozen ? "go on" : "keep this"}</button>`}</p>
    <svg viewBox=${`0 0 ${WIDTH} ${lanes.length * HEIGHT + 18}`}>
      ${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<g class="tick">
        <line x1=${LABELS + part * (WIDTH - LABELS)} x2=${LABELS + part * (WIDTH - LABELS)} y1="0" y2=${lanes.length * HEIGHT} />
        <text x=${LABELS + part * (WIDTH - LABELS)} y=${lanes.length * HEIGHT + 14}>${part === 1 ? "now" : `-${duration(to * (1 - part) / 1000)}`}</text>
      </g>`)}
      ${lanes.map((lane, i) => html`<${Lane} key=${lane.id + lane.name} lane=${lane} i=${i} scale=${scale} on=${on}
        chosen=${is(lane)} onChoose=${() => setChosen(is(lane) ? null : lane.id + lane.name)} />`)}
      ${arrows.map((arrow) => html`<${Arrow} arrow=${arrow} scale=${scale} on=${on} />`)}
    </svg></div>`;
}
