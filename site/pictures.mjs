// pictures.mjs: the picture of what a program will be: its graph, drawn when the site is made, from a run in node.
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";
import { Model } from "../csrc/monitor/page/model.js";
import { load, run } from "./check/node.mjs";
import { functionsOf, graphOf, picture, placesOf, shapeOf } from "./pages/picture.js";

const ENOUGH = 9; // messages of the monitor, which come four times a second, or more slowly on a busy machine
const MANY = 14; // nodes: a picture of more cannot be read

globalThis.window = globalThis;
runInThisContext(readFileSync("csrc/monitor/page/vendor/dagre.js", "utf8")); // makes window.dagre

// Resolves to a function (code, name) -> { picture, places, shape } of the program, with "" as the picture if there is none. WORK has
// the module.
export async function drawing(work) {
  const engine = await load(work);
  return async (code, name) => {
    const { messages } = await run(engine, code, { name, monitored: true, limit: 120000, enough: ENOUGH });
    const model = new Model();
    model.called = functionsOf(code, name);
    let best = null;
    for (const message of messages) {
      model.apply(message);
      const graph = graphOf(model), n = graph.nodes.size;
      if (n > (best ? best.nodes.size : 0) && n <= MANY) best = graph;
    }
    if (!best) return { picture: "" };
    const places = placesOf(best);
    return { picture: picture(best, places, "the go blocks and channels of this program"), places, shape: shapeOf(best) };
  };
}
