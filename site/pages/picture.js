// picture.js: the graph of a program as one picture, from top to bottom: that of the front page, and those that the tour
// and the playground show before a program runs. The graph and its places are those of the monitor's page.
import { build, clip, doing } from "../../csrc/monitor/page/graph_nodes.js";
import { curve, place } from "../../csrc/monitor/page/graph_places.js";
import { short } from "../../csrc/monitor/page/model.js";
import { escape } from "../lua_html.mjs";

const WIDTH = 160, HEIGHT = 46; // of a node

// The functions of a program: a Map from "FILE:LINE", which is the name of a go block that runs one, to the function's name.
export function functionsOf(code, file) {
  const names = new Map();
  code.split("\n").forEach((line, i) => {
    const [, named, assigned] = /\bfunction\s+([\w.:]+)\s*\(|([\w.]+)\s*=\s*function\b/.exec(line) || [];
    if (named || assigned) names.set(`${file}:${i + 1}`, named || assigned);
  });
  return names;
}

// The graph of a model (csrc/monitor/page/model.js), with keys that stay while more and more of the program is known.
export function graphOf(model) {
  const graph = build(model, model.groups()), nodes = new Map(), edges = new Map();
  for (const node of graph.nodes.values()) {
    const name = (node.isChan ? "chan " : "go ") + (node.n > 1 && node.isChan ? node.chans[0].pattern : node.label);
    node.key = name;
    for (let i = 2; nodes.has(node.key); i++) node.key = `${name} ${i}`;
    nodes.set(node.key, node);
  }
  for (const edge of graph.edges.values()) edges.set(`${edge.from.key} > ${edge.to.key}`, edge);
  return { nodes, edges };
}

// What tells whether two graphs have the same places.
export const shapeOf = ({ nodes, edges }) => [...nodes.keys(), ...edges.keys()].sort().join("\n");

// The places of a graph's nodes, by window.dagre: { width, height, nodes: { key: [x, y] }, edges: { key: path } }
export function placesOf(graph) {
  const { width, height, ...places } = place(graph, "TB", () => ({ width: WIDTH, height: HEIGHT })), nodes = {}, edges = {};
  for (const [key, { x, y }] of places.nodes) nodes[key] = [x, y];
  for (const [key, points] of places.edges) edges[key] = curve(points);
  return { width, height, nodes, edges };
}

// What a node shows; without a model what is so before the program runs.
function looks(node, model) {
  if (!node.isChan) {
    const blocked = model && model.status !== "ended" && node.group && (node.group.states.put || 0) > node.group.n / 2;
    return { kind: `go ${blocked ? "blocked" : ""}`, label: clip(node.label, node.n > 1 ? 14 : 19) + (node.n > 1 ? ` × ${short(node.n)}` : ""),
      says: !model ? "go block" : model.status === "ended" ? "has ended" : doing(node.group, node.label, model).replace("none now", "has ended"),
      fill: 0 };
  }
  const room = node.limit ? `${model ? short(node.count) : 0} of ${short(node.limit)}` : "no buffer";
  return { kind: `chan ${model ? node.state : ""}`, label: clip(node.label, 19), says: model && node.closed ? "closed" : room,
    fill: model ? node.fill : 0 };
}

// The SVG of a graph with its places.
export function picture(graph, places, title) {
  const edges = [...graph.edges.keys()].map((key) => `<path class="edge" data-key="${escape(key)}" d="${places.edges[key]}"/>`);
  const nodes = [...graph.nodes.values()].map((node) => {
    const { kind, label, says } = looks(node), [x, y] = places.nodes[node.key], radius = node.isChan ? HEIGHT / 2 : 6;
    const box = (name, width) => `<rect class="${name}" width="${width}" height="${HEIGHT}" rx="${radius}"/>`;
    return `<g class="${kind}" data-key="${escape(node.key)}" transform="translate(${x - WIDTH / 2},${y - HEIGHT / 2})">${
      box("box", WIDTH)}${node.isChan ? box("fill", 0) : ""}<text class="label" x="${WIDTH / 2}" y="20">${escape(label)}</text>` +
      `<text class="says" x="${WIDTH / 2}" y="37">${escape(says)}</text></g>`;
  });
  const { width, height } = places;
  return `<svg class="picture" role="img" aria-label="${escape(title)}" style="--natural: ${width}px" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" ` +
    `markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z"/></marker></defs>${edges.join("")}${nodes.join("")}</svg>`;
}

// Shows in a picture what the model says now. The graph has the picture's shape.
export function refresh(svg, graph, model) {
  for (const element of svg.querySelectorAll("[data-key]")) {
    const { key } = element.dataset, node = graph.nodes.get(key), edge = graph.edges.get(key);
    const moves = edge?.node.rate > 0 && model.status !== "ended";
    if (edge) element.setAttribute("class", `edge ${moves ? "moves" : ""} ${edge.node.state}`);
    if (!node) continue;
    const { kind, label, says, fill } = looks(node, model);
    element.setAttribute("class", kind);
    element.querySelector(".label").textContent = label;
    element.querySelector(".says").textContent = says;
    element.querySelector(".fill")?.setAttribute("width", WIDTH * fill);
  }
}
