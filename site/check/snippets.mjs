// snippets.mjs WORK [PART]: runs all snippets of the site, the tour and the examples, and numbers.lua, in the built module,
// in node, and compares what they print. PART, a part of a file's name, selects some. The last line is the sum.
import { readFileSync } from "node:fs";
import { load, run } from "./node.mjs";

const [, , work, part = ""] = process.argv;
const numbers = { file: "site/check/numbers.lua", code: readFileSync(new URL("numbers.lua", import.meta.url), "utf8"),
  name: "numbers.lua", line: 0, expected: [], why: null };
const snippets = [...JSON.parse(readFileSync(`${work}/snippets.json`, "utf8")), numbers].filter((s) => s.file.includes(part));
const engine = await load(work);

// Programs of the tour and the examples that are to fail.
const FAILS = new Map([["site/examples/04-deadlock.lua", /deadlock/],
  ["site/examples/07-fetch.lua", /no Suspending/], ["site/tour/05-errors.md", /nobody takes this error/]]);

// What the others print that search for a failure, and end well.
const TELLS = new Map([["site/examples/06-explore.lua", /the sum is 1/], ["site/examples/09-crash.lua", /(milk|bread) is lost/]]);

// A program that goes on until it is stopped, and what it prints before.
const ENDLESS = new Map([["site/examples/08-repair.lua", /saved 10\n/]]);

const lines = (text) => {
  const list = text.replaceAll("\t", " ").split("\n");
  if (list.at(-1) === "") list.pop();
  return list.map((line) => line.trimEnd()).join("\n");
};

// What is wrong with a snippet's run, or null.
function complaint(snippet, result) {
  const fails = FAILS.get(snippet.file);
  if (ENDLESS.has(snippet.file)) return result.status === "printed" ? null : `status ${result.status}: ${result.out} ${result.err}`;
  if (fails) return result.status === 1 && fails.test(result.err) ? null : `it does not fail as it should: ${result.err}`;
  if (result.status !== 0 || (result.err && snippet.file.startsWith("site/"))) return `status ${result.status}: ${result.err}`;
  if (TELLS.has(snippet.file) && !TELLS.get(snippet.file).test(result.out)) return `it does not tell what it should: ${result.out}`;
  const expected = snippet.expected.map((line) => line.trimEnd()).join("\n");
  if (snippet.expected.length && lines(result.out) !== expected) return `it prints\n${result.out}and not\n${expected}`;
  return null;
}

let passed = 0, failed = 0, skipped = 0;
const waiting = [...snippets];
async function runNext() {
  for (let snippet; (snippet = waiting.shift());) {
    if (snippet.why) {
      skipped++;
      continue;
    }
    const monitored = snippet.example || snippet.file.includes("/tour/"); // as in the workbench
    const code = monitored ? snippet.code : "\n".repeat(snippet.line) + snippet.code;
    const wrong = complaint(snippet, await run(engine, code, { name: snippet.name, monitored, limit: 240000, until: ENDLESS.get(snippet.file) }));
    if (wrong) {
      failed++;
      console.log(`FAIL ${snippet.file}, line ${snippet.line}: ${wrong.slice(0, 1000)}`);
    } else passed++;
  }
}
await Promise.all(Array.from({ length: 8 }, runNext)); // most of their time they sleep
console.log(`${passed} snippets run, ${failed} fail, ${skipped} need what a page has not`);
process.exit(failed || !passed ? 1 : 0);
