// profile.js: a profile of some seconds, which the program records (lua/runnel/profile/live.lua), as a flame graph.
const { html, useEffect, useRef, useState } = window.htmPreact;
import { duration } from "./model.js";
import { flame } from "./flame.js";

const OFTEN = 400; // ms between two questions whether the profile that is recorded is ready

// What is known after an answer of the program: { head, data }, or { why } there is none.
export function learn(before, ok, [head, data]) {
  if (!ok) return { ...before, why: head };
  return { head: JSON.parse(head), data: data ?? before?.data };
}

function Picture({ data }) {
  const box = useRef(null);
  useEffect(() => flame(box.current, JSON.parse(data)), [data]);
  return html`<div class="flame" ref=${box}></div>`;
}

// A link to the profile as a file: the page that --profile=out.html writes.
function Save({ model, data }) {
  const [page, setPage] = useState(null), [url, setUrl] = useState(null);
  useEffect(() => { // fetched at once, since the program may end
    fetch("flame.html").then((answer) => answer.text()).then(setPage).catch(() => {});
  }, []);
  useEffect(() => {
    if (!page) return undefined;
    const made = URL.createObjectURL(new Blob([page.replace("$DATA$", () => data)], { type: "text/html" }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [page, data]);
  const name = (model.hello?.program || "program").split("/").pop().replace(/\.lua$/, "");
  return url && html`<a id="save" href=${url} download=${`${name}-profile.html`}>save as a page</a>`;
}

// What is in progress, whichever page has asked for it.
function Progress({ model, head }) {
  if (model.status === "ended" || model.status === "lost") {
    return html`<p class="calm bad">The program has ended before its profile was complete. For a profile up to the end: ${" "}
      <code>runnel --profile=out.html</code></p>`;
  }
  const { recording, passed } = head, late = passed > recording * 1000 + 1000 || model.summary.busy >= 1000;
  return html`<p class="calm" id="recording"><progress max=${recording * 1000} value=${passed} /> ${" "}
    recording, ${duration(Math.min(passed, recording * 1000))} of ${recording} s.
    ${late ? " It ends when the go block that computes parks." : " The program is up to 3 % slower meanwhile."}</p>`;
}

export function Profile({ model, command, known, paused }) {
  const [seconds, setSeconds] = useState("5");
  const { head, data, why } = known || {}, number = String(head?.number || 0);
  const ask = (text) => command("profile", { id: data ? number : "", text }, !text);
  const isOn = model.status === "live", second = Math.floor((model.summary.t || 0) / 1000);
  useEffect(() => { ask(""); }, [second]);
  useEffect(() => {
    if (!head?.recording || !isOn || paused) return undefined;
    const timer = setTimeout(() => ask(""), OFTEN);
    return () => clearTimeout(timer);
  }, [known, isOn, paused]);
  const canBegin = isOn && !paused && !why && head && !head.recording && !head.other;
  return html`<div class="profile">
    <form class="search" onSubmit=${(e) => { e.preventDefault(); ask(seconds); }}>
      ${isOn && html`<button id="record" disabled=${!canBegin}>record</button>
      <select aria-label="seconds" value=${seconds} onChange=${(e) => setSeconds(e.target.value)}>
        ${["1", "5", "30"].map((s) => html`<option value=${s} selected=${s === seconds}>${s} s</option>`)}</select>`}
      ${data && !head.recording && html`<span>${" "}from ${head.at} <${Save} model=${model} data=${data} /></span>`}
    </form>
    ${!known && html`<p class="calm">${model.looking}</p>`}
    ${why && html`<p class="calm">${why}</p>`}
    ${head?.problem && html`<p class="calm bad">${head.problem}</p>`}
    ${head?.other && html`<p class="calm">The program makes a profile of its own (--profile, rn.profile or :profile). There can be one at a time.</p>`}
    ${head?.recording && html`<${Progress} model=${model} head=${head} />`}
    ${head?.note && !head.recording && html`<p class="calm">${head.note}</p>`}
    ${head && !data && !head.recording && html`<p class="calm">Shows where the time goes: what runs, and what go blocks wait for.
      A program that only passes values on takes 3 % longer while it is recorded, one that computes 1 %; otherwise it costs nothing.</p>`}
    ${data && html`<${Picture} data=${data} />`}</div>`;
}
