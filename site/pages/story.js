// story.js: the story of sim.explore (lua/runnel/internal/explore_story.lua) as a timeline: a column for each go block, and
// a row for each step.

const STEP = /^ *(\d+) ([* ]) (.+?) {2,}(\S.*)$/, MORE = /^ {8,}(\S.*)$/, END = /^ {6}(.+?) {2,}(waits for ever.*)$/;

// The steps in a text: { steps: [{ n, marked, who, deeds }], ends: Map of who to what it waits for }; null without a story.
export function readStory(text) {
  const steps = [], ends = new Map();
  let inside = false, ending = false;
  for (const line of text.split("\n")) {
    if (/sim\.explore: /.test(line)) {
      inside = true;
      continue;
    }
    if (!inside) continue;
    if (/^To replay:|^stack traceback:/.test(line)) break;
    if (line === "At the end:") ending = true;
    const step = STEP.exec(line), more = MORE.exec(line), end = ending && END.exec(line);
    if (end) ends.set(end[1], end[2]);
    else if (step) steps.push({ n: Number(step[1]), marked: step[2] === "*", who: step[3], deeds: [step[4]] });
    else if (more && steps.length) steps[steps.length - 1].deeds.push(more[1]);
  }
  return steps.length ? { steps, ends } : null;
}

function cell(tag, text, kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = kind;
  return element;
}

// The table of a story.
export function showStory({ steps, ends }) {
  const who = [...new Set([...steps.map((s) => s.who), ...ends.keys()])];
  const table = document.createElement("table"), row = (cells, kind = "") => {
    const tr = document.createElement("tr");
    tr.className = kind;
    tr.append(...cells);
    return tr;
  };
  table.className = "story";
  table.append(row([cell("th", ""), ...who.map((name) => cell("th", name))]));
  for (const step of steps) {
    table.append(row([cell("th", step.n + (step.marked ? " *" : "")), ...who.map((name) =>
      (name === step.who ? cell("td", step.deeds.join("\n"), /waits/.test(step.deeds.at(-1)) ? "deed waits" : "deed")
        : cell("td", "")))]));
  }
  if (ends.size) table.append(row([cell("th", "end"), ...who.map((name) => cell("td", ends.get(name) || "", ends.has(name) ? "deed ever" : ""))]));
  return table;
}
