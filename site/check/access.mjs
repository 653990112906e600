// access.mjs: the tests of what everybody can read and reach: by axe, by the keyboard, in narrow columns.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pagesOf } from "./crawl.mjs";
import { KINDS, PHONE } from "./looks.mjs";
import { brokenNames } from "./measure.mjs";

// What axe looks at: a page of each kind, those with the most tables and charts, and the longest.
const SEEN_BY_AXE = [...KINDS.filter((url) => !/tour|playground/.test(url)), "docs/tutorial.html", "docs/why.html",
  "docs/recipes.html", "docs/manual/README.html", "docs/manual/http.html", "CHANGELOG.html"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// `site` is the server of the folder SITE; the other functions are those of pages.mjs.
export function access({ site, SITE, open, until, monitor }) {
  // What axe finds in a document. That a page has a heading is a matter of the page, not of the frame in it.
  const axeFinds = async (frame, isPage) => {
    await frame.evaluate(AXE);
    return frame.evaluate(async (rules) => (await window.axe.run(document, { iframes: false, rules })).violations.flatMap(({ id, nodes }) =>
      nodes.slice(0, 3).map((node) => `${id}: ${node.html.slice(0, 120)}`)), { "page-has-heading-one": { enabled: isPage } });
  };

  return {
    async "no first cell of a table breaks a name, on a wide screen and on a phone"() {
      const page = await open("index.html");
      let n = 0;
      for (const options of [{ width: 1440, height: 900 }, PHONE]) {
        await page.setViewport(options);
        for (const url of pagesOf(SITE).filter((one) => !one.startsWith("source/"))) {
          await page.goto(site.url + url, { waitUntil: "domcontentloaded" });
          await until(page, () => [...document.styleSheets].some((sheet) => sheet.href));
          n += await page.$$eval("td:first-child code", (all) => all.length);
          assert.deepEqual(await page.evaluate(brokenNames), [], `${url}, ${options.width} pixels wide`);
        }
      }
      assert.ok(n > 1000, `${n} names`);
      return page;
    },

    async "axe finds nothing, before a run and after it"() {
      for (const url of SEEN_BY_AXE) {
        const page = await open(url);
        if (await page.$(".snippet[data-run]")) {
          await page.waitForSelector(".snippet button.run:not(:disabled)");
          await page.click(".snippet button.run");
          await until(page, () => document.querySelector(".snippet[data-status]"));
        }
        assert.deepEqual(await axeFinds(page, true), [], url);
        await page.close();
      }
      for (const url of ["tour/02.html", "tour/13.html", "playground/index.html"]) {
        const page = await open(url);
        await page.waitForSelector("#workbench[data-ready]");
        assert.deepEqual(await axeFinds(page, true), [], url);
        await page.click("#run");
        if (url === "tour/13.html") await page.waitForSelector(".sequence svg", { timeout: 60000 });
        else await until(page, () => document.querySelector("#preview").hidden);
        assert.deepEqual([await axeFinds(page, true), await axeFinds(await monitor(page), false)], [[], []], `${url}, after a run`);
        await page.close();
      }
    },

    async "the keyboard leaves the editor by Escape and Tab, and the editor says so"() {
      const page = await open("tour/01.html"), leaving = () => page.$eval("#leaving", (e) => Number(getComputedStyle(e).opacity));
      const at = () => page.evaluate(() => document.activeElement.closest("#editor") !== null);
      assert.equal(await leaving(), 0);
      await page.focus("#editor textarea");
      assert.equal(await leaving(), 1);
      assert.equal(await page.$eval("#editor textarea", (e) => document.getElementById(e.getAttribute("aria-describedby")).textContent),
        "Tab indents; Esc, then Tab: leaves the editor");
      const before = await page.$eval("#editor textarea", (e) => e.value);
      await page.keyboard.press("Tab");
      assert.deepEqual([await at(), await page.$eval("#editor textarea", (e) => e.value.length)], [true, before.length + 2]);
      for (const [key, where] of [["Tab", "output"], ["Shift", "#left"]]) {
        await page.focus("#editor textarea");
        await page.keyboard.press("Escape");
        if (key === "Shift") await page.keyboard.down("Shift");
        await page.keyboard.press("Tab");
        if (key === "Shift") await page.keyboard.up("Shift");
        assert.equal(await at(), false, key);
        const id = await page.evaluate(() => document.activeElement.id);
        assert.ok(id === where || key === "Shift" && id === "reset", `${key}: ${id}`);
      }
      return page;
    },
  };
}
