// monitor_stream.js: the connection of the monitor's page (csrc/monitor/page/stream.js) inside the playground: messages of
// the page around it, which has them from the program's worker.

export const sendsCode = true;

export const isFrame = true;

// A web page has no timer of processor time.
export const Profile = null, learn = null;

export function shows(view) { parent.postMessage({ monitor: "view", view }, "*"); }

// Without a message for so long, the program computes: the worker sends four in a second, or fewer if making one takes
// long (`taken`, in us).
const silence = (model) => Math.max(1000, (model.summary.taken || 0) / 25);

let waiting = new Map(), asked = 0; // the numbers that commands got, by the order in which they were sent

export function connect(model, changed, onResult) {
  let last = 0;
  const kinds = {
    ask() { parent.postMessage({ monitor: "ready" }, "*"); },
    theme({ theme }) { document.documentElement.dataset.theme = theme; },
    begun({ called }) { // called: Map of the model
      model.begin();
      model.called = called;
    },
    running() { // without a message it computes
      last = performance.now();
      model.status = "live";
    },
    message({ json }) {
      last = performance.now();
      model.status = "live";
      for (const result of model.apply(JSON.parse(json))) onResult(result);
    },
    ended({ why }) { model.end("ended", why); },
    sent({ order, number, why }) {
      const then = waiting.get(order);
      waiting.delete(order);
      if (then) then(number, why);
    },
  };
  addEventListener("message", ({ data, source }) => {
    if (source !== parent || !kinds[data.monitor]) return;
    kinds[data.monitor](data);
    changed();
  });
  setInterval(() => {
    const silent = performance.now() - last;
    if (model.status !== "live" || silent < silence(model)) return;
    model.summary = { ...model.summary, busy: silent };
    changed();
  }, 300);
  kinds.ask();
}

// Sends a command: the page around answers with its number, or with why it cannot be sent.
export function send(what, fields = {}) {
  return new Promise((resolve, reject) => {
    waiting.set(++asked, (number, why) => (number ? resolve(number) : reject(new Error(why))));
    parent.postMessage({ monitor: "command", order: asked, what, fields }, "*");
  });
}
