// hints.js: what the page says of a picture of the program. It says only what the whole picture shows.
import { count, duration, short } from "./model.js";

const LATELY = 20; // samples: ten seconds
const LONG = 5000, LONGER = 30000; // ms

function busyHint({ busy, blocked, who, runs }) {
  const name = who && who.replace(/ -> chan: #\d*$/, "");
  const subject = name ? name + (runs ? ` #${runs}` : "") : "Lua";
  return { level: "bad", go: name, text: blocked
    ? `${subject} has blocked the thread for ${duration(busy)}: it waits in a system call, and no go block runs`
    : `${subject} has computed for ${duration(busy)} without parking` };
}

// A go block that is too slow: its input is full, and its outputs are not. If nothing has moved for long, it may have
// taken all that it wants.
function bottlenecks(model, groups, ends) {
  const hints = [], inputs = new Map(), outputs = new Map();
  const add = (map, name, ch) => { if (!map.has(name)) map.set(name, []); map.get(name).push(ch); };
  for (const [id, { puts, takes }] of ends) {
    const ch = model.chans.get(id);
    if (!ch.isPlain) continue;
    for (const name of takes) if (!puts.has(name)) add(inputs, name, ch); // else it is inside of the stage
    for (const name of puts) if (!takes.has(name)) add(outputs, name, ch);
  }
  for (const g of groups.values()) {
    const out = outputs.get(g.name) || [];
    const full = (inputs.get(g.name) || []).find((ch) => ch.n === 1 && ch.state === "full" && (ch.kind !== 0 ? ch.nputs : ch.nputs > g.n));
    if (!full || model.at - full.movedAt > LONGER || g.states.idle === g.n || g.stage && model.stageState(g.stage) !== "full") continue;
    if (!out.every((ch) => ch.nputs === 0 && ch.fill < 0.5)) continue;
    const empty = out.find((ch) => ch.ntakes > 0 && ch.count === 0);
    hints.push({ level: "bad", go: g.name, text: `${g.name} is the bottleneck: its input ${full.label} is full` +
      (empty ? `, its output ${empty.label} empty` : out.length ? ", its output is not" : "") });
  }
  return hints;
}

// Stages of flows that hold, or are paused while something waits.
function stageHints(model) {
  const hints = [];
  for (const [name, stage] of model.stages) {
    const state = model.stageState(stage), n = stage.chan ? stage.chan.nputs : 0;
    const wait = n ? `; ${count(n, "put")} ${n === 1 ? "waits" : "wait"} there` : "";
    const chan = stage.chan ? stage.chan.id : undefined;
    if (state === "held") hints.push({ level: "bad", chan, text: `${name} is held${stage.error ? `: ${stage.error}` : ""}${wait}` });
    else if (state === "paused" && n) hints.push({ level: "warn", chan, text: `${name} is paused${wait}` });
  }
  return hints;
}

// One hint for channels whose names differ only in digits: text(label, n) of what is found.
function byPattern(found, level, text) {
  const patterns = new Map();
  for (const one of found) {
    const key = `${level(one)} ${one.ch.pattern} ${one.kind || ""}`;
    if (!patterns.has(key)) patterns.set(key, []);
    patterns.get(key).push(one);
  }
  return [...patterns.values()].map((list) => {
    const longest = list.reduce((a, b) => (a.ms >= b.ms ? a : b)), [{ ch }] = list;
    return { level: level(longest), chan: longest.ch.id,
      text: text(longest, list.length === 1 ? ch.label : `${ch.pattern} × ${short(list.length)}`, list.length) };
  });
}

// Puts that have waited for long, and channels that were full whenever the page looked.
function fullHints(model) {
  const found = [], hints = [], waits = new Map(); // the longest by channel
  for (const go of model.gos.values()) {
    const ch = model.chans.get(go.chan), ms = model.waited(go);
    if (go.op !== "put" || ms < LONG) continue;
    if (ch && ch.n === 1) waits.set(ch.id, Math.max(ms, waits.get(ch.id) || 0));
    else hints.push({ level: "warn", go: go.name, text: `a put of ${go.name} has waited for ${duration(ms)}${ch ? ` on ${ch.label}` : ""}` });
  }
  for (const ch of model.chans.values()) {
    if (!ch.isPlain || ch.n > 1 || ch.stage === "held" || ch.stage === "paused") continue; // see stageHints
    const ms = waits.get(ch.id), full = ch.fullSince ? model.at - ch.fullSince : 0;
    if (ms) found.push({ ch, ms, kind: "put" });
    else if (full >= LONG) found.push({ ch, ms: full, kind: "full" });
  }
  hints.push(...byPattern(found, ({ ch }) => (model.at - ch.movedAt < LONG ? "warn" : "bad"), ({ ch, ms, kind }, label, n) => {
    const still = model.at - ch.movedAt, upTo = n > 1 ? "up to " : "";
    return (kind === "put" ? `puts have waited on ${label} for ${upTo}${duration(ms)}`
      : `${label} ${n === 1 ? "has" : "have"} been full in each picture for ${upTo}${duration(ms)}`) +
      (still < LONG ? "" : `, and nothing has moved for ${upTo}${duration(still)}`);
  }));
  return hints;
}

// Operations that wait although no go block is there for the other end.
function endHints(model, groups, ends) {
  const found = [], targets = new Set([...model.gos.values()].map((go) => go.target));
  for (const ch of model.chans.values()) {
    const ms = model.at - ch.movedAt;
    if (!ch.isPlain || ch.n > 1 || ch.closed || ms < LONG || !(ch.ntakes || ch.nputs)) continue;
    if (ch.stage || [...groups.keys()].some((name) => name.startsWith(ch.name + " at "))) continue; // the flow closes it
    const { puts = new Set(), takes = new Set() } = ends.get(ch.id) || {};
    for (const [n, kind, names] of [[ch.ntakes, "take", puts], [ch.nputs, "put", takes]]) {
      if (!n || [...names].some((name) => groups.has(name))) continue;
      if (kind === "take" && (targets.has(ch.name) || targets.has("#" + ch.first))) continue;
      if (names.size || ms >= LONGER) found.push({ ch, kind, ms, n, name: [...names][0] });
    }
  }
  return byPattern(found, () => "warn", ({ kind, ms, n, name }, label, many) => {
    const done = kind === "take" ? "put" : "taken";
    const why = name ? `${name} has ${done} there, and no go block has this name now` : `so far no go block has ${done} there`;
    return `${count(n, kind)} on ${label} for ${many > 1 ? "up to " : ""}${duration(ms)}: ${why}`;
  });
}

// { level: "bad" | "warn", text, chan or go: what it is about }
export function hintsOf(model, groups) {
  const hints = model.summary.busy >= 100 ? [busyHint(model.summary)] : [];
  if (!model.at) return hints;
  const ends = model.ends(), knowsEnds = model.isWhole;
  if (knowsEnds) hints.push(...bottlenecks(model, groups, ends));
  for (const g of groups.values()) {
    if (g.n > 10000) hints.push({ level: "warn", go: g.name, text: `${count(g.n, "go block")} with the name ${g.name}` });
  }
  const lately = model.history.busy.slice(-LATELY);
  if (!hints.length && lately.length === LATELY && Math.min(...lately) > 95) {
    hints.push({ level: "warn", text: "Lua computes all the time: its go blocks share one thread (rn.threads uses more)" });
  }
  hints.push(...stageHints(model), ...fullHints(model));
  if (knowsEnds) hints.push(...endHints(model, groups, ends));
  return hints;
}
