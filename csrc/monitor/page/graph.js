// graph.js: draws the graph of graph_nodes.js. The nodes are placed anew only when nodes or edges come or go, not when
// numbers change. A graph that is too large for the frame can be scrolled, and the page says how many nodes are out of
// view; "fit" makes it small enough, and hides labels that would be too small to read.
const { html, useMemo, useRef, useState, useEffect, useLayoutEffect } = window.htmPreact;
import { rateText, short } from "./model.js";
import { build, clip, doing } from "./graph_nodes.js";
import { beginning, curve, fitOf, layout } from "./graph_places.js";

const LEAST = 0.91; // the smallest scale at which labels are shown: those of 11 px have 10 px then
const REGION = { tabindex: 0, role: "region", "aria-label": "the graph" }; // the keyboard scrolls it, too
const GO_WIDTH = 190, CHAN_WIDTH = 164, HEIGHT = 44;

const sizeOf = (node) => ({ width: node.isChan ? CHAN_WIDTH : GO_WIDTH, height: HEIGHT });

// ---- drawing ----

function ChanNode({ node, at, selected, onSelect, isSmall }) {
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
    ${!isSmall && html`<text class="label" x=${CHAN_WIDTH / 2} y="19">${clip(node.label, 20)}</text>
    <text class="numbers" x=${CHAN_WIDTH / 2} y="34">${[often || amount || wait, waits, ["closed", "held", "paused", "draining"].includes(node.state) && node.state, rateText(node.rate) + "/s"].filter(Boolean).join(" · ")}</text>`}
  </g>`;
}

function GoNode({ model, node, at, selected, onSelect, isSmall }) {
  const [x, y] = [at.x - GO_WIDTH / 2, at.y - HEIGHT / 2], { group } = node;
  const blocked = group && (group.states.put || 0) > group.n / 2;
  return html`<g class=${`go ${group ? "" : "ended"} ${blocked ? "blocked" : ""} ${selected ? "selected" : ""}`}
      transform=${`translate(${x},${y})`} onClick=${() => onSelect(node)} data-name=${node.label}>
    <title>${node.label}</title>
    <rect class="box" width=${GO_WIDTH} height=${HEIGHT} rx="4" />
    ${!isSmall && html`<text class="label" x="10" y="19">${clip(model.nameIn(node.label), node.n > 1 ? 18 : 23)}</text>
    ${node.n > 1 && html`<text class="times" x=${GO_WIDTH - 8} y="19">× ${short(node.n)}</text>`}
    <text class="numbers" x="10" y="34">${doing(group, node.label, model)}</text>`}
  </g>`;
}

// How many nodes have their middle in view.
function inView(places, scale, { left, top, width, height }) {
  const isIn = (at) => at.x * scale > left && at.x * scale < left + width && at.y * scale > top && at.y * scale < top + height;
  return [...places.nodes.values()].filter(isIn).length;
}

export function Graph({ model, groups, selection, onSelect }) {
  const graph = build(model, groups);
  const shape = [...graph.nodes.keys()].sort().join("\u0003") + [...graph.edges.keys()].sort().join("\u0003");
  const [room, setRoom] = useState({ width: 800, height: 400 }), [at, setAt] = useState({ left: 0, top: 0 });
  const rough = [room.width, room.height].map((n) => Math.round(n / 40)).join();
  const places = useMemo(() => layout(graph, room, LEAST, sizeOf), [shape, rough]);
  const box = useRef(null), [zoom, setZoom] = useState(0); // a scale; 0: one at which labels can be read; "fit": all is in view
  const { width, height } = places, whole = fitOf(places, room);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setRoom(entry.contentRect));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const scale = zoom === "fit" ? whole : zoom || Math.max(whole, LEAST), isSmall = scale < LEAST - 0.001;
  useLayoutEffect(() => { // scrolls to where the first nodes are
    if (!graph.nodes.size) return;
    const first = beginning(places, graph), { clientWidth, clientHeight } = box.current;
    box.current.scrollTo(first.x * scale - clientWidth / 2, Math.max(0, first.y * scale - clientHeight / 2));
    setAt({ left: box.current.scrollLeft, top: box.current.scrollTop });
  }, [places]);
  const most = Math.max(1, ...[...graph.edges.values()].map((e) => e.node.rate));
  if (!graph.nodes.size) {
    return html`<div class="graph"><div class="bar" /><div class="scroll" ref=${box} ...${REGION}><p class="nothing">${model.reading
      || (model.isWhole ? "So far no go block uses a channel." : "Which go blocks use which channels is not known.")}</p></div></div>`;
  }
  const n = graph.nodes.size, seen = inView(places, scale, { ...at, width: room.width, height: room.height });
  return html`<div class="graph">
    <div class="bar">
      <span>${isSmall ? `All ${n} boxes, without their labels. Click one, or enlarge.` : seen < n && `It goes on: ${seen} of ${n} boxes are in view.`}</span>
      <button title="smaller" onClick=${() => setZoom(Math.max(scale / 1.25, Math.min(whole, LEAST)))}>−</button>
      <button title=${zoom === "fit" ? "with labels" : "all of it"} aria-pressed=${zoom === "fit"} onClick=${() => setZoom(zoom === "fit" ? 0 : "fit")}>fit</button>
      <button title="larger" onClick=${() => setZoom(scale * 1.25)}>+</button>
    </div>
    <div class="scroll" ref=${box} ...${REGION} onScroll=${(e) => setAt({ left: e.target.scrollLeft, top: e.target.scrollTop })}>
      <svg class=${`picture ${isSmall ? "small" : ""}`} width=${width * scale} height=${height * scale} viewBox=${`0 0 ${width} ${height}`}>
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"
          markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z" /></marker></defs>
        ${[...graph.edges.entries()].map(([key, e]) => {
          const points = places.edges.get(key);
          return points && html`<path key=${key} class=${`edge ${e.node.rate > 0 ? "moves" : ""} ${e.node.state}`}
            d=${curve(points)} stroke-width=${1 + 3 * Math.log1p(e.node.rate) / Math.log1p(most)}
            marker-end="url(#arrow)" />`;
        })}
        ${[...graph.nodes.values()].map((node) => {
          const place = places.nodes.get(node.key), Node = node.isChan ? ChanNode : GoNode;
          const selected = selection && (node.isChan ? node.chans.some((ch) => ch.id === selection.chan)
            : selection.go === node.label);
          return place && html`<${Node} key=${node.key} model=${model} node=${node} at=${place} selected=${selected} onSelect=${onSelect}
            isSmall=${isSmall} />`;
        })}
      </svg>
    </div>
    ${graph.left > 0 && html`<p class="left">${graph.left} nodes where less moves are left out.</p>`}
  </div>`;
}
