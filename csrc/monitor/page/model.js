// model.js: the page's model of the program: the server's data, rates, history, and hints.

// Numbers of csrc/core/state.h, base/buffer.h and tracing/snapshot.h.
export const STATES = ["running", "parked", "sleeping", "ready", "dead", "new"];
export const OPS = ["", "take", "put", "alts"];
const KINDS = ["unbuffered", "fixed", "dropping", "sliding", "promise", "policy", "shared"];
const CLOSED = 1, RESULT = 2, TIMEOUT = 4, PLACE = 16, DONE = 32;
const CHAN = 0, FILL = 1, GO = 2, EDGE = 3;

const SAMPLES = 480; // of history: four minutes
const LATELY = 20; // samples: ten seconds

// ---- texts for people ----

export function short(n) {
  if (n >= 1e9) return (n / 1e9).toPrecision(3) + "G";
  if (n >= 1e6) return (n / 1e6).toPrecision(3) + "M";
  if (n >= 1e4) return (n / 1e3).toPrecision(3) + "k";
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toPrecision(2);
}

export function duration(ms) {
  if (ms < 1000) return Math.max(0, Math.round(ms)) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  if (ms < 3600000) return Math.floor(ms / 60000) + " min " + Math.floor(ms / 1000 % 60) + " s";
  return Math.floor(ms / 3600000) + " h " + Math.floor(ms / 60000 % 60) + " min";
}

export const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

