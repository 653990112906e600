// front.js: the front page's program, which runs as it is typed, with its graph and its output.
import { Model } from "../../csrc/monitor/page/model.js";
import { makeEditor } from "./editor.js";
import { start } from "./engine.js";
import { Output } from "./output.js";
import { functionsOf, graphOf, picture, placesOf, refresh, shapeOf } from "./picture.js";

const QUIET = 350; // ms without a key, after which the program runs
const SETTLED = 1000; // ms of a run after which a picture has no place for what the program does not use

const $ = (id) => document.getElementById(id);
const live = $("live"), name = live.dataset.name, output = new Output($("output"));
let running = null, timer = null;

// ---- the graph ----

let drawn = JSON.parse($("places").textContent), waiting = null, dagre = null; // drawn: { shape, places }

const loadDagre = () => (dagre ||= new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.src = new URL("../monitor/dagre.js", import.meta.url);
  script.onload = resolve;
  script.onerror = reject;
  document.head.append(script);
}));

const hasPlaces = ({ nodes, edges }) => [...nodes.keys()].every((key) => key in drawn.places.nodes) &&
  [...edges.keys()].every((key) => key in drawn.places.edges);

async function draw(graph, shape) {
  waiting = shape;
  await loadDagre();
  if (waiting !== shape) return; // another one has come meanwhile
  drawn = { shape, places: placesOf(graph) };
  $("picture").innerHTML = picture(graph, drawn.places, "the program's go blocks and channels");
}

async function show(model, isSettled) {
  const graph = graphOf(model), shape = shapeOf(graph);
  if (!graph.nodes.size) return;
  if (shape !== drawn.shape && (isSettled || !hasPlaces(graph))) await draw(graph, shape);
  if (hasPlaces(graph)) refresh($("picture").firstElementChild, graph, model);
}

// ---- running ----

const say = (text) => { $("state").textContent = text; };

function run() {
  clearTimeout(timer);
  if (running) running.stop();
  const model = new Model(), code = editor.get();
  let began = Infinity; // when the program began: the module may be loaded before
  model.called = functionsOf(code, name);
  let isFresh = true; // the output of the last run stays until there is some
  const add = (kind, text) => {
    if (isFresh) output.clear();
    isFresh = false;
    output.add(kind, text);
  };
  const program = start({ code, name, monitored: true }, (what) => {
    if (program !== running) return; // an earlier one
    if (what.began) {
      began = performance.now();
      say("running");
    }
    if (what.out) add("out", what.out);
    if (what.err) add("err", what.err);
    if (what.message) {
      model.apply(JSON.parse(what.message));
      show(model, performance.now() - began > SETTLED).catch(() => {}); // without dagre the last picture stays
    }
    if (!("ended" in what)) return;
    running = null;
    if (isFresh) output.clear();
    output.flush();
    live.dataset.status = what.ended;
    model.status = "ended";
    show(model, false);
    say(what.ended === 0 ? "ended" : what.ended === "stopped" ? "" : "it has failed");
  });
  running = program;
  delete live.dataset.status;
}

const editor = makeEditor($("editor"), run);
editor.onChange(() => {
  clearTimeout(timer);
  timer = setTimeout(run, QUIET);
});
$("run").onclick = run;
run();
