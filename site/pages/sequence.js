// sequence.js: the story of a simulated world as a sequence diagram: a column for each host, an arrow for each message, from
// when it is sent to when it arrives, and a box for what a host does. It draws the story's data
// (lua/runnel/search/world_story.lua), as wide as there is room.

const FONT = "12px system-ui, sans-serif", LINE = 16, HEAD = 26, LEAST = 88; // the least width of a column

const STYLE = `
.sequence { margin: 10px 0; font-family: system-ui, sans-serif; white-space: normal; }
.sequence figcaption { font-size: 13px; font-weight: 600; color: var(--bad); margin-bottom: 6px; }
.sequence svg { display: block; font: ${FONT}; }
.sequence text { fill: var(--text); text-anchor: middle; }
.sequence .time { fill: var(--dim); text-anchor: end; font-variant-numeric: tabular-nums; }
.sequence .all text { text-anchor: start; }
.sequence .host text { font-weight: 600; }
.sequence .host rect { fill: var(--go-box); stroke: var(--go); }
.sequence .life { stroke: var(--still); stroke-dasharray: 2 4; }
.sequence .life.down { stroke: var(--bad); stroke-dasharray: 1 7; }
.sequence .between { stroke: var(--line); }
.sequence .behind { fill: var(--card); }
.sequence .box { fill: var(--card); stroke: var(--still); }
.sequence path { fill: none; stroke: var(--accent); stroke-width: 1.5; }
.sequence .connect path { stroke: var(--still); }
.sequence .connect .way { stroke-dasharray: 4 3; }
.sequence .bad path { stroke: var(--bad); }
.sequence .bad .box { fill: var(--bad-box); stroke: var(--bad); }
.sequence .bad text { fill: var(--bad); }
#workbench[data-view="wide"]:has(.sequence) { grid-template-rows: minmax(0, 2fr) minmax(0, 3fr); }
@media (max-width: 820px) { #workbench .printed:has(.sequence) { height: 85vh; } }`;

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const timeText = (ms) => (ms < 10000 ? `${+ms.toFixed(3)} ms` : `${+(ms / 1000).toFixed(3)} s`);

let canvas = null;
function widthOf(text) {
  canvas ||= document.createElement("canvas").getContext("2d");
  canvas.font = FONT;
  return canvas.measureText(text).width;
}

// The lines of a text that is to be so wide at most.
function wrap(text, width) {
  const lines = [""];
  for (const word of text.split(/(?<= )/)) {
    const last = lines.length - 1;
    if (lines[last] && widthOf(lines[last] + word.trimEnd()) > width) lines.push(word);
    else lines[last] += word;
    while (widthOf(lines.at(-1)) > width && lines.at(-1).length > 1) { // a word without an end
      const whole = lines.pop();
      let n = whole.length - 1;
      while (n > 1 && widthOf(whole.slice(0, n)) > width) n--;
      lines.push(whole.slice(0, n), whole.slice(n));
    }
  }
  return lines.map((line) => line.trimEnd());
}

// What is seen of a line: its text, and whether it is bad.
const wordsOf = (line) => (line.marked ? "* " : "") + line.what + (line.fault ? ` (fault ${line.fault})` : "");
const isBad = (line) => line.fault || ["reset", "crash", "wait"].includes(line.kind);
const isArrow = (line) => line.to !== undefined && line.to !== line.from;

const textLines = (lines, x, y) => lines.map((line, i) =>
  `<text x="${x}" y="${y + i * LINE}">${escape(line)}</text>`).join("");

// A line with a head at its end; without an arrival a cross in the middle of the way.
function arrow(x1, y1, x2, y2, arrives) {
  const paths = (way, end) => `<path class="way" d="M${x1},${y1}L${way}"/><path d="${end}"/>`;
  if (!arrives) {
    const x = (x1 + x2) / 2;
    return paths(`${x},${y2}`, `M${x - 5},${y2 - 5}l10,10m0,-10l-10,10`);
  }
  const length = Math.hypot(x2 - x1, y2 - y1), ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  const side = (s) => `M${x2},${y2}L${x2 - 8 * ux - 4 * s * uy},${y2 - 8 * uy + 4 * s * ux}`;
  return paths(`${x2},${y2}`, side(1) + side(-1));
}

