// model.js: the page's model of the program: the server's data, rates and history.
import { patternOf, shownNames, stageName } from "./alike.js";
import { Lately, shareOf } from "./lately.js";

// Numbers of csrc/core/state.h, base/buffer.h and tracing/snapshot.h.
export const STATES = ["running", "parked", "sleeping", "ready", "dead", "new"];
export const OPS = ["", "take", "put", "alts"];
const KINDS = ["unbuffered", "fixed", "dropping", "sliding", "promise", "policy", "shared"];
const CLOSED = 1, RESULT = 2, TIMEOUT = 4, PLACE = 16, DONE = 32;
const CHAN = 0, FILL = 1, GO = 2, EDGE = 3;

const SAMPLES = 480; // of history: four minutes
const LONGEST = 240, SHORTEST = 2; // seconds that a chart spans
const LEAST = 250; // ms that must be between two pictures from which a rate is computed: a command makes one come early

// ---- texts for people ----

export function short(n) {
  if (n >= 1e9) return (n / 1e9).toPrecision(3) + "G";
  if (n >= 1e6) return (n / 1e6).toPrecision(3) + "M";
  if (n >= 1e4) return (n / 1e3).toPrecision(3) + "k";
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toPrecision(2);
}

// A rate; null: not known yet.
export const rateText = (rate) => (rate === null || rate === undefined ? "?" : short(rate));

export function duration(ms) {
  if (ms < 1000) return Math.max(0, Math.round(ms)) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  if (ms < 3600000) return Math.floor(ms / 60000) + " min " + Math.floor(ms / 1000 % 60) + " s";
  return Math.floor(ms / 3600000) + " h " + Math.floor(ms / 60000 % 60) + " min";
}

// The range of a chart whose samples are at `times`, in seconds: the life of the program, or its last four minutes.
export function span(times) {
  const to = times.length ? times[times.length - 1] : 0, life = times.length ? to - times[0] : 0;
  return [to - Math.min(Math.max(life, SHORTEST), LONGEST), to];
}

export const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

