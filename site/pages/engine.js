// engine.js: runs programs, each in a worker of its own, in the module that all of them share.

const here = (name) => new URL(name, import.meta.url);

// Whether a program can be suspended, and hears the page meanwhile. Otherwise its worker blocks while it waits.
export const reaches = typeof WebAssembly !== "undefined" && typeof WebAssembly.Suspending === "function";

const LATER = 300; // ms after the first output, which is shown first

let compiled = null, spare = null, others = null;

// The compiled module, which is loaded once. Rejects with an error that says what the browser lacks.
export function load() {
  compiled ||= compile().catch((err) => {
    compiled = null; // the next run tries again
    throw err;
  });
  return compiled;
}

async function compile() {
  if (typeof WebAssembly === "undefined") {
    throw new Error("this browser has no WebAssembly, or it is switched off, so that programs cannot run in this page");
  }
  if (typeof Worker === "undefined") throw new Error("this browser has no workers, in which programs run");
  spare ||= new Worker(here("worker.js")); // loads its scripts meanwhile
  const answer = await fetch(here("runnel.wasm"));
  if (!answer.ok) throw new Error(`runnel.wasm cannot be loaded: the server answers ${answer.status}`);
  try {
    // While it streams, if the server says what it is.
    if (answer.headers.get("content-type") === "application/wasm") return await WebAssembly.compileStreaming(answer);
    return await WebAssembly.compile(await answer.arrayBuffer());
  } catch (err) {
    throw new Error("this browser's WebAssembly lacks what runnel needs (exceptions, which browsers have since 2022): " +
      err.message);
  }
}

// Loads the modules that few programs need, when the first program has printed or ended: later ones do not wait for them.
async function loadOthers() {
  if (others !== null) return;
  others = "";
  try {
    const answer = await fetch(here("modules.txt"));
    if (answer.ok) others = await answer.text();
  } catch { /* the program that needs one loads them, or says why not (worker.js) */ }
}

// Starts a program: { code, name, monitored }. on({ out | err | message | began | ended }) is called with what comes of it;
// after { ended: status }, of which the status may be "stopped", nothing comes. Returns { stop(), send(words) }.
export function start(program, on) {
  let worker = null, over = false;
  const end = (status) => {
    if (over) return;
    over = true;
    if (worker) worker.terminate();
    on({ ended: status });
  };
  const fail = (err) => {
    if (!over) on({ err: `runnel: ${err.message || "the worker cannot be started"}\n` });
    end(1);
  };
  load().then((module) => {
    if (over) return;
    worker = spare || new Worker(here("worker.js"));
    spare = null;
    worker.onerror = (event) => {
      event.preventDefault();
      fail(event);
    };
    worker.onmessage = ({ data }) => {
      if (over) return;
      if (data.out || "ended" in data) setTimeout(loadOthers, LATER);
      if ("ended" in data) end(data.ended);
      else on(data);
    };
    worker.postMessage({ module, others, program: { ...program, suspends: reaches, base: location.href } });
  }).catch(fail);
  return {
    stop() { end("stopped"); },
    send(words) { if (worker && !over) worker.postMessage({ command: words }); },
  };
}
