// snippets.js: the run buttons of a page's snippets. The module is loaded when the pointer is near the first one.
import { Output } from "./output.js";
import { load, start } from "./engine.js";

const same = (a, b) => a.length === b.length && a.every((line, i) => line.trimEnd() === b[i].trimEnd());

function attach(snippet) {
  const button = snippet.querySelector("button.run"), verdict = document.createElement("p");
  const pre = document.createElement("pre"), output = new Output(pre), code = snippet.querySelector("code").textContent;
  const expected = JSON.parse(snippet.dataset.expected || "null");
  pre.className = "output";
  pre.role = "log";
  pre.ariaLabel = "the output";
  verdict.className = "verdict";
  verdict.role = "status";
  let running = null;
  const end = (status) => {
    running = null;
    output.flush();
    button.textContent = "run";
    snippet.dataset.status = status;
    const told = status === 0 && expected ? same(output.lines, expected) : null;
    verdict.textContent = status === "stopped" ? "stopped" : status !== 0 ? "it has failed"
      : told === null ? (output.out ? "" : "it has ended, and printed nothing")
        : told ? "as documented" : `not what is documented: ${JSON.stringify(expected.join("\n"))}`;
    verdict.classList.toggle("bad", status !== 0 || told === false);
    verdict.classList.toggle("good", told === true);
  };
  button.onclick = () => {
    if (running) return running.stop();
    output.clear();
    verdict.textContent = "";
    button.textContent = "stop";
    delete snippet.dataset.status;
    snippet.append(pre, verdict);
    // Blank lines before it, so that messages have the line numbers of the file, as in what is documented.
    const program = { code: "\n".repeat(Number(snippet.dataset.line)) + code, name: snippet.dataset.name };
    running = start(program, (what) => {
      if (what.out) output.add("out", what.out);
      if (what.err) output.add("err", what.err);
      if ("ended" in what) end(what.ended);
    });
  };
  button.disabled = false;
  button.onpointerenter = () => load().catch(() => {}); // the run says what is wrong
}

export function attachAll() { document.querySelectorAll(".snippet[data-run]").forEach(attach); }
