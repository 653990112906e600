// sentences.mjs: whether what the monitor's page says is true: each sentence is compared with what tests/browser/random.lua
// has written of the same moments, from rn.ps, rn.metrics and rn.leaks.
import { readFileSync } from "node:fs";
import { patternOf } from "./page/alike.js";
import { HINTS } from "./page/hints.js";
import { LIMITS } from "./page/lately.js";

const SLACK = 30; // ms between the picture and what is written of it
const LONGEST = /(\d+ ms|[\d.]+ s|\d+ min \d+ s)/.source;

// "1.3 s" -> [its ms, how much they are rounded]
function read(text) {
  const [, min, s, ms] = text.match(/^(?:(\d+) min )?(?:([\d.]+) s)?(?:(\d+) ms)?$/);
  return [(Number(min) || 0) * 60000 + (Number(s) || 0) * 1000 + (Number(ms) || 0), min ? 1000 : s ? 51 : 1];
}

const isAbout = (text, ms) => { const [said, rounded] = read(text); return Math.abs(said - ms) <= rounded + SLACK; };
const number = (text) => Number(text.replace(/,/g, ""));
const waited = (gos, op) => gos.filter((go) => go.op === op && go.waited !== undefined);
const longest = (list) => Math.max(0, ...list.map((go) => go.waited));
// Names as the page shows them: "work # × 3" stands for names that differ in digits.
const isNamed = (label, name) => name !== undefined && (label.replace(/ × [\d.kMG]+$/, "") === name || label.replace(/ × [\d.kMG]+$/, "") === patternOf(name));

const list = (value) => (Array.isArray(value) ? value : []); // Lua has one empty table only
const whole = (t) => ({ ...t, gos: list(t.gos), circles: list(t.circles),
  topology: list(t.topology).map((one) => ({ ...one, takes: list(one.takes), puts: list(one.puts) })) });

// What is known of a program: pictures that a page has got, each with its truth.
export class Judge {
  // path: of the program's file
  constructor(path) { Object.assign(this, { path, truths: [], pictures: [], later: [], checked: new Map() }); }

  load() {
    const lines = readFileSync(this.path, "utf8").split("\n");
    for (const line of lines.slice(this.truths.length, -1)) this.truths.push(whole(JSON.parse(line)));
  }

  // A picture that a page has got, as its last message. Returns whether its truth is known.
  picture(message) {
    this.load();
    const found = this.truths.filter((t) => Math.floor(t.before) <= message.now && message.now <= t.after), truth = found[found.length - 1];
    if (!truth) return false;
    if (found.length > 1) truth.is_partial = true; // two pictures in a millisecond
    const last = this.pictures[this.pictures.length - 1], from = last ? this.truths.indexOf(last.truth) + 1 : this.truths.length;
    const turn = Math.max(0, ...this.truths.slice(from, this.truths.indexOf(truth) + 1).map((t) => t.turn)); // of those that were skipped, too
    this.pictures.push({ at: message.at, truth, turn, isFirst: !last });
    for (const { ms, text, say } of this.later.splice(0)) if (turn < ms - SLACK) say(`${text}: the longest turn was ${turn}`);
    return true;
  }

  // Whether each of the last pictures shows one moment: only then they can be compared.
  get isExact() { return this.window.every(({ truth }) => !truth.is_partial); }

  get now() { return this.pictures[this.pictures.length - 1]; }
  get window() { return this.pictures.filter(({ at }) => this.now.at - at <= LIMITS.lately); }
  // The truths of the last pictures, for so long.
  since(ms) { return this.pictures.filter(({ at }) => this.now.at - at <= ms + 1); }

  puts(name, { truth }) {
    const ch = truth.channels[name];
    return ch ? ch.puts_waiting : undefined;
  }
  // In how many of the last pictures puts waited on a channel.
  waits(label) {
    const there = this.window.filter((p) => this.puts(label, p) !== undefined);
    return { k: there.filter((p) => this.puts(label, p) > 0).length, n: there.length };
  }
  // "in 3 of the last 20 pictures"
  agrees(label, k, n) {
    const real = this.waits(label);
    return real.n === Number(n) && real.k === (k === "each" ? real.n : k === "none" ? 0 : Number(k)) ? null : `${label}: really ${real.k} of ${real.n}`;
  }
  moved(label, ms) {
    const list = this.since(ms).map(({ truth }) => truth.channels[label]).filter(Boolean).map((ch) => ch.puts);
    return list.length > 0 && Math.min(...list) !== Math.max(...list);
  }
  users(label, side) { return this.now.truth.topology.filter((one) => one[side].some((name) => isNamed(label, name))).map(({ name }) => name); }
  isThere(name) { return this.now.truth.gos.some((go) => isNamed(name, go.name)) || name === "main"; }

