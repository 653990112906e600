// pages.mjs PART [TEST]: the site in a browser: every second test, from the PARTth on (1 or 2), or those of which the name
// contains TEST. Run by site/check/check.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { gzipSync } from "node:zlib";
import path from "node:path";
import puppeteer from "puppeteer-core";
import { access } from "./access.mjs";
import { brokenLinks, pagesOf } from "./crawl.mjs";
import { looks } from "./looks.mjs";
import { serve } from "./server.mjs";

const { BROWSER, SITE, SHOTS } = process.env;
const [, , part, only] = process.argv;
mkdirSync(SHOTS, { recursive: true });

const site = await serve(SITE);
const launch = (...flags) => puppeteer.launch({ executablePath: BROWSER, protocolTimeout: 120000,
  args: ["--no-sandbox", "--disable-gpu", ...flags] });
const browser = await launch();

// Opens a page; what goes wrong in it is collected in page.complaints.
async function open(url, { scheme = "light", width = 1280, height = 800, isMobile = false, hasTouch = false, before } = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) page.complaints.push(message.text()); });
  page.on("pageerror", (err) => page.complaints.push(err.message));
  page.on("requestfailed", (request) => { // not those of a page that was left
    if (request.failure().errorText !== "net::ERR_ABORTED") page.complaints.push(`${request.url()} failed`);
  });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width, height, isMobile, hasTouch });
  if (before) await page.evaluateOnNewDocument(before);
  await page.goto(site.url + url);
  return page;
}

const until = (page, condition, ...args) => page.waitForFunction(condition, { timeout: 60000, polling: 50 }, ...args);
const output = (page) => page.$eval("#output", (e) => e.textContent);
const state = (page) => page.$eval("#state", (e) => e.textContent);

// ---- the workbench: the playground and the tour ----

const ready = (page) => until(page, () => document.querySelector("#workbench").dataset.ready);
const over = (page) => until(page, () => document.querySelector("#workbench").dataset.status !== undefined);
const status = (page) => page.$eval("#workbench", (e) => e.dataset.status);
const type = (page, code) => page.$eval("#editor textarea", (e, text) => {
  e.value = text;
  e.dispatchEvent(new Event("input"));
}, code);
const code = (page) => page.$eval("#editor textarea", (e) => e.value);

async function playground(hash = "", options) {
  const page = await open("playground/index.html" + hash, options);
  await ready(page);
  return page;
}

// Runs a program in the playground to its end.
async function runs(page, program) {
  await type(page, program);
  await page.click("#run");
  await over(page);
  return [await status(page), await output(page)];
}

