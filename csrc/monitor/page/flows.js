// flows.js: the flows of the program by stage, with buttons where control is on.
const { html, useEffect, useRef, useState } = window.htmPreact;
import { count, duration, short } from "./model.js";
import { Inject } from "./details.js";
import { sendsCode } from "./stream.js";

// The answer of the monitor: { now, n, flows }, as lua/runnel/flow/view.lua writes it.
function parse([first, ...texts]) {
  const [now, n] = first.split("\t").map(Number);
  const flows = texts.map((text) => {
    const [head, ...rows] = text.split("\n").map((line) => line.split("\t"));
    return { id: head[0], state: head[1], name: head[2], stages: rows.map((c, i) => ({
      id: `${head[0]}.${i + 1}`, name: c[0], state: c[1], busy: c[2], n: c[3], queue: c[4], room: c[5], taken: Number(c[6]),
      errors: Number(c[7]), longest: Number(c[8]), doing: c[9], where: c[10], error: c[11], to: c[12] })) };
  });
  return { now, n, flows };
}

// Sets the rate of each stage: its takes since the previous answer.
function addRates(answer, before) {
  const taken = new Map(before ? before.flows.flatMap((f) => f.stages).map((s) => [s.id, s.taken]) : []);
  for (const stage of answer.flows.flatMap((f) => f.stages)) {
    if (taken.has(stage.id) && answer.now > before.now) {
      stage.rate = (stage.taken - taken.get(stage.id)) / (answer.now - before.now) * 1000;
    }
  }
  return answer;
}

const COLUMNS = ["stage", "state", "", "busy", "queue", "taken", "per second", "errors", "longest step", "to"];
const NUMBERS = new Set(["busy", "queue", "taken", "per second", "errors"]);

const LONG = 100; // ms: shorter steps are not mentioned

function Step({ stage }) {
  if (stage.error) return html`<span class="error">${stage.error}</span>`;
  if (!(stage.longest >= LONG)) return null;
  return html`${stage.doing} for ${duration(stage.longest)} <code>${stage.where}</code>`;
}

const Button = ({ what, id, command, children }) => html`
  <button class=${what} data-id=${id} onClick=${() => command(`flow_${what}`, { id })}>${children || what}</button> `;

function Stage({ stage, control, command }) {
  const isPaused = stage.state === "paused" || stage.state === "held";
  return html`<tr class=${`stage ${stage.state}`}>
    <td><b>${stage.name}</b></td>
    <td><span class=${`state ${stage.state}`}>${stage.state}</span></td>
    ${control && html`<td>${stage.state !== "ended"
      && html`<${Button} what=${isPaused ? "resume" : "pause"} id=${stage.id} command=${command} />`}</td>`}
    <td class="number">${stage.busy}/${stage.n}</td>
    <td class="number">${stage.queue}/${stage.room}</td>
    <td class="number">${stage.taken.toLocaleString("en")}</td>
    <td class="number">${stage.rate ? short(stage.rate) : ""}</td>
    <td class="number">${stage.errors || ""}</td>
    <td class="step"><${Step} stage=${stage} /></td>
    <td>${stage.to}</td></tr>`;
}

// A running stage, and the element that chooses it; by default one that holds, or the last.
function useStage(flow) {
  const [chosen, setChosen] = useState("");
  const open = flow.stages.filter((s) => s.state !== "ended");
  const stage = open.find((s) => s.id === chosen) || open.find((s) => s.state === "held") || open[open.length - 1];
  return [stage, html`<select class="to" onChange=${(e) => setChosen(e.target.value)} aria-label="stage">
    ${open.map((s) => html`<option value=${s.id} selected=${s === stage}>${s.name}</option>`)}</select>`];
}

function Feed({ flow, command }) {
  const [stage, choice] = useStage(flow);
  return stage && html`<${Inject} title="inject" onValue=${(type, text) => command("flow_inject", { id: stage.id, type, text })}>
    ${choice}<//>`;
}

function Replace({ flow, command }) {
  const [stage, choice] = useStage(flow), [text, setText] = useState("function(v)\n  return v\nend");
  const submit = (e) => {
    e.preventDefault();
    command("flow_replace", { id: stage.id, text });
  };
  return stage && html`<form class="inject replace" onSubmit=${submit}>${choice}
    <textarea rows="3" value=${text} onInput=${(e) => setText(e.target.value)} spellcheck="false" aria-label="the new function" />
    <button>replace</button></form>`;
}

function Flow({ flow, control, command }) {
  return html`<section class="flow"><h2>${flow.name} <span class=${`state ${flow.state}`}>${flow.state}</span> ${" "}
      ${control && ["pause", "resume", "drain"].map((what) => html`
        <${Button} what=${what} id=${flow.id} command=${command}>${what === "drain" ? what : `${what} all`}<//>`)}</h2>
    <table><thead><tr>${COLUMNS.map((c) => (c || control) && html`<th class=${NUMBERS.has(c) ? "number" : ""}>${c}</th>`)}</tr></thead>
      <tbody>${flow.stages.map((s) => html`<${Stage} key=${s.id} stage=${s} control=${control} command=${command} />`)}</tbody></table>
    ${control && html`<${Feed} flow=${flow} command=${command} />`}
    ${control && sendsCode && html`<${Replace} flow=${flow} command=${command} />`}</section>`;
}

export function Flows({ model, command, lines }) {
  const second = Math.floor((model.summary.t || 0) / 1000), last = useRef({});
  useEffect(() => { command("flows", {}, true); }, [second]);
  if (!lines) return html`<p class="calm">looking</p>`;
  if (!lines[0]) return html`<p class="calm">${lines[1]}</p>`;
  if (last.current.lines !== lines) last.current = { lines, answer: addRates(parse(lines.slice(1)), last.current.answer) };
  const { n, flows } = last.current.answer;
  if (!n) return html`<p class="calm">no flow runs</p>`;
  return html`<div class="flows">${flows.map((f) => html`
      <${Flow} key=${f.id} flow=${f} control=${model.hello?.control} command=${command} />`)}
    ${n > flows.length && html`<p class="left">${count(n - flows.length, "more flow")} not shown</p>`}</div>`;
}
