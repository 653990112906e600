// graph.js: the graph: go blocks by name, channels, and who puts on and takes from which. dagre places the nodes; that is
// done anew only when nodes or edges come or go, not when numbers change.
const { html, useMemo, useRef, useState, useEffect } = window.htmPreact;
import { rateText, short, stateOf } from "./model.js";

const MOST = 160; // nodes; the least active ones are left out
const MANY = 24; // from this many nodes of channels on, channels with different buffers share one
const LEAST = 0.91; // the least scale: the smallest labels, of 11 px, have 10 px then
const GO_WIDTH = 190, CHAN_WIDTH = 164, HEIGHT = 44;

// Without the folders of a file, and at most n characters.
function clip(text, n) {
  const name = text.replace(/(^|\s)\S*\/(?=\S+:\d)/g, "$1");
  return name.length <= n ? name : name.slice(0, Math.ceil(n / 2) - 1) + "…" + name.slice(-Math.floor(n / 2));
}

// ---- what to show ----

function chanNode(key, list) {
  const node = { key, isChan: true, chans: list, n: 0, rate: 0, count: 0, limit: 0, nputs: 0, ntakes: 0,
    waits: 0, closed: list.every((ch) => ch.closed), stage: list.length === 1 ? list[0].stage : undefined };
  for (const ch of list) {
    node.n += ch.n;
    node.rate = node.rate === null || ch.rate === null ? null : node.rate + ch.rate;
    node.count += ch.count;
    node.limit += ch.limit;
    node.nputs += ch.nputs;
    node.ntakes += ch.ntakes;
    node.waits = Math.max(node.waits, ch.waits);
  }
  const [first] = list;
  node.label = node.n === 1 ? first.brief : `${first.pattern} × ${short(node.n)}`;
  node.state = stateOf(node);
  node.isOftenFull = node.limit > 0 && node.state !== "full" && node.waits > 0.1;
  node.fill = node.limit ? Math.min(1, node.count / node.limit) : node.nputs ? 1 : 0;
  return node;
}

// Channels that share a node: their names differ only in digits, and the same go blocks are at their ends. `exactly`:
// only if their buffers are alike.
function fold(model, ends, exactly) {
  const folded = new Map();
  for (const [id, { puts, takes }] of ends) {
    const ch = model.chans.get(id), buffer = exactly ? [ch.kind, ch.limit] : [];
    const key = [ch.pattern, ...buffer, ...[...puts].sort(), ">", ...[...takes].sort()].join("\u0001");
    if (!folded.has(key)) folded.set(key, []);
    folded.get(key).push(ch);
  }
  return folded;
}

// The nodes and edges: { nodes: Map, edges: [{ from, to, rate, ... }], left: how many nodes are left out }
export function build(model, groups) {
  const ends = model.ends();
  let folded = fold(model, ends, true);
  if (folded.size > MANY) folded = fold(model, ends, false);
  const nodes = new Map(), edges = new Map(), place = new Map();
  for (const [key, list] of folded) {
    const node = chanNode("c" + key, list);
    nodes.set(node.key, node);
    for (const ch of list) place.set(ch.id, node);
  }
  for (const e of model.edges.values()) {
    const node = place.get(e.chan);
    if (!node) continue;
    const key = "g" + e.name;
    if (!nodes.has(key)) {
      const g = groups.get(e.name);
      nodes.set(key, { key, isChan: false, label: e.name, group: g, n: g ? g.n : 0, rate: 0 });
    }
    const go = nodes.get(key), [from, to] = e.isPut ? [go, node] : [node, go];
    go.rate = Math.max(go.rate, node.rate);
    edges.set(from.key + "\u0002" + to.key, { from, to, node });
  }
  let left = 0;
  if (nodes.size > MOST) {
    const kept = new Set([...nodes.values()].sort((a, b) => b.rate - a.rate || b.n - a.n).slice(0, MOST));
    for (const node of [...nodes.values()]) {
      if (kept.has(node)) continue;
      nodes.delete(node.key);
      left++;
    }
    for (const [key, e] of edges) if (!kept.has(e.from) || !kept.has(e.to)) edges.delete(key);
  }
  return { nodes, edges, left };
}