  // What is wrong about a sentence; null: nothing. `say`: gets what turns out to be wrong later.
  judge(kind, text, say) {
    const row = SENTENCES[kind];
    if (!row) return `no row for the kind ${kind}`;
    for (const [pattern, check] of row) {
      const match = text.match(pattern);
      if (!match) continue;
      this.checked.set(kind, (this.checked.get(kind) || 0) + 1);
      return check(this, match.slice(1), (why) => say(`${text}: ${why}`));
    }
    return `no pattern of ${kind} is for: ${text}`;
  }
}

const later = (judge, [, time], say) => { judge.later.push({ ms: read(time)[0] - read(time)[1], text: "", say }); return null; };
const n = (list) => list.length;

// By kind: [[a pattern, check(judge, its captures) -> what is wrong, or null]]. HINTS is the other side of it.
const SENTENCES = {
  computes: [
    [new RegExp(`^(.*) has computed for ${LONGEST}, and timers wait(?:; .* has run meanwhile)?$`), later],
  ],
  turns: [[new RegExp(`^timers and other go blocks had to wait for up to ${LONGEST}, because Lua computed, before (\\d+) of the last (\\d+) pictures(?:: (.*) ran then)?$`),
    (j, [time, k, of, ran]) => {
      const turns = j.window.filter((p) => !p.isFirst && Math.floor(p.turn) >= LIMITS.turn);
      if (n(turns) !== Number(k) || n(j.window) !== Number(of)) return `really ${n(turns)} of ${n(j.window)}`;
      if (!isAbout(time, Math.max(...turns.map((p) => p.turn)))) return `really ${Math.max(...turns.map((p) => p.turn))}`;
      return !ran || ran.split(", ").every((name) => / hog$/.test(name)) ? null : "no hog";
    }]],
  bottleneck: [[/^(.+?) is the bottleneck: puts waited on its input (.+?) in (each|\d+)(?: of)?(?: the)? last (\d+) pictures(?:, and on its output (.+) in (none|(\d+) of (\d+)))?$/,
    (j, [name, input, k, of, output, outs, ko, no]) => {
      if (j.now.truth.stages[name.replace(/ × .*/, "")]) return name.replace(/ × .*/, "") === input ? j.agrees(input, k, of) : "it is another stage";
      if (!j.users(input, "takes").some((one) => isNamed(name, one))) return `${name} does not take from ${input}`;
      if (output && !j.users(output, "puts").some((one) => isNamed(name, one))) return `${name} does not put on ${output}`;
      if (!j.isThere(name)) return `${name} is not there`;
      const real = j.waits(input), there = output ? j.waits(output) : { k: 0, n: 1 };
      if (there.k / there.n >= real.k / real.n) return "its output is as full";
      return j.agrees(input, k, of) || (output && outs !== "none" ? j.agrees(output, ko, no) : output && there.k ? `its output: ${there.k}` : null);
    }]],
  often: [[/^puts waited on (.+?) (?:often: up to )?in (each|\d+)(?: of)?(?: the)? last (\d+) pictures$/,
    (j, [label, k, of]) => (/ × /.test(label) ? null : j.agrees(label, k, of))]],
  waits: [
    [new RegExp(`^puts have waited on (.+?) for (up to )?${LONGEST}(?:, and nothing has moved for (?:up to )?${LONGEST})?$`), (j, [label, , time, still]) => {
      const real = longest(waited(j.now.truth.gos, "put").filter((go) => isNamed(label, go.chan)));
      if (!isAbout(time, real)) return `really ${real}`;
      return still && j.moved(label, read(still)[0] - read(still)[1] - SLACK) ? "something has moved" : null;
    }],
    [new RegExp(`^(.+?) (?:has|have) been full in each picture for (up to )?${LONGEST}(?:, and nothing has moved for (?:up to )?${LONGEST})?$`), (j, [label, , time]) => {
      const alike = Object.keys(j.now.truth.channels).filter((name) => isNamed(label, name)), pictures = j.since(read(time)[0] - read(time)[1]);
      return alike.some((name) => pictures.every((p) => j.puts(name, p) > 0)) ? null : "there was a picture without";
    }],
    [new RegExp(`^a put of (.+?) has waited for ${LONGEST}(?: on .*)?$`), (j, [name, time]) => {
      const real = longest(waited(j.now.truth.gos, "put").filter((go) => isNamed(name, go.name)));
      return isAbout(time, real) ? null : `really ${real}`;
    }],
  ],
  many: [[/^([\d,]+) or more puts waited on the channels (.+?) in each of the last (\d+) pictures$/, (j, [least, label, of]) => {
    if (n(j.window) !== Number(of)) return `really ${n(j.window)} pictures`;
    const real = Math.min(...j.window.map((p) => j.puts(label, p) ?? Infinity)); // channels without a name have another one in rn.metrics
    return real >= number(least) ? null : `really ${real}`;
  }]],
  alone: [[new RegExp(`^(\\d+) (take|put)s? (?:has|have) waited on (.+?) for (?:up to )?${LONGEST}: (?:(.+) has (?:put|taken) there, and no go block has this name now|so far no go block has (?:put|taken) there)$`),
    (j, [ops, op, label, time, name]) => {
      const gos = waited(j.now.truth.gos, op).filter((go) => isNamed(label, go.chan)), side = op === "take" ? "puts" : "takes";
      if (n(gos) !== Number(ops)) return `really ${n(gos)}`;
      if (!isAbout(time, longest(gos))) return `really for ${longest(gos)}`;
      if (name) return j.isThere(name) ? `${name} is there` : j.users(label, side).some((one) => isNamed(name, one)) ? null : `${name} never did`;
      const { puts, takes } = j.now.truth.channels[label] || {};
      return (side === "puts" ? puts : takes) ? `${puts} puts, ${takes} takes so far` : null;
    }]],
  circle: [[new RegExp(`^(?:(.+) wait for each other|(.+) waits for itself) for ${LONGEST}: (.*)$`), (j, [names, name, time, does]) => {
    const list = (names || name).split(", "), circle = j.now.truth.circles.find((one) => list.every((member) => one.includes(member)));
    if (!circle) return "these cannot";
    const gos = j.now.truth.gos.filter((go) => list.includes(go.name));
    if (!isAbout(time, Math.min(...gos.map((go) => go.waited)))) return `really ${gos.map((go) => go.waited)}`;
    return gos.every((go) => does.includes(`${go.name} ${go.op === "take" ? "to take from" : "to put on"} ${go.chan}`)) ? null : "they wait otherwise";
  }]],
  lock: [[new RegExp(`^(\\d+) (take|put)s? (?:has|have) waited on (.+?) for (?:up to )?${LONGEST}: (.+) has (?:taken its last value|filled it)(?:, and .*)?$`),
    (j, [ops, op, label, time, holder]) => {
      const gos = waited(j.now.truth.gos, op).filter((go) => go.chan === label);
      if (n(gos) !== Number(ops)) return `really ${n(gos)}`;
      if (!isAbout(time, longest(gos))) return `really for ${longest(gos)}`;
      return gos.every((go) => go.holder === holder) ? null : `really ${gos.map((go) => go.holder)}`;
    }]],
  stages: [[/^(.+?)\.(\w+) is (held|paused)(?:: .*?)?(?:; (\d+) puts? waits? there)?$/s, (j, [flow, stage, state, puts]) => {
    const around = j.pictures.slice(-8).map(({ truth }) => truth.stages[`${flow}.${stage}`]);
    if (!around.includes(state) && around.some(Boolean)) return `really ${around}`;
    const real = j.now.truth.channels[`${flow}.${stage}`]?.puts_waiting;
    return !puts || real >= Number(puts) ? null : `really ${real} puts`;
  }]],
  leaks: [[/^([\d,]+) go blocks? (?:was|were) collected while (?:it|they) waited for what nothing could bring any more: see leaks$/,
    (j, [count]) => (number(count) === j.now.truth.leaks ? null : `really ${j.now.truth.leaks}`)]],
  crowd: [[/^([\d,]+) go blocks with the name (.+)$/, (j, [count, name]) => {
    const real = n(j.now.truth.gos.filter((go) => isNamed(name, go.name)));
    return real === number(count) ? null : `really ${real}`;
  }]],
  busy: [[/^Lua computes all the time: its go blocks share one thread \(rn.threads uses more\)$/, (j) => {
    const [first] = j.window, waits = j.now.truth.waited - first.truth.waited, passed = j.now.at - first.at;
    return waits < passed * 0.1 ? null : `it waited ${waits} of ${passed} ms`;
  }]],
};

