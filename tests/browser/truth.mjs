// truth.mjs [PICTURES [SEED]]: no sentence of the monitor's page is false: the page's model gets the pictures of random
// programs (random.lua), and sentences.mjs compares what it says of each. Run by tests/browser/check; page.mjs does the same
// in a browser, with fewer pictures.
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { calmOf, hintsOf } from "./page/hints.js";
import { build, doing } from "./page/graph_nodes.js";
import { scale } from "./page/lately.js";
import { Model, count } from "./page/model.js";
import { Judge, kindsWithout } from "./sentences.mjs";

const { RUNNEL = "build/bin/runnel", SHOTS = "build/browser" } = process.env;
const [pictures = 200, first = 1] = process.argv.slice(2).map(Number);
const PACE = 0.1, PERIOD = 50, EACH = 60, AT_ONCE = 3, MOST = 10000; // pictures of a program, programs that run at a time, ms of a program

scale(PACE);

// A monitor closes a connection that has not sent its request for 3 seconds, which happens on a busy machine.
async function patiently(f) {
  for (let tries = 1; ; tries++) {
    try { return await f(); } catch (err) { if (tries === 10) throw err; }
  }
}

// The messages of a program's monitor, as they come.
async function* events(url) {
  const response = await patiently(() => fetch(url.replace("/?", "/events?"), { signal: AbortSignal.timeout(240000) })), decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true });
    for (let at; (at = text.indexOf("\n\n")) >= 0; text = text.slice(at + 2)) {
      if (text.startsWith("data: {")) yield JSON.parse(text.slice(6, at));
    }
  }
}

// Returns what is wrong about a program's pictures.
async function watch(seed, checked) {
  const path = `${SHOTS}/truth-${seed}.json`, problems = [];
  rmSync(path, { force: true });
  const child = spawn(RUNNEL, ["tests/browser/random.lua", seed, path, PERIOD, PACE], { stdio: ["ignore", "ignore", "pipe"] });
  let errors = "";
  const url = await new Promise((found, reject) => {
    child.stderr.on("data", (text) => {
      errors += text;
      const [, at] = errors.match(/monitor: (http:\S+)\n/) || [];
      if (at) found(at);
    });
    child.on("exit", (status) => reject(new Error(`seed ${seed}: the program ended with ${status}: ${errors}`)));
  });
  const model = new Model(), judge = new Judge(path), waiting = new Set();
  let n = 0, asked = 0;
  const until = Date.now() + MOST;
  const ask = async () => {
    const answer = await fetch(url.replace("/?", "/flows?"), { method: "POST", body: new URLSearchParams({}) });
    if (answer.ok) waiting.add((await answer.json()).number);
  };
  try {
    for await (const message of events(url)) {
      if (n > 0 && Date.now() > until) break; // on a busy machine there is not always one more that is exact
      const before = model.at;
      for (const [number, ok, ...lines] of model.apply(message) || []) if (waiting.delete(number) && ok) model.setFlows(lines);
      model.status = "live";
      const isNew = model.at !== before, groups = model.groups(), say = (why) => problems.push(`seed ${seed}: ${why}`);
      if (isNew && !judge.picture(message)) { say("the truth of a picture is missing"); break; }
      if (!judge.now || !judge.isExact || !isNew && !(message.busy >= 100)) continue;
      const hints = hintsOf(model, groups);
      for (const { kind, text } of hints) {
        if (!isNew && kind !== "computes") continue;
        const wrong = judge.judge(kind, text, say);
        if (wrong) say(`${text}: ${wrong}`);
      }
      if (!isNew) continue;
      judge.judgeCalm(calmOf(model, groups)).forEach(say); // also where hints stand in its place
      judge.judgeHead(`${count(model.summary.gos, "go block")} · `).forEach(say);
      for (const node of build(model, groups).nodes.values()) {
        if (!node.isChan) judge.judgeBox(node.label, doing(node.group, node.label, model)).forEach(say);
      }
      if (message.t - asked > 300) { asked = message.t; ask().catch(() => {}); }
      if (++n >= EACH || problems.length) break;
    }
  } catch (err) {
    await new Promise((then) => setTimeout(then, 500)); // for its exit
    throw new Error(`seed ${seed}: ${err}, after ${n} pictures; exit ${child.exitCode}, signal ${child.signalCode}: ${errors}`);
  } finally {
    child.removeAllListeners("exit");
    child.kill("SIGKILL");
    rmSync(path, { force: true });
  }
  for (const [kind, k] of judge.checked) checked.set(kind, (checked.get(kind) || 0) + k);
  return { n, problems };
}

const problems = kindsWithout().map((kind) => `the kind ${kind} is in one table only`), checked = new Map();
let done = 0, seed = first;
async function work() {
  while (done < pictures && problems.length < 20) {
    const result = await watch(seed++, checked);
    done += result.n;
    problems.push(...result.problems);
  }
}
await Promise.all(Array.from({ length: AT_ONCE }, work));
console.log(`${done} pictures; sentences: ${[...checked].map(([kind, k]) => `${kind} ${k}`).join(", ")}`);
for (const problem of problems) console.log(`FALSE   ${problem}`);
process.exit(problems.length || !done ? 1 : 0);
