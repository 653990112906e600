// workbench.js: an editor, the program's output and the monitor's page beside it: the playground, and each step of the tour.
import { makeEditor } from "./editor.js";
import { load, reaches, start } from "./engine.js";
import { Output } from "./output.js";
import { functionsOf } from "./picture.js";

const $ = (id) => document.getElementById(id);
const NOT_REACHED = "this browser cannot reach a program while it runs: its WebAssembly has no Suspending" +
  " (Chromium has it from version 137 on)";

const bench = $("workbench"), name = bench.dataset.name;
const output = new Output($("output")), editor = makeEditor($("editor"), run);
let running = null, runs = 0, commands = 0, told = null; // told: the story of a simulated world

function say(text, bad) {
  $("state").textContent = text;
  $("state").classList.toggle("bad", !!bad);
}

// ---- the monitor's page ----

// It is loaded after the module. Until it is ready, what the program says is kept for it.
const monitor = $("monitor");
let kept = [], isReady = false;

function tell(message) {
  if (isReady) monitor.contentWindow.postMessage(message, "*");
  else if (message.monitor === "begun") kept = [message];
  else kept.push(message);
}

const tellTheme = () => tell({ monitor: "theme", theme: document.documentElement.dataset.theme ?? "" });

addEventListener("message", ({ data, source }) => {
  if (source !== monitor.contentWindow) return;
  if (data.monitor === "ready" && !isReady) {
    isReady = true;
    kept.forEach(tell);
    tellTheme();
    bench.dataset.ready = "yes";
  }
  if (data.monitor === "view") bench.dataset.view = data.view === "graph" ? "" : "wide"; // tables need more room
  if (data.monitor === "command") command(data);
});
new MutationObserver(tellTheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });

// A worker that blocks hears no commands, and sends the timeline unasked, with the number 1.
function command({ order, what, fields }) {
  const sent = (number, why) => tell({ monitor: "sent", order, number, why });
  if (!running) return sent(0, "the program has ended");
  if (!reaches) return sent(what === "timeline" ? 1 : 0, NOT_REACHED);
  commands++;
  running.send([commands, what, fields.id ?? "", fields.type ?? "", fields.text ?? ""]);
  sent(commands);
}

// ---- the picture of what will be ----

// Shows, in place of the monitor's page, the picture of an example, or of none.
function preview(example) {
  const picture = example?.nextElementSibling.content.cloneNode(true);
  const text = picture?.childElementCount ? "What it will be. Press run to see it move." : "Press run: here is what the program does.";
  $("preview").replaceChildren(...(picture ? [picture] : []), Object.assign(document.createElement("p"), { textContent: text }));
  $("preview").hidden = false;
}

// ---- running ----

function ended(status) {
  running = null;
  $("run").textContent = "run";
  $("stop").disabled = true;
  output.flush();
  bench.dataset.status = status;
  tell({ monitor: "ended" });
  if (status === "stopped") say("stopped");
  else if (status === 0) say("ended");
  else say(`ended with status ${status}`, true);
  if (told || /sim\.explore: /.test(output.out + output.err)) showStory();
}

// Below the output comes the picture of a story that sim.explore has told.
async function showStory() {
  const number = runs, { pictureOf } = await import("./story.js");
  const picture = pictureOf(told, output.out + "\n" + output.err, name);
  if (!picture || number !== runs) return;
  bench.dataset.view = "story"; // in place of the graph: it has a column for each go block, or for each host
  $("output").append(picture);
  new ResizeObserver((_, observer) => { // a sequence diagram draws itself once it knows its width
    if (!picture.querySelector("svg, table")) return;
    $("output").scrollTop = picture.offsetTop - $("output").offsetTop - 10;
    observer.disconnect();
  }).observe(picture);
}

function leaveStory() { if (bench.dataset.view === "story") bench.dataset.view = ""; }

function run() {
  if (running) running.stop();
  runs++;
  told = null;
  output.clear();
  leaveStory();
  delete bench.dataset.status;
  $("stop").disabled = false;
  $("run").textContent = "run again";
  say("loading");
  const code = editor.get();
  tell({ monitor: "begun", called: functionsOf(code, name) });
  const program = start({ code, name, monitored: true }, (what) => {
    if (program !== running) return; // an earlier one
    if (what.began) {
      say("running");
      tell({ monitor: "running" });
    }
    if (what.out) output.add("out", what.out);
    if (what.err) output.add("err", what.err);
    if (what.story) told = JSON.parse(what.story);
    if (what.message) {
      tell({ monitor: "message", json: what.message });
      $("preview").hidden = true;
    }
    if ("ended" in what) ended(what.ended);
  });
  running = program;
}

// ---- sharing ----

async function share() {
  try {
    const url = new URL(bench.dataset.playground, location.href);
    url.hash = "code=" + await (await import("./share.js")).pack(editor.get());
    if (bench.dataset.kind === "playground") history.replaceState(null, "", url);
    $("link").value = url.href;
    $("link").hidden = false;
    $("link").select();
    await navigator.clipboard?.writeText(url.href).then(() => say("the link is copied"), () => say("the link is shown"));
  } catch (err) {
    say(`the link cannot be made: ${err.message}`, true);
  }
}

// The program of the URL, or null.
async function shared() {
  const packed = location.hash.startsWith("#code=") && location.hash.slice("#code=".length);
  if (!packed) return null;
  try {
    return await (await import("./share.js")).unpack(packed);
  } catch {
    say("the link is damaged: no program can be read from it; this is the first example", true);
    return null;
  }
}

const examples = [...document.querySelectorAll("script[type='text/x-lua']")];
const text = (example) => example.textContent.replace(/^\n/, "").replaceAll("<\\/", "</");

// Puts a program, which may be an example, into the editor.
function show(program, example) {
  running?.stop();
  if (editor.get() !== program) editor.set(program);
  output.clear();
  leaveStory();
  preview(example);
}

async function begin() {
  const given = await shared();
  show(given ?? text(examples[0]), given === null ? examples[0] : undefined);
  if (given !== null && $("example")) $("example").value = "";
}

$("run").onclick = run;
$("stop").onclick = () => running?.stop();
$("share").onclick = share;
if ($("reset")) $("reset").onclick = () => show(text(examples[0]), examples[0]);
if ($("example")) {
  $("example").onchange = ({ target }) => {
    if (target.value === "") return;
    history.replaceState(null, "", location.pathname + location.search);
    const example = examples[Number(target.value)];
    show(text(example), example);
    say("");
  };
}
addEventListener("hashchange", begin);
await begin();
bench.dataset.begun = "yes";
await load().catch(() => {}); // the run says what is wrong
monitor.src = monitor.dataset.src;