// The parts of the calm sentence.
const CALM = [
  [new RegExp(`^a stage of a flow that was held, or paused while puts wait, ${LONGEST} before$`), (j, [time]) => {
    const at = j.now.truth.before - read(time)[0], isHeld = (t) => t && Object.values(t.stages).includes("held");
    return isHeld(j.truths.findLast((t) => t.after < at - SLACK)) && isHeld(j.truths.find((t) => t.before > at + SLACK)) ? "one was held" : null;
  }],
  [new RegExp(`^go blocks that have waited for each other for ${LONGEST}$`), (j, [time]) => {
    const stuck = j.now.truth.circles.filter((names) => names.every((name) => {
      const go = j.now.truth.gos.find((one) => one.name === name);
      return go && (go.op === "take" || go.op === "put") && go.waited > read(time)[0] + SLACK;
    }));
    // one that has never used a channel is not known to
    return stuck.some((names) => names.every((name) => j.now.truth.topology.some((one) => one.name === name))
      && j.now.truth.gos.some((go) => names.includes(go.name) && j.now.truth.channels[go.chan]?.puts > 0 && j.now.truth.channels[go.chan]?.takes > 0
        && names.every((name) => { const g = j.now.truth.gos.find((one) => one.name === name); return j.now.truth.channels[g.chan]?.puts > 0; }))) ? "there is a circle" : null;
  }],
  [new RegExp(`^a put of a go block that has waited for ${LONGEST}$`), (j, [time]) => {
    const real = longest(waited(j.now.truth.gos, "put"));
    return real <= read(time)[0] + SLACK ? null : `one has for ${real}`;
  }],
  [/^a channel with a buffer on which puts waited in a quarter of the pictures$/, (j) => {
    for (const [name, ch] of Object.entries(j.now.truth.channels)) {
      if (!(ch.capacity > 0)) continue;
      const real = j.waits(name);
      if (real.n >= LIMITS.pictures && real.k / real.n >= LIMITS.often) return `${name}: ${real.k} of ${real.n}`;
    }
    return null;
  }],
  [new RegExp(`^a put or take that has waited for ${LONGEST} for go blocks that have gone, or for ${LONGEST} where none has come$`), (j, [gone, never]) => {
    for (const go of j.now.truth.gos) {
      const ch = j.now.truth.channels[go.chan], side = go.op === "take" ? "puts" : "takes";
      if ((go.op !== "take" && go.op !== "put") || !ch || j.now.truth.stages[go.chan] || j.users(go.chan, side).some((name) => j.isThere(name))) continue;
      if (go.waited > read(ch[side] ? gone : never)[0] + SLACK) return `${go.name} waits to ${go.op} on ${go.chan} for ${go.waited}`;
    }
    return null;
  }],
  [/^a leak$/, (j) => (j.now.truth.leaks === 0 ? null : `${j.now.truth.leaks} leaks`)],
  [/^(\d+) ms in which Lua computed without a look at its timers$/, (j, [ms]) => {
    const real = Math.max(0, ...j.window.filter((p) => !p.isFirst).map((p) => p.turn));
    return real < Number(ms) + 1 ? null : `for ${real}`;
  }],
];

