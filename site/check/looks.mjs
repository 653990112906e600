// looks.mjs: the tests of how the pages look, and of how much they load before something is seen.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { pagesOf } from "./crawl.mjs";
import { cutOff, faintTexts, smallTargets } from "./measure.mjs";

export const KINDS = ["index.html", "tour/02.html", "playground/index.html", "docs/performance.html", "docs/manual/channels.html",
  "source/examples/index.html"];
export const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true };

// 1.6 Mbit/s are 200,000 bytes in a second.
const BYTES_A_SECOND = 200000;

// `site` is the server of the folder SITE; the other functions are those of pages.mjs.
export function looks({ site, SITE, SHOTS, launch, open, until, monitor, choose, runs, playground, over }) {
  const pictureSays = (page) => page.$$eval("#picture .says", (all) => all.map((e) => e.textContent));
  const boxes = (page) => page.$$eval("#editor, #output, #monitor, #run", (all) => all.map((e) => {
    const { x, y, width, height } = e.getBoundingClientRect();
    return [e.id, x, y + scrollY, width, height].join(" ");
  }));

  // The bytes of all that the server was asked for until a condition of the page holds, and the time that this took, with
  // 1.6 Mbit/s and an empty cache.
  async function loadedUntil(url, condition, act) {
    const own = await launch();
    try {
      const page = await own.newPage(), network = await page.createCDPSession();
      await network.send("Network.enable");
      await network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: BYTES_A_SECOND, uploadThroughput: BYTES_A_SECOND });
      const from = site.sent.length, began = performance.now();
      await page.goto(site.url + url, { waitUntil: "domcontentloaded" });
      if (act) await act(page);
      await page.waitForFunction(condition, { polling: 10, timeout: 60000 });
      const ms = performance.now() - began, files = site.sent.slice(from);
      return { bytes: files.reduce((n, f) => n + f.size, 0), ms, files };
    } finally {
      await own.close();
    }
  }

  const inBothThemes = async (url, options, look) => {
    for (const scheme of ["light", "dark"]) {
      const page = await open(url, { scheme, ...options });
      await look(page, `${url}, ${scheme}`);
      assert.deepEqual(page.complaints, []);
      await page.close();
    }
  };

  return {
    async "the front page's program runs at once, and again as it is typed, with its graph"() {
      const page = await open("index.html");
      await until(page, () => /^parcel 1\nparcel 2\n/.test(document.querySelector("#output").textContent));
      const labels = () => page.$$eval("#picture .label", (all) => all.map((e) => e.textContent));
      assert.deepEqual((await labels()).sort(), ["main", "orders", "pack × 2", "parcels", "shop"]);
      await until(page, () => document.querySelector("#picture .edge.moves"));
      assert.ok((await pictureSays(page)).some((says) => says === "4 of 4"));
      assert.ok(await page.$eval("#picture svg", (svg) => {
        const size = (e) => parseFloat(getComputedStyle(e).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll("text")].every((e) => size(e) >= 12);
      }), "labels of at least 12 pixels");
      const type = (from, to) => page.$eval("#editor textarea", (field, a, b) => {
        field.value = field.value.replaceAll(a, b);
        field.dispatchEvent(new Event("input"));
      }, from, to);
      await type("pack", "wrap");
      await until(page, () => [...document.querySelectorAll("#picture .label")].some((e) => e.textContent === "wrap × 2"));
      await type("parcels", "1");
      await until(page, () => /front\.lua:4: /.test(document.querySelector("#output").textContent));
      assert.equal(await page.$eval("#state", (e) => e.textContent), "it has failed");
      return page;
    },

    async "no line of the tour and of the examples is cut off"() {
      for (const width of [1440, 1280]) {
        const page = await open("playground/index.html", { width, height: 900 });
        const cut = () => page.$eval("#editor", (e) => e.scrollWidth - e.clientWidth);
        for (const value of await page.$$eval("#example option", (all) => all.map((o) => o.value).filter(Boolean))) {
          await page.select("#example", value);
          assert.equal(await cut(), 0, `example ${value}, ${width} pixels wide`);
        }
        for (const url of pagesOf(SITE).filter((one) => one.startsWith("tour/"))) {
          await page.goto(site.url + url);
          assert.equal(await cut(), 0, `${url}, ${width} pixels wide`);
        }
        assert.deepEqual(page.complaints, []);
        await page.close();
      }
    },

    async "the diagram of a story has the place of the graph, until the next run"() {
      for (const [url, picture] of [["tour/11.html", ".story"], ["tour/13.html", ".sequence"]]) {
        const page = await open(url, { width: 1440, height: 900 });
        await page.waitForSelector("#workbench[data-ready]");
        await page.click("#run");
        await page.waitForSelector(picture, { timeout: 60000 });
        await until(page, (selector) => { // all of it, or 500 pixels
          const box = document.querySelector("#output").getBoundingClientRect(), it = document.querySelector(selector).getBoundingClientRect();
          return Math.min(box.bottom, it.bottom, innerHeight) - Math.max(box.top, it.top) > Math.min(it.height - 20, 500);
        }, picture);
        assert.equal(await page.$eval("#monitor", (e) => e.offsetHeight), 0, "the graph is hidden");
        await page.screenshot({ path: `${SHOTS}/story-${url.slice(5, 7)}.png` });
        await page.click("#run");
        await until(page, () => document.querySelector("#monitor").offsetHeight > 0);
        await page.close();
      }
    },

    async "the front page says on which machine and with which releases its figures were measured"() {
      const page = await open("index.html"), note = await page.$eval(".figures .note", (e) => e.textContent);
      assert.match(note, /^In ns .* on \d+ cores \(.+\), Debian .*: runnel \(.*Lua 5\.\d\.\d+\), Go \(\d+\.\d+[\d.]*\), Tarantool \(\d.*\)/);
      for (const peer of await page.$$eval(".bars th", (all) => all.map((e) => e.textContent))) assert.ok(note.includes(`${peer} (`), peer);
      return page;
    },

    async "the front page at four sizes, in pictures to look at"() {
      for (const [width, height] of [[390, 844], [768, 1024], [1280, 800], [1920, 1080]]) {
        await inBothThemes("index.html", { width, height }, async (page, where) => {
          await until(page, () => document.querySelector("#picture .edge.moves"));
          assert.deepEqual(await page.evaluate(cutOff), [], `${where}, ${width} pixels wide`);
          await page.screenshot({ path: `${SHOTS}/front-${width}-${where.split(" ")[1]}.png` });
        });
      }
    },

    async "the first output needs few bytes: 1 s with 1.6 Mbit/s for the front page, 2 s for the playground"() {
      const hasOutput = () => document.querySelector("#output")?.textContent;
      const front = await loadedUntil("index.html", hasOutput);
      const ground = await loadedUntil("playground/index.html", hasOutput, async (page) => {
        await page.waitForSelector("#workbench[data-begun]");
        await page.click("#run");
      });
      for (const [name, { bytes, ms }, limit] of [["the front page", front, 1], ["the playground", ground, 2]]) {
        console.log(`        ${name}: ${(bytes / 1024).toFixed(1)} KB, ${(bytes / BYTES_A_SECOND).toFixed(2)} s with 1.6 Mbit/s; output after ${Math.round(ms)} ms here`);
        assert.ok(bytes < limit * BYTES_A_SECOND, `${name}: ${bytes} bytes`);
      }
      assert.ok(!front.files.some((f) => /monitor|modules\.txt|search/.test(f.path)), "the front page loads these later");
      const first = await loadedUntil("index.html", () => document.querySelector(".hero h1"));
      assert.ok(first.files[0].size < 20000, `${first.files[0].size} bytes before anything is seen`);
    },

    async "beside each file is its .gz and its .br"() {
      let n = 0;
      for (const file of readdirSync(SITE, { recursive: true }).filter((f) => /\.(html|css|js|json|svg|txt|wasm)$/.test(f))) {
        const bytes = readFileSync(path.join(SITE, file));
        if (bytes.length < 200) continue;
        for (const [ending, decode] of [["gz", gunzipSync], ["br", brotliDecompressSync]]) {
          assert.ok(decode(readFileSync(path.join(SITE, `${file}.${ending}`))).equals(bytes), `${file}.${ending}`);
        }
        n++;
      }
      assert.ok(n > 100, `${n} files`);
    },

    async "every text has a contrast of 4.5, light and dark, before and after a run"() {
      for (const url of KINDS) {
        await inBothThemes(url, {}, async (page, where) => assert.deepEqual(await page.evaluate(faintTexts), [], where));
      }
      for (const scheme of ["light", "dark"]) {
        const page = await playground("", { scheme }), frame = await monitor(page);
        await page.click("#run");
        await frame.waitForSelector(".graph .chan.full", { timeout: 60000 });
        for (const view of ["graph", "charts", "chans", "gos", "timeline", "flows"]) {
          await choose(page, frame, view);
          assert.deepEqual(await frame.evaluate(faintTexts), [], `${view}, ${scheme}`);
        }
        await page.click("#stop");
        await over(page);
        await frame.waitForFunction(() => document.querySelector("#status").textContent.startsWith("the program has ended"));
        assert.deepEqual([await page.evaluate(faintTexts), await frame.evaluate(faintTexts)], [[], []], scheme);
        const colours = await frame.$eval("#status", (e) => [getComputedStyle(e).color, getComputedStyle(document.body).color]);
        assert.equal(colours[0], colours[1], "that it has ended is no alarm");
        await page.close();
      }
    },

    async "on a phone all targets have 44 pixels, nothing is cut off, and the tour's parts follow each other"() {
      for (const url of KINDS) {
        const page = await open(url, PHONE);
        assert.deepEqual([await page.evaluate(smallTargets), await page.evaluate(cutOff)], [[], []], url);
        await page.click("#menu");
        assert.deepEqual(await page.evaluate(smallTargets), [], `${url}, with its menu`);
        await page.close();
      }
      const page = await open("tour/02.html", PHONE);
      await page.waitForSelector("#workbench[data-ready]");
      await page.click("#run");
      await over(page);
      const tops = await page.$$eval("#workbench .text, #editor, #output, #monitor", (all) => all.map((e) => e.getBoundingClientRect().top));
      assert.deepEqual(tops, [...tops].sort((a, b) => a - b));
      assert.equal(await page.$eval("#editor", (e) => e.scrollHeight - e.clientHeight), 0, "all of the program is seen");
      const frame = await monitor(page);
      assert.deepEqual([await page.evaluate(cutOff), await frame.evaluate(smallTargets), await frame.evaluate(cutOff)], [[], [], []]);
      return page;
    },

    async "before a run there is the picture of what will be; nothing moves when it begins and ends"() {
      const page = await playground(), before = await boxes(page);
      const pictured = () => page.$eval("#preview", (e) => (e.hidden ? null : [...e.querySelectorAll(".label")].map((l) => l.textContent)));
      assert.deepEqual((await pictured()).sort(), ["count", "counts", "lines", "main", "read", "split", "words"]);
      await page.click("#run");
      const frame = await monitor(page);
      await frame.waitForFunction(() => ["read", "split", "count", "main"].every((name) => document.querySelector(`.go[data-name="${name}"]`)), { timeout: 60000 });
      assert.equal(await pictured(), null);
      assert.deepEqual(await boxes(page), before);
      await page.click("#stop");
      await over(page);
      assert.deepEqual(await boxes(page), before);
      const [, , printed, seen] = before.map((box) => box.split(" ").slice(3).map(Number)).sort((a, b) => a[0] * a[1] - b[0] * b[1]);
      assert.ok(printed[0] * printed[1] > 0.5 * seen[0] * seen[1], "the output has as much room as the graph");
      await page.select("#example", "1");
      assert.ok((await pictured()).includes("numbers"));
      assert.equal((await runs(page, "print 'done'"))[1], "done\n");
      return page;
    },

    async "the playground's first example prints within 0.2 s"() {
      const page = await playground(), code = await page.$eval("#editor textarea", (e) => e.value);
      const [status, text] = await runs(page, `local sim, show, first = require "runnel.sim", print, nil
        sim.run(function()
          local function print() first = first or sim.elapsed() end
          ${code}
        end)
        show(first)`);
      assert.equal(status, "0", text);
      assert.ok(Number(text) <= 200, `${text} ms`);
      return page;
    },

    async "the story of a world is a sequence diagram, which can be read on a phone, in both themes"() {
      for (const scheme of ["light", "dark"]) {
        const page = await playground("", { scheme, ...PHONE });
        const titles = await page.$$eval("#example option", (all) => all.map((o) => o.textContent));
        await page.select("#example", String(titles.findIndex((t) => /crash/.test(t)) - 1));
        await page.click("#run");
        await over(page);
        await page.waitForSelector(".sequence svg", { timeout: 60000 });
        const drawn = () => page.$eval(".sequence svg", (svg) => {
          const middle = (e) => { const { x, width } = e.getBBox(); return Math.round(x + width / 2); };
          const texts = [...svg.querySelectorAll("text")], columns = {};
          for (const head of svg.querySelectorAll(".host")) (columns[head.querySelector("text").textContent] ||= []).push(middle(head.querySelector("rect")));
          return { columns, wide: svg.clientWidth - svg.parentElement.clientWidth, is: svg.clientWidth,
            small: texts.filter((e) => parseFloat(getComputedStyle(e).fontSize) < 12).length,
            outside: texts.filter((e) => { const { x, width } = e.getBBox(); return x < 0 || x + width > svg.clientWidth; }).map((e) => e.textContent),
            at: [...svg.querySelectorAll(".event")].map((e) => [e.querySelector("title").textContent, middle(e.querySelector("rect")), e.classList.contains("bad")]),
            ways: [...svg.querySelectorAll(".message")].filter((e) => e.querySelector("path")).map((e) =>
              [e.querySelector("title").textContent, ...e.querySelector(".way").getAttribute("d").match(/[\d.]+/g).map((n) => Math.round(n))]) };
        });
        const it = await drawn(), [phone, server, laptop] = ["phone", "server", "laptop"].map((name) => it.columns[name][0]);
        assert.deepEqual([it.wide <= 0, it.small, it.outside], [true, 0, []]);
        assert.equal(new Set([phone, server, laptop]).size, 3);
        const crash = it.at.filter(([title]) => /ms: (\* )?crashes$/.test(title));
        assert.deepEqual(crash.map(([, x, bad]) => [x, bad]), [[server, true]]);
        const ways = (text) => it.ways.filter(([title]) => title.includes(text));
        assert.deepEqual(ways("milk").map(([, x1, , x2]) => [x1, x2]), [[phone, server]]);
        assert.ok(ways("milk").every(([, , y1, , y2]) => y2 > y1), "it arrives later");
        assert.deepEqual(ways("connects").map(([, x1, , x2]) => [x1, x2]).sort(), [[phone, server], [laptop, server]].sort());
        assert.deepEqual([await page.evaluate(faintTexts), await page.evaluate(cutOff)], [[], []], scheme);
        await (await page.$(".sequence")).screenshot({ path: `${SHOTS}/story-${scheme}.png` });
        await page.setViewport({ ...PHONE, width: 780 });
        await until(page, (before) => document.querySelector(".sequence svg").clientWidth > before, it.is);
        assert.deepEqual(page.complaints, []);
        await page.close();
      }
    },

    async "charts span the program's life"() {
      const page = await playground(), frame = await monitor(page);
      await page.click("#run");
      await choose(page, frame, "charts");
      // How much of the width of the canvas, of the chart of go blocks, has its line or the area below it.
      await frame.waitForFunction(() => {
        const canvas = document.querySelector(".chart:nth-child(3) canvas");
        if (!canvas || !canvas.width) return false;
        const left = 50 * devicePixelRatio, width = canvas.width - left, height = canvas.height - 25 * devicePixelRatio;
        const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height }).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(left, 0, width, height);
        const isDark = (x, y) => data[4 * (y * width + x) + 3] > 0 && data[4 * (y * width + x)] < 140; // the grid is light
        let n = 0;
        for (let x = 0; x < width; x++) for (let y = 0; y < height; y++) if (isDark(x, y)) { n++; break; }
        return n > 0.85 * width;
      }, { timeout: 60000, polling: 100 });
      await page.click("#stop");
      await over(page);
      return page;
    },

    async "the theme can be chosen, is kept, and is that of the monitor, too"() {
      const page = await playground(), frame = await monitor(page);
      const dark = (where) => where.evaluate(() => getComputedStyle(document.body).backgroundColor === "rgb(15, 19, 25)");
      assert.deepEqual([await dark(page), await dark(frame)], [false, false]);
      await page.click("#theme");
      await frame.waitForFunction(() => document.documentElement.dataset.theme === "dark");
      assert.deepEqual([await dark(page), await dark(frame)], [true, true]);
      await page.goto(site.url + "docs/performance.html");
      assert.ok(await dark(page));
      assert.notEqual(await page.$eval(".chart svg rect", (e) => getComputedStyle(e).fill), "rgb(255, 255, 255)");
      await page.click("#theme");
      assert.ok(!(await dark(page)));
      return page;
    },

    async "a result of the search shows its words; a table that goes on says so"() {
      const page = await open("docs/performance.html", PHONE);
      await page.focus("#search");
      await page.keyboard.type("deadlock");
      await until(page, () => document.querySelector("#found mark")?.textContent.toLowerCase().startsWith("deadlock"));
      await page.keyboard.press("Escape");
      assert.ok((await page.$$eval('.table[data-more="right"]', (all) => all.map((e) => getComputedStyle(e).maskImage))).every((mask) => /gradient/.test(mask)));
      const table = await page.$('.table[data-more="right"]');
      await table.evaluate((e) => e.scrollTo(e.scrollWidth, 0));
      await until(page, (e) => e.dataset.more === "left", table);
      return page;
    },

    async "every page has its picture for links, its icon, and its description"() {
      const seen = new Set();
      for (const url of pagesOf(SITE)) {
        const text = readFileSync(path.join(SITE, url), "utf8");
        for (const sign of [/<meta property="og:image" content="[^"]*assets\/social\.png">/, /<link rel="icon" [^>]*favicon\.svg">/, /<meta name="description" content="[^"]{20,}">/]) {
          assert.match(text, sign, url);
        }
        seen.add(/<meta name="description" content="([^"]*)">/.exec(text)[1]);
      }
      assert.ok(seen.size > 60, `${seen.size} descriptions`);
      return open("index.html");
    },
  };
}