// The size of the whole picture.
const fitOf = (g, room) => Math.min(1.25, room.width / g.graph().width, Math.max(room.height - 20, 200) / g.graph().height);

// From left to right, or from top to bottom if that makes it larger.
function layout(graph, room) {
  const across = place(graph, "LR"), down = place(graph, "TB");
  return fitOf(down, room) > fitOf(across, room) * 1.1 ? down : across;
}

function place(graph, rankdir) {
  const g = new window.dagre.graphlib.Graph();
  g.setGraph({ rankdir, nodesep: 14, ranksep: 30, marginx: 12, marginy: 12 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes.values()) {
    g.setNode(node.key, { width: node.isChan ? CHAN_WIDTH : GO_WIDTH, height: HEIGHT });
  }
  for (const e of graph.edges.values()) g.setEdge(e.from.key, e.to.key);
  window.dagre.layout(g);
  return g;
}

// ---- drawing ----

function curve(points) {
  const [first, ...rest] = points;
  let d = `M${first.x},${first.y}`;
  for (let i = 0; i < rest.length - 1; i++) {
    const p = rest[i], next = rest[i + 1];
    d += `Q${p.x},${p.y} ${(p.x + next.x) / 2},${(p.y + next.y) / 2}`;
  }
  const last = rest[rest.length - 1];
  return d + `L${last.x},${last.y}`;
}

function doing(group, name, model) {
  const stage = model.stageOfGo(name), state = stage && model.stageState(stage);
  if (state === "held" || state === "paused") return state;
  if (!group) return model.summary.more ? "not listed" : "none now";
  const { put = 0, take = 0, alts = 0, idle = 0, sleeping = 0, ready = 0 } = group.states;
  const parts = [];
  if (put) parts.push(`${put} wait to put`);
  if (take) parts.push(`${take} ${put ? "" : "wait "}to take`);
  if (alts) parts.push(`${alts} in alts`);
  if (idle) parts.push(`${idle} idle`);
  if (sleeping) parts.push(`${sleeping} asleep`);
  if (ready) parts.push(`${ready} ready`);
  if (group.n === 1 && parts.length === 1) {
    return put ? "waits to put" : take ? "waits to take" : alts ? "waits in alts" : idle ? "is idle"
      : sleeping ? "sleeps" : "is ready";
  }
  return parts.slice(0, 2).join(", ");
}

function ChanNode({ node, at, selected, onSelect }) {
  const [x, y] = [at.x - CHAN_WIDTH / 2, at.y - HEIGHT / 2];
  const amount = node.limit ? `${short(node.count)}/${short(node.limit)}` : node.nputs ? `${node.nputs} wait` : "";
  const waits = node.nputs && node.limit && node.n > 1 ? `${short(node.nputs)} wait` : "";
  const often = node.isOftenFull && "often full";
  const wait = node.ntakes && !node.nputs ? (node.ntakes === 1 ? "1 take waits" : `${node.ntakes} takes wait`) : "";
  return html`<g class=${`chan ${node.state} ${node.isOftenFull ? "often-full" : ""} ${selected ? "selected" : ""}`} transform=${`translate(${x},${y})`}
      onClick=${() => onSelect(node)} data-name=${node.label}>
    <title>${node.label}: ${node.state}${node.waits > 0 ? `: puts have waited ${Math.round(node.waits * 100)}% of the time lately` : ""}</title>
    <rect class="box" width=${CHAN_WIDTH} height=${HEIGHT} rx="22" />
    <svg x="0" y="0" width=${CHAN_WIDTH} height=${HEIGHT}>
      <rect class="fill" width=${CHAN_WIDTH * node.fill} height=${HEIGHT} rx="22" /></svg>
    <text class="label" x=${CHAN_WIDTH / 2} y="19">${clip(node.label, 20)}</text>
    <text class="numbers" x=${CHAN_WIDTH / 2} y="34">${[often || amount || wait, waits, ["closed", "held", "paused", "draining"].includes(node.state) && node.state, rateText(node.rate) + "/s"].filter(Boolean).join(" · ")}</text>
  </g>`;
}

function GoNode({ model, node, at, selected, onSelect }) {
  const [x, y] = [at.x - GO_WIDTH / 2, at.y - HEIGHT / 2], { group } = node;
  const blocked = group && (group.states.put || 0) > group.n / 2;
  return html`<g class=${`go ${group ? "" : "ended"} ${blocked ? "blocked" : ""} ${selected ? "selected" : ""}`}
      transform=${`translate(${x},${y})`} onClick=${() => onSelect(node)} data-name=${node.label}>
    <title>${node.label}</title>
    <rect class="box" width=${GO_WIDTH} height=${HEIGHT} rx="4" />
    <text class="label" x="10" y="19">${clip(node.label, node.n > 1 ? 18 : 23)}</text>
    ${node.n > 1 && html`<text class="times" x=${GO_WIDTH - 8} y="19">× ${short(node.n)}</text>`}
    <text class="numbers" x="10" y="34">${doing(group, node.label, model)}</text>
  </g>`;
}

export function Graph({ model, groups, selection, onSelect }) {
  const graph = build(model, groups);
  const shape = [...graph.nodes.keys()].sort().join("\u0003") + [...graph.edges.keys()].sort().join("\u0003");
  const [room, setRoom] = useState({ width: 800, height: 400 });
  const rough = [room.width, room.height].map((n) => Math.round(n / 40)).join();
  const places = useMemo(() => layout(graph, room), [shape, rough]);
  const box = useRef(null), [zoom, setZoom] = useState(0); // 0: as large as fits
  const { width = 100, height = 100 } = places.graph();
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setRoom(entry.contentRect));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const scale = zoom || Math.max(fitOf(places, room), LEAST);
  const most = Math.max(1, ...[...graph.edges.values()].map((e) => e.node.rate));
  if (!graph.nodes.size) {
    return html`<div class="graph" ref=${box}><p class="nothing">${model.reading
      || (model.isWhole ? "So far no go block uses a channel." : "Which go blocks use which channels is not known.")}</p></div>`;
  }
  return html`<div class="graph" ref=${box}>
    <div class="zoom">
      <button title="smaller" onClick=${() => setZoom(Math.max(scale / 1.25, LEAST))}>−</button>
      <button title="as large as fits" onClick=${() => setZoom(0)}>fit</button>
      <button title="larger" onClick=${() => setZoom(scale * 1.25)}>+</button>
    </div>
    <svg class="picture" width=${width * scale} height=${height * scale} viewBox=${`0 0 ${width} ${height}`}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"
        markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z" /></marker></defs>
      ${[...graph.edges.entries()].map(([key, e]) => {
        const edge = places.edge(e.from.key, e.to.key);
        return edge && html`<path key=${key} class=${`edge ${e.node.rate > 0 ? "moves" : ""} ${e.node.state}`}
          d=${curve(edge.points)} stroke-width=${1 + 3 * Math.log1p(e.node.rate) / Math.log1p(most)}
          marker-end="url(#arrow)" />`;
      })}
      ${[...graph.nodes.values()].map((node) => {
        const at = places.node(node.key), Node = node.isChan ? ChanNode : GoNode;
        const selected = selection && (node.isChan ? node.chans.some((ch) => ch.id === selection.chan)
          : selection.go === node.label);
        return at && html`<${Node} key=${node.key} model=${model} node=${node} at=${at} selected=${selected} onSelect=${onSelect} />`;
      })}
    </svg>
    ${graph.left > 0 && html`<p class="left">${graph.left} nodes where less moves are left out.</p>`}
  </div>`;
}