// What is wrong about the calm sentence, as calmOf has it.
Judge.prototype.judgeCalm = function ({ head, list, takes }) {
  const problems = [], early = head.match(/^Too few pictures for hints: (\d+)\.$/);
  if (early) return Number(early[1]) === n(this.window) && Number(early[1]) < LIMITS.pictures ? [] : [head];
  const match = head.match(new RegExp(`^Not found in the last (\\d+) pictures \\(${LONGEST}\\):$`));
  if (!match) return [`no pattern for: ${head}`];
  if (Number(match[1]) !== n(this.window)) problems.push(`really ${n(this.window)} pictures: ${head}`);
  for (const part of list) {
    const [found, check] = CALM.map(([pattern, f]) => [part.match(pattern), f]).find(([m]) => m) || [];
    const wrong = found ? check(this, found.slice(1)) : "there is no pattern";
    if (wrong) problems.push(`${part}: ${wrong}`);
    this.checked.set("calm", (this.checked.get("calm") || 0) + 1);
  }
  if (!takes) return problems;
  const waits = takes.match(new RegExp(`^([\\d,]+) takes? (?:has|have) waited for ${LONGEST} or longer, (?:the longest )?(?:on (.+) )?for ${LONGEST}\\.$`));
  if (!waits) return [...problems, `no pattern for: ${takes}`];
  const [, count, least, on, time] = waits, all = waited(this.now.truth.gos, "take"), [ms] = read(least);
  const surely = n(all.filter((go) => go.waited >= ms + SLACK)), maybe = n(all.filter((go) => go.waited >= ms - SLACK));
  // The main program's take is none of rn.ps's.
  if (number(count) < surely || number(count) > maybe + 1) problems.push(`really ${surely} takes: ${takes}`);
  if (number(count) !== maybe) return problems;
  if (!isAbout(time, longest(all))) problems.push(`really for ${longest(all)}: ${takes}`);
  if (on && !all.some((go) => isNamed(on, go.chan))) problems.push(`no take waits on ${on}`);
  return problems;
};

