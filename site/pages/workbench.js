// workbench.js: an editor, the program's output and the monitor's page beside it: the playground, and each step of the tour.
import { makeEditor } from "./editor.js";
import { load, reaches, start } from "./engine.js";
import { Output } from "./output.js";
import { pack, unpack } from "./share.js";
import { readStory, showStory } from "./story.js";

const $ = (id) => document.getElementById(id);
const NOT_REACHED = "this browser cannot reach a program while it runs: its WebAssembly has no Suspending" +
  " (Chromium has it from version 137 on)";

const bench = $("workbench"), name = bench.dataset.name;
const output = new Output($("output")), editor = makeEditor($("editor"), run);
let running = null, commands = 0;

function say(text, bad) {
  $("state").textContent = text;
  $("state").classList.toggle("bad", !!bad);
}

// ---- the monitor's page ----

const monitor = $("monitor");
const tell = (message) => monitor.contentWindow.postMessage(message, "*");
let monitorIsReady = null;
const monitorReady = new Promise((resolve) => { monitorIsReady = resolve; });

addEventListener("message", ({ data, source }) => {
  if (source !== monitor.contentWindow) return;
  if (data.monitor === "ready") monitorIsReady();
  if (data.monitor === "command") command(data);
});

// A worker that blocks hears no commands, and sends the timeline unasked, with the number 1.
function command({ order, what, fields }) {
  const sent = (number, why) => tell({ monitor: "sent", order, number, why });
  if (!running) return sent(0, "the program has ended");
  if (!reaches) return sent(what === "timeline" ? 1 : 0, NOT_REACHED);
  commands++;
  running.send([commands, what, fields.id ?? "", fields.type ?? "", fields.text ?? ""]);
  sent(commands);
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
  const story = readStory(output.out + "\n" + output.err);
  if (!story) return;
  const table = showStory(story, name);
  $("output").append(table);
  $("output").scrollTop = table.offsetTop - $("output").offsetTop - 10;
}

function run() {
  if (running) running.stop();
  output.clear();
  delete bench.dataset.status;
  $("stop").disabled = false;
  $("run").textContent = "run again";
  say("loading");
  tell({ monitor: "begun" });
  const program = start({ code: editor.get(), name, monitored: true }, (what) => {
    if (program !== running) return; // an earlier one
    if (what.began) {
      say("running");
      tell({ monitor: "running" });
    }
    if (what.out) output.add("out", what.out);
    if (what.err) output.add("err", what.err);
    if (what.message) tell({ monitor: "message", json: what.message });
    if ("ended" in what) ended(what.ended);
  });
  running = program;
}

// ---- sharing ----

async function share() {
  try {
    const url = new URL(bench.dataset.playground, location.href);
    url.hash = "code=" + await pack(editor.get());
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
    return await unpack(packed);
  } catch {
    say("the link is damaged: no program can be read from it; this is the first example", true);
    return null;
  }
}

const examples = [...document.querySelectorAll("script[type='text/x-lua']")];
const text = (example) => example.textContent.replace(/^\n/, "").replaceAll("<\\/", "</");

async function begin() {
  const given = await shared();
  editor.set(given ?? text(examples[0]));
  if (given !== null && $("example")) $("example").value = "";
}

$("run").onclick = run;
$("stop").onclick = () => running?.stop();
$("share").onclick = share;
if ($("reset")) $("reset").onclick = () => editor.set(text(examples[0]));
if ($("example")) {
  $("example").onchange = ({ target }) => {
    if (target.value === "") return;
    running?.stop();
    history.replaceState(null, "", location.pathname + location.search);
    editor.set(text(examples[Number(target.value)]));
    output.clear();
    say("");
  };
}
addEventListener("hashchange", begin);
await begin();
load().catch(() => {}); // the run says what is wrong
tell({ monitor: "ask" }); // it may have been ready before this script
await monitorReady;
bench.dataset.ready = "yes";