// The name of a go block of the library ends with the channel that it feeds, as "pipe at job.lua:2 -> chan: #7". This
// removes it, so that go blocks that the same line has started have the same name.
function split(name) {
  const [, base, target] = name.match(/^(.* at .*) -> chan: (.*)$/s) || [0, name, null];
  return { name: target && !/^#\d*$/.test(target) ? name : base, target };
}

// ---- states ----

// The state of a channel, of `n` channels that are shown as one, or of a stage of a flow. The graph, the tables, the flows
// and the hints all have it from here. `stage`: what the flow says of the stage behind the channel, if there is one.
export function stateOf({ stage, n = 1, closed, nputs, count, limit, rate }) {
  if (stage && stage !== "running") return stage; // held, paused, draining, ended, new
  if (nputs >= n) return "full";
  if (closed) return "closed";
  if (limit && count >= limit) return "full";
  if (rate === null) return "unknown"; // there is one picture only
  return rate > 0 ? "flowing" : "idle";
}

// ---- a channel ----

class Chan {
  constructor(id) {
    Object.assign(this, { id, name: "", kind: 0, limit: 0, flags: 0, puts: 0, takes: 0, count: 0, nputs: 0, ntakes: 0, user: -1 });
    Object.assign(this, { n: 1, first: id }); // the number of channels, and the first one
    Object.assign(this, { rate: null, before: null, last: null, fullSince: 0, movedAt: 0, rates: [], fills: [], times: [] });
    this.recent = []; // whether puts waited in the last pictures (lately.js)
    this.stage = undefined; // the state of the stage of a flow whose input it is
    this.isStage = false; // its name is that of a stage
  }

  // The common name of channels that are shown as one.
  get pattern() { return this.flags & PLACE ? this.name.split("/").pop() : this.isStage ? this.name : patternOf(this.single); }
  get label() { return this.n > 1 ? `${this.pattern} × ${short(this.n)}` : this.single; }
  get single() {
    if (this.flags & PLACE) return `${this.name.split("/").pop()} #${this.first}`;
    if (this.name) return this.name;
    return (this.flags & RESULT ? "result #" : this.flags & TIMEOUT ? "timeout #" : this.flags & DONE ? "done #" : "#") + this.first;
  }
  // The same for channels that may share a box of the graph.
  get likeness() { return this.n > 1 ? `row ${this.id}` : `${this.pattern} ${this.kind} ${this.limit} ${this.isPlain}`; }
  // A short name, for the graph.
  get brief() { return this.flags & PLACE ? this.pattern : this.single; }
  get kindName() { return KINDS[this.kind] + (this.limit && this.n === 1 ? ` (${this.limit})` : ""); }
  get closed() { return (this.flags & CLOSED) !== 0; }
  get isPlain() { return !(this.flags & (RESULT | TIMEOUT | DONE)); }
  get state() { return stateOf(this); }
  get waits() { return shareOf(this); } // how often puts have waited lately: 0 to 1
  get fill() { return this.limit ? Math.min(1, this.count / this.limit) : this.nputs ? 1 : 0; }
}

// ---- flows ----

// An answer of the monitor: { now, n, flows }, as lua/runnel/flow/flow_view.lua writes it.
function parseFlows([first, ...texts]) {
  const [now, n] = first.split("\t").map(Number);
  const flows = texts.map((text) => {
    const [head, ...rows] = text.split("\n").map((line) => line.split("\t"));
    return { id: head[0], state: head[1], name: head[2], stages: rows.map((c, i) => ({
      id: `${head[0]}.${i + 1}`, name: c[0], state: c[1], busy: Number(c[2]), n: c[3], queue: Number(c[4]), room: Number(c[5]),
      taken: Number(c[6]), errors: Number(c[7]), longest: Number(c[8]), doing: c[9], where: c[10], error: c[11], to: c[12] })) };
  });
  return { now, n, flows };
}

// ---- the model ----

// The server sends a picture in one message or, if it is large, in several, all but the last with `cut`. The model shows
// whole pictures only: until the next one is complete, it shows the last.
export class Model {
  constructor() {
    this.called = new Map(); // name -> what to call it instead: filled by the playground, which has the text of the program
    this.begin();
  }

  begin() {
    this.status = "connecting"; // or "live", "lost", "ended"
    this.hello = null;
    this.summary = {}; // the last message
    this.parts = []; // messages of a picture that is not complete
    this.history = { t: [], rate: [], busy: [], gos: [], memory: [] };
    this.at = 0; // when the picture was taken, in ms of the server's clock; 0: there is none yet
    this.rate = null; // values put per second; null: not known yet
    this.base = null; // what the rates count from: { at, puts }
    this.flows = null;
    this.why = ""; // what has ended the program
    this.shown_at = this.ended_at = 0; // when the last picture came, and when the connection ended, by Date.now()
    this.lately = new Lately();
    this.shape = ""; // what `shown` was made for
    this.shown = new Map(); // what go blocks are shown as, by their names
    this.stages = new Map(); // by their names, which are those of their channels, too
    this.inputs = new Set(); // the names of channels that are the inputs of stages
    this.forget();
  }

  // Takes the end of the connection: "ended", or "lost" if the page tries to connect again.
  end(status, why) {
    if (this.status === "ended") return;
    if (this.status === "live") this.ended_at = Date.now();
    this.status = status;
    this.why = why || this.why;
  }

  // Whether a button that does something to the program would do it.
  get canControl() { return this.status === "live" && this.hello?.control === true; }

  // What the page says in place of what it has asked for.
  get looking() { return this.status === "live" ? "looking" : "it was not asked for before the connection ended"; }

  // What the page shows when there will be no more pictures.
  get last() {
    return this.at ? `this is the last picture, taken ${duration(this.ended_at - this.shown_at)} before` : "there was no picture before";
  }

  forget() {
    this.texts = new Map();
    this.chans = new Map();
    this.gos = new Map();
    this.edges = new Map();
  }

  // Takes a message of the server (csrc/monitor/feed.h). Returns the results of commands in it.
  apply(message) {
    if (message.hello) this.hello = message.hello;
    const last = this.summary;
    this.summary = message;
    if (message.reset) {
      this.parts = [];
      this.lately = new Lately(); // of another connection, or too much is new
    }
    this.parts.push(message);
    this.lately.turn(message);
    let isNew = false;
    if (message.at !== undefined && !message.cut) {
      isNew = this.at !== message.at;
      this.show(message);
      if (isNew) this.lately.add(message, this.chans.values());
    }
    if (last.t && (isNew || message.busy >= 100) && message.t - last.t > 200) this.sample(message, last, isNew);
    return message.r;
  }

  // What of the first picture has come; "" if all has.
  get reading() {
    if (this.at) return "";
    if (this.status === "ended" || this.status === "lost") return "there was no picture before the end";
    if (this.summary.busy >= 100) return "waiting for the first picture: it is taken as soon as Lua does not compute";
    const { gos } = this.summary;
    let n = 0;
    for (const part of this.parts) for (const row of part.u) if (row[0] === GO) n += row[9];
    if (gos === undefined) return "the first picture is being taken";
    return n < gos ? `reading ${n.toLocaleString("en")} of ${count(gos, "go block")}` : "reading what the go blocks use";
  }

  // Whether all edges are known, and all go blocks have a row.
  get isWhole() { return this.at > 0 && !this.summary.more && !this.summary.more_edges && !this.summary.more_chans; }

  show(message) {
    for (const part of this.parts) {
      if (part.reset) this.forget();
      for (const [number, text] of part.n) this.texts.set(number, text);
      for (const row of part.u) this.update(row);
      for (const [kind, id] of part.d || []) this.remove(kind, id);
    }
    this.parts = [];
    this.shown_at = Date.now();
    const isFirst = this.at === 0;
    this.at = message.at;
    this.foldNames();
    this.rateChans(message, isFirst);
    this.setStages();
  }

  update(row) {
    const [kind, id] = row;
    if (kind === CHAN || kind === FILL) {
      let ch = this.chans.get(id);
      if (!ch) this.chans.set(id, ch = new Chan(id));
      if (kind === CHAN) [, , ch.name, ch.kind, ch.limit, ch.flags, ch.n, ch.first] = [0, 0, this.texts.get(row[2]), ...row.slice(3)];
      else [, , ch.puts, ch.takes, ch.count, ch.nputs, ch.ntakes, ch.user] = row;
    } else if (kind === GO) {
      const [, , name, where, state, op, chan, nchans, since, n, first] = row, { name: full, target } = this.nameOf(name);
      this.gos.set(id, { id, full, target, where: this.texts.get(where),
        state: STATES[state] === "parked" && !op ? "idle" : STATES[state], op: OPS[op], chan, nchans, since, n, first });
    } else if (kind === EDGE) {
      const [, , name, chan, isPut, total] = row;
      this.edges.set(id, { id, full: this.nameOf(name).name, chan, isPut: isPut === 1, total });
    }
  }

  // The name of go blocks with this number among the texts of the messages.
  nameOf(number) {
    const text = this.texts.get(number);
    return split(this.called.get(text) ?? text);
  }

  remove(kind, id) {
    if (kind === CHAN || kind === FILL) this.chans.delete(id);
    else if (kind === GO) this.gos.delete(id);
    else this.edges.delete(id);
  }

  foldNames() {
    const all = [...this.gos.values(), ...this.edges.values()], names = new Set(all.map((one) => one.full));
    const stages = new Set([...names].map(stageName));
    for (const ch of this.chans.values()) ch.isStage = stages.has(ch.name);
    this.inputs = new Set([...this.chans.values()].filter((ch) => ch.isStage).map((ch) => ch.name));
    const edges = [...this.edges.values()].filter((e) => this.chans.has(e.chan));
    const shape = [...names, "", ...edges.map((e) => `${e.full} ${e.chan} ${e.isPut}`)].join("\n");
    if (shape !== this.shape) {
      this.shape = shape;
      this.shown = shownNames(names, edges, (id) => this.chans.get(id).likeness);
    }
    for (const one of all) one.name = this.shown.get(one.full);
  }

  // Rates between pictures. The counters of all channels are those of the time of the picture.
  rateChans({ at, puts, more_chans: more }, isFirst) {
    const passed = this.base ? at - this.base.at : 0, isDue = isFirst || passed >= LEAST;
    for (const ch of this.chans.values()) {
      if (ch.puts !== ch.last) ch.movedAt = at;
      ch.last = ch.puts;
      ch.fullSince = ch.nputs ? ch.fullSince || at : 0;
      if (!isDue) continue;
      const before = ch.before ?? (isFirst || more || ch.n > 1 ? ch.puts : 0); // of a new channel all puts are new
      ch.rate = passed ? Math.max(0, ch.puts - before) * 1000 / passed : null;
      ch.before = ch.puts;
    }
    if (!isDue) return;
    this.rate = passed ? (puts - this.base.puts) * 1000 / passed : null;
    this.base = { at, puts };
  }

  sample(message, last, isNew) {
    const h = this.history, passed = message.t - last.t;
    const busy = message.busy >= 100 ? 1 : Math.min(1, Math.max(0, 1 - (message.waited - last.waited) / passed));
    const add = (list, value) => { list.push(value); if (list.length > SAMPLES) list.shift(); };
    add(h.t, Date.now() / 1000);
    add(h.rate, isNew ? this.rate : null);
    add(h.busy, busy * 100);
    add(h.gos, message.gos ?? null);
    add(h.memory, message.memory === undefined ? null : message.memory / 1048576);
    this.busy = busy;
    if (!isNew) return;
    for (const ch of this.chans.values()) {
      add(ch.times, Date.now() / 1000);
      add(ch.rates, ch.rate);
      add(ch.fills, ch.limit ? ch.count : ch.nputs);
    }
  }

  // ---- flows ----

  // Takes the lines of an answer to the command `flows`.
  setFlows(lines) {
    const before = this.flows, answer = parseFlows(lines);
    const taken = new Map(before ? before.flows.flatMap((f) => f.stages).map((s) => [s.id, s]) : []);
    this.stages.clear();
    for (const flow of answer.flows) {
      for (const stage of flow.stages) {
        const last = taken.get(stage.id), passed = before ? answer.now - before.now : 0;
        stage.rate = last && passed >= LEAST ? (stage.taken - last.taken) / passed * 1000 : last ? last.rate : null;
        this.stages.set(`${flow.name}.${stage.name}`, stage);
      }
    }
    this.flows = answer;
    this.setStages();
  }

  // Tells the channels and the stages of each other.
  setStages() {
    for (const stage of this.stages.values()) stage.chan = null;
    for (const ch of this.chans.values()) {
      const stage = ch.name && this.stages.get(ch.name);
      ch.stage = stage ? stage.state : undefined;
      if (stage) stage.chan = ch;
    }
  }

  // The stage that has a go block of this name, as "numbers.double at job.lua:3 -> chan: numbers.save".
  stageOfGo(name) { return this.stages.get(stageName(name)); }

  // What a sentence calls the go blocks of a name: those of a stage have the name of the stage.
  nameIn(name) {
    const stage = stageName(name);
    return this.stages.has(stage) || this.inputs.has(stage) ? stage : name.replace(/ -> chan: #\d*$/, "");
  }

  // The state of a stage is that of its input channel. A source has no input: its state is running or idle.
  stageState(stage) {
    if (stage.chan) return stage.chan.state;
    const state = stateOf({ stage: stage.state, nputs: Math.max(0, stage.queue - stage.room), count: stage.queue, limit: stage.room,
      rate: stage.rate });
    return (state === "idle" || state === "unknown") && stage.busy > 0 ? "running" : state;
  }

  // ---- go blocks ----

  waited(go) { return go.since ? Math.max(0, this.summary.now - go.since) : 0; }

  // Go blocks by name: { name, n, states: { "take": 3, ... }, waited, rows, stage: of a flow }
  groups() {
    const groups = new Map();
    for (const go of this.gos.values()) {
      let g = groups.get(go.name);
      if (!g) {
        groups.set(go.name, g = { name: go.name, n: 0, states: {}, waited: 0, rows: [] });
        g.stage = this.stageOfGo(go.name);
      }
      const doing = go.op || go.state;
      g.n += go.n;
      g.states[doing] = (g.states[doing] || 0) + go.n;
      g.waited = Math.max(g.waited, this.waited(go));
      g.rows.push(go);
    }
    return groups;
  }

  // The names of the go blocks that have used each channel: id -> { puts, takes }
  ends() {
    const ends = new Map();
    for (const e of this.edges.values()) {
      if (!this.chans.has(e.chan)) continue;
      if (!ends.has(e.chan)) ends.set(e.chan, { puts: new Set(), takes: new Set() });
      ends.get(e.chan)[e.isPut ? "puts" : "takes"].add(e.name);
    }
    return ends;
  }
}
