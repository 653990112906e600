// leaks.js: go blocks that the collector has taken while they waited, by the line that started them.
const { html, useEffect, useState } = window.htmPreact;
import { count } from "./model.js";
import { Search, Table, finds, more } from "./tables.js";

const COLUMNS = [
  { title: "number", value: (l) => l.n, number: true, show: (l) => l.n.toLocaleString("en") },
  { title: "started by", value: (l) => l.started, show: (l) => html`<b>${l.started}</b>` },
  { title: "waited in", value: (l) => l.where, show: (l) => html`<code>${l.where}</code>` },
  { title: "for example", value: (l) => l.example },
];

function read([head, ...texts]) {
  const [total, kinds] = head.split("\t").map(Number);
  const rows = texts.map((text) => {
    const [n, started, where, operation, example] = text.split("\t");
    return { id: `${started} ${where} ${operation}`, n: Number(n), started, where, example };
  });
  return { total, kinds, rows };
}

export function Leaks({ model, command, lines }) {
  const [text, setText] = useState(""), second = Math.floor((model.summary.t || 0) / 1000);
  useEffect(() => { command("leaks", {}, true); }, [second]);
  if (!lines) return html`<p class="calm">${model.looking}</p>`;
  if (!lines[0]) return html`<p class="calm">${lines[1]}</p>`;
  const { total, kinds, rows } = read(lines.slice(1));
  return html`<div class="leaks">
    <p class="calm">${total ? `${count(total, "go block")} waited for what nothing could wake any more.` : "No leak was found so far."}
      ${" "}A leak is found in the third cycle of the collector after it has begun.
      ${" "}${model.canControl && html`<button id="collect" onClick=${() => command("collect", {})}>collect now</button>`}</p>
    ${kinds > 0 && html`<${Search} text=${text} onText=${setText} />
      <${Table} name="leaks" rows=${rows.filter((l) => finds(text, l.started, l.where, l.example))} columns=${COLUMNS} sortBy=${0}
        empty="no leak" selected=${() => false} onSelect=${() => {}} />`}
    ${more(kinds - rows.length, "line")}</div>`;
}