// What is wrong about the head: "5 go blocks · 3 channels · 0.4 MB of Lua memory"
Judge.prototype.judgeHead = function (text) {
  const [, gos] = text.match(/^([\d,]+) go blocks? · /) || [], real = n(this.now.truth.gos);
  return number(gos || "-1") === real ? [] : [`really ${real} go blocks: ${text}`];
};

// What is wrong about what a box of the graph says that go blocks do: "3 wait to put, 1 asleep".
Judge.prototype.judgeBox = function (label, text) {
  const gos = this.now.truth.gos.filter((go) => isNamed(label, go.name)), of = (...does) => n(gos.filter((go) => does.includes(go.op || go.state)));
  if (/ at .*:\d| alike$/.test(label) || label === "main" || / \u00d7 /.test(label)) return [];
  const real = { put: of("put"), take: of("take"), alts: of("alts"), asleep: of("sleeping"), ready: of("ready", "running") };
  const words = [[/^none now$/, () => n(gos) === 0], [/^waits to put$/, () => real.put === 1 && n(gos) === 1], [/^waits to take$/, () => real.take === 1 && n(gos) === 1],
    [/^waits in alts$/, () => real.alts === 1], [/^sleeps$/, () => real.asleep === 1], [/^is ready$/, () => real.ready === 1], [/^is idle$/, () => of("idle") === 1],
    [/^(\d+) wait to put$/, (k) => real.put === k], [/^(\d+) (?:wait )?to take$/, (k) => real.take === k], [/^(\d+) in alts$/, (k) => real.alts === k],
    [/^(\d+) idle$/, (k) => of("idle") === k], [/^(\d+) asleep$/, (k) => real.asleep === k], [/^(\d+) ready$/, (k) => real.ready === k]];
  return text.split(", ").filter((part) => {
    const [match, holds] = words.map(([pattern, f]) => [part.match(pattern), f]).find(([m]) => m) || [];
    return !match || !holds(Number(match[1]));
  }).map((part) => `${label}: ${part}, but really ${JSON.stringify(real)} of ${n(gos)}`);
};

// Each kind of hint has a row here, and none is without.
export const kindsWithout = () => HINTS.map(({ kind }) => kind).filter((kind) => !SENTENCES[kind])
  .concat(Object.keys(SENTENCES).filter((kind) => !HINTS.some((row) => row.kind === kind)));
