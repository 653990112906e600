// node_worker.cjs: runs one program in the built module, in a thread of node's; what comes of it goes to the parent.
const { parentPort, workerData } = require("node:worker_threads");
globalThis.self = globalThis; // the glue is one for workers of a page
globalThis.location = { href: __filename };
globalThis.importScripts = () => {};
const create = require(workerData.glue);
require(workerData.runner);
const { module: compiled, texts, program } = workerData;
globalThis.runProgram(create, compiled, (file) => texts[file], program, (what) => parentPort.postMessage(what));
