// states.mjs: what the monitor's page says of a program, without a browser: its model and its hints, from messages of a
// server. Run by tests/browser/check, which copies the page's files to where this is; by itself: node states.mjs.
import assert from "node:assert/strict";
import { patternOf } from "./page/alike.js";
import { Model, span, stateOf } from "./page/model.js";
import { calmOf, hintsOf } from "./page/hints.js";

const CHAN = 0, FILL = 1, GO = 2, EDGE = 3, PARKED = 1, TAKE = 1, PUT = 2;

// A program: messages for its pictures. chans: { name: { limit, puts, takes, count, nputs, ntakes } }, all numbers 0 by
// default; gos: [{ name, op, chan, since, n }]; edges: [[name, chan, isPut]].
class Program {
  constructor() {
    Object.assign(this, { t: 1000, texts: [], chans: {}, gos: [], edges: [], begun: false, puts: 0 });
  }
  text(text) {
    if (!this.texts.includes(text)) this.texts.push(text);
    return this.texts.indexOf(text);
  }
  rows() {
    const ids = Object.keys(this.chans), id = (name) => ids.indexOf(name) + 1, rows = [];
    for (const [name, c] of Object.entries(this.chans)) {
      const { limit = 0, puts = 0, takes = 0, count = 0, nputs = 0, ntakes = 0, last = -1, n = 1, flags = 0 } = c;
      rows.push([CHAN, id(name), this.text(name), limit ? 1 : 0, limit, flags, n, id(name)], [FILL, id(name), puts, takes, count, nputs, ntakes, last]);
    }
    this.gos.forEach(({ name, op = 0, chan, since = 0, n = 1 }, i) =>
      rows.push([GO, 500 + i, this.text(name), this.text(""), PARKED, op, id(chan), chan ? 1 : 0, since, n, 500 + i]));
    this.edges.forEach(([name, chan, isPut], i) => rows.push([EDGE, 900 + i, this.text(name), id(chan), isPut ? 1 : 0, -1]));
    return rows;
  }
  // The messages of the picture `ms` later, in so many parts.
  picture(ms, parts = 1, fields = {}) {
    this.t += ms;
    const rows = this.rows(), size = Math.ceil(rows.length / parts);
    const puts = Object.values(this.chans).reduce((sum, c) => sum + (c.puts || 0), 0);
    const gos = this.gos.reduce((sum, g) => sum + (g.n || 1), 0);
    return Array.from({ length: parts }, (_, i) => ({
      ...(this.begun || i ? {} : { reset: (this.begun = true) }), ...(i < parts - 1 ? { cut: true } : {}), r: [], d: [],
      t: this.t + i, at: this.t, now: this.t, waited: 0, busy: 0, gos, chans: Object.keys(this.chans).length, puts,
      more: 0, more_chans: 0, more_edges: 0, n: i ? [] : this.texts.map((text, number) => [number, text]),
      u: rows.slice(i * size, (i + 1) * size), ...fields }));
  }
}

const hints = (model) => hintsOf(model, model.groups()).map((h) => h.text);
const show = (model, messages) => { for (const message of messages) model.apply(message); };
const flows = (...stages) => ["1000\t1", ["1\trunning\tf", ...stages.map(([name, state, error = "", busy = 0]) =>
  [name, state, busy, 1, 0, 4, 0, 0, "", "", "", error, ""].join("\t"))].join("\n")];

