// workbench.mjs: the HTML of an editor with the program's output and the monitor's page: the playground, and the steps of
// the tour.
import { escape } from "./lua_html.mjs";
import { template } from "./template.mjs";

const program = (code) => `<script type="text/x-lua">\n${code.replaceAll("</", "<\\/")}</script>`;

// kind: "playground" or "tour"; programs: [{ title, code }], the first of which is shown; before: HTML above the editor.
export function workbench({ kind, name, up, programs, before = "" }) {
  const choice = programs.length > 1 ? `<select id="example" aria-label="an example"><option value="">examples</option>${
    programs.map((p, i) => `<option value="${i}"${i ? "" : " selected"}>${escape(p.title)}</option>`).join("")}</select>`
    : '<button id="reset">reset</button>';
  return `<div id="workbench" data-kind="${kind}" data-name="${escape(name)}" data-playground="${up}playground/index.html">
<section class="left">${before}
<p class="bar"><button id="run" class="main" title="Ctrl-Enter">run</button> <button id="stop" disabled>stop</button>
<button id="share">share</button> ${choice} <span id="state" role="status"></span>
<input id="link" readonly hidden aria-label="the link to this program"></p>
<div id="editor"></div>
<pre id="output" class="output" aria-label="the output"></pre>
</section>
<iframe id="monitor" src="${up}monitor/page.html" title="the monitor: what the program does"></iframe>
${programs.map((p) => program(p.code)).join("\n")}
</div>`;
}

export function workbenchPage(page, site) {
  return template({ ...page, wide: true, scripts: ["site.js", "workbench.js"] }, site);
}
