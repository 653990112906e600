// workbench.mjs: the HTML of an editor with the program's output and the monitor's page: the playground, and the steps of
// the tour.
import { editorHtml, escape } from "./lua_html.mjs";
import { template } from "./template.mjs";

// A program, and the picture of what it will be, which is "" if its go blocks use no channels.
const program = ({ code, picture }) => `<script type="text/x-lua">\n${code.replaceAll("</", "<\\/")}</script>
<template>${picture}</template>`;

// kind: "playground" or "tour"; programs: [{ title, code, picture }], the first of which is shown; before: HTML above the
// editor. On a narrow screen the parts follow each other as they do here.
export function workbench({ kind, name, up, programs, before = "" }) {
  const choice = programs.length > 1 ? `<select id="example" aria-label="an example"><option value="">examples</option>${
    programs.map((p, i) => `<option value="${i}"${i ? "" : " selected"}>${escape(p.title)}</option>`).join("")}</select>`
    : '<button id="reset">reset</button>';
  const [{ code, picture }] = programs;
  return `<div id="workbench" data-kind="${kind}" data-name="${escape(name)}" data-playground="${up}playground/index.html">
<section class="left">${before}
<p class="bar"><button id="run" class="main" title="Ctrl-Enter">run</button> <button id="stop" disabled>stop</button>
<button id="share">share</button> ${choice}
<input id="link" readonly hidden aria-label="the link to this program"></p>
${editorHtml(code)}
</section>
<section class="printed">
<p class="bar">Output <span id="state" role="status"></span></p>
<pre id="output" class="output" tabindex="0" role="log" aria-label="the output"></pre>
</section>
<div class="seen">
<iframe id="monitor" data-src="${up}monitor/page.html" title="the monitor: what the program does"></iframe>
<div id="preview" tabindex="0" role="group" aria-label="what the program will be">${picture}</div>
</div>
${programs.map(program).join("\n")}
</div>`;
}

export function workbenchPage(page, site) {
  return template({ ...page, wide: true, scripts: ["site.js", "workbench.js"] }, site);
}