// The SVG of a story in so many pixels.
function draw({ hosts, lines, left_out: leftOut }, room) {
  const times = [...new Set(lines.flatMap((line) => (line.arrives > line.at ? [line.at, line.arrives] : [line.at])))].sort((a, b) => a - b);
  const gutter = Math.ceil(Math.max(...times.map((at) => widthOf(timeText(at))))) + 10;
  const column = Math.max(LEAST, (room - gutter) / Math.max(1, hosts.length));
  const width = gutter + column * Math.max(1, hosts.length);
  const xOf = (host) => gutter + column * (hosts.indexOf(host) + 0.5);
  const parts = [], arrows = [], ups = new Map(hosts.map((host) => [host, HEAD])), lives = [];
  const life = (host, from, to, kind) => lives.push(`<line class="life ${kind}" x1="${xOf(host)}" x2="${xOf(host)}" y1="${from}" y2="${to}"/>`);
  const downs = new Map();
  const heads = (y) => hosts.map((host) => `<g class="host"><title>${escape(host)}</title><rect x="${xOf(host) - column / 2 + 4}" y="${y}" width="${column - 8}" height="${HEAD - 4}" rx="6"/>` +
    `<text x="${xOf(host)}" y="${y + 15}">${escape(wrap(host, column - 14)[0])}</text></g>`).join("");
  const group = (line, kind, inside) => `<g class="${kind}${line.kind ? ` ${line.kind}` : ""}${isBad(line) ? " bad" : ""}">` +
    `<title>${escape(timeText(line.at) + ": " + wordsOf(line))}</title>${inside}</g>`;
  let y = HEAD + 4;
  if (leftOut) {
    const text = wrap(`... ${leftOut} lines before these (the option full shows them)`, width - gutter);
    parts.push(`<g class="all">${textLines(text, gutter, y + 14)}</g>`);
    y += text.length * LINE + 6;
  }
  const arrivals = new Map(); // of lines: the y
  for (const at of times) {
    parts.push(`<line class="between" x1="0" x2="${width}" y1="${y}" y2="${y}"/><text class="time" x="${gutter - 8}" y="${y + 15}">${timeText(at)}</text>`);
    const arriving = lines.filter((line) => isArrow(line) && line.arrives === at && line.arrives > line.at);
    arriving.forEach((line, i) => arrivals.set(line, y + 8 + 8 * i));
    y += 8 * arriving.length + 8;
    for (const line of lines.filter((one) => one.at === at)) {
      if (isArrow(line)) {
        const [x1, x2] = [xOf(line.from), xOf(line.to)], middle = (x1 + x2) / 2, text = wrap(wordsOf(line), Math.abs(x2 - x1) - 14);
        const wide = Math.max(...text.map(widthOf)) + 6;
        parts.push(group(line, "message", `<rect class="behind" x="${middle - wide / 2}" y="${y}" width="${wide}" height="${text.length * LINE}"/>` +
          textLines(text, middle, y + 12)));
        y += text.length * LINE + 4;
        arrows.push({ line, x1, x2, y1: y, straight: y + 8 });
        y += 12;
      } else if (line.from !== undefined) {
        const text = wrap(wordsOf(line), column - 20), wide = Math.max(...text.map(widthOf)) + 12, x = xOf(line.from);
        if (line.kind === "start" && downs.has(line.from)) {
          life(line.from, downs.get(line.from), y, "down");
          downs.delete(line.from);
          ups.set(line.from, y);
        }
        parts.push(group(line, "event", `<rect class="box" x="${x - wide / 2}" y="${y}" width="${wide}" height="${text.length * LINE + 4}" rx="5"/>` +
          textLines(text, x, y + 14)));
        y += text.length * LINE + 10;
        if (line.kind === "crash" && ups.has(line.from)) {
          life(line.from, ups.get(line.from), y, "");
          ups.delete(line.from);
          downs.set(line.from, y);
        }
      } else {
        const text = wrap(wordsOf(line), width - gutter - 8);
        parts.push(group(line, "all", textLines(text, gutter + 4, y + 12)));
        y += text.length * LINE + 6;
      }
    }
  }
  for (const [host, from] of ups) life(host, from, y, "");
  for (const [host, from] of downs) life(host, from, y, "down");
  const paths = arrows.map(({ line, x1, x2, y1, straight }) => group(line, "message",
    arrow(x1, y1, x2, arrivals.get(line) ?? straight, line.arrives !== undefined)));
  const height = y + HEAD, names = hosts.join(", ");
  return `<svg role="img" aria-label="${escape(`a sequence diagram of the hosts ${names}; its text is above`)}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}">${lives.join("")}${heads(2)}${paths.join("")}${parts.join("")}${heads(y + 2)}</svg>`;
}

// The diagram of a story: an element that draws itself as wide as it is, also when that changes.
export function sequence(told) {
  const element = document.createElement("figure"), box = document.createElement("div"), caption = document.createElement("figcaption");
  element.className = "sequence";
  box.className = "table";
  caption.textContent = told.failure;
  element.append(Object.assign(document.createElement("style"), { textContent: STYLE }), caption, box);
  let last; // nothing is drawn before it is in a page
  new ResizeObserver(() => {
    const room = Math.floor(element.clientWidth);
    if (!room || room === last) return;
    last = room;
    box.innerHTML = draw(told, room);
  }).observe(element);
  return element;
}
