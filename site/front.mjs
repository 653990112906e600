// front.mjs: the top of the front page: what runnel offers, a program that runs as it is typed, how to install, three figures,
// and where to go on. Below it the page is README.md.
import { readFileSync } from "node:fs";
import path from "node:path";
import { editorHtml, escape, luaHtml } from "./lua_html.mjs";
import { pack } from "./share.mjs";

export const FRONT = { title: "Lua programs that do many things at once", name: "front.lua",
  program: readFileSync(path.join(import.meta.dirname, "front/program.lua"), "utf8").trimEnd(),
  description: "Channels, go blocks and pipelines for Lua 5.4 and 5.5, on a small C core: with limits that hold, a live graph " +
    "of the program, and simulations that test every order of it." };

const LINES = [
  ["Functions that wait for each other.", "Channels and go blocks, as in Go and core.async: no callbacks, no locks."],
  ["Limits that hold.", "A full channel slows its sender, and a pipeline runs exactly n jobs."],
  ["You see it, and test all of it.", "A live graph, and simulations of every order, fault and crash."],
];

const INSTALL = [
  ["A Debian package, and the first message",
    `sudo apt install ./runnel_*.deb && runnel -e 'print(require("runnel").go(string.upper, "hello"):take())'`],
  ["Debian, Ubuntu", "sudo apt install gcc libc6-dev make lua5.4 liblua5.4-dev libedit-dev && make && sudo make install"],
  ["Fedora", "sudo dnf install gcc make lua lua-devel libedit-devel && make LUA=lua && sudo make LUA=lua install"],
  ["macOS", "brew install lua@5.4 libedit && make && sudo make install"],
  ["LuaRocks", "luarocks --lua-version 5.4 make"],
];

const DOORS = [
  ["Scripts", "docs/tutorial.md", "Servers, processes, files and timers: each waits in a go block of its own.", "$ runnel job.lua"],
  ["Pipelines at the prompt", "docs/manual/host.md", "Build a pipeline while it runs: its go blocks go on while you type.",
    '[1]> jobs = rn.chan(3):name "jobs"'],
  ["Testing", "docs/testing.md", "Hours in milliseconds, every order of a program, and each failure as a story.", "sim.explore(program)"],
  ["Machines", "docs/machines.md", "A stage on other machines: a job runs again if its worker or the server is killed.",
    'rn.pmap(128, conn:remote "resize", images)'],
];

// The figures: a row of the first table of docs/performance.md, how runnel's value is shown, what it means, and the unit.
const FIGURES = [
  ["chan(0), a message (ns)", (ns) => `${Math.round(ns)} ns`, "for a message from one go block to another", "ns"],
  ["spawn + take (ns)", (ns) => `${Math.round(ns)} ns`, "to start a go block and take its result", "ns"],
  ["a parked go block (bytes)", (bytes) => `${(bytes / 1000).toFixed(1)} KB`, "for a go block that waits: 100,000 fit into 130 MB", "bytes"],
];

// On what the figures were measured, and what: the lines above the first table of docs/performance.md.
function measuredOn(text) {
  const [, machine, list] = /^Measured on (.*?), cc .*\n\n((?:- .*\n)+)/m.exec(text) || [];
  if (!list) throw new Error("docs/performance.md does not say on what it was measured");
  const versions = new Map(list.trim().split("\n").map((line) => /^- ([^:]+): (.*)$/.exec(line).slice(1)));
  const named = rowOf(text, FIGURES[0][0]).map(([peer]) => peer);
  const of = (peer) => [...versions].find(([name]) => name === peer)?.[1].replace(/-\d+-g[0-9a-f]+/, "").replace(/^go(?=\d)/, "").replace(", GOMAXPROCS=1", "");
  return `on ${machine}: ${named.map((peer) => (of(peer) ? `${peer} (${of(peer).replace("this tree, ", "")})` : peer)).join(", ")}`;
}

