// page.mjs: the monitor's page in a browser. Run by tests/browser/check, from the top of the tree.
import { execFileSync, spawn } from "node:child_process";
import { createWriteStream, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";
import { scale } from "./page/lately.js";
import { Judge } from "./sentences.mjs";

const { BROWSER, RUNNEL, SHOTS } = process.env;
const only = process.argv[3];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- programs ----

const running = new Set();

// Starts a program, and resolves to it once its monitor has printed the URL.
function start(...args) {
  return new Promise((found, reject) => {
    const child = spawn(RUNNEL, args, { stdio: ["pipe", "ignore", "pipe"] });
    child.stdin.on("error", () => {}); // it may end before it has read everything
    child.errors = "";
    running.add(child);
    child.stderr.on("data", (text) => {
      child.errors += text;
      child.url ||= child.errors.match(/monitor: (http:\S+)\n/)?.[1];
      if (child.url) found(child);
    });
    child.on("exit", (status) => {
      running.delete(child);
      reject(new Error(`the program ended with ${status}: ${child.errors}`));
    });
  });
}

const ended = (child) => (child.exitCode === null ? new Promise((resolve) => child.on("exit", resolve)) : child.exitCode);

// Writes the log to a stream again and again, as fast as the program reads.
function feed(stream) {
  const log = readFileSync("examples/access.log");
  const more = () => { while (!stream.destroyed && stream.write(log)); };
  stream.on("error", () => {});
  stream.on("drain", more);
  more();
}

// ---- pages ----

const browser = await puppeteer.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });

// Opens a page; what goes wrong in it is collected in page.complaints. `first`: a function that the page calls first.
async function open(url, scheme = "light", first) {
  const page = await browser.newPage();
  if (first) await page.evaluateOnNewDocument(first);
  page.complaints = [];
  page.on("console", (message) => { if (message.type() !== "log") page.complaints.push(message.text()); });
  page.on("pageerror", (err) => page.complaints.push(err.message));
  page.on("dialog", (dialog) => { page.complaints.push("a dialog: " + dialog.message()); dialog.dismiss(); });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width: 1280, height: 800 });
  await page.goto(url);
  return page;
}

const texts = (page, selector) => page.$$eval(selector, (all) => all.map((e) => e.textContent.trim()));
const status = (page) => page.$eval("#status", (e) => e.textContent.trim());

// Waits until a condition, called in the page, holds.
const until = (page, condition, ...args) => page.waitForFunction(condition, { timeout: 60000, polling: 100 }, ...args);
const untilText = (page, selector, text) => until(page, (s, t) =>
  [...document.querySelectorAll(s)].some((e) => e.textContent.includes(t)), selector, text);

const shot = (page, name) => page.screenshot({ path: `${SHOTS}/${name}.png` });

// Clicks the first element with this text.
async function click(page, selector, text) {
  await untilText(page, selector, text);
  await page.$$eval(selector, (all, t) => all.find((e) => e.textContent.includes(t))
    .dispatchEvent(new MouseEvent("click", { bubbles: true })), text);
}

const record = async (page) => (await page.waitForSelector("#record:not(:disabled)")).click();

// What is too small to be read, or wider than the page.
const narrow = (page) => page.evaluate(() => {
  const found = [], width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`the page is ${width} px wide`);
  for (const e of document.querySelectorAll("body *")) {
    const isText = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const size = parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM?.().a || 1);
    if (isText && size < 9.99 && !["SCRIPT", "STYLE", "title"].includes(e.tagName)) found.push(`${size} px: ${e.textContent.trim()}`);
  }
  return found;
});

// Runs in a page: keeps the head of each message in window.got, and what the page shows after it in window.seen, unless the
// next one has come meanwhile.
function looks() {
  window.got = [];
  window.seen = [];
  const text = (e) => (e ? e.textContent.replace(/\s+/g, " ").trim() : "");
  const all = (selector, f, from = document) => [...from.querySelectorAll(selector)].map(f);
  const look = (upTo) => {
    if (upTo !== window.got.length) return;
    const calm = document.querySelector("#calm");
    window.seen.push({ upTo, head: text(document.querySelector("header .numbers")),
      hints: all(".hints li[data-kind]", (e) => [e.dataset.kind, text(e)]),
      boxes: all(".graph .go", (e) => [e.dataset.name, text(e.querySelector(".numbers"))]),
      calm: calm && { head: text(calm.querySelector("summary") || calm), list: all("li", text, calm), takes: text(calm.querySelector("p")) } });
  };
  window.EventSource = class extends EventSource {
    set onmessage(f) {
      super.onmessage = (event) => {
        const { at, now, cut, t, busy } = JSON.parse(event.data);
        f(event);
        const upTo = window.got.push({ at, now, cut, t, busy });
        setTimeout(() => look(upTo), 50);
      };
    }
  };
}

