// story.js: the story of sim.explore (lua/runnel/search/explore_story.lua) as a picture. That of a simulated world is
// a sequence diagram (sequence.js). Any other is a timeline, from top to bottom: a row for each step, and a column for each
// go block, with what it does in its steps and what it waits for between them.
//
// The timeline is not the monitor's, whose axis is the time: in a simulation most steps take none.

import { sequence } from "./sequence.js";

const TIME = /^  at (.+):$/, STEP = /^ *(\d+) ([* ]) (.+?) {2,}(\S.*)$/, MORE = /^ {8,}(\S.*)$/;
const END = /^ {6}(.+?) {2,}(waits for ever.*)$/;

// The steps in a text: { steps: [{ n, time, marked, who, deeds }], ends: Map of who to what it waits for }; null without a
// story.
function readStory(text) {
  const steps = [], ends = new Map();
  let inside = false, ending = false, time = "";
  for (const line of text.split("\n")) {
    if (/sim\.explore: /.test(line)) {
      inside = true;
      continue;
    }
    if (!inside) continue;
    if (/To replay:|^stack traceback:/.test(line)) break;
    if (line === "At the end:") ending = true;
    const later = TIME.exec(line), step = STEP.exec(line), more = MORE.exec(line), end = ending && END.exec(line);
    if (end) ends.set(end[1], end[2]);
    else if (later) time = later[1];
    else if (step) {
      steps.push({ n: Number(step[1]), time, marked: step[2] === "*", who: step[3], deeds: [step[4]] });
      time = "";
    } else if (more && steps.length) steps[steps.length - 1].deeds.push(more[1]);
  }
  return steps.length ? { steps, ends } : null;
}

// What a go block is from this deed on, until its next step: "" before it was started, and after its end.
function stateAfter(deed) {
  const [, what] = /^waits (?:to (put|take)|in (alts))/.exec(deed)?.filter(Boolean) || [];
  return what || (/^sleeps/.test(deed) ? "sleep" : /^ends/.test(deed) ? "" : "ready");
}

function cell(tag, text, kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = kind;
  return element;
}

function row(cells) {
  const tr = document.createElement("tr");
  tr.append(...cells);
  return tr;
}

// The timeline of a story, of a program in the file `name`.
function timeline({ steps, ends }, name) {
  const short = (deed) => deed.replaceAll(`(${name}:`, "(line ");
  const who = [...new Set([...steps.map((s) => s.who), ...ends.keys()])], states = new Map();
  const table = cell("table", "", "story");
  table.append(row([cell("th", ""), ...who.map((one) => cell("th", one))]));
  for (const { n, time, marked, who: runs, deeds } of steps) {
    for (const deed of deeds) {
      const other = /^starts (.*)$/.exec(deed)?.[1] ?? /, which wakes (.*)$/.exec(deed)?.[1];
      if (other) states.set(other, "ready");
    }
    const title = `${time && time + "\n"}${n}${marked ? " *" : ""}`;
    table.append(row([cell("th", title), ...who.map((one) =>
      (one === runs ? cell("td", short(deeds.join("\n")), "deed") : cell("td", "", states.get(one) || "")))]));
    states.set(runs, stateAfter(deeds.at(-1)));
  }
  if (ends.size) {
    table.append(row([cell("th", "end"), ...who.map((one) =>
      (ends.has(one) ? cell("td", short(ends.get(one)), "ever") : cell("td", "")))]));
  }
  const around = cell("div", "", "table");
  around.append(table);
  return around;
}

// The picture of a story: `told`, the data of a simulated world's story, or null; `text`, what the program `name` has
// printed. null if there is no story.
export function pictureOf(told, text, name) {
  if (told) return sequence(told);
  const story = readStory(text);
  return story && timeline(story, name);
}
