// flows.js: the flows of the program by stage, with buttons where control is on.
const { html, useState } = window.htmPreact;
import { duration, short } from "./model.js";
import { Inject } from "./details.js";
import { sendsCode } from "./stream.js";
import { more } from "./tables.js";

const COLUMNS = ["stage", "state", "", "busy", "queue", "taken", "per second", "errors", "longest step", "to"];
const NUMBERS = new Set(["busy", "queue", "taken", "per second", "errors"]);

const LONG = 100; // ms: a step that takes less is not mentioned

function Step({ stage }) {
  if (stage.error) return html`<span class="error">${stage.error}</span>`;
  if (!(stage.longest >= LONG)) return null;
  return html`${stage.doing} for ${duration(stage.longest)} <code>${stage.where}</code>`;
}

const Button = ({ what, id, command, children }) => html`
  <button class=${what} data-id=${id} onClick=${() => command(`flow_${what}`, { id })}>${children || what}</button> `;

function Stage({ model, stage, command }) {
  const isPaused = stage.state === "paused" || stage.state === "held", state = model.stageState(stage), control = model.canControl;
  return html`<tr class=${`stage ${state}`}>
    <td><b>${stage.name}</b></td>
    <td><span class=${`state ${state}`}>${state}</span></td>
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

// The stage that is chosen, and the element to choose it: at first a stage that holds values, or else the last one.
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

function Flow({ model, flow, command }) {
  const control = model.canControl;
  return html`<section class="flow"><h2>${flow.name} <span class=${`state ${flow.state}`}>${flow.state}</span> ${" "}
      ${control && ["pause", "resume", "drain"].map((what) => html`
        <${Button} what=${what} id=${flow.id} command=${command}>${what === "drain" ? what : `${what} all`}<//>`)}</h2>
    <table><thead><tr>${COLUMNS.map((c) => (c || control) && html`<th class=${NUMBERS.has(c) ? "number" : ""}>${c}</th>`)}</tr></thead>
      <tbody>${flow.stages.map((s) => html`<${Stage} key=${s.id} model=${model} stage=${s} command=${command} />`)}</tbody></table>
    ${control && html`<${Feed} flow=${flow} command=${command} />`}
    ${control && sendsCode && html`<${Replace} flow=${flow} command=${command} />`}</section>`;
}

// `why`: why there is no answer yet.
export function Flows({ model, command, why }) {
  if (!model.flows) return html`<p class="calm">${why || model.looking}</p>`;
  const { n, flows } = model.flows;
  if (!n) return html`<p class="calm">no flow runs</p>`;
  return html`<div class="flows">${flows.map((f) => html`
      <${Flow} key=${f.id} flow=${f} model=${model} command=${command} />`)}
    ${more(n - flows.length, "flow")}</div>`;
}