// ---- the tests ----

const tests = {
  async "the page of logstat shows the program"() {
    const program = await start("--monitor", "examples/logstat.lua");
    feed(program.stdin);
    const page = await open(program.url);
    await untilText(page, ".graph .go", "logstat.lua");
    await untilText(page, ".chart h3", "values put per second");
    assert.match(await page.title(), /logstat\.lua/);
    assert.match(await status(page), /^live|^computing/);
    await shot(page, "logstat");
    return page;
  },

  async "the page of wordcount shows where puts wait, though they do so only now and then, and values move"() {
    const fifo = `${SHOTS}/words`;
    rmSync(fifo, { force: true });
    execFileSync("mkfifo", [fifo]);
    const program = await start("--monitor", "examples/wordcount.lua", fifo);
    const words = createWriteStream(fifo);
    feed(words);
    const page = await open(program.url);
    await until(page, () => document.querySelector(".graph .chan.often-full, .graph .chan.full"));
    await untilText(page, ".hints", "Lua computes all the time");
    await shot(page, "wordcount");
    await page.click("#view-chans");
    const total = () => page.$$eval("table.chans tbody tr td:nth-child(7)",
      (all) => all.reduce((sum, e) => sum + Number(e.textContent.replace(/\D/g, "")), 0));
    await until(page, () => document.querySelector("table.chans tbody tr td:nth-child(7)"));
    const before = await total();
    for (let tries = 0; tries < 120 && await total() <= before + 1000; tries++) await sleep(500);
    assert.ok(await total() > before + 1000, "values move");
    words.destroy();
    return page;
  },

  async "fills move, and the bottleneck is named"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url, "dark");
    await untilText(page, ".graph .chan", "10/10");
    const rate = () => page.$eval(".chart h3 b", (e) => Number(e.textContent));
    await until(page, () => Number(document.querySelector(".chart h3 b").textContent) > 20);
    assert.ok(await rate() < 2000);
    await untilText(page, ".hints", "parse × 3 is the bottleneck");
    await untilText(page, ".hints", "lines has been full");
    const widths = await page.$$eval(".graph .chan .fill", (all) => all.map((e) => Number(e.getAttribute("width"))));
    assert.ok(widths.some((w) => w > 100), "a channel is full");
    assert.ok(widths.some((w) => w === 0), "and one is empty");
    await shot(page, "bottleneck-dark");
    return page;
  },

  async "a go block that computes is named, though no snapshot has been taken"() {
    const program = await start("--monitor", "-e", `local rn = require "runnel"
      rn.go(function() rn.rename "hog" while true do end end)`);
    const page = await open(program.url);
    await untilText(page, ".hints", "hog #");
    await untilText(page, ".hints", "and timers wait");
    await untilText(page, "#status", "computing for");
    await shot(page, "hog");
    return page;
  },

  async "no sentence of the page is false of random programs"() {
    const pictures = Number(process.env.PAGE_PICTURES || 60), undo = scale(0.1);
    for (let seed = 1, done = 0; done < pictures; seed++) {
      const path = `${SHOTS}/page-truth.json`;
      rmSync(path, { force: true });
      const program = await start("tests/browser/random.lua", seed, path, 100, 0.1), judge = new Judge(path), problems = [];
      const page = await open(program.url, "light", looks);
      await page.evaluate(() => import("/lately.js").then(({ scale }) => scale(0.1)).then(() => { window.seen.length = 0; }));
      await until(page, () => window.seen.length >= 20);
      const { got, seen } = await page.evaluate(() => ({ got: window.got, seen: window.seen }));
      let next = 0;
      for (const { upTo, head, hints, calm, boxes } of seen) {
        let isNew = false;
        for (; next < upTo; next++) {
          const message = got[next];
          isNew = message.at !== undefined && !message.cut && message.at !== judge.now?.at;
          if (isNew) assert.ok(judge.picture(message), "the truth of a picture is missing");
        }
        if (!isNew || !judge.isExact) continue;
        const say = (why) => problems.push(`seed ${seed}: ${why}`);
        for (const [kind, text] of hints) {
          const wrong = judge.judge(kind, text, say);
          if (wrong) say(`${text}: ${wrong}`);
        }
        if (calm) judge.judgeCalm(calm).forEach(say);
        judge.judgeHead(head).forEach(say);
        for (const [label, text] of boxes) judge.judgeBox(label, text).forEach(say);
        done++;
      }
      assert.deepEqual(problems, []);
      assert.deepEqual(page.complaints, []);
      await page.close();
      program.kill("SIGKILL");
    }
    undo();
    return open("about:blank");
  },

  async "names with HTML in them are text"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url);
    await untilText(page, ".graph .chan title", "<img src=x");
    await page.click("#view-chans");
    await untilText(page, "table.chans td", "<img src=x onerror=alert(1)>");
    assert.equal(await page.$("img"), null);
    return page;
  },

  async "a program with 500 channels: the graph folds them, the tables have them"() {
    const program = await start("--monitor", "tests/browser/many.lua");
    const page = await open(program.url);
    await untilText(page, ".graph .chan", "queue # × ");
    assert.ok((await page.$$(".graph .chan")).length < 60);
    await shot(page, "many");
    await page.click("#view-chans");
    await until(page, () => document.querySelectorAll("table.chans tbody tr").length === 201);
    await page.type("input[type=search]", "queue 49");
    await until(page, () => document.querySelectorAll("table.chans tbody tr").length === 11);
    await shot(page, "channels");
    await page.click("#view-gos");
    await until(page, () => [...document.querySelectorAll("table.gos tbody td:nth-child(2)")].some((e) => e.textContent === "500"));
    const numbers = await texts(page, "table.gos tbody td:nth-child(2)");
    assert.deepEqual(numbers, ["500", "250", "250"]);
    await click(page, "table.gos th button", "go blocks");
    await until(page, () => document.querySelector("table.gos tbody td").textContent === "even source");
    return page;
  },

  async "a program with 100,000 go blocks, each with a channel: all of it is there after seconds"() {
    const program = await start("--monitor", "-e", `local rn = require "runnel"
      for i = 1, 100000 do
        rn.go(function() rn.rename "waiter" rn.chan():take() end)
      end
      local jobs = rn.chan(10):name "jobs"
      rn.go(function() rn.rename "feeder" for i = 1, math.huge do jobs:put(i) end end)
      rn.go(function() rn.rename "worker" for _ in jobs do rn.sleep(50) end end)
      rn.sleep(1e6)`);
    const page = await open(program.url, "dark");
    await untilText(page, ".graph .chan", "(command line):3 × 100k");
    await untilText(page, ".graph .go", "feeder");
    await untilText(page, ".hints", "100,000 go blocks with the name waiter");
    await untilText(page, ".hints", "worker is the bottleneck");
    await shot(page, "100000");
    await click(page, ".graph .chan", "jobs");
    await untilText(page, ".values code", "integer");
    await page.click("#view-chans");
    await click(page, "table.chans td b", "× 100k");
    await untilText(page, "#details dd", "100,000 channels");
    assert.equal(await page.$(".values"), null);
    return page;
  },

  async "programs of 10, 1,000 and 100,000 go blocks: the rate is the real one, and nobody is said to be missing or stuck"() {
    const seconds = Number(process.env.PAGE_SECONDS || 8);
    for (const [gos, chans] of [[10, 3], [1000, 50], [100000, 5000]]) {
      const program = await start("--monitor", "tests/browser/sizes.lua", gos, chans);
      for (let tries = 0; tries < 600 && !program.errors.includes("put: "); tries++) await sleep(100);
      const page = await open(program.url);
      await until(page, () => document.querySelector("#status").textContent.startsWith("live"));
      await until(page, () => Number.parseFloat(document.querySelector(".chart h3 b").textContent) > 0);
      const first = await page.$eval(".chart h3 b", (e) => e.textContent); // of a picture from the program's beginning
      await until(page, (text) => document.querySelector(".chart h3 b").textContent !== text, first);
      const before = program.errors.length, rates = [];
      for (let i = 0; i < seconds; i++) {
        await sleep(1000);
        rates.push(await page.evaluate(() => {
          const [, digits, unit] = document.querySelector(".chart h3 b").textContent.match(/([\d.]+)(k?)/);
          return Number(digits) * (unit ? 1000 : 1);
        }));
        const hints = await texts(page, ".hints li");
        assert.ok(!hints.some((hint) => /no go block|nothing has moved/.test(hint)), hints.join("; "));
        assert.deepEqual((await texts(page, ".graph .go")).filter((text) => /none now|not listed/.test(text)), []);
      }
      const truth = [...program.errors.slice(before).matchAll(/put: (\d+)/g)].map((m) => Number(m[1]));
      const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length, ratio = mean(rates) / mean(truth);
      assert.ok(ratio > 0.5 && ratio < 2, // the page shows each rate until the next picture
         `${gos}: ${rates} on the page, ${truth} in truth`);
      const sizes = await page.$$eval(".graph .picture text", (all) => all.map((e) => {
        const picture = e.closest(".picture");
        return parseFloat(getComputedStyle(e).fontSize) * picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
      }));
      assert.ok(Math.min(...sizes) >= 10, `${gos}: a label has ${Math.min(...sizes)} px`);
      const [numbers] = await texts(page, "header .numbers");
      assert.ok(numbers.startsWith(`${(gos + 2).toLocaleString("en")} go blocks · ${chans.toLocaleString("en")} channels`), numbers);
      await shot(page, `size-${gos}`);
      assert.deepEqual(page.complaints, []);
      await page.close();
      program.kill("SIGKILL");
    }
    return open("about:blank");
  },

  async "kill, and a value that is put, where control is allowed"() {
    const program = await start("tests/browser/controlled.lua", "control");
    const page = await open(program.url);
    await page.evaluate(() => localStorage.clear());
    await page.click("#view-gos");
    await click(page, "table.gos td b", "victim");
    await click(page, ".kill", "kill");
    await untilText(page, "#message", "is cancelled");
    await until(page, () => ![...document.querySelectorAll("table.gos td b")].some((e) => e.textContent === "victim"));
    for (let tries = 0; tries < 600 && !program.errors.includes("victim:"); tries++) await sleep(100);
    assert.match(program.errors, /victim: killed from the monitor's page/);
    await page.click("#view-chans");
    await click(page, "table.chans td b", "lines");
    await untilText(page, ".values code", "line ");
    await page.type(".inject input", "by hand");
    await page.click(".inject button");
    await untilText(page, "#message", "the channel is full: the put waits");
    await untilText(page, "dd .link", "[C]"); // the put that waits has no go block of the program's
    await shot(page, "control");
    return page;
  },

  async "without control there is no button, and the server refuses"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url);
    await page.click("#view-gos");
    await click(page, "table.gos td b", "victim");
    await untilText(page, "#details h2", "victim");
    assert.equal(await page.$(".kill"), null);
    const answer = await page.evaluate(async () => {
      const response = await fetch(`kill${location.search}`, { method: "POST", body: new URLSearchParams({ id: 1 }) });
      return response.status;
    });
    assert.equal(answer, 403);
    assert.equal(page.complaints.length, 1); // the 403
    page.complaints = [];
    return page;
  },

  async "the timeline shows who runs and who waits, and can be kept"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url, "dark");
    await page.click("#view-timeline");
    await untilText(page, ".timeline text", "parse #");
    await until(page, () => document.querySelectorAll(".timeline rect.run").length > 20);
    await until(page, () => document.querySelectorAll(".timeline rect.park.put").length > 1);
    await until(page, () => document.querySelectorAll(".timeline rect.park.sleep").length > 1);
    await click(page, ".timeline .name", "reader #");
    await until(page, () => document.querySelectorAll(".timeline .arrow").length > 20);
    const arrows = await texts(page, ".timeline .arrow title");
    assert.ok(arrows.length > 20 && arrows.length <= 200, `${arrows.length} arrows`);
    assert.ok(arrows.every((text) => /^reader #\d+ → parse #\d+ on lines$/.test(text)), arrows[0]);
    await shot(page, "timeline");
    await page.click("#freeze");
    await sleep(500); // for what was being drawn
    const before = await page.$eval(".timeline svg", (e) => e.innerHTML);
    await sleep(2500);
    assert.equal(await page.$eval(".timeline svg", (e) => e.innerHTML), before);
    return page;
  },

  async "the runs of the program's store are shown by their states, and one with its steps"() {
    const alone = await open((await start("tests/browser/controlled.lua")).url);
    await alone.click("#view-runs");
    await untilText(alone, ".calm", "this program has no store open");
    await alone.close();
    const page = await open((await start("tests/browser/runs.lua", "120")).url);
    await page.click("#view-runs");
    await untilText(page, ".runs tr", "123"); // all
    const cells = () => texts(page, ".runs table:not(.list) tbody td");
    await until(page, () => [...document.querySelectorAll(".runs table:not(.list) tbody td")].map((e) => e.textContent.trim()).join() === "order,123,,,1,1,,,120,1,,1");
    await click(page, ".runs button", "120");
    await page.waitForFunction(() => document.querySelectorAll(".runs .list tbody tr").length === 50);
    for (const rows of [50, 20]) {
      await page.click(".runs .next");
      await page.waitForFunction((n) => document.querySelectorAll(".runs .list tbody tr").length === n, {}, rows);
    }
    assert.equal(await page.$(".runs .next"), null);
    await page.click(".runs tbody tr td:nth-child(10) button"); // failed
    await untilText(page, ".runs .list td", "no mail server");
    await page.click(".runs .list tbody button");
    await untilText(page, ".story .failed .name", "mail");
    assert.deepEqual(await texts(page, ".story .name"), ["1 charge", "mail"]);
    assert.match((await texts(page, ".runs p.step"))[0], /^mail .*runs\.lua:\d+\s+.*no mail server$/);
    await page.click(".runs tbody tr td:nth-child(5) button"); // sleeping
    await untilText(page, ".runs .list td", "asleep");
    await page.click(".runs .list tbody button");
    await untilText(page, ".story .sleeping .took", "sleeping");
    assert.doesNotMatch(await page.$eval("#app", (e) => e.textContent), /secret/);
    await shot(page, "runs");
    assert.equal((await cells()).length, 12);
    return page;
  },

  async "the queues of the program's server are shown, or that it has none"() {
    const alone = await open((await start("tests/browser/controlled.lua")).url);
    await alone.click("#view-queues");
    await untilText(alone, ".calm", "this program has no connection to NATS");
    await alone.close();
    const program = await start("tests/browser/queues.lua");
    const page = await open(program.url);
    await page.click("#view-queues");
    await untilText(page, ".queues", "2 of 2 running");
    const text = await page.$eval(".queues", (e) => e.textContent);
    assert.match(text, /\nresize +\d+ +2 +0 +0 +[\d.-]+ +[\d.]+ m?s +1 \(2 at a time\)/);
    await shot(page, "queues");
    program.stdin.end(); // ends the server, too
    await ended(program);
    await page.waitForFunction(() => document.querySelector("#status").textContent.includes("closed its monitor"));
    page.complaints = [];
    return page;
  },

  async "flows are shown by stage, paused, fed, repaired and drained"() {
    const program = await start("tests/browser/flows.lua", "control");
    const page = await open(program.url);
    await page.click("#view-flows");
    await untilText(page, ".flow h2", "numbers");
    const cells = (stage) => page.$$eval(".flow tr.stage", (all, name) =>
      all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())).find((c) => c[0] === name), stage);
    const untilCell = (stage, column, text) => until(page, (name, i, part) => [...document.querySelectorAll(".flow tr.stage")]
      .some((row) => row.cells[0].textContent === name && row.cells[i].textContent.includes(part)), stage, column, text);
    const press = (stage) => page.$$eval(".flow tr.stage", (all, name) =>
      all.find((row) => row.cells[0].textContent === name).querySelector("button").click(), stage);
    const put = async (stage, type, value) => {
      const form = await page.waitForSelector(".flow .inject");
      const id = await form.$$eval("select.to option", (all, name) => all.find((o) => o.textContent === name).value, stage);
      await (await form.$("select.to")).select(id);
      await (await form.$("select:not(.to)")).select(type);
      await page.$eval(".flow .inject input", (e) => { e.value = ""; });
      await (await form.$("input")).type(value);
      await (await form.$("form > button, button")).click();
    };
    await until(page, () => [...document.querySelectorAll(".flow tr.stage")].some((row) => Number(row.cells[6].textContent) > 5));
    const [, , button, ...others] = await cells("double");
    assert.deepEqual([button, others.at(-1)], ["pause", "> save"]);

    await press("double");
    await untilCell("double", 1, "paused");
    await untilCell("double", 4, "5/4"); // its buffer is full, and the source waits in its put
    await shot(page, "flows");
    await press("double");
    await untilCell("double", 2, "pause");

    await put("double", "string", "x"); // not a number: the stage holds it
    await until(page, () => document.querySelector("#message")?.textContent.includes("injected into stage double"));
    await untilCell("double", 1, "held");
    await untilCell("double", 8, "attempt to mul a 'number' with a 'string'");
    await put("save", "JSON", '{"end": [1, 2]}');
    await until(page, () => document.querySelector("#message")?.textContent.includes("injected into stage save"));
    await put("save", "JSON", "{");
    await untilText(page, "#message.bad", "not JSON");
    assert.match(program.errors, /saved \{ "end" = table \(2 entries\) \}/);

    await click(page, ".flow h2 button", "drain");
    await untilText(page, ".flow h2 .state", "draining");
    await press("double"); // resume: the function takes strings now
    await untilText(page, ".calm", "no flow runs");
    assert.match(program.errors, /ended: true/);
    return page;
  },

  async "a flow in the graph are its stages, and without control it has no buttons"() {
    const page = await open((await start("tests/browser/flows.lua")).url);
    await untilText(page, ".graph", "numbers.save");
    assert.deepEqual((await texts(page, ".graph .chan .label")).sort(), ["numbers.double", "numbers.save"]);
    await page.click("#view-flows");
    await untilText(page, ".flow h2", "numbers");
    assert.deepEqual(await texts(page, ".flow button"), []);
    return page;
  },

  async "a profile is recorded, drawn, kept, shown on other pages, and saved as a page"() {
    const program = await start("tests/browser/profiled.lua");
    const page = await open(program.url);
    await page.click("#view-profile");
    await untilText(page, ".profile", "it costs nothing");
    await page.select(".profile select", "1");
    await record(page);
    await untilText(page, "#recording", "of 1 s. The program is up to 3 % slower meanwhile");
    assert.ok(await page.$("#record:disabled"));
    await shot(page, "recording");
    await untilText(page, ".flame h2", "Look first at");
    await untilText(page, ".flame .ran", "resize (tests/browser/profiled.lua:");
    await untilText(page, ".flame .waited", "put on answers");
    await shot(page, "profile");
    await click(page, ".flame .frames button", "worker *"); // zooms in on it
    await untilText(page, ".flame .about", "of all that ran");
    assert.equal(await page.$(".flame .frames .waited"), null);
    await page.type(".flame input", "RESIZE");
    await until(page, () => document.querySelectorAll(".flame .found").length > 0);
    await click(page, ".flame .tools button", "Show all");
    await until(page, () => document.querySelector(".flame .frames .waited"));

    const other = await open(program.url, "dark");
    await other.click("#view-profile");
    const sentence = await page.$eval(".flame h2", (e) => e.textContent);
    await untilText(other, ".flame h2", sentence);
    await other.reload();
    await other.click("#view-profile");
    await untilText(other, ".flame h2", sentence);
    assert.deepEqual(other.complaints, []);
    await other.close();

    const file = resolve(SHOTS, "profiled-profile.html");
    rmSync(file, { force: true });
    const session = await page.createCDPSession();
    await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: resolve(SHOTS) });
    await click(page, "#save", "save as a page");
    for (let tries = 0; tries < 600 && !existsSync(file); tries++) await sleep(100);
    const saved = await open(`file://${file}`);
    await untilText(saved, ".flame h2", sentence);
    await untilText(saved, ".flame .ran", "resize (");
    await saved.close();
    return page;
  },

  async "a page of a profile needs no network, and looks well at any width"() {
    const file = resolve(SHOTS, "profile-page.html");
    rmSync(file, { force: true });
    execFileSync(RUNNEL, [`--profile=${file}`, "-e", `local rn = require "runnel"
      local ch = rn.chan():name "<b>jobs</b>"
      rn.go(function() for i = 1, 10 do rn.sleep(100) ch:put(i) end ch:close() end)
      for _ in ch do local t = os.clock() repeat until os.clock() - t > 0.01 end`]);
    for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
      const page = await open(`file://${file}`, scheme);
      await page.setViewport({ width, height: 800 });
      await untilText(page, ".flame .ran", "os.clock");
      await untilText(page, ".flame .waited", "take from <b>jobs</b>");
      assert.deepEqual(await narrow(page), []);
      await shot(page, `profile-page-${width}-${scheme}`);
      assert.deepEqual(page.complaints, []);
      await page.close();
    }
    return open("about:blank");
  },

  async "two pages see one recording; it gives way to the program's own, which both wait for"() {
    const program = await start("tests/browser/profiled.lua");
    const [a, b] = [await open(program.url), await open(program.url)];
    for (const page of [a, b]) {
      await page.bringToFront();
      await page.click("#view-profile");
      await page.waitForSelector("#record:not(:disabled)");
    }
    await b.select(".profile select", "30");
    await b.click("#record");
    for (const page of [b, a]) {
      await page.bringToFront();
      await untilText(page, "#recording", "of 30 s");
      await page.waitForSelector("#record:disabled");
    }
    program.stdin.write("profile\n");
    await untilText(a, ".profile", "The program makes a profile of its own");
    await untilText(a, ".profile", "It ended early, because the program has begun a profile of its own");
    await untilText(a, ".flame h2", "Look first at");
    await a.waitForSelector("#record:disabled");
    program.stdin.write("over\n");
    await a.waitForSelector("#record:not(:disabled)");
    assert.deepEqual(a.complaints, []);
    await a.close();
    return b;
  },

  async "a profile is incomplete if the program ends before, and the page says so"() {
    const program = await start("tests/browser/profiled.lua");
    const page = await open(program.url);
    await page.click("#view-profile");
    await page.select(".profile select", "30");
    await record(page);
    await untilText(page, "#recording", "of 30 s");
    program.stdin.write("end\n");
    assert.equal(await ended(program), 0);
    await untilText(page, ".profile", "The program has ended before its profile was complete");
    assert.equal(await page.$("#record"), null);
    page.complaints = []; // of the connection
    return page;
  },

  async "leaks are a table, which a page with control can bring up to date"() {
    for (const control of ["control", ""]) {
      const page = await open((await start("tests/browser/profiled.lua", control)).url);
      await page.click("#view-leaks");
      await untilText(page, ".leaks", "A leak is found in the third cycle of the collector");
      assert.equal(await page.$("#collect") !== null, control === "control");
      if (control) {
        await page.click("#collect");
        await untilText(page, "table.leaks td", "put on chan: answers");
        const [n, started, where, example] = await texts(page, "table.leaks tbody td");
        assert.deepEqual([n, started, example], ["10", where, "put on chan: answers"]);
        assert.match(where, /^tests\/browser\/profiled\.lua:\d+$/);
        await shot(page, "leaks");
      }
      assert.deepEqual(page.complaints, []);
      await page.close();
    }
    return open("about:blank");
  },

  async "each tab at 1280 and 390 px, light and dark: nothing is wider than the page, no text smaller than 10 px"() {
    const programs = [[["tests/browser/runs.lua", "3"], ["runs"]], [["tests/browser/profiled.lua", "control"], ["graph", "chans", "gos", "timeline", "profile", "leaks", "queues"]],
      [["tests/browser/flows.lua", "control"], ["graph", "flows"]]];
    for (const [args, views] of programs) {
      const page = await open((await start(...args)).url);
      await untilText(page, ".graph .label", "");
      if (views.includes("profile")) {
        await page.click("#view-profile");
        await page.select(".profile select", "1");
        await record(page);
        await page.waitForSelector(".flame .frames button");
        await page.click("#view-leaks");
        await (await page.waitForSelector("#collect")).click();
        await page.waitForSelector("table.leaks");
      }
      if (views.includes("runs")) {
        await page.click("#view-runs");
        await click(page, ".runs button", "1");
        await page.waitForSelector(".runs .list tbody button");
        await page.click(".runs .list tbody button");
      }
      for (const scheme of ["light", "dark"]) {
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        for (const width of [1280, 390]) {
          await page.setViewport({ width, height: 800 });
          for (const view of views) {
            await page.click(`#view-${view}`);
            await page.waitForSelector({ graph: ".graph .label", timeline: ".timeline rect", profile: ".flame .frames button", flows: ".flow table",
              queues: ".calm", runs: ".story i" }[view] || "table tbody td");
            await sleep(300); // for the layout, and for charts
            assert.deepEqual(await narrow(page), [], `${view} at ${width} px`);
            await shot(page, `tab-${view}-${width}-${scheme}`);
          }
        }
      }
      assert.deepEqual(page.complaints, []);
      await page.close();
    }
    return open("about:blank");
  },

  async "the picture can be paused, and goes on"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url);
    await untilText(page, ".graph .chan", "10/10");
    await page.click("#pause");
    await untilText(page, "#status", "paused");
    await sleep(500); // for what was being drawn
    const before = await page.$eval("#app", (e) => e.textContent);
    await sleep(1500);
    assert.equal(await page.$eval("#app", (e) => e.textContent), before);
    await page.click("#pause");
    await untilText(page, "#status", "live");
    await until(page, (text) => document.querySelector("#app").textContent !== text, before);
    return page;
  },

  async "a reload connects again, with the charts as they were"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url);
    await untilText(page, ".graph .chan", "10/10");
    await sleep(5000);
    await page.reload();
    await untilText(page, ".graph .chan", "10/10");
    const kept = await page.evaluate(() => JSON.parse(sessionStorage.getItem("runnel.history")).history.t.length);
    assert.ok(kept >= 3, `${kept} samples`);
    await untilText(page, "#status", "live");
    return page;
  },

  async "a program that has ended is shown as such"() {
    const end = `${SHOTS}/end`; // the program ends when there is this file
    rmSync(end, { force: true });
    const program = await start("tests/browser/controlled.lua", "", end);
    const page = await open(program.url);
    await untilText(page, ".graph .chan", "10/10");
    writeFileSync(end, "");
    assert.equal(await ended(program), 0);
    await untilText(page, "#status", "the program has ended; this is the last picture, taken ");
    assert.match(await page.title(), /\(ended\)/);
    assert.equal(await page.$("#pause"), null);
    await sleep(1000); // it does not connect again
    await shot(page, "ended");
    return page;
  },

  async "what has ended the program is shown, and no button that does nothing is left"() {
    const ends = { "error 'the cable was pulled'": /^the program has ended with an error: .*the cable was pulled; this is the last picture, taken /,
      "": /^the program has ended by itself; this is the last picture, taken /,
      "jobs:take()": /^the program has ended with an error: .*take.*jobs.*; this is the last picture, taken / };
    for (const [text, why] of Object.entries(ends)) {
      const program = await start("--monitor", "-e", `local rn = require "runnel" local jobs = rn.chan():name "jobs"
        require("runnel.uv").stdin():take() ${text}`);
      const page = await open(program.url);
      await untilText(page, "header .numbers", "MB of Lua memory");
      program.stdin.end("go on\n");
      await ended(program);
      await until(page, () => document.querySelector("#status").textContent.includes("has ended"));
      assert.match(await status(page), why);
      for (const view of ["timeline", "profile", "flows", "queues", "runs", "leaks"]) {
        await page.click(`#view-${view}`);
        assert.deepEqual(await texts(page, ".views button:not(nav button):not(.bar button):not(th button), header button"), [], view);
      }
      page.complaints = []; // of the connection
      await page.close();
    }
    return open("about:blank");
  },

  async "a page waits for its first picture, and says so"() {
    const program = await start("--monitor", "-e", "while true do end");
    const page = await open(program.url);
    await untilText(page, "header .numbers", "no picture yet");
    await untilText(page, ".graph", "waiting for the first picture");
    await page.click("#view-chans");
    await untilText(page, "table.chans", "waiting for the first picture");
    assert.doesNotMatch(await page.$eval("#app", (e) => e.textContent), /\b0 (go blocks|channels)|0\.0 MB/);
    return page;
  },

  async "alike workers are one box, a graph that is too large begins where nodes are, and all of it fits"() {
    const program = await start("tests/browser/sieve.lua");
    const page = await open(program.url);
    await untilText(page, ".graph .go .label", "worker #");
    await untilText(page, ".graph .go .times", "× 4");
    await untilText(page, ".graph .go .label", "filter 61");
    const visible = () => page.$$eval(".graph .go, .graph .chan", (all) => {
      const box = document.querySelector(".graph .scroll").getBoundingClientRect();
      return all.map((e) => e.getBoundingClientRect()).filter((r) => r.left >= box.left - 1 && r.right <= box.right + 1
        && r.top >= box.top - 1 && r.bottom <= box.bottom + 1).length;
    });
    const total = async () => (await page.$$(".graph .go, .graph .chan")).length;
    for (const [width, height] of [[1440, 900], [390, 844]]) {
      await page.setViewport({ width, height });
      await untilText(page, ".graph .bar", "It goes on");
      await until(page, () => /[1-9]\d* of /.test(document.querySelector(".graph .bar").textContent));
      assert.ok(await visible() >= (width === 390 ? 2 : 5), `${await visible()} boxes at ${width} px`);
      assert.deepEqual(await narrow(page), [], `${width} px`);
      await shot(page, `sieve-${width}`);
      await click(page, ".graph .bar button", "fit");
      await untilText(page, ".graph .bar", "without their labels");
      assert.equal(await visible(), await total());
      assert.deepEqual(await texts(page, ".graph .label"), []);
      await shot(page, `sieve-fit-${width}`);
      await click(page, ".graph .bar button", "fit");
    }
    return page;
  },

  async "a program that was killed is shown as such"() {
    const program = await start("tests/browser/controlled.lua");
    const page = await open(program.url);
    await untilText(page, ".graph .chan", "10/10");
    program.kill("SIGKILL");
    await untilText(page, "#status", "has ended");
    page.complaints = []; // the browser complains of the connection
    return page;
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  if (only && !name.includes(only)) continue;
  try {
    const page = await test();
    assert.deepEqual(page.complaints, [], "what the page complains of");
    await page.close();
    console.log(`ok      ${name}`);
  } catch (err) {
    failed++;
    console.log(`FAILED  ${name}\n        ${err.stack.replace(/\n/g, "\n        ")}`);
    for (const page of await browser.pages()) {
      if (page.url().startsWith("http")) await shot(page, "failed").catch(() => {});
    }
  }
  for (const program of running) program.kill("SIGKILL");
}
await browser.close();
console.log(failed ? `${failed} failed; see ${SHOTS}/failed.png` : "all well");
process.exit(failed ? 1 : 0);
