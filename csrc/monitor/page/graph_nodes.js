// graph_nodes.js: the graph without its drawing: go blocks by name, channels, who puts on and takes from which.
import { short, stateOf } from "./model.js";

const MOST = 160; // nodes that are shown; beyond these the least active ones are left out
const MANY = 24; // with this many nodes of channels, or more, channels may share a node although their buffers differ

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
  node.isOftenFull = node.limit > 0 && ["flowing", "idle", "closed"].includes(node.state) && node.waits > 0.1;
  node.fill = node.limit ? Math.min(1, node.count / node.limit) : node.nputs ? 1 : 0;
  return node;
}

// Groups channels that share a node: their names differ only in digits, and the same go blocks put and take there. With
// `exactly` they must have the same kind and size of buffer, too.
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

// ---- texts ----

// A name without the folders of its file, cut to n characters.
export function clip(text, n) {
  const name = text.replace(/(^|\s)\S*\/(?=\S+:\d)/g, "$1");
  return name.length <= n ? name : name.slice(0, Math.ceil(n / 2) - 1) + "…" + name.slice(-Math.floor(n / 2));
}

// What the go blocks of a name do; `group` is undefined if there are none now.
export function doing(group, name, model) {
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
