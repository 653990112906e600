// tables.js: tables that can be searched and sorted: those of channels and go blocks.
const { html, useState } = window.htmPreact;
import { count, duration, rateText } from "./model.js";

const MOST = 200; // rows

// columns: [{ title, value(row) to sort by, show(row), number: true if it is one }]
export function Table({ rows, columns, name, selected, onSelect, sortBy, empty }) {
  const [sort, setSort] = useState({ by: sortBy, down: columns[sortBy].number });
  const value = columns[sort.by].value;
  const sorted = rows.slice().sort((a, b) => {
    const [x, y] = [value(a), value(b)], order = typeof x === "string" ? x.localeCompare(y) : x - y;
    return sort.down ? -order : order;
  });
  const pick = (i) => setSort({ by: i, down: sort.by === i ? !sort.down : columns[i].number });
  return html`<table class=${name}>
    <thead><tr>${columns.map((c, i) => html`<th class=${c.number ? "number" : ""}
      aria-sort=${sort.by === i ? (sort.down ? "descending" : "ascending") : "none"}>
      <button onClick=${() => pick(i)}>${c.title}${sort.by === i ? (sort.down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
    <tbody>${sorted.slice(0, MOST).map((row) => html`<tr key=${row.id ?? row.name} class=${selected(row) ? "selected" : ""}
        onClick=${() => onSelect(row)}>
      ${columns.map((c) => html`<td class=${c.number ? "number" : ""}>${c.show ? c.show(row) : c.value(row)}</td>`)}</tr>`)}
      ${sorted.length > MOST && html`<tr class="more"><td colspan=${columns.length}>
        and ${(sorted.length - MOST).toLocaleString("en")} more: search to find them</td></tr>`}
      ${!sorted.length && html`<tr class="more"><td colspan=${columns.length}>${empty}</td></tr>`}
    </tbody></table>`;
}

export function Search({ text, onText, children }) {
  return html`<div class="search">
    <input type="search" placeholder="search" value=${text} onInput=${(e) => onText(e.target.value)} aria-label="search" />
    ${children}</div>`;
}

// How many more there are than the server sends.
export const more = (n, what) => n > 0 && html`<p class="left">${count(n, `more ${what}`)} not shown</p>`;

export const finds = (text, ...where) => !text || where.some((w) => w && w.toLowerCase().includes(text.toLowerCase()));

// ---- channels ----

function Fill({ chan }) {
  return html`<span class=${`meter ${chan.state}`}><i style=${{ width: chan.fill * 100 + "%" }}></i></span>`;
}

const CHAN_COLUMNS = [
  { title: "channel", value: (c) => c.label, show: (c) => html`<b>${c.label}</b>` },
  { title: "kind", value: (c) => c.kindName },
  { title: "fill", value: (c) => c.fill, number: true, show: (c) => html`<${Fill} chan=${c} />
    <span class="amount">${c.limit ? `${c.count}/${c.limit}` : c.count || ""}</span>` },
  { title: "puts wait", value: (c) => c.nputs, number: true, show: (c) => c.nputs || "" },
  { title: "takes wait", value: (c) => c.ntakes, number: true, show: (c) => c.ntakes || "" },
  { title: "per second", value: (c) => c.rate, number: true, show: (c) => (c.rate === 0 ? "" : rateText(c.rate)) },
  { title: "values", value: (c) => c.puts, number: true, show: (c) => c.puts.toLocaleString("en") },
  { title: "state", value: (c) => c.state, show: (c) => html`<span class=${`state ${c.state}`}>${c.state}</span>` },
];

export function Chans({ model, selection, onSelect }) {
  const [text, setText] = useState(""), [all, setAll] = useState(false);
  const rows = [...model.chans.values()].filter((c) => (all || c.isPlain) && finds(text, c.label, c.kindName, c.state));
  return html`<${Search} text=${text} onText=${setText}>
      <label><input type="checkbox" checked=${all} onChange=${(e) => setAll(e.target.checked)} /> results, timeouts and done() too</label>
    <//>
    <${Table} name="chans" rows=${rows} columns=${CHAN_COLUMNS} sortBy=${5} empty=${model.reading || "no channel"}
      selected=${(c) => selection && selection.chan === c.id} onSelect=${(c) => onSelect({ chan: c.id })} />
    ${more(model.summary.more_chans, "channel")}`;
}

// ---- go blocks ----

const doing = (go) => (go.op ? `waits to ${go.op}`.replace("to alts", "in alts") : go.state);

export function Gos({ model, groups, selection, onSelect }) {
  const [text, setText] = useState(""), [fold, setFold] = useState(true);
  const on = (go) => {
    const ch = model.chans.get(go.chan);
    return ch ? ch.label + (go.nchans > 1 ? ` and ${go.nchans - 1} more` : "") : go.nchans ? "different channels" : "";
  };
  const single = [
    { title: "id", value: (g) => g.first, number: true, show: (g) => (g.n > 1 ? `${g.n.toLocaleString("en")} of them` : g.first || "") },
    { title: "go block", value: (g) => g.full, show: (g) => html`<b>${g.full}</b>` },
    { title: "does", value: doing },
    { title: "on", value: on },
    { title: "at", value: (g) => g.where || "", show: (g) => html`<code>${g.where}</code>` },
    { title: "for", value: (g) => model.waited(g), number: true, show: (g) => (g.since ? duration(model.waited(g)) : "") },
  ];
  const folded = [
    { title: "go blocks", value: (g) => g.name, show: (g) => html`<b>${g.name}</b>` },
    { title: "number", value: (g) => g.n, number: true, show: (g) => g.n.toLocaleString("en") },
    ...["put", "take", "alts", "idle", "sleeping", "ready"].map((state) => ({
      title: { put: "wait to put", take: "wait to take", alts: "in alts", sleeping: "asleep" }[state] || state, number: true,
      value: (g) => g.states[state] || 0, show: (g) => g.states[state] || "" })),
    { title: "longest", value: (g) => g.waited, number: true, show: (g) => (g.waited ? duration(g.waited) : "") },
  ];
  const rows = fold ? [...groups.values()].filter((g) => finds(text, g.name))
    : [...model.gos.values()].filter((g) => finds(text, g.full, g.where, doing(g), on(g), String(g.first)));
  return html`<${Search} text=${text} onText=${setText}>
      <label><input type="checkbox" checked=${fold} onChange=${(e) => setFold(e.target.checked)} /> fold by name</label>
    <//>
    <${Table} key=${fold} name="gos" rows=${rows} columns=${fold ? folded : single} sortBy=${fold ? 1 : 5} empty=${model.reading || "no go block"}
      selected=${(g) => selection && (fold ? selection.go === g.name : selection.row === g.id)}
      onSelect=${(g) => onSelect(fold ? { go: g.name } : { go: g.name, row: g.id })} />
    ${more(model.summary.more, "go block")}`;
}
