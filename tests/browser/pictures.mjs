// pictures.mjs: docs/monitor.png and docs/timeline.png, of tests/browser/crawl.lua. Run by tests/browser/check pictures, from
// the top of the tree, which `make pictures` does.
import { spawn } from "node:child_process";
import puppeteer from "puppeteer-core";

const { BROWSER, RUNNEL } = process.env;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const program = spawn(RUNNEL, ["--monitor", "tests/browser/crawl.lua"], { stdio: ["ignore", "ignore", "pipe"] });
const url = await new Promise((found, reject) => {
  let errors = "";
  program.stderr.on("data", (text) => {
    errors += text;
    const m = errors.match(/monitor: (http:\S+)\n/);
    if (m) found(m[1]);
  });
  program.on("exit", () => reject(new Error(`the program has ended: ${errors}`)));
});
const browser = await puppeteer.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });

async function picture(scheme, height, show, file) {
  const page = await browser.newPage();
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width: 1280, height });
  await page.goto(url);
  await sleep(40000); // so much is to be seen in the charts
  await show(page);
  await page.screenshot({ path: file });
  await page.close();
}

const clickOn = (page, selector, text) => page.$$eval(selector, (all, t) => all.find((e) => e.textContent.includes(t))
  .dispatchEvent(new MouseEvent("click", { bubbles: true })), text);

try {
  await picture("light", 1000, async (page) => {
    await clickOn(page, ".graph .chan", "pages");
    await sleep(3000);
  }, "docs/monitor.png");
  await picture("dark", 700, async (page) => {
    await page.click("#view-timeline");
    await sleep(2000);
    await clickOn(page, ".timeline .name", "parse #");
    await sleep(2000);
  }, "docs/timeline.png");
} finally {
  await browser.close();
  program.kill("SIGKILL");
}