// The names of the library's go blocks end in the channel that they feed, as "pipe at job.lua:2 -> chan: #7". Without it
// those of one line have one name.
function split(name) {
  const [, base, target] = name.match(/^(.* at .*) -> chan: (.*)$/s) || [0, name, null];
  return { name: target && !/^#\d+$/.test(target) ? name : base, target };
}

// ---- a channel ----

class Chan {
  constructor(id) {
    Object.assign(this, { id, name: "", kind: 0, limit: 0, flags: 0, puts: 0, takes: 0, count: 0, nputs: 0, ntakes: 0 });
    Object.assign(this, { n: 1, first: id }); // the number of channels, and the first one
    Object.assign(this, { rate: 0, at: 0, began: 0, before: 0, fullSince: 0, movedAt: 0, rates: [], fills: [], times: [] });
    this.waits = 0; // how often puts have waited lately: 0 to 1
  }

  // The common key of channels that are shown as one.
  get pattern() {
    return this.flags & PLACE ? this.name.split("/").pop() : this.single.replace(/\d+/g, "#");
  }
  get label() { return this.n > 1 ? `${this.pattern} × ${short(this.n)}` : this.single; }
  get single() {
    if (this.flags & PLACE) return `${this.name.split("/").pop()} #${this.first}`;
    if (this.name) return this.name;
    return (this.flags & RESULT ? "result #" : this.flags & TIMEOUT ? "timeout #" : this.flags & DONE ? "done #" : "#") + this.first;
  }
  // For the graph, where there is little room.
  get brief() { return this.flags & PLACE ? this.pattern : this.single; }
  get kindName() { return KINDS[this.kind] + (this.limit && this.n === 1 ? ` (${this.limit})` : ""); }
  get closed() { return (this.flags & CLOSED) !== 0; }
  get isPlain() { return !(this.flags & (RESULT | TIMEOUT | DONE)); }

  // Waiting operations say more than the fill: puts that wait are backpressure.
  get state() {
    if (this.closed) return "closed";
    if (this.nputs) return "full";
    if (this.ntakes) return "starved";
    return this.count ? "flowing" : "empty";
  }
  get fill() { return this.limit ? Math.min(1, this.count / this.limit) : this.nputs ? 1 : 0; }
}

// ---- the model ----

export class Model {
  constructor() {
    this.status = "connecting"; // or "live", "lost", "ended"
    this.hello = null;
    this.summary = {};
    this.history = { t: [], rate: [], busy: [], gos: [], memory: [] };
    this.forget();
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
    if (message.reset) this.forget();
    const last = this.summary;
    this.summary = message;
    for (const [number, text] of message.n) this.texts.set(number, text);
    for (const row of message.u) this.update(row, message.t);
    for (const [kind, id] of message.d || []) this.remove(kind, id);
    let rate = 0;
    for (const ch of this.chans.values()) {
      if (!message.cut && message.busy < 100 && message.t - ch.at > 400) ch.rate = 0;
      rate += ch.rate;
    }
    if (last.t && message.t - last.t > 200) this.sample(message, last, rate);
    return message.r;
  }

  update(row, t) {
    const [kind, id] = row;
    if (kind === CHAN || kind === FILL) {
      let ch = this.chans.get(id);
      if (!ch) this.chans.set(id, ch = new Chan(id));
      if (kind === CHAN) [, , ch.name, ch.kind, ch.limit, ch.flags, ch.n, ch.first] = [0, 0, this.texts.get(row[2]), ...row.slice(3)];
      else this.refill(ch, row, t);
    } else if (kind === GO) {
      const [, , name, where, state, op, chan, nchans, since, n, first] = row;
      this.gos.set(id, { id, ...split(this.texts.get(name)), where: this.texts.get(where),
        state: STATES[state] === "parked" && !op ? "idle" : STATES[state], op: OPS[op], chan, nchans, since, n, first });
    } else if (kind === EDGE) {
      const [, , name, chan, isPut, total] = row;
      this.edges.set(id, { id, ...split(this.texts.get(name)), chan, isPut: isPut === 1, total });
    }
  }

  refill(ch, row, t) {
    const puts = ch.puts;
    [, , ch.puts, ch.takes, ch.count, ch.nputs, ch.ntakes] = row;
    if (!ch.at || t - ch.began >= 250) { // messages with a command's result come soon after the last one
      ch.rate = ch.at ? Math.max(0, ch.puts - ch.before) * 1000 / (t - ch.began) : 0;
      ch.began = t;
      ch.before = ch.puts;
    }
    if (ch.puts !== puts || !ch.at) ch.movedAt = t;
    ch.at = t;
    ch.fullSince = ch.nputs ? ch.fullSince || t : 0;
  }

  remove(kind, id) {
    if (kind === CHAN || kind === FILL) this.chans.delete(id);
    else if (kind === GO) this.gos.delete(id);
    else this.edges.delete(id);
  }

  sample(message, last, rate) {
    const h = this.history, passed = message.t - last.t;
    const busy = message.busy >= 100 ? 1 : Math.min(1, Math.max(0, 1 - (message.waited - last.waited) / passed));
    const add = (list, value) => { list.push(value); if (list.length > SAMPLES) list.shift(); };
    add(h.t, Date.now() / 1000);
    add(h.rate, rate);
    add(h.busy, busy * 100);
    add(h.gos, message.gos || 0);
    add(h.memory, (message.memory || 0) / 1048576);
    this.rate = rate;
    this.busy = busy;
    if (this.chans.size > 2000) return;
    for (const ch of this.chans.values()) {
      ch.waits += ((ch.nputs ? 1 : 0) - ch.waits) / Math.min(LATELY, ch.times.length + 1);
      add(ch.times, Date.now() / 1000);
      add(ch.rates, ch.rate);
      add(ch.fills, ch.limit ? ch.count : ch.nputs);
    }
  }

  waited(go) { return go.since ? Math.max(0, this.summary.now - go.since) : 0; }

  // Go blocks by name: { name, n, states: { "take": 3, ... }, waited, rows }
  groups() {
    const groups = new Map();
    for (const go of this.gos.values()) {
      let g = groups.get(go.name);
      if (!g) groups.set(go.name, g = { name: go.name, n: 0, states: {}, waited: 0, rows: [] });
      const doing = go.op || go.state;
      g.n += go.n;
      g.states[doing] = (g.states[doing] || 0) + go.n;
      g.waited = Math.max(g.waited, this.waited(go));
      g.rows.push(go);
    }
    return groups;
  }

  // ---- hints: { level: "bad" | "warn", text, chan, go } ----

  hints(groups) {
    const hints = [], t = this.summary.t || 0;
    const { puts, takes } = this.sides();
    const isIdle = (g) => g.states.idle === g.n; // all wait inside of the library: the stage is paused
    // The stage of a flow of which the channel is the input: it has the name of that, and a line.
    const stageOf = (ch) => ch.name && [...groups.values()].find((g) => g.name.startsWith(ch.name + " at "));
    if (this.summary.busy >= 100) {
      const { who, runs, busy } = this.summary;
      const name = who && split(who).name;
      hints.push({ level: "bad", go: name,
        text: `${name ? name + (runs ? ` #${runs}` : "") : "Lua"} has computed for ${duration(busy)} without parking` });
    }
    for (const g of groups.values()) {
      const taken = takes.get(g.name) || [], put = puts.get(g.name) || [];
      const inputs = taken.filter((ch) => ch.isPlain && !put.includes(ch)); // else it is inside of the stage
      const outputs = put.filter((ch) => ch.isPlain && !taken.includes(ch));
      const full = inputs.find((ch) => ch.nputs > 0 && ch.kind !== 0 || ch.nputs > g.n);
      if (full && !isIdle(g) && outputs.every((ch) => ch.nputs === 0 && ch.fill < 0.5)) {
        const empty = outputs.find((ch) => ch.ntakes > 0 && ch.count === 0);
        hints.push({ level: "bad", go: g.name, text: `${g.name} is the bottleneck: its input ${full.label} is full` +
          (empty ? `, its output ${empty.label} empty` : outputs.length ? ", its output is not" : "") });
      }
      if (g.n > 10000) hints.push({ level: "warn", go: g.name, text: `${count(g.n, "go block")} with the name ${g.name}` });
    }
    const lately = this.history.busy.slice(-LATELY);
    if (!hints.length && lately.length === LATELY && Math.min(...lately) > 95) {
      hints.push({ level: "warn", text: "Lua computes all the time: its go blocks share one thread (rn.threads uses more)" });
    }
    for (const ch of this.chans.values()) {
      if (!ch.isPlain || ch.n > 1) continue;
      if (ch.fullSince && t - ch.fullSince >= 5000 && !(stageOf(ch) && isIdle(stageOf(ch)))) {
        const moves = ch.rate > 0 ? "" : ", and nothing moves";
        hints.push({ level: ch.rate > 0 ? "warn" : "bad", chan: ch.id,
          text: `${ch.label} has been full for ${duration(t - ch.fullSince)}${moves}` });
      }
      const still = t - ch.movedAt;
      if (still < 5000 || ch.closed) continue;
      for (const [n, what, verb, side] of [[ch.ntakes, "take", "put", puts], [ch.nputs, "put", "take", takes]]) {
        const ends = n ? this.otherEnd(side, ch, verb === "put") : "alive";
        if (ends === "alive" || (ends === "none" && still < 30000)) continue;
        if (stageOf(ch)) continue; // the flow closes it; and an edge for errors may have had none
        const why = ends === "ended" ? `whoever ${verb === "put" ? "put" : "took"} there has ended`
          : `so far nobody has ${verb === "put" ? "put" : "taken"} there`;
        hints.push({ level: "warn", chan: ch.id, text: `${count(n, what)} on ${ch.label} for ${duration(still)}: ${why}` });
      }
    }
    return hints;
  }

  // The channels that go blocks of each name put on, and take from.
  sides() {
    const puts = new Map(), takes = new Map();
    for (const e of this.edges.values()) {
      const ch = this.chans.get(e.chan), side = e.isPut ? puts : takes;
      if (!ch) continue;
      if (!side.has(e.name)) side.set(e.name, []);
      side.get(e.name).push(ch);
    }
    return { puts, takes };
  }

  // Which go blocks have used this side of the channel: "alive" ones, only some that have "ended", or "none" so far.
  otherEnd(side, ch, isPut) {
    for (const go of this.gos.values()) {
      if ((side.get(go.name) || []).includes(ch)) return "alive";
      if (isPut && go.target !== null && (go.target === ch.name || go.target === "#" + ch.first)) return "alive";
    }
    for (const list of side.values()) if (list.includes(ch)) return "ended";
    return "none";
  }
}
