// runs.js: the durable runs of the program's stores: how many there are in each state, a page of them, and one of them as a
// timeline of its steps.
const { html, useEffect, useState } = window.htmPreact;
import { duration } from "./model.js";
import { more } from "./tables.js";

const STATES = ["ready", "running", "sleeping", "waiting", "retrying", "blocked", "done", "failed", "cancelled"];
const date = (ms) => new Date(ms).toLocaleString("sv"); // as 2026-11-28 12:00:00

const State = ({ state }) => html`<span class=${`state ${state}`}>${state}</span>`;

function Counts({ answer, asked, onAsk }) {
  const several = answer.stores.length > 1, rows = answer.stores.flatMap((s, i) => s.counts.map((c) => ({ ...c, store: i + 1, path: s.path })));
  if (!rows.length) return html`<p class="calm">${answer.stores.map((s) => s.error).find(Boolean) || "there are no runs"}</p>`;
  return html`<table><thead><tr><th>runs</th><th class="number">total</th>${STATES.map((s) => html`<th class="number">${s}</th>`)}
      <th class="number">processes</th></tr></thead>
    <tbody>${rows.map((c) => {
      const cell = (state, n, text) => html`<td class="number">${n > 0 && html`<button class="link" aria-pressed=${asked.store === c.store
        && asked.name === c.name && asked.state === state} onClick=${() => onAsk({ store: c.store, name: c.name, state })}>${text}</button>`}</td>`;
      return html`<tr class=${asked.store === c.store && asked.name === c.name ? "selected" : ""}>
        <td><b>${c.name}</b>${several && html` <code>${c.path}</code>`}${c.paused && html` <${State} state="paused" />`}</td>
        ${cell("", c.total, c.total.toLocaleString("en"))}
        ${STATES.map((s) => cell(s, c.states[s] || 0, (c.states[s] || 0).toLocaleString("en")))}
        <td class="number">${c.workers}</td></tr>`;
    })}</tbody></table>`;
}

// Where a run is, and its error, which one that has ended well has no more.
const Place = ({ run }) => html`${run.step} ${run.line && html`<code>${run.line}</code>`}
  ${["failed", "retrying", "blocked"].includes(run.state) && html` <span class="error">${run.error}</span>`}`;

function List({ answer, asked, onAsk }) {
  const { list, time } = answer, last = list[list.length - 1];
  return html`<h2>${asked.name}${asked.state && `, ${asked.state}`}</h2>
    <table class="list"><thead><tr><th>id</th><th>state</th><th class="number">for</th><th class="number">goes on in</th>
      <th>where</th><th>note</th></tr></thead>
    <tbody>${list.map((r) => html`<tr key=${r.id} class=${asked.run === r.id ? "selected" : ""} onClick=${() => onAsk({ ...asked, run: r.id })}>
      <td><button class="link">${r.id}</button></td><td><${State} state=${r.state} /></td>
      <td class="number">${duration(Math.max(0, time - r.since))}</td>
      <td class="number">${r.due ? duration(Math.max(0, r.due - time)) : ""}</td>
      <td class="step"><${Place} run=${r} /></td><td class="step">${r.note}</td></tr>`)}
      ${!list.length && html`<tr class="more"><td colspan="6">none</td></tr>`}</tbody></table>
    <p class="calm">${asked.after && html`<button class="first" onClick=${() => onAsk({ ...asked, after: undefined })}>the first ones</button> `}
      ${answer.more && html`<button class="next" onClick=${() => onAsk({ ...asked, after: last.id })}>the next ones</button>`}</p>`;
}

// The steps of a run, each as a bar from its beginning to its end.
function Story({ answer }) {
  const { run, steps, time } = answer, isOver = ["done", "failed", "cancelled"].includes(run.state);
  const from = Math.min(run.started, ...steps.map((s) => s.began || Infinity)), to = Math.max(from + 1, isOver ? run.since : time);
  const percent = (ms) => `${(100 * (ms - from)) / (to - from)}%`;
  return html`<h2>${run.id} <${State} state=${run.state} /></h2>
    <p class="calm">started ${date(run.started)}, ${run.state} for ${duration(Math.max(0, time - run.since))}${run.due ? `, goes on at ${date(run.due)}` : ""}
      ${run.failures > 0 && `, failures in a row: ${run.failures}`}${run.note && `; ${run.note}`}</p>
    <p class="step"><${Place} run=${run} /></p>
    ${more(answer.left, "step")}
    <div class="story">${steps.map((s) => {
      const end = s.ended ?? time, begin = Math.min(s.began ?? end, end);
      const kind = s.state === "failed" || s.state === "retrying" ? "failed" : { sleep: "sleeping", wait: "waiting" }[s.step.split("[")[0]] || "done";
      return html`<div class=${kind}><span class="name">${s.number ?? ""} ${s.step}</span>
        <span class="room" title=${`${s.state}, ${s.began ? `began ${date(s.began)}` : `ended ${date(end)}`}`}>
          <i style=${{ left: percent(begin), width: percent(from + end - begin) }}></i></span>
        <span class="took">${s.began ? duration(end - begin) : ""} ${s.state === "done" ? "" : s.state}</span></div>`;
    })}</div>`;
}

export function Runs({ model, command, lines }) {
  const [asked, setAsked] = useState({}), second = Math.floor((model.summary.t || 0) / 1000), text = JSON.stringify(asked);
  useEffect(() => { command("runs", { text }, true); }, [second, text]);
  if (!lines) return html`<p class="calm">${model.looking}</p>`;
  if (!lines[0]) return html`<p class="calm">${lines[1]}</p>`;
  const answer = JSON.parse(lines[1]), fits = answer.asked === text;
  return html`<div class="flows runs"><${Counts} answer=${answer} asked=${asked} onAsk=${setAsked} />
    ${answer.error && html`<p class="error">${answer.error}</p>`}
    ${!fits && html`<p class="calm">${model.looking}</p>`}
    ${fits && answer.run && html`<${Story} answer=${answer} />`}
    ${fits && answer.list && html`<${List} answer=${answer} asked=${asked} onAsk=${setAsked} />`}</div>`;
}
