// details.js: the panel at the side: hints, and the selected item with its commands.
const { html, useEffect, useState } = window.htmPreact;
import { count, duration, short } from "./model.js";
import { ChanCharts } from "./charts.js";
import { calmOf, hintsOf } from "./hints.js";
import { isFrame } from "./stream.js";

function Calm({ head, list, takes }) {
  if (!list.length) return html`<p class="calm" id="calm">${head}</p>`;
  return html`<div class="calm" id="calm"><details open=${!isFrame}><summary>${head}</summary>
    <ul>${list.map((one) => html`<li>${one}</li>`)}</ul></details>${takes && html`<p class="calm">${takes}</p>`}</div>`;
}

export function Hints({ model, groups, onSelect, onView }) {
  const hints = hintsOf(model, groups);
  if (!hints.length) return html`<${Calm} ...${calmOf(model, groups)} />`;
  return html`<ul class="hints">${hints.slice(0, 8).map((h) => html`<li key=${h.kind + (h.chan || h.go || "")} class=${h.level} data-kind=${h.kind}>
    <button onClick=${() => (h.view ? onView(h.view) : onSelect(h.chan ? { chan: h.chan } : { go: h.go }))}>${h.text}</button></li>`)}
    ${hints.length > 8 && html`<li class="more">and ${hints.length - 8} more</li>`}</ul>`;
}

const Fact = ({ name, children }) => html`<dt>${name}</dt><dd>${children}</dd>`;

// ---- a channel ----

function Values({ values }) {
  if (!values) return null;
  const [ok, ...lines] = values;
  if (!ok) return html`<p class="calm">${lines[0]}</p>`;
  return html`<ol class="values">${lines.map((line) => html`<li><code>${line}</code></li>`)}</ol>
    ${!lines.length && html`<p class="calm">No value waits in it.</p>`}`;
}

// A form for a value, whose type and text onValue gets.
export function Inject({ title, onValue, children }) {
  const [text, setText] = useState(""), [type, setType] = useState("string");
  const submit = (e) => {
    e.preventDefault();
    onValue(type, text);
  };
  return html`<form class="inject" onSubmit=${submit}>
    ${children}
    <select onChange=${(e) => setType(e.target.value)} aria-label="type">
      ${["string", "number", "boolean", "JSON"].map((t) => html`<option value=${t} selected=${t === type}>${t}</option>`)}</select>
    <input value=${text} onInput=${(e) => setText(e.target.value)} placeholder="a value" aria-label="value" />
    <button>${title}</button></form>`;
}

function ChanDetails({ model, chan, command, values, onSelect }) {
  useEffect(() => { if (chan.n === 1) command("values", { id: chan.first }, true); }, [chan.id, Math.floor((model.summary.t || 0) / 2000)]);
  const ends = [...model.edges.values()].filter((e) => e.chan === chan.id);
  const names = (isPut) => ends.filter((e) => e.isPut === isPut).map((e) => html`
    <button class="link" onClick=${() => onSelect({ go: e.name })}>${e.name}${e.total > 0 ? ` (about ${short(e.total)})` : ""}</button> `);
  return html`<h2>${chan.label} <span class=${`state ${chan.state}`}>${chan.state}</span></h2>
    <dl>
      <${Fact} name="channel">${chan.n > 1 ? count(chan.n, "channel") : `#${chan.first}`}, ${chan.kindName}<//>
      <${Fact} name="in it">${chan.limit ? `${chan.count} of ${chan.limit}` : count(chan.count, "value")}<//>
      <${Fact} name="waiting">${count(chan.nputs, "put")}, ${count(chan.ntakes, "take")}<//>
      ${chan.waits > 0.01 && html`<${Fact} name="lately">puts have waited ${Math.round(chan.waits * 100)}% of the time<//>`}
      <${Fact} name="so far">${count(chan.puts, "put")}, ${count(chan.takes, "take")}<//>
      <${Fact} name="put by">${names(true)}<//>
      <${Fact} name="taken by">${names(false)}<//>
    </dl>
    <${ChanCharts} key=${chan.id} chan=${chan} />
    ${chan.n === 1 && html`<h3>values</h3><${Values} values=${values} />`}
    ${model.canControl && chan.n === 1 && html`<h3>put a value</h3>
      <${Inject} title="put" onValue=${(type, text) => command("inject", { id: chan.first, type, text })} />`}`;
}

// ---- go blocks of a name ----

function GoDetails({ model, group, row, command, onSelect }) {
  const rows = row ? group.rows.filter((g) => g.id === row) : group.rows;
  return html`<h2>${group.name} ${group.stage && html`<span class=${`state ${model.stageState(group.stage)}`}>${model.stageState(group.stage)}</span>`}</h2>
    <p class="calm">${count(group.n, "go block")}${group.waited ? `, waiting for up to ${duration(group.waited)}` : ""}</p>
    <ul class="blocks">${rows.slice(0, 50).map((g) => {
      const ch = model.chans.get(g.chan);
      return html`<li key=${g.id}>
        <span>${g.n > 1 ? count(g.n, "go block") : g.first ? `#${g.first}` : ""} ${g.full === g.name ? "" : g.full + " "}${g.state}${g.op && html` in ${g.op} on ${" "}
          ${ch ? html`<button class="link" onClick=${() => onSelect({ chan: ch.id })}>${ch.label}</button>` : "a channel"}`}
          ${g.since ? ` for ${duration(model.waited(g))}` : ""} ${g.where && html`<code>${g.where}</code>`}</span>
        ${model.canControl && g.n === 1 && g.first > 0 && html`<button class="kill" title="cancels this go block"
          onClick=${() => command("kill", { id: g.first })}>kill</button>`}</li>`;
    })}${rows.length > 50 && html`<li class="more">and ${rows.length - 50} more</li>`}</ul>`;
}

// ---- the selected item ----

export function Details(props) {
  const { model, groups, selection } = props;
  const chan = selection && model.chans.get(selection.chan), group = selection && groups.get(selection.go);
  if (chan) return html`<${ChanDetails} ...${props} chan=${chan} />`;
  if (group) return html`<${GoDetails} ...${props} group=${group} row=${selection.row} />`;
  if (selection) return html`<p class="calm">It is gone.</p>`;
  return model.at > 0 && html`<p class="calm">Select a channel or a go block to see more of it.</p>`;
}