// Step 11 of the tour: who waits for whom for ever, and the bars until then.
async function showsDeadlock(page) {
  await page.waitForSelector(".story");
  const text = (cells) => cells.map((e) => e.textContent);
  assert.deepEqual(await page.$$eval(".story tr:first-child th", text), ["", "f", "a to b", "b to a"]);
  const ever = await page.$$eval(".story td.ever", text);
  assert.deepEqual(ever.map((end) => end.replace(/ \(.*/, "")), ["waits for ever to take from the result of a to b",
    "waits for ever to take from b", "waits for ever to take from a"]);
  assert.ok((await page.$$eval(".story td.deed", text)).some((deeds) => /starts a to b\n.*starts b to a/s.test(deeds)));
  assert.equal(await page.$$eval(".story td.take", (all) => all.length), 5); // f for four steps, "a to b" for one
}

// Step 13: the hosts, the messages, of which one is lost, and that the mended program has been searched.
async function showsMessages(page) {
  await page.waitForSelector(".sequence svg");
  assert.match(await output(page), /error: the sum is 10 .*\nwith ids: all \d[\d,]* schedules of its go blocks\n/s);
  assert.equal(await page.$eval(".sequence figcaption", (e) => e.textContent), "error: the sum is 10");
  const heads = await page.$$eval(".sequence .host text", (all) => all.map((e) => e.textContent));
  assert.deepEqual(heads, ["client", "bank", "client", "bank"]); // above and below
  const messages = await page.$$eval(".sequence .message", (all) => all.filter((e) => e.querySelector("text")).map((e) =>
    [e.querySelector("title").textContent, e.classList.contains("bad")]));
  const lost = messages.filter(([, bad]) => bad);
  assert.equal(lost.length, 1);
  assert.match(lost[0][0], /^4 ms: "done" is lost: the connection is reset \(fault reset\)$/);
  assert.equal(messages.filter(([title]) => /: "a17 5"$/.test(title)).length, 2);
}

const monitor = async (page) => (await page.$("#monitor")).contentFrame();

// Chooses a view of the monitor's page, when the picture of what will be does not cover that page any more. Not by the
// mouse: hints may move the button meanwhile.
async function choose(page, frame, view) {
  await until(page, () => document.querySelector("#preview").hidden);
  const button = `#view-${view}`;
  await frame.waitForSelector(button, { timeout: 60000 });
  const isSeen = await frame.$eval(button, (e) => {
    const { x, y, width, height } = e.getBoundingClientRect();
    e.click();
    return document.elementFromPoint(x + width / 2, y + height / 2) === e;
  });
  assert.ok(isSeen, `${button} is covered`);
  await frame.waitForSelector(`${button}[aria-pressed="true"]`, { timeout: 60000 });
}

// ---- the tests: each returns its page, which must have no complaints ----

const tests = {
  async "every page names its file, the version and the commit, fits a phone, and next and previous lead through all pages"() {
    const page = await open("index.html", { width: 390, height: 800, scheme: "dark" }), steps = new Map();
    for (const url of pagesOf(SITE)) {
      await page.goto(site.url + url, { waitUntil: "domcontentloaded" });
      const [footer, wide, prev, next] = await page.evaluate(() => [document.querySelector("footer").textContent,
        document.scrollingElement.scrollWidth - innerWidth, ...["prev", "next"].map((kind) =>
          document.querySelector(`.steps a.${kind}`)?.href)]);
      assert.match(footer, /runnel \d+\.\d+\.\d+\S*, (commit [0-9a-f]{12}|not built from a commit).* changelog · MIT licence ·\s+sources/, url);
      const [, file] = /Edit this page: (\S+) in the sources/.exec(footer) || [];
      assert.ok(file && existsSync(file), `${url}: ${file}`);
      assert.ok(wide <= 0, `${url} is ${wide} pixels wider than a phone`);
      steps.set(page.url(), { prev, next });
    }
    let n = 1;
    for (let at = site.url + "index.html", next; (next = steps.get(at).next); at = next, n++) assert.equal(steps.get(next).prev, at);
    assert.ok(n > 40, `${n} pages`);
    return page;
  },

  async "every snippet of every page prints what is documented"() {
    const page = await open("index.html");
    let n = 0;
    for (const url of pagesOf(SITE)) {
      await page.goto(site.url + url, { waitUntil: "domcontentloaded" });
      if (!(await page.$(".snippet[data-run]"))) continue;
      await page.waitForSelector(".snippet button.run:not(:disabled)");
      const count = await page.$$eval(".snippet[data-run] button.run", (all) => all.length);
      await page.$$eval(".snippet[data-run] button.run", (all) => all.forEach((b) => b.click()));
      await until(page, () => [...document.querySelectorAll(".snippet[data-run]")].every((s) => s.dataset.status));
      assert.deepEqual(await page.$$eval(".verdict.bad", (all) => all.map((e) => e.parentElement.textContent)), [], url);
      n += count;
    }
    assert.ok(n > 60, `${n} snippets`);
    return page;
  },

  async "the tour runs from its first to its last step"() {
    const page = await open("tour/01.html");
    for (let step = 1; ; step++) {
      await ready(page);
      await page.click("#run");
      await over(page);
      assert.equal(await status(page), step === 5 ? "1" : "0", `step ${step}: ${await output(page)}`);
      const frame = await monitor(page);
      if (![5, 10, 13].includes(step)) await frame.waitForSelector(".graph .chan", { timeout: 30000 });
      if (step === 11) await showsDeadlock(page);
      if (step === 13) await showsMessages(page);
      const next = await page.$(".dots a.next");
      if (!next) {
        assert.equal(step, 13);
        return page;
      }
      await Promise.all([page.waitForNavigation(), next.click()]);
    }
  },

  async "every link and anchor of every page leads somewhere"() {
    const { links, broken } = brokenLinks(SITE);
    assert.deepEqual(broken, []);
    assert.ok(links > 3000, `${links} links`);
  },

  async "a first visit: the output of a snippet comes at once, and little is loaded"() {
    const own = await launch(); // its cache is empty
    try {
      const page = await own.newPage(), began = performance.now();
      await page.goto(site.url + "index.html", { waitUntil: "domcontentloaded" });
      await page.waitForSelector(".snippet button.run:not(:disabled)");
      await page.click(".snippet button.run");
      await page.waitForFunction(() => document.querySelector(".snippet")?.dataset.status === "0", { polling: 10, timeout: 30000 });
      console.log(`        output ${Math.round(performance.now() - began)} ms after the visit began`);
    } finally {
      await own.close();
    }
    const size = (f) => gzipSync(readFileSync(path.join(SITE, f)), { level: 9 }).length;
    const module = size("assets/runnel.wasm"), page = await open("playground/index.html");
    const from = site.sent.length;
    await page.reload();
    await ready(page);
    await runs(page, "print 'x'");
    const files = new Set(site.sent.slice(from).map((f) => f.path.slice(1)).filter((f) => f && !f.endsWith(".wasm")));
    for (const f of ["assets/worker.js", "assets/site.css"]) files.add(f);
    files.delete("assets/modules.txt");
    const rest = [...files].filter((f) => statSync(path.join(SITE, f)).isFile()).reduce((n, f) => n + size(f), 0);
    const lua = size("assets/modules.txt");
    console.log(`        with gzip: the module ${(module / 1024).toFixed(1)} KB, more Lua modules ${(lua / 1024).toFixed(1)} KB, the rest of the playground ${(rest / 1024).toFixed(1)} KB`);
    assert.ok(module <= 180 * 1024 && module + lua <= 248 * 1024 && rest <= 114 * 1024);
    return page;
  },

  async "a snippet opens in the playground"() {
    const page = await open("docs/manual/channels.html");
    const href = await page.$eval(".snippet[data-run] a.open", (a) => a.href), text = await page.$eval(".snippet[data-run] code", (e) => e.textContent);
    await page.goto(href);
    await ready(page);
    assert.ok((await code(page)).includes(text.trim()));
    await page.click("#run");
    await over(page);
    assert.equal(await status(page), "0");
    return page;
  },

  async "the search finds a section, also by the keyboard"() {
    const page = await open("docs/tutorial.html");
    await page.keyboard.press("/");
    await page.keyboard.type("sliding buff");
    await until(page, () => document.querySelectorAll("#found a").length > 2);
    await page.keyboard.press("ArrowDown");
    const href = await page.evaluate(() => document.activeElement.href);
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    assert.equal(page.url(), href);
    for (const [question, place] of [["conn:source", "docs/manual/streams.html#sources"], ["websokcet", "docs/manual/websocket.html"],
      ["how do I stop without losing requests?", "docs/manual/http-server.html#restarts"]]) {
      await page.$eval("#search", (e) => { e.value = ""; e.focus(); });
      await page.keyboard.type(question);
      await until(page, (to) => document.querySelector("#found a")?.href.endsWith(to), place);
    }
    await page.$eval("#search", (e) => { e.value = ""; e.focus(); });
    await page.keyboard.type("xyzzyqwx");
    await until(page, () => document.querySelector("#found").textContent === "nothing found");
    return page;
  },

  async "the playground shows the bottleneck while the program runs, and stops it"() {
    const page = await playground();
    await page.click("#run");
    const frame = await monitor(page);
    await frame.waitForFunction(() => /is the bottleneck/.test(document.querySelector(".hints")?.textContent), { timeout: 60000 });
    await choose(page, frame, "timeline");
    await frame.waitForSelector(".timeline .run", { timeout: 30000 });
    await page.screenshot({ path: `${SHOTS}/playground.png` });
    await page.click("#stop");
    await over(page);
    assert.equal(await status(page), "stopped");
    await frame.waitForFunction(() => document.querySelector("#status").textContent.includes("ended"));
    return page;
  },

  async "the page kills a go block, and puts a value on a channel, while the program waits"() {
    const page = await playground();
    await type(page, `local rn = require "runnel"
      local ch = rn.chan(2):name "values"
      local w = rn.go(function() rn.rename "victim" rn.sleep(1e9) end)
      rn.go(function() rn.rename "taker" print("got " .. tostring(ch:take())) rn.sleep(1e9) end)
      print(select(2, w:take()))`);
    await page.click("#run");
    const frame = await monitor(page);
    await choose(page, frame, "chans");
    await frame.waitForFunction(() => [...document.querySelectorAll("table.chans tbody tr")].some((r) => r.textContent.includes("values")));
    await frame.$$eval("table.chans tbody tr", (rows) => rows.find((r) => r.textContent.includes("values")).click());
    await (await frame.waitForSelector(".inject input")).type("hello");
    await frame.$eval(".inject button", (button) => button.click());
    await until(page, () => document.querySelector("#output").textContent.includes("got hello"));
    await choose(page, frame, "gos");
    await frame.$$eval("table.gos tbody tr", (rows) => rows.find((r) => r.textContent.includes("victim")).click());
    await frame.waitForSelector(".kill");
    await frame.$eval(".kill", (button) => button.click()); // not by the mouse: the page may draw it elsewhere meanwhile
    await until(page, () => document.querySelector("#output").textContent.includes("killed from the monitor's page"));
    await page.click("#stop");
    return page;
  },

  async "the page injects JSON into a stage of a flow, and replaces one that holds"() {
    const page = await playground(), says = (text) => frame.waitForFunction((t) =>
      document.querySelector("#message")?.textContent.includes(t), { timeout: 20000, polling: 50 }, text);
    const printed = (text) => until(page, (t) => document.querySelector("#output").textContent.includes(t), text);
    await type(page, `local rn = require "runnel"
      local f = require "runnel.flow"("shop", {
        orders = { source = function(put) put { count = 2 } put { } rn.sleep(1e9) end },
        total = { function(order) return 5 * order.count end },
        save = print,
        "orders > total > save",
      })
      while not pcall(f.wait, f) do rn.sleep(50) end`);
    await page.click("#run");
    await printed("10\n");
    const frame = await monitor(page), chooses = (form, name) => frame.$eval(`${form} select.to`, (e, text) => {
      e.value = [...e.options].find((o) => o.textContent === text).value;
      e.dispatchEvent(new Event("change", { bubbles: true }));
    }, name);
    await choose(page, frame, "flows");
    await frame.waitForFunction(() => document.querySelector("tr.held")?.textContent.includes("attempt to perform arithmetic"));
    const replaced = async (code) => { // of the stage that holds
      await frame.$eval(".replace textarea", (e, text) => {
        e.value = text;
        e.dispatchEvent(new Event("input", { bubbles: true }));
      }, code);
      await (await frame.$(".replace button")).click();
    };
    await replaced("function(order");
    await says("total:1: ')' expected near <eof>");
    await replaced("42");
    await says("replace: ");
    await replaced("(function() error 'no function' end)()");
    await says("total:1: no function");
    await replaced("function(order)\n  return 100 * (order.count or 1)\nend");
    await says("stage total of flow shop has another function");
    await (await frame.$("tr.held button.resume")).click();
    await printed("100\n");
    await chooses(".inject:not(.replace)", "total");
    await frame.select('.inject:not(.replace) select[aria-label="type"]', "JSON");
    await (await frame.$(".inject input")).type('{"count": 7}');
    await (await frame.$(".inject:not(.replace) button")).click();
    await printed("700\n");
    await page.click("#stop");
    return page;
  },

  async "an endless loop, and a hundred million prints, can be stopped"() {
    const page = await playground();
    await type(page, "print 'begins' while true do end");
    await page.click("#run");
    await until(page, () => document.querySelector("#output").textContent.includes("begins"));
    await (await monitor(page)).waitForFunction(() =>
      /^Lua has computed for .* and timers wait/.test(document.querySelector(".hints")?.textContent), { timeout: 20000 });
    await page.click("#stop");
    await over(page);
    await type(page, "for i = 1, 1e8 do print(i) end");
    await page.click("#run");
    await until(page, () => document.querySelector("#output").textContent.includes("the output is cut here"));
    await page.click("#stop");
    await over(page);
    const [, last, cut] = /\n(\d+)\n(\d+)\n\n\(the output is cut here: it is longer than 256 KB; the program runs on\)\n$/
      .exec(await output(page));
    assert.equal(Number(cut), Number(last) + 1); // whole lines
    assert.ok((await output(page)).length < 300000);
    assert.equal(await state(page), "stopped");
    return page;
  },

  async "what is wrong with a program is said in the page"() {
    const page = await playground();
    for (const [program, wanted] of [
      ["local x = = 1", /playground\.lua:1: unexpected symbol near '='/],
      ["error 'my mistake'", /playground\.lua:1: my mistake\nstack traceback:/],
      ["local rn = require 'runnel' rn.chan():name 'nobody':take()", /deadlock/],
      ["local function f() return 1 + f() end f()", /stack overflow/],
      ["local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end", /not enough memory/],
      ["local rn = require 'runnel' rn.threads(2, print)", /^runnel: playground\.lua:1: rn\.threads does not run in a web page, which has no threads/],
      ["rn.scope(function(s) s:thread(print) end)", /^runnel: .*: this does not run in a web page, which has no threads/],
      ["require 'luv'", /does not run in a web page, which has no files, sockets and processes/],
      ["require 'runnel.uv'.connect('h', 1)", /^runnel: playground\.lua:1: connect: a web page has no files, sockets and processes/],
      ["local s = ('x'):rep(1e9)", /not enough memory/],
      ["fetch 'no-such-page':take() print(require 'runnel'.is_chan(fetch 'no-such-page'))", /status 404/],
    ]) {
      const [ended, text] = await runs(page, program);
      assert.equal(ended, "1", program);
      assert.match(text, wanted);
    }
    page.complaints = page.complaints.filter((text) => !/404/.test(text)); // of the page that does not exist
    assert.deepEqual(await runs(page, "print 'well'"), ["0", "well\n"]);
    return page;
  },

  async "a link has the program in it; a damaged one says so"() {
    const page = await playground(), program = 'print "grüße, 世界 </script>"\n';
    await type(page, program);
    await page.click("#share");
    await until(page, () => !document.querySelector("#link").hidden);
    const link = await page.$eval("#link", (e) => e.value);
    const other = await playground(new URL(link).hash);
    assert.equal(await code(other), program);
    assert.deepEqual(await runs(other, await code(other)), ["0", "grüße, 世界 </script>\n"]);
    await other.close();
    for (const damaged of ["#code=%%%", "#code=abc", new URL(link).hash.slice(0, -6)]) {
      const bad = await playground(damaged);
      assert.match(await state(bad), /the link is damaged/);
      assert.match(await code(bad), /slow stage/);
      assert.deepEqual(bad.complaints, []);
      await bad.close();
    }
    return page;
  },

  async "examples can be chosen, and pages are fetched"() {
    const page = await playground();
    const titles = await page.$$eval("#example option", (all) => all.map((o) => o.textContent));
    assert.ok(titles.length > 6);
    await page.select("#example", String(titles.findIndex((t) => /etch/.test(t)) - 1));
    assert.match(await code(page), /fetch\(url\)/);
    await page.click("#run");
    await over(page);
    assert.match(await output(page), /index\.html: \d+ bytes\n.*tutorial\.html: \d+ bytes\n.*no-such-page\.html: fetch: .*404/);
    page.complaints = page.complaints.filter((text) => !/404/.test(text));
    return page;
  },

  async "100,000 go blocks sleep at the same time; messages are fast"() {
    const page = await playground();
    const [ended, text] = await runs(page, `local rn = require "runnel"
      local all = {}
      for i = 1, 100000 do all[i] = rn.go(function() rn.sleep(100) return 1 end) end
      local n = 0
      for i = 1, 100000 do n = n + all[i]:take() end
      local best = math.huge
      for _ = 1, 200 do
        local ch, began = rn.chan(), rn.now()
        rn.go(function() for i = 1, 1000 do ch:put(i) end ch:close() end)
        rn.go(function() for _ in ch do end end):take()
        best = math.min(best, rn.now() - began)
      end
      print(n, best)`);
    assert.equal(ended, "0", text);
    const [n, best] = text.split("\t").map(Number);
    assert.equal(n, 100000);
    console.log(`        chan(0): ${best.toFixed(2)} us for a message, the best of 200 times 1000, beside the monitor`);
    return page;
  },

  async "a browser without WebAssembly says so"() {
    const page = await open("index.html", { before: () => { delete globalThis.WebAssembly; } });
    await page.click(".snippet button.run");
    await until(page, () => /has no WebAssembly/.test(document.querySelector(".snippet .output")?.textContent));
    return page;
  },

  async "without WebAssembly.Suspending programs run, too, with the timeline"() {
    const page = await playground("", { before: () => { delete WebAssembly.Suspending; } });
    await page.click("#run");
    const frame = await monitor(page);
    await choose(page, frame, "timeline");
    await frame.waitForSelector(".timeline .run", { timeout: 30000 });
    await page.click("#stop");
    assert.match((await runs(page, "fetch 'x'"))[1], /has no Suspending/);
    assert.equal((await runs(page, "local rn = require 'runnel' rn.sleep(20) print 'slept'"))[1], "slept\n");
    return page;
  },
};

Object.assign(tests, looks({ site, SITE, SHOTS, launch, open, until, monitor, choose, runs, playground, over }),
  access({ site, SITE, open, until, monitor }));

let failed = 0;
for (const [i, [name, test]] of Object.entries(tests).entries()) {
  if (only ? !name.includes(only) : i % 2 !== part - 1) continue;
  const began = performance.now();
  try {
    const page = await test();
    if (page) {
      assert.deepEqual(page.complaints, []);
      await page.close();
    }
    console.log(`ok      ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
  } catch (err) {
    failed++;
    console.log(`FAILED  ${name}\n${err.stack}`);
  }
}
await browser.close();
site.close();
process.exit(failed ? 1 : 0);
