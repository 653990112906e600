// program.js: runs one program in the module of WebAssembly: in a worker of a page (worker.js), or in node (the spec).

// The program's output that is shown, in bytes, and how many pieces of it are sent at once in 50 ms: the others are
// collected.
const SHOWN = 1 << 18, PIECES = 200, COLLECT_MS = 50;

// Where the program sleeps, if it cannot be suspended. The memory is this worker's alone, so that the page needs no
// headers of cross-origin isolation.
const sleepBlocked = (() => {
  const cell = new Int32Array(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer);
  return (ms) => { Atomics.wait(cell, 0, 0, Math.min(ms, 0x7fffffff)); };
})();

// Collects what the program writes, and posts it as { out } and { err }.
class Output {
  constructor(post) {
    Object.assign(this, { post, shown: 0, kind: null, text: "", pieces: 0, since: 0 });
    this.decoders = { out: new TextDecoder(), err: new TextDecoder() };
  }

  write(kind, bytes) {
    this.shown += bytes.length;
    if (this.shown > SHOWN) {
      if (this.shown - bytes.length > SHOWN) return;
      const room = bytes.length - (this.shown - SHOWN);
      bytes = bytes.subarray(0, bytes.subarray(0, room).lastIndexOf(10) + 1); // whole lines
    }
    if (kind !== this.kind) this.flush();
    this.kind = kind;
    this.text += this.decoders[kind].decode(bytes, { stream: true });
    if (this.shown > SHOWN) {
      this.flush();
      this.post({ err: "\n(the output is cut here: it is longer than 256 KB; the program runs on)\n" });
      return;
    }
    const now = performance.now();
    if (now - this.since > COLLECT_MS) {
      this.since = now;
      this.pieces = 0;
    }
    if (this.pieces++ < PIECES) this.flush();
    else if (this.text.length > 8192) this.flush();
  }

  flush() {
    if (this.text) this.post({ [this.kind]: this.text });
    this.text = "";
  }
}

// The files with the Lua modules that are not in WebAssembly: what few programs need, and simulated worlds with runnel.uv.
const OTHERS = ["modules.txt", "worlds.txt"];

// The modules in the text that scripts/embed.lua --text writes: a Map from their names to their code.
function readModules(text) {
  return new Map(text.split("\x01").slice(1).map((one) => {
    const end = one.indexOf("\n");
    return [one.slice(0, end), one.slice(end + 1)];
  }));
}

// Runs a program: { code, name, monitored, suspends, base }, where `suspends` says that it is to be suspended while it
// waits, so that it hears the page, and `base` is what the URLs are relative to that it fetches. `create` is the function
// of runnel.js, `module` the compiled WebAssembly, `loadText` returns the text of a file of OTHERS, and `post` gets what
// comes of it: { began }, { out }, { err }, { message } for the monitor's page, { story } of a simulated world, and
// { ended: status }.
// The returned object has hear(words): a command for the program, of which the first word is its number.
globalThis.runProgram = function (create, module, loadText, program, post) {
  const suspends = program.suspends, others = new Map(); // others: the modules of the files that are loaded
  const output = new Output(post), commands = [], fetched = [];
  let wake = null, timelines = 0;
  const stir = () => { if (wake) wake(); };

  const sleepSuspended = (ms) => new Promise((resolve) => {
    if (commands.length || fetched.length) ms = 0;
    const timer = setTimeout(() => wake(), Math.min(ms, 0x7fffffff));
    wake = () => {
      clearTimeout(timer);
      wake = null;
      resolve();
    };
  });

  const words = (list) => new TextEncoder().encode(list.map((word) => String(word).replaceAll("\0", "?") + "\0").join(""));

  async function start() {
    const sleep = (ms) => {
      output.flush();
      return suspends ? sleepSuspended(ms) : sleepBlocked(ms);
    };
    const glue = await create({
      reaches: suspends,
      sleep: suspends ? new WebAssembly.Suspending(sleep) : sleep,
      message(json) { post({ message: json }); },
      story(json) { post({ story: json }); },
      // A worker that blocks hears nothing, so that it sends the timeline unasked, once a second.
      command() {
        if (suspends) return commands.length ? words(commands.shift()) : null;
        const now = performance.now();
        if (now - timelines < 1000) return null;
        timelines = now;
        return words([1, "timeline"]);
      },
      async fetch(number, url) {
        const one = { number, status: 0 };
        try {
          const answer = await fetch(new URL(url, program.base));
          one.bytes = new Uint8Array(await answer.arrayBuffer());
          one.status = answer.status;
        } catch (err) {
          one.bytes = new TextEncoder().encode(`${url}: ${err.message}`);
        }
        fetched.push(one);
        stir();
      },
      fetched() { return fetched.shift(); },
      other(name) {
        for (const file of OTHERS) {
          try {
            if (!others.has(file)) others.set(file, readModules(loadText(file)));
          } catch (err) {
            return new TextEncoder().encode(`error(${JSON.stringify(`${name}: ${err.message}`)}, 0)`);
          }
          const code = others.get(file).get(name);
          if (code !== undefined) return new TextEncoder().encode(code);
        }
        return null;
      },
      instantiateWasm(imports, receive) {
        WebAssembly.instantiate(module, imports).then((instance) => receive(instance, module));
        return {};
      },
      preRun: [({ FS }) => {
        FS.init(() => null, () => {}, () => {});
        for (const [fd, kind] of [[1, "out"], [2, "err"]]) {
          FS.streams[fd].stream_ops = Object.assign({}, FS.streams[fd].stream_ops, {
            write(stream, buffer, offset, length) {
              output.write(kind, new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length));
              return length;
            },
          });
        }
      }],
    });
    const text = (string) => {
      const bytes = new TextEncoder().encode(string), at = glue._malloc(bytes.length + 1);
      glue.HEAPU8.set(bytes, at);
      glue.HEAPU8[at + bytes.length] = 0;
      return at;
    };
    post({ began: true });
    glue._site_run(0, 0, 0); // from here on it is the export itself (csrc/site/main.c)
    const run = suspends ? WebAssembly.promising(glue._site_run) : glue._site_run;
    let status;
    try {
      status = await run(text(program.code), text(program.name), program.monitored ? 1 : 0);
    } catch (err) { // os.exit, or what nobody has foreseen
      status = typeof err.status === "number" ? err.status : 1;
      if (typeof err.status !== "number") post({ err: `runnel: ${err.message || err}\n` });
    }
    output.flush();
    post({ ended: status });
  }

  start().catch((err) => {
    post({ err: `runnel cannot start: ${err.message || err}\n` });
    post({ ended: 1 });
  });
  return {
    hear(list) {
      commands.push(list);
      stir();
    },
  };
};
