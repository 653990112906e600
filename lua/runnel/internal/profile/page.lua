---The page of a profile. $DATA$ stands for its data: the sentence, ns, and two trees of [text, ns, children...].

return [==[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Profile</title>
<style>
:root { color-scheme: light dark; --page: #f6f7f9; --text: #1b2430; --dim: #586375; --line: #d5dae2; --card: #fff;
  --ran: #f2c48d; --ran-text: #3d2200; --waited: #a9cdf3; --waited-text: #08294d; --found: #b9428f }
@media (prefers-color-scheme: dark) { :root { --page: #14181f; --text: #e3e8ef; --dim: #98a3b3; --line: #333c49;
  --card: #1c222b; --ran: #8a5518; --ran-text: #ffeeda; --waited: #23568c; --waited-text: #e2f0ff; --found: #e58ac5 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 12px; max-width: 1600px; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif }
h1 { margin: 0 0 10px; font-size: 17px; font-weight: 600; overflow-wrap: anywhere }
p { margin: 0 0 10px; color: var(--dim) }
form { display: flex; flex-wrap: wrap; gap: 8px; margin-bottom: 10px }
input { flex: 1 1 160px; min-width: 0; padding: 6px 8px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--card); color: inherit; font: inherit }
form button { padding: 6px 12px; border: 1px solid var(--line); border-radius: 6px; background: var(--card);
  color: inherit; font: inherit; cursor: pointer }
#about { min-height: 66px; padding: 8px 10px; margin-bottom: 10px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--card); overflow-wrap: anywhere }
#about b { font-weight: 600 } #about div { color: var(--dim) }
#picture { position: relative; overflow: hidden }
#picture button { position: absolute; height: 21px; padding: 0 4px; border: 0; border-right: 1px solid var(--page);
  border-radius: 3px; font: 12px/20px system-ui, sans-serif; text-align: left; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; cursor: pointer }
#picture .ran { background: var(--ran); color: var(--ran-text) }
#picture .waited { background: var(--waited); color: var(--waited-text) }
#picture .above { opacity: .75 } #picture .found { box-shadow: inset 0 0 0 2px var(--found) }
#picture button:focus-visible, #picture button:hover { outline: 2px solid var(--text); outline-offset: -2px }
</style>
</head>
<body>
<h1 id="sentence"></h1>
<p id="sums"></p>
<form id="form"><input id="search" type="search" placeholder="Find a function, a line or a channel" aria-label="Find">
<button type="button" id="all">Show all</button></form>
<div id="about" aria-live="polite"></div>
<div id="picture"></div>
<noscript>This page draws its picture with JavaScript.</noscript>
<script id="data" type="application/json">$DATA$</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const ROW = 22;

function time(ns) {
  if (ns >= 1e9) return (ns / 1e9).toFixed(2) + " s";
  return ns >= 1e6 ? (ns / 1e6).toFixed(1) + " ms" : Math.round(ns / 1e3) + " us";
}
function share(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "0 %"; }

// A node: { text, ns, kind, parent, root, kids }.
function node(list, kind, parent) {
  const made = { text: list[0], ns: list[1], kind, parent };
  made.root = parent ? parent.root : made;
  made.kids = list.slice(2).map(kid => node(kid, kind, made));
  return made;
}
const ran = node(data.running, "ran", null), waited = node(data.waiting, "waited", null);
ran.text = "ran " + time(ran.ns);
waited.text = "waiting: " + time(waited.ns) + " in all go blocks";
const roots = [ran, waited].filter(root => root.ns > 0);

let zoomed = null, word = "";

function show(n) {
  const above = [];
  for (let p = n.parent; p && p.parent; p = p.parent) above.unshift(p.text);
  at("about").replaceChildren();
  const name = document.createElement("b");
  name.textContent = n.text;
  const sums = document.createElement("div");
  const verb = n.kind === "ran" ? "ran" : "waited";
  sums.textContent = n.parent ? `${time(n.ns)}: ${share(n.ns, n.root.ns)} of all that ${verb}`
    + (n.parent.parent ? `, ${share(n.ns, n.parent.ns)} of its caller` : "") : `${time(n.ns)} in all`;
  const path = document.createElement("div");
  path.textContent = above.length ? "in " + above.join(" › ") : "";
  at("about").append(name, sums, path);
}

function draw() {
  const picture = at("picture"), width = picture.clientWidth, boxes = [];
  let deepest = 0;
  function box(n, x, w, row, above) {
    if (w < 2) return;
    deepest = Math.max(deepest, row);
    const b = document.createElement("button");
    b.type = "button";
    b.className = n.kind + (above ? " above" : "")
      + (word && n.text.toLowerCase().includes(word) ? " found" : "");
    b.style.left = x + "px";
    b.style.width = Math.max(w - 1, 1) + "px";
    b.style.top = row * ROW + "px";
    if (w > 24) b.textContent = n.text;
    else b.setAttribute("aria-label", n.text);
    b.title = `${n.text}: ${time(n.ns)}, ${share(n.ns, n.root.ns)}`;
    b.onclick = () => { zoomed = zoomed === n ? null : n; show(n); draw(); };
    b.onfocus = b.onmouseenter = () => show(n);
    boxes.push(b);
  }
  function below(n, x, w, row) {
    box(n, x, w, row, false);
    if (w < 2) return;
    for (const kid of n.kids) {
      const part = n.ns > 0 ? w * kid.ns / n.ns : 0;
      below(kid, x, part, row + 1);
      x += part;
    }
  }
  if (zoomed) {
    const path = [];
    for (let p = zoomed.parent; p; p = p.parent) path.unshift(p);
    path.forEach((p, row) => box(p, 0, width, row, true));
    below(zoomed, 0, width, path.length);
  } else {
    roots.forEach((root, i) => below(root, i * width / roots.length, width / roots.length, 0));
  }
  picture.style.height = (deepest + 1) * ROW + "px";
  picture.replaceChildren(...boxes);
}

at("sentence").textContent = data.sentence;
at("sums").textContent = `In ${time(data.elapsed)}: Lua code ran ${time(data.ran)}, the scheduler ${time(data.loop)}. `
  + "Orange: what ran. Blue: what go blocks waited for, all of them added up. Each half has a scale of its own.";
at("search").oninput = () => { word = at("search").value.trim().toLowerCase(); draw(); };
at("form").onsubmit = event => event.preventDefault();
at("all").onclick = () => { zoomed = null; draw(); };
addEventListener("resize", draw);
if (roots.length) show(roots[0]);
draw();
</script>
</body>
</html>
]==]
