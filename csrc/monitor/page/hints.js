// hints.js: the hints: sentences in which the page says what may be wrong with the program.
//
// What a hint may say:
// 1. Only what is so in a complete picture, or in all recent ones (lately.js). One picture may show a put that waits by
//    chance. So that alone makes no hint; how often puts waited, or for how long, does.
// 2. Its counts are counts of pictures, and its times are those of the last picture. So they can be checked:
//    tests/browser/truth.mjs compares each sentence with rn.ps, rn.metrics and rn.leaks of the same moment.
// 3. It uses the program's names. Two flows, or two files, never share a name in it.
// 4. If there is no hint, the page lists what it has looked for and not found (`calm`). What it could not look at, because it
//    does not know all channels, for example, is not in that list.
//
// HINTS is the table of all kinds of hints, for the page and for its specs. A new kind needs an entry here, and one in
// tests/browser/sentences.mjs.
import { LIMITS, inPictures, shareOf, waitsOf } from "./lately.js";
import { count, duration, short } from "./model.js";

const MOST_GOS = 10000; // of one name
const MANY = 1000; // puts that wait
const BUSY = 20; // samples of the chart
const NAMED = 4; // go blocks in a sentence

// ---- what the kinds share ----

const isCounted = (ch) => ch.isPlain && ch.n === 1; // one channel, not several that are shown as one
const isOften = (ch) => waitsOf(ch).k >= LIMITS.least && shareOf(ch) >= LIMITS.often;
const keyOf = (name) => name.replace(/ -> chan: #\d*$/, ""); // the key of model.groups()
const labelOf = (model, { name, n }) => model.nameIn(name) + (n > 1 ? ` × ${short(n)}` : "");

// Two Maps: name -> the channels from which it only takes, and those on which it only puts. A channel on which it does both is
// inside of a stage.
function stagesOf({ model, ends }) {
  const inputs = new Map(), outputs = new Map();
  const add = (map, name, ch) => { if (!map.has(name)) map.set(name, []); map.get(name).push(ch); };
  for (const [id, { puts, takes }] of ends) {
    const ch = model.chans.get(id);
    if (!ch.isPlain) continue;
    for (const name of takes) if (!puts.has(name)) add(inputs, name, ch);
    for (const name of puts) if (!takes.has(name)) add(outputs, name, ch);
  }
  return { inputs, outputs };
}

// Joins facts about channels whose names differ only in digits: one for all of them, with a `label`, and `many`: how many
// channels.
function byPattern(found) {
  const patterns = new Map();
  for (const one of found) {
    const key = [one.level, one.how, one.ch.isStage ? one.ch.name : one.ch.pattern, one.kind].join("\u0001");
    if (!patterns.has(key)) patterns.set(key, []);
    patterns.get(key).push(one);
  }
  return [...patterns.values()].map((list) => {
    const longest = list.reduce((a, b) => (a.ms >= b.ms ? a : b)), many = list.length, { ch } = longest;
    return { ...longest, chan: ch.id, many, still: Math.max(...list.map((one) => one.still)), ops: list.reduce((sum, one) => sum + (one.ops || 0), 0),
      label: many === 1 ? ch.label : `${ch.pattern} × ${short(many)}` };
  });
}

const upTo = ({ many }) => (many > 1 ? "up to " : "");

// ---- Lua computes ----

// While Lua computes, no picture comes. So this one looks at the messages of the server's thread.
const computes = {
  kind: "computes",
  find({ model }) {
    const s = model.summary;
    if (!(s.busy >= LIMITS.turn) || s.who === "") return []; // nothing runs: the system has not woken the loop yet
    const isOne = s.runs !== undefined && s.ran_for >= LIMITS.turn;
    return [{ level: "bad", go: keyOf(s.who || ""), who: model.nameIn(s.who || ""), id: s.runs, isOne, ms: isOne ? s.ran_for : s.busy, isBlocked: s.blocked }];
  },
  text({ who, id, isOne, ms, isBlocked }) {
    const subject = who && isOne ? who + (id ? ` #${id}` : "") : "Lua";
    if (isBlocked) return `${subject} has blocked the thread for ${duration(ms)}: it waits in a system call, and no go block runs`;
    return `${subject} has computed for ${duration(ms)}, and timers wait${who && !isOne ? `; ${who} has run meanwhile` : ""}`;
  },
};

const turns = {
  kind: "turns",
  isChecked: ({ model, lately }) => lately.isEnough && !model.summary.virtual,
  find({ model, lately }) {
    const list = lately.turns;
    if (!lately.isEnough || !list.length) return [];
    const ms = Math.max(...list.map((p) => p.turn)), ran = [...new Set(list.map((p) => p.ran).filter(Boolean))];
    return [{ level: list.length > 1 ? "bad" : "warn", k: list.length, n: lately.n, ms, ran: ran.map((name) => model.nameIn(name)), go: keyOf(ran[0] || "") }];
  },
  text: ({ k, n, ms, ran }) => `timers and other go blocks had to wait for up to ${duration(ms)}, because Lua computed, ` +
    `before ${k} of the last ${n} pictures${ran.length ? `: ${ran.slice(0, NAMED).join(", ")} ran then` : ""}`,
  calm: () => `${LIMITS.turn} ms in which Lua computed without a look at its timers`,
};

const busy = {
  kind: "busy",
  find({ model, found }) {
    const samples = model.history.busy.slice(-BUSY);
    if (found.some(({ kind }) => ["computes", "bottleneck"].includes(kind))) return []; // they say who
    return samples.length === BUSY && Math.min(...samples) > 95 ? [{ level: "warn" }] : [];
  },
  text: () => "Lua computes all the time: its go blocks share one thread (rn.threads uses more)",
};

// ---- puts that wait ----

// A go block that is too slow: puts often wait on its input, and seldom on its outputs. If nothing has moved for long, it is no
// bottleneck: it may have taken all that it wants.
const bottleneck = {
  kind: "bottleneck",
  isChecked: ({ model, lately, isSingle }) => model.isWhole && lately.isEnough && isSingle,
  find(view) {
    const { model, groups } = view, hints = [];
    if (!model.isWhole) return hints;
    const { inputs, outputs } = stagesOf(view);
    for (const g of groups.values()) {
      if (g.states.idle === g.n || g.stage && g.stage.state !== "running") continue;
      const full = (inputs.get(g.name) || []).filter((ch) => isCounted(ch) && isOften(ch) && !ch.closed
        && (ch.limit || shareOf(ch) > 1 - LIMITS.often) && model.at - ch.movedAt <= LIMITS.stuck);
      const input = full.sort((a, b) => shareOf(b) - shareOf(a))[0];
      if (!input) continue;
      const out = (outputs.get(g.name) || []).sort((a, b) => shareOf(b) - shareOf(a))[0];
      if (out && (shareOf(out) >= LIMITS.often || shareOf(out) > shareOf(input) / 2)) continue;
      hints.push({ level: "bad", go: g.name, label: labelOf(model, g), input, in: waitsOf(input), out, outs: out && waitsOf(out) });
    }
    return hints;
  },
  text: ({ label, input, in: puts, out, outs }) => `${label} is the bottleneck: puts waited on its input ${input.label} ${inPictures(puts)}` +
    (out ? `, and on its output ${out.label} ${outs.k === 0 ? "in none" : `in ${outs.k} of ${outs.n}`}` : ""),
};

// Channels on which puts often wait, and whose takers are not known, or wait themselves.
const often = {
  kind: "often",
  isChecked: ({ model, lately, isSingle }) => lately.isEnough && isSingle
    && ![...model.chans.values()].some((ch) => ch.isPlain && ch.limit && shareOf(ch) >= LIMITS.often),
  find: ({ model, found }) => byPattern([...model.chans.values()]
    .filter((ch) => isCounted(ch) && ch.limit && isOften(ch) && ch.stage !== "held" && ch.stage !== "paused"
      && !found.some((one) => one.input === ch || one.kind === "waits" && one.channels.includes(ch)))
    .map((ch) => ({ level: "warn", ch, ms: shareOf(ch), puts: waitsOf(ch) }))),
  text: ({ label, puts, many }) => `puts waited on ${label} ${many > 1 ? "often: up to " : ""}${inPictures(puts)}`,
  calm: () => "a channel with a buffer on which puts waited in a quarter of the pictures",
};

// A put that has waited for long, or a channel on which puts waited in each picture for long.
const waits = {
  kind: "waits",
  isChecked: ({ model, found }) => !model.summary.more && !found.some(({ kind }) => kind === "stages"),
  find({ model }) {
    const found = [], hints = [], longest = new Map(); // by channel
    for (const go of model.gos.values()) {
      const ch = model.chans.get(go.chan), ms = model.waited(go);
      if (go.op !== "put" || ms < LIMITS.long) continue;
      if (ch && ch.n === 1) longest.set(ch.id, Math.max(ms, longest.get(ch.id) || 0));
      else hints.push({ level: "warn", how: "one", go: go.name, ms, label: ch ? ch.label : "", channels: [] });
    }
    for (const ch of model.chans.values()) {
      if (!isCounted(ch) || ch.stage === "held" || ch.stage === "paused") continue; // see `stages`
      const put = longest.get(ch.id), full = ch.fullSince ? model.at - ch.fullSince : 0, ms = put || full;
      if (ms < LIMITS.long) continue;
      const still = model.at - ch.movedAt;
      found.push({ ch, ms, still, how: put ? "put" : "full", level: still < LIMITS.long ? "warn" : "bad" });
    }
    const list = byPattern(found);
    for (const one of list) one.channels = found.filter(({ ch }) => ch === one.ch || ch.pattern === one.ch.pattern && !ch.isStage).map(({ ch }) => ch);
    return [...hints, ...list];
  },
  text(one) {
    const { how, go, ms, label, many, still } = one;
    if (how === "one") return `a put of ${go} has waited for ${duration(ms)}${label ? ` on ${label}` : ""}`;
    return (how === "put" ? `puts have waited on ${label} for ${upTo(one)}${duration(ms)}`
      : `${label} ${many === 1 ? "has" : "have"} been full in each picture for ${upTo(one)}${duration(ms)}`) +
      (still < LIMITS.long ? "" : `, and nothing has moved for ${upTo(one)}${duration(still)}`);
  },
  calm: () => `a put of a go block that has waited for ${duration(LIMITS.long)}`,
};

// Very many puts that wait at once, each for a short time.
const many = {
  kind: "many",
  isChecked: ({ model, lately }) => lately.isEnough && !model.summary.more_chans,
  find({ model, lately }) {
    if (!lately.isEnough) return [];
    return [...lately.most].map(([pattern, least]) => ({ pattern, least })).filter(({ least }) => least >= MANY).map(({ pattern, least }) => {
      const list = [...model.chans.values()].filter((ch) => ch.pattern === pattern);
      return { level: "warn", chan: list[0]?.id, pattern, least, n: lately.n };
    });
  },
  text: ({ pattern, least, n }) => `${least.toLocaleString("en")} or more puts waited on the channels ${pattern} in each of the last ${n} pictures`,
};

// ---- nobody is at the other end ----

const alone = {
  kind: "alone",
  isChecked: ({ model, isSingle }) => model.isWhole && isSingle,
  find({ model, groups, ends }) {
    const found = [], targets = new Set([...model.gos.values()].map((go) => go.target)), waiting = new Map();
    if (!model.isWhole) return found;
    for (const go of model.gos.values()) {
      if (go.op !== "take" && go.op !== "put") continue;
      const key = `${go.op} ${go.chan}`, one = waiting.get(key) || { ops: 0, ms: 0 };
      waiting.set(key, { ops: one.ops + go.n, ms: Math.max(one.ms, model.waited(go)) });
    }
    for (const ch of model.chans.values()) {
      if (!isCounted(ch) || ch.closed || ch.stage || ch.isStage) continue; // the flow takes care of its stages
      const { puts = new Set(), takes = new Set() } = ends.get(ch.id) || {};
      for (const [how, names] of [["take", puts], ["put", takes]]) {
        const { ops, ms } = waiting.get(`${how} ${ch.id}`) || { ms: 0 };
        if (ms < (names.size ? LIMITS.long : LIMITS.lonely) || [...names].some((name) => groups.has(name))) continue;
        if (how === "take" && (targets.has(ch.name) || targets.has("#" + ch.first))) continue;
        found.push({ level: "warn", ch, how, ms, ops, name: [...names][0] });
      }
    }
    return byPattern(found);
  },
  text(one) {
    const { how, name, ops, label, ms } = one, done = how === "take" ? "put" : "taken";
    return `${count(ops, how)} ${ops === 1 ? "has" : "have"} waited on ${label} for ${ops === 1 ? "" : "up to "}${duration(ms)}: ` +
      (name ? `${name} has ${done} there, and no go block has this name now` : `so far no go block has ${done} there`);
  },
  calm: () => `a put or take that has waited for ${duration(LIMITS.long)} for go blocks that have gone, or for ${duration(LIMITS.lonely)} where none has come`,
};

// The names that are connected with a name by who waits for whom. `needs`: name -> the names that it waits for.
function reached(needs, name) {
  const list = [name];
  for (const one of list) {
    for (const [other, its] of needs) if (!list.includes(other) && (its.has(one) || needs.get(one).has(other))) list.push(other);
  }
  return list;
}

// Go blocks that wait for each other: each waits on a channel, and only go blocks of this circle have used its other end.
const circle = {
  kind: "circle",
  isChecked: ({ model, isSingle }) => model.isWhole && isSingle,
  find({ model, groups, ends }) {
    if (!model.isWhole) return [];
    const stuck = new Map(); // name -> the names that it waits for
    for (const g of groups.values()) {
      const needs = new Set();
      const isStuck = g.rows.every((go) => {
        const ch = model.chans.get(go.chan);
        if (!ch || !isCounted(ch) || go.nchans !== 1 || (go.op !== "take" && go.op !== "put") || model.waited(go) < LIMITS.long) return false;
        const others = ends.get(ch.id)?.[go.op === "take" ? "puts" : "takes"] || new Set();
        for (const name of others) needs.add(name);
        return others.size > 0;
      });
      if (isStuck) stuck.set(g.name, needs);
    }
    for (let before = -1; stuck.size !== before;) {
      before = stuck.size;
      for (const [name, needs] of stuck) if ([...needs].some((other) => !stuck.has(other))) stuck.delete(name);
    }
    const hints = [];
    while (stuck.size) {
      const [name] = stuck.keys(), list = reached(stuck, name).map((one) => groups.get(one));
      for (const g of list) stuck.delete(g.name);
      hints.push({ level: "bad", go: list[0].name, list: list.map((g) => ({ label: labelOf(model, g), op: g.rows[0].op, on: model.chans.get(g.rows[0].chan).label })),
        ms: Math.min(...list.flatMap((g) => g.rows.map((go) => model.waited(go)))) });
    }
    return hints;
  },
  text: ({ list, ms }) => `${list.length === 1 ? `${list[0].label} waits for itself` : `${list.slice(0, NAMED).map((one) => one.label).join(", ")}` +
    `${list.length > NAMED ? ` and ${list.length - NAMED} more` : ""} wait for each other`} for ${duration(ms)}: ` +
    `${list.slice(0, NAMED).map(({ label, op, on }) => `${label} ${op === "take" ? "to take from" : "to put on"} ${on}`).join(", ")}`,
  calm: () => `go blocks that have waited for each other for ${duration(LIMITS.long)}`,
};

// A lock, or a pool of tokens, that others wait for: a channel with a buffer whose users both take from it and put on it, or of
// which nothing has been given back yet. `user` is the go block that has emptied, or filled, the buffer.
const lock = {
  kind: "lock",
  find({ model, ends }) {
    const hints = [], rows = [...model.gos.values()];
    if (!model.isWhole || rows.some((go) => go.n > 1)) return hints;
    for (const ch of model.chans.values()) {
      if (!isCounted(ch) || ch.closed || ch.stage || ch.isStage || !(ch.user >= 0)) continue;
      const how = ch.nputs ? "put" : "take", waiting = rows.filter((go) => go.op === how && go.chan === ch.id);
      const ms = Math.max(0, ...waiting.map((go) => model.waited(go))), holder = rows.find((go) => go.first === ch.user);
      const { puts = new Set(), takes = new Set() } = ends.get(ch.id) || {};
      const isLock = [...puts].some((name) => takes.has(name)) || ch.puts === ch.limit && (how === "take" || ch.takes === 0);
      if (!isLock || ms < LIMITS.long || waiting.includes(holder)) continue;
      hints.push({ level: "bad", chan: ch.id, how, ms, ops: waiting.length, label: ch.label,
        who: ch.user === 0 ? "the main program" : holder ? model.nameIn(holder.full) : `#${ch.user}`, does: this.does(model, holder, ch.user) });
    }
    return hints;
  },
  does(model, go, id) {
    if (!go) return id === 0 ? "" : ", and has ended";
    const ch = model.chans.get(go.chan), what = go.op ? `waits in ${go.op}${ch ? ` on ${ch.label}` : ""}` : `is ${go.state}`;
    return `, and ${what}${go.where ? ` at ${go.where}` : ""}`;
  },
  text: ({ how, ms, ops, label, who, does }) => `${count(ops, how)} ${ops === 1 ? "has" : "have"} waited on ${label} for ` +
    `${ops === 1 ? "" : "up to "}${duration(ms)}: ${who} ${how === "take" ? "has taken its last value" : "has filled it"}${does}`,
};

// ---- flows ----

const stages = {
  kind: "stages",
  isChecked: ({ model }) => model.flows !== null && model.flows.n > 0 && model.summary.now - model.flows.now < LIMITS.long && model.flows.n === model.flows.flows.length,
  find({ model }) {
    const hints = [];
    for (const [name, stage] of model.stages) {
      const state = model.stageState(stage), n = stage.chan ? stage.chan.nputs : 0, chan = stage.chan ? stage.chan.id : undefined;
      if (state === "held" || state === "paused" && n) {
        hints.push({ level: state === "held" ? "bad" : "warn", chan, name, state, error: state === "held" && stage.error, n });
      }
    }
    return hints;
  },
  text: ({ name, state, error, n }) => `${name} is ${state}${error ? `: ${error}` : ""}` +
    (n ? `; ${count(n, "put")} ${n === 1 ? "waits" : "wait"} there` : ""),
  calm: ({ model }) => `a stage of a flow that was held, or paused while puts wait, ${duration(model.summary.now - model.flows.now)} before`,
};

// ---- go blocks ----

const leaks = {
  kind: "leaks",
  isChecked: ({ model }) => model.summary.leaks >= 0,
  find: ({ model }) => (model.summary.leaks > 0 ? [{ level: "warn", view: "leaks", n: model.summary.leaks }] : []),
  text: ({ n }) => `${count(n, "go block")} ${n === 1 ? "was" : "were"} collected while ${n === 1 ? "it" : "they"} waited for what nothing could bring any more: ` +
    "see leaks",
  calm: () => "a leak",
};

const crowd = {
  kind: "crowd",
  find: ({ groups }) => [...groups.values()].filter((g) => g.n > MOST_GOS).map((g) => ({ level: "warn", go: g.name, n: g.n })),
  text: ({ go, n }) => `${count(n, "go block")} with the name ${go}`,
};

// ---- the table ----

// A kind of hint: { kind, find(view), text(facts), calm(view), isChecked(view) }. `find` returns a list of facts, each of which
// makes one hint: { level: "bad" | "warn", chan, go or view: what a click shows, ... }. `text` returns its sentence. `calm` returns
// what the page lists if there was nothing to find, provided that isChecked(view): everything could be looked at. Hints are shown
// in the order of this table; view.found has the facts of the kinds before.
export const HINTS = [computes, stages, circle, lock, bottleneck, waits, often, many, alone, leaks, turns, crowd, busy];

function look(model, groups) {
  const view = { model, groups, ends: model.ends(), lately: model.lately, found: [],
    isSingle: ![...model.chans.values()].some((ch) => ch.isPlain && ch.n > 1) };
  for (const row of model.at ? HINTS : [computes]) {
    for (const facts of row.find(view)) view.found.push({ ...facts, kind: row.kind, text: row.text(facts) });
  }
  return view;
}

// The hints of the last picture: [{ kind, level, text, ... }]
export const hintsOf = (model, groups) => look(model, groups).found;

// What the page says when there is no hint: { head, list, takes }. `list`: what was looked for and not found. `takes`: how many
// takes wait; the page cannot know whether that is right.
export function calmOf(model, groups) {
  if (!model.at) return { head: model.reading, list: [], takes: "" };
  const view = look(model, groups), { lately, found } = view;
  if (!lately.isEnough) return { head: `Too few pictures for hints: ${lately.n}.`, list: [], takes: "" };
  const list = HINTS.filter((row) => row.calm && row.isChecked(view) && !found.some(({ kind }) => kind === row.kind)).map((row) => row.calm(view));
  const gos = [...model.gos.values()].filter((go) => go.op === "take" && model.waited(go) >= LIMITS.long);
  const longest = gos.reduce((a, b) => (!a || model.waited(b) > model.waited(a) ? b : a), null);
  const n = gos.reduce((sum, go) => sum + go.n, 0), ch = longest && model.chans.get(longest.chan);
  return { head: `Not found in the last ${count(lately.n, "picture")} (${duration(lately.span)}):`, list, takes: n === 0 ? ""
    : `${count(n, "take")} ${n === 1 ? "has" : "have"} waited for ${duration(LIMITS.long)} or longer, ${n === 1 ? "" : "the longest "}` +
      `${ch ? `on ${ch.label} ` : ""}for ${duration(model.waited(longest))}.` };
}