// The values of a row of the table: [[peer, value]]
function rowOf(text, label) {
  const cells = (line) => line.split("|").slice(1, -1).map((cell) => cell.trim());
  const lines = text.split("\n"), at = lines.findIndex((line) => line.startsWith("|") && cells(line)[0] === label);
  if (at < 0) throw new Error(`docs/performance.md has no row "${label}"`);
  const peers = cells(lines.slice(0, at).findLast((line) => /^\|\s*\|\s*runnel/.test(line)));
  return cells(lines[at]).map((cell, i) => [peers[i], parseFloat(cell)]).slice(1)
    .filter(([peer, value]) => peer !== "floor" && !Number.isNaN(value));
}

function figureHtml(text, [label, words, what, unit]) {
  const row = rowOf(text, label), most = Math.max(...row.map(([, value]) => value)), [[, own]] = row;
  const bars = row.map(([peer, value]) => `<tr${peer === "runnel" ? ' class="own"' : ""}><th scope="row">${escape(peer)}</th>` +
    `<td><span class="bar" style="width:${(100 * value / most).toFixed(1)}%"></span></td><td class="right">${Math.round(value)}</td></tr>`);
  return `<figure><b>${words(own)}</b><figcaption>${what}</figcaption>
<table class="bars"><caption class="hidden">${unit}, less is better</caption>${bars.join("\n")}</table></figure>`;
}

// The HTML. `picture` is the program's graph with its `places` (pages/picture.js); link(path) gives the address of a page;
// `measured` is the text of docs/performance.md; `archive` is the name of the sources' archive.
export function frontHtml({ picture, places, shape, link, measured, archive }) {
  const { name, program, title } = FRONT;
  const open = `${link("playground")}#code=${pack(program)}`;
  return `<div class="front">
<section class="hero" aria-label="what runnel is">
<h1>${title}</h1>
<ul class="promises">${LINES.map(([what, more]) => `<li><b>${what}</b> ${more}</li>`).join("\n")}</ul>
<p class="calls"><a class="button main" href="${link("tour")}">Take the tour</a> <a class="button" href="#get">Install</a></p>
</section>
<section id="live" class="live" data-name="${name}" aria-label="a program that runs as you type">
<div class="panel code"><h2>Change it: it runs as you type</h2>${editorHtml(program)}</div>
<div class="panel drawn"><h2>What it does now</h2><div id="picture">${picture}</div></div>
<div class="panel printed"><h2>What it prints</h2><pre id="output" class="output" tabindex="0" role="region" aria-label="the output"></pre></div>
<p class="bar"><button id="run">run again</button> <a class="button" href="${open}">open in the playground</a>
<span id="state" role="status"></span></p>
<script type="application/json" id="places">${JSON.stringify({ shape, places }).replaceAll("<", "\\u003c")}</script>
</section>
<section id="get" class="get" aria-label="install">
<h2>Install</h2>
<p>In the <a href="${archive}">sources</a> (<code>tar xzf <span class="name">${archive}</span></code>, then <code>cd ${archive.replace(".tar.gz", "")}</code>), one line:</p>
<dl>${INSTALL.map(([system, line]) => `<div><dt>${system}</dt><dd><pre><code>${escape(line)}</code></pre><button class="copy">copy</button></dd></div>`)
    .join("\n")}</dl>
<p class="note">Tested on Debian 12, 13 and unstable; not yet on Fedora and macOS. For Lua 5.5 add <code>LUA=lua5.5</code> to
each make. <code>make deb</code> makes Debian's packages. HTTP, TLS, NATS and SQLite need a library each: <a href="#install">more about installing</a>.</p>
</section>
<section class="figures" aria-label="what it costs">
<h2>What it costs</h2>
<div>${FIGURES.map((figure) => figureHtml(measured, figure)).join("\n")}</div>
<p class="note">In ns of CPU time and in bytes, the same programs, in turn, ${escape(measuredOn(measured))}. <a href="${link("docs/performance.md")}">All figures, and how
they were measured</a>.</p>
</section>
<section class="doors" aria-label="where to begin">
<h2>Where do you want to begin?</h2>
<div>${DOORS.map(([what, to, more, code]) => `<a class="door" href="${link(to)}"><h3>${what}</h3><p>${more}</p><code>${luaHtml(code)}</code></a>`)
    .join("\n")}</div>
</section>
</div>`;
}