const tests = {
  "a state is that of the stage, if it does not run; then full, closed, flowing or idle"() {
    const of = (fields) => stateOf({ nputs: 0, count: 0, limit: 0, rate: 0, ...fields });
    assert.equal(of({ stage: "held", nputs: 3, rate: 5 }), "held");
    assert.equal(of({ stage: "paused", closed: true }), "paused");
    assert.equal(of({ stage: "running", limit: 8, count: 8, rate: 9 }), "full");
    assert.equal(of({ limit: 8, count: 7, rate: 9 }), "flowing");
    assert.equal(of({ nputs: 1, rate: 9 }), "full");
    assert.equal(of({ n: 50, limit: 200, count: 34, nputs: 3, rate: 9 }), "flowing");
    assert.equal(of({ n: 50, limit: 200, count: 200, rate: 9 }), "full");
    assert.equal(of({ closed: true, limit: 1, count: 1 }), "closed");
    assert.equal(of({ limit: 8, count: 3 }), "idle");
    assert.equal(of({ rate: null }), "unknown");
  },

  "nothing is said before the first picture is complete, but how much of it has come"() {
    const p = new Program(), model = new Model();
    p.chans = { jobs: { limit: 4, count: 4, nputs: 6000 } };
    p.gos = [{ name: "a", n: 4000, op: PUT, chan: "jobs", since: 1 }, { name: "b", n: 6000, op: PUT, chan: "jobs", since: 1 }];
    const parts = p.picture(90000, 4);
    assert.equal(model.reading, "the first picture is being taken");
    show(model, parts.slice(0, 3));
    assert.equal(model.reading, "reading 4,000 of 10,000 go blocks");
    assert.deepEqual(hints(model), []);
    assert.equal(model.groups().size, 0);
    show(model, parts.slice(3));
    assert.equal(model.reading, "");
    assert.equal(model.groups().size, 2);
    assert.match(hints(model)[0], /^puts have waited on jobs for 1 min 30 s$/);
  },

  "the last picture stays until the next is complete, and no go block is missing meanwhile"() {
    const p = new Program(), model = new Model();
    p.chans = { jobs: { ntakes: 1 } };
    p.gos = [{ name: "putter" }, { name: "taker", op: TAKE, chan: "jobs", since: 1 }];
    p.edges = [["putter", "jobs", true], ["taker", "jobs", false]];
    show(model, p.picture(100));
    p.begun = false; // the server begins anew
    const parts = p.picture(20000, 3);
    show(model, parts.slice(0, 2));
    assert.deepEqual([...model.groups().keys()], ["putter", "taker"]);
    assert.deepEqual(hints(model), []);
    show(model, parts.slice(2));
    assert.deepEqual(hints(model), []);
    p.gos.shift();
    show(model, p.picture(20000).map((m) => ({ ...m, d: [[GO, 501]] })));
    assert.equal(hints(model).length, 1);
    assert.match(hints(model)[0], /^1 take has waited on jobs for .*: putter has put there, and no go block has this name now$/);
    for (const field of ["more", "more_edges", "more_chans"]) { // then another could be there
      show(model, p.picture(1000, 1, { [field]: 1 }));
      assert.deepEqual(hints(model), []);
    }
  },

  "rates are those of the counters between two pictures, whatever comes in between"() {
    const p = new Program(), model = new Model();
    p.chans = { jobs: { puts: 5000 }, calm: { puts: 7 } };
    show(model, p.picture(0));
    const ch = () => [...model.chans.values()].find((c) => c.name === "jobs");
    assert.deepEqual([model.rate, ch().rate, ch().state], [null, null, "unknown"]);
    for (const [ms, more] of [[500, 1500], [20, 10], [480, 1490], [2000, 0], [1000, 250]]) {
      p.chans.jobs.puts += more;
      show(model, p.picture(ms));
      const [message] = p.picture(0); // Lua computes, and the server repeats the picture
      model.apply({ ...message, t: message.t + 10, u: [] });
    }
    assert.equal(ch().rate, 250);
    assert.equal(model.rate, 250);
    assert.equal(ch().state, "flowing");
    assert.deepEqual(model.history.rate.filter((r) => r !== null), [3000, 3000, 0, 250]);
  },

  "a stage that is held or paused is so everywhere, and the put that waits for it is said"() {
    const p = new Program(), model = new Model();
    p.chans = { "f.double": { limit: 4, count: 4, nputs: 1 }, "f.save": { limit: 4, count: 2 } };
    p.gos = [{ name: "f.double at flow.lua:7" }, { name: "f.count at flow.lua:7", op: PUT, chan: "f.double", since: 1 }];
    p.edges = [["f.count at flow.lua:7", "f.double", true], ["f.double at flow.lua:7", "f.double", false]];
    model.setFlows(flows(["double", "held", "broken"], ["save", "running"]));
    show(model, p.picture(25000));
    const chan = (name) => [...model.chans.values()].find((c) => c.name === name);
    assert.equal(chan("f.double").state, "held");
    assert.equal(model.stageState(model.stages.get("f.double")), "held");
    assert.equal(model.groups().get("f.double at flow.lua:7").stage.state, "held");
    assert.deepEqual(hints(model), ["f.double is held: broken; 1 put waits there"]);
    model.setFlows(flows(["double", "paused"], ["save", "running"]));
    assert.equal(chan("f.double").state, "paused");
    assert.deepEqual(hints(model), ["f.double is paused; 1 put waits there"]);
    assert.equal(model.stageState(model.stages.get("f.save")), chan("f.save").state);
  },

  "a source, which takes nothing, runs if it is busy, and else is idle"() {
    const p = new Program(), model = new Model();
    model.setFlows(flows(["count", "running", "", 1], ["rest", "running"], ["off", "paused", "", 1]));
    show(model, p.picture(1000));
    model.setFlows(["3000\t1", flows(["count", "running", "", 1], ["rest", "running"], ["off", "paused", "", 1])[1]]);
    const states = ["count", "rest", "off"].map((name) => model.stageState(model.stages.get("f." + name)));
    assert.deepEqual(states, ["running", "idle", "paused"]);
  },

  "a go block is no bottleneck of a channel on which nothing has moved for long"() {
    const p = new Program(), model = new Model();
    p.chans = { jobs: { limit: 1, count: 1, nputs: 2 } };
    p.gos = [{ name: "putter", op: PUT, chan: "jobs", since: 1 }, { name: "taker" }];
    p.edges = [["putter", "jobs", true], ["taker", "jobs", false]];
    const says = () => hintsOf(model, new Map([...model.groups()].map(([name, g]) => [name, { ...g, states: {} }])))
      .some((h) => h.text.startsWith("taker is the bottleneck: puts waited on its input jobs in each of the last "));
    for (let i = 0; i < 20; i++) show(model, p.picture(1000));
    assert.ok(says());
    for (let i = 0; i < 20; i++) show(model, p.picture(1000));
    assert.ok(!says());
  },

  "who has a lock is said, if others have waited for it for long; of workers that share a channel nothing is said"() {
    const say = (chan, gos, edges) => {
      const p = new Program(), model = new Model();
      p.chans = { lock: chan };
      p.gos = gos;
      p.edges = edges;
      show(model, p.picture(7000));
      return hints(model).filter((text) => / (?:has taken its last value|has filled it)/.test(text));
    };
    const token = { limit: 1, puts: 1, takes: 1, ntakes: 1, last: 500 };
    const has = { name: "has it" }, waits = { name: "waits", op: TAKE, chan: "lock", since: 1000 };
    const both = [["has it", "lock", true], ["has it", "lock", false]];
    assert.deepEqual(say(token, [has, waits], []), ["1 take has waited on lock for 7.0 s: has it has taken its last value, and is idle"]);
    assert.deepEqual(say({ ...token, puts: 9, takes: 9 }, [has, waits], both), ["1 take has waited on lock for 7.0 s: has it has taken its last value, and is idle"]);
    assert.deepEqual(say({ ...token, last: 77 }, [has, waits], []), ["1 take has waited on lock for 7.0 s: #77 has taken its last value, and has ended"]);
    assert.deepEqual(say({ ...token, last: 0 }, [has, waits], []), ["1 take has waited on lock for 7.0 s: the main program has taken its last value"]);
    assert.deepEqual(say({ limit: 1, puts: 1, count: 1, nputs: 1, last: 500 }, [has, { ...waits, op: PUT }], []),
      ["1 put has waited on lock for 7.0 s: has it has filled it, and is idle"]);
    assert.deepEqual(say({ ...token, puts: 9, takes: 9 }, [has, waits], [["boss", "lock", true], ["has it", "lock", false]]), [], "jobs");
    assert.deepEqual(say({ ...token, last: 501 }, [has, waits], []), [], "it waits there itself");
    assert.deepEqual(say({ ...token, last: -1 }, [has, waits], []), [], "not known");
  },

  "many channels of a pattern have one hint, and many names are folded"() {
    const p = new Program(), model = new Model();
    for (let i = 0; i < 100; i++) {
      p.chans["work " + i] = { limit: 1, count: 1, nputs: 1 };
      p.gos.push({ name: "worker " + i, op: PUT, chan: "work " + i, since: 1 });
    }
    show(model, p.picture(9000));
    assert.deepEqual([...model.groups().keys()], ["worker #"]);
    assert.deepEqual(hints(model), ["puts have waited on work # × 100 for up to 10.0 s"]);
    show(model, p.picture(10000));
    assert.match(hints(model)[0], /^puts have waited on work # × 100 for up to 20.0 s, and nothing has moved for up to 10.0 s$/);
  },

  "go blocks whose names differ in digits are one, if the channels that they use cannot tell them apart"() {
    const p = new Program(), model = new Model();
    Object.assign(p.chans, { jobs: {}, done: {}, numbers: {}, "not by 2": {}, "not by 3": {} });
    for (let i = 1; i <= 4; i++) {
      p.gos.push({ name: "worker " + i });
      p.edges.push(["worker " + i, "jobs", false]);
      if (i !== 3) p.edges.push(["worker " + i, "done", true]); // it has not finished one yet
    }
    p.gos.push({ name: "filter 2" }, { name: "filter 3" });
    p.edges.push(["filter 2", "numbers", false], ["filter 2", "not by 2", true], ["filter 3", "not by 2", false], ["filter 3", "not by 3", true]);
    for (const flow of ["f1", "f2"]) {
      p.chans[flow + ".dbl"] = {};
      p.gos.push({ name: flow + ".src at flows30.lua:4" });
      p.edges.push([flow + ".src at flows30.lua:4", flow + ".dbl", true]);
    }
    show(model, p.picture(100));
    assert.deepEqual([...model.groups()].map(([name, g]) => [name, g.n]), [["worker #", 4], ["filter 2", 1], ["filter 3", 1],
      ["f1.src at flows30.lua:4", 1], ["f2.src at flows30.lua:4", 1]]);
    for (let i = 0; i < 50; i++) p.gos.push({ name: "other " + String.fromCharCode(65 + i % 26) + String.fromCharCode(65 + i / 26) });
    show(model, p.picture(1000));
    const names = [...model.groups().keys()];
    assert.ok(names.includes("filter #") && names.includes("f1.src at flows30.lua:4") && names.includes("f2.src at flows30.lua:4"));
  },

  "hints of two flows, and two circles, are never one"() {
    const p = new Program(), model = new Model();
    for (const flow of ["f1", "f2"]) {
      p.chans[flow + ".dbl"] = { limit: 4, count: 4, nputs: 1 };
      p.gos.push({ name: flow + ".src at flows30.lua:4", op: PUT, chan: flow + ".dbl", since: 1 }, { name: flow + ".dbl at flows30.lua:4" });
      p.edges.push([flow + ".src at flows30.lua:4", flow + ".dbl", true], [flow + ".dbl at flows30.lua:4", flow + ".dbl", false]);
    }
    show(model, p.picture(7000));
    assert.deepEqual(hints(model), ["puts have waited on f1.dbl for 8.0 s", "puts have waited on f2.dbl for 8.0 s"]);
    const q = new Program(), other = new Model();
    for (const k of ["a", "b"]) {
      q.chans[k + " to"] = { puts: 3, ntakes: 1 };
      q.chans[k + " back"] = { puts: 3, ntakes: 1 };
      q.gos.push({ name: k + " left", op: TAKE, chan: k + " back", since: 1 }, { name: k + " right", op: TAKE, chan: k + " to", since: 1 });
      q.edges.push([k + " left", k + " to", true], [k + " right", k + " to", false], [k + " right", k + " back", true], [k + " left", k + " back", false]);
    }
    show(other, q.picture(8000));
    assert.deepEqual(hints(other), ["a", "b"].map((k) => `${k} left, ${k} right wait for each other for 9.0 s: ${k} left to take from ${k} back, ` +
      `${k} right to take from ${k} to`));
  },

  "a bottleneck is named in each picture, though puts wait on its input in some of them only"() {
    const p = new Program(), model = new Model();
    p.chans = { words: { limit: 4 }, counts: { limit: 4 } };
    p.gos = [{ name: "count" }, { name: "split" }];
    p.edges = [["split", "words", true], ["count", "words", false], ["count", "counts", true]];
    const said = [];
    for (let i = 0; i < 30; i++) {
      Object.assign(p.chans.words, { puts: i, count: i % 5 < 2 ? 3 : 4, nputs: i % 5 < 2 ? 0 : 1 });
      show(model, p.picture(500));
      said.push(...hintsOf(model, new Map([...model.groups()].map(([name, g]) => [name, { ...g, states: {} }]))).filter(({ kind }) => kind === "bottleneck").map((h) => h.text));
    }
    assert.equal(said.length, 26); // from the third picture with a put that waits on
    assert.equal(said.pop(), "count is the bottleneck: puts waited on its input words in 13 of the last 21 pictures, and on its output counts in none");
  },

  "what is not looked at is not said to be calm"() {
    const p = new Program(), model = new Model(), list = () => calmOf(model, model.groups()).list.join("; ");
    p.chans = { jobs: {} };
    show(model, p.picture(500, 1, { leaks: 0 }));
    assert.deepEqual(calmOf(model, model.groups()).head, "Too few pictures for hints: 1.");
    for (let i = 0; i < 9; i++) show(model, p.picture(500, 1, { leaks: 0 }));
    assert.match(list(), /a leak/);
    assert.match(list(), /wait.* for each other/);
    assert.match(list(), /100 ms in which Lua computed/);
    show(model, p.picture(500, 1, { leaks: -1, more_edges: 1, virtual: 1 }));
    assert.doesNotMatch(list(), /leak|each other|where none has come|computed/);
    show(model, p.picture(500, 1, { leaks: 7, turn: 150, ran: "hog" }));
    assert.deepEqual(hints(model), ["7 go blocks were collected while they waited for what nothing could bring any more: see leaks",
      "timers and other go blocks had to wait for up to 150 ms, because Lua computed, before 1 of the last 12 pictures: hog ran then"]);
  },

  "very many puts, and very many go blocks, are said, and Lua that computes all the time"() {
    const p = new Program(), model = new Model();
    p.chans = { "job 1": { nputs: 1500, n: 2000 } };
    p.gos = [{ name: "asker", n: 12000 }];
    for (let i = 0; i < 25; i++) show(model, p.picture(500));
    assert.deepEqual(hints(model), ["1,500 or more puts waited on the channels job # in each of the last 21 pictures",
      "12,000 go blocks with the name asker", "Lua computes all the time: its go blocks share one thread (rn.threads uses more)"]);
  },

  "a chart spans the program's life, and at most four minutes of it"() {
    assert.deepEqual(span([100, 101, 130]), [100, 130]);
    assert.deepEqual(span([100, 100.5]), [98.5, 100.5]);
    assert.deepEqual(span([100, 400, 1000]), [760, 1000]);
    assert.deepEqual(span([]), [-2, 0]);
  },

  "go blocks have the names that a page with the program's text gives them"() {
    const p = new Program(), model = new Model();
    model.called = new Map([["job.lua:3", "read"]]);
    p.chans = { lines: { limit: 1 } };
    p.gos = [{ name: "job.lua:3", op: PUT, chan: "lines", since: 1 }];
    p.edges = [["job.lua:3", "lines", true]];
    show(model, p.picture(100));
    assert.deepEqual([[...model.groups().keys()], [...model.ends().values()].map(({ puts }) => [...puts])], [["read"], [["read"]]]);
  },

  "lines of files are no numbers to fold"() {
    for (const [name, pattern] of [["pipe at job2.lua:12 -> chan: #7", "pipe at job2.lua:12 -> chan: #"],
      ["worker 12 of 30", "worker # of #"], ["flows30.lua:8", "flows30.lua:8"], ["f7.dbl at flows30.lua:8", "f7.dbl at flows30.lua:8"],
      ["f7.dbl at my 2 files/x.lua:8 -> chan: f7.out", "f7.dbl at my 2 files/x.lua:8 -> chan: f#.out"], ["host 10.0.0.1:8080 3", "host 10.0.0.1:8080 #"]]) {
      assert.equal(patternOf(name), pattern);
    }
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    test();
    console.log(`ok      ${name}`);
  } catch (err) {
    failed++;
    console.log(`FAILED  ${name}\n        ${err.stack.replace(/\n/g, "\n        ")}`);
  }
}
process.exit(failed ? 1 : 0);
