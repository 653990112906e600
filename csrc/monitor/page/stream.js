// stream.js: the page's connection to the program, over HTTP. Nothing else of the page knows how it gets its messages: the
// playground has another file with the same names (site/pages/monitor_stream.js).

// Whether the page may send Lua code, to replace a stage of a flow: not over HTTP.
export const sendsCode = false;

// Whether the page is a small frame of another one.
export const isFrame = false;

// The view that records profiles; null: this page has none.
export { Profile, learn } from "./profile.js";

// Called with the view that the user has chosen.
export function shows() {}

const token = new URLSearchParams(location.search).get("token");

// Connects the model to the server, calls changed() after each message, and onResult with each result of a command.
// EventSource connects again by itself while the server is there.
export function connect(model, changed, onResult) {
  const source = new EventSource(`events?token=${token}`);
  source.onmessage = (event) => {
    model.status = "live";
    for (const result of model.apply(JSON.parse(event.data))) onResult(result);
    changed();
  };
  source.addEventListener("ended", (event) => {
    source.close();
    model.end("ended", JSON.parse(event.data).why);
    changed();
  });
  source.onerror = () => {
    model.end(source.readyState === EventSource.CLOSED ? "ended" : "lost");
    changed();
  };
}

// Sends a command. Resolves to its number, or throws the server's message.
export async function send(what, fields) {
  const answer = await fetch(`${what}?token=${token}`, { method: "POST", body: new URLSearchParams(fields) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return (await answer.json()).number;
}
