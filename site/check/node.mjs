// node.mjs: runs programs in the built module, in node.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";

// The module in a folder, the built site's or that of the work.
export async function load(folder) {
  const module = await WebAssembly.compile(await readFile(`${folder}/runnel.wasm`));
  const runner = new URL("../pages/program.js", import.meta.url).pathname;
  const texts = {};
  for (const name of ["modules.txt", "worlds.txt"]) texts[name] = await readFile(`${folder}/${name}`, "utf8");
  return { module, texts, runner, glue: resolve(folder, "runnel.js") };
}

// Runs a program. Resolves to { out, err, status, messages, story, ms }, where status is "stopped" if it took longer than `limit` ms,
// or has sent as many messages to the monitor as `enough`, and "printed" if it was stopped since its output matches `until`.
export function run(engine, code, { name = "program.lua", monitored = false, limit = 30000, enough = Infinity, until } = {}) {
  return new Promise((done) => {
    const result = { out: "", err: "", messages: [], status: "stopped" };
    const worker = new Worker(new URL("node_worker.cjs", import.meta.url), {
      workerData: { ...engine, program: { code, name, monitored } },
    });
    const end = () => {
      clearTimeout(timer);
      worker.terminate();
      result.ms = performance.now() - began;
      done(result);
    };
    let began = performance.now();
    const timer = setTimeout(end, limit);
    worker.on("error", (err) => { result.err += err; end(); });
    worker.on("message", (what) => {
      if (what.began) began = performance.now();
      if (what.out) result.out += what.out;
      if (until?.test(result.out)) { result.status = "printed"; return end(); }
      if (what.err) result.err += what.err;
      if (what.story) result.story = JSON.parse(what.story);
      if (what.message && result.messages.push(JSON.parse(what.message)) >= enough) return end();
      if ("ended" in what) { result.status = what.ended; end(); }
    });
  });
}
