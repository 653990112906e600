// graph_places.js: the places of a graph's nodes. dagre computes them. If the result is much longer than the page, it is cut
// into strips, which are placed side by side.

const MARGIN = 12, GAP = 40, STRIPS = 10;

// Places the nodes from left to right ("LR"), or from top to bottom ("TB"). size(node): its { width, height }.
// Returns { width, height, nodes: key -> { x, y, width, height }, edges: key -> points, cut: how many edges are cut }.
export function place(graph, rankdir, size) {
  const g = new window.dagre.graphlib.Graph();
  g.setGraph({ rankdir, nodesep: 14, ranksep: 30, marginx: MARGIN, marginy: MARGIN });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes.values()) g.setNode(node.key, size(node));
  for (const e of graph.edges.values()) g.setEdge(e.from.key, e.to.key);
  window.dagre.layout(g);
  const nodes = new Map([...graph.nodes.keys()].map((key) => [key, g.node(key)])), { width = 100, height = 100 } = g.graph();
  const edges = new Map([...graph.edges].map(([key, e]) => [key, g.edge(e.from.key, e.to.key)?.points]).filter(([, points]) => points));
  return { width, height, nodes, edges, cut: 0 };
}

// The result of such a call, cut into n strips, which stand from left to right.
function strips(graph, { height, nodes, edges }, n) {
  const of = ({ y }) => Math.min(n - 1, Math.floor(y * n / height)), lists = Array.from({ length: n }, () => []);
  for (const at of nodes.values()) lists[of(at)].push(at);
  const shifts = [];
  let right = MARGIN, bottom = 0;
  for (const list of lists) {
    if (!list.length) { shifts.push({ x: 0, y: 0 }); continue; }
    const edge = (side) => list.map((at) => side(at)), top = Math.min(...edge((at) => at.y - at.height / 2)), left = Math.min(...edge((at) => at.x - at.width / 2));
    shifts.push({ x: right - left, y: MARGIN - top });
    right += Math.max(...edge((at) => at.x + at.width / 2)) - left + GAP;
    bottom = Math.max(bottom, Math.max(...edge((at) => at.y + at.height / 2)) - top);
  }
  const moved = (point, { x, y }) => ({ ...point, x: point.x + x, y: point.y + y });
  const result = { width: right - GAP + MARGIN, height: bottom + 2 * MARGIN, nodes: new Map(), edges: new Map(), cut: 0 };
  for (const [key, at] of nodes) result.nodes.set(key, moved(at, shifts[of(at)]));
  for (const [key, points] of edges) {
    const e = graph.edges.get(key), from = nodes.get(e.from.key), to = nodes.get(e.to.key);
    if (of(from) === of(to)) {
      result.edges.set(key, points.map((point) => moved(point, shifts[of(from)])));
      continue;
    }
    const a = result.nodes.get(e.from.key), b = result.nodes.get(e.to.key), side = b.x > a.x ? 1 : -1;
    result.edges.set(key, [{ x: a.x + side * a.width / 2, y: a.y }, { x: b.x - side * (b.width / 2 + 14), y: b.y }, { x: b.x - side * b.width / 2, y: b.y }]);
    result.cut++;
  }
  return result;
}

// The scale at which all of it fits.
export const fitOf = ({ width, height }, room) => Math.min(1.25, room.width / width, Math.max(room.height - 20, 200) / height);

// Chooses the placement that can be shown at the largest scale: from left to right, or from top to bottom; in strips if
// neither reaches the scale `least`.
export function layout(graph, room, least, size) {
  const across = place(graph, "LR", size), down = place(graph, "TB", size);
  let best = fitOf(down, room) > fitOf(across, room) * 1.1 ? down : across;
  if (fitOf(best, room) >= least) return best;
  for (const whole of [across, down]) {
    for (let n = 2; n <= STRIPS; n++) {
      const other = strips(graph, whole, n);
      if (other.cut <= graph.nodes.size / 2 && fitOf(other, room) > fitOf(best, room) * 1.1) best = other;
    }
  }
  return best;
}

// The path of an edge through its points.
export function curve(points) {
  const [first, ...rest] = points;
  let d = `M${first.x},${first.y}`;
  for (let i = 0; i < rest.length - 1; i++) {
    const p = rest[i], next = rest[i + 1];
    d += `Q${p.x},${p.y} ${(p.x + next.x) / 2},${(p.y + next.y) / 2}`;
  }
  const last = rest[rest.length - 1];
  return d + `L${last.x},${last.y}`;
}

// Where to scroll to at first: to the nodes that are first in the flow of values.
export function beginning({ nodes }, graph) {
  const targets = new Set([...graph.edges.values()].map((e) => e.to.key));
  const firsts = [...nodes].filter(([key]) => !targets.has(key)), list = (firsts.length ? firsts : [...nodes]).map(([, at]) => at);
  return list.reduce((a, b) => (b.x + b.y < a.x + a.y ? b : a));
}
