---The flame graph of a profile: a script, and the page around it that `--profile` and `p:write` make. The page of the
---monitor has the same script: the build makes flame.js and flame.html of the fields `js` and `html`.
---
---The data, which $DATA$ stands for in the page, are those of runnel.profile.picture.

local flame = {}

flame.js = [==[
// flame.js: the flame graph of a profile, from lua/runnel/profile/flame.lua.

const STYLE = `
.flame { --ran: #f2c48d; --ran-text: #3d2200; --waited: #a9cdf3; --waited-text: #08294d; --found: #b9428f }
@media (prefers-color-scheme: dark) { .flame { --ran: #8a5518; --ran-text: #ffeeda; --waited: #23568c;
  --waited-text: #e2f0ff; --found: #e58ac5 } }
.flame h2 { margin: 0 0 8px; font-size: 16px; font-weight: 600; overflow-wrap: anywhere }
.flame p { margin: 0 0 10px; color: var(--dim) }
.flame .tools { display: flex; flex-wrap: wrap; gap: 8px; margin-bottom: 10px }
.flame input { flex: 1 1 160px; min-width: 0; padding: 5px 8px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--card); color: inherit; font: inherit }
.flame .tools button { padding: 5px 12px; border: 1px solid var(--line); border-radius: 6px; background: var(--card);
  color: inherit; font: inherit; cursor: pointer }
.flame .about { min-height: 5.2em; padding: 6px 10px; margin-bottom: 10px; border: 1px solid var(--line);
  border-radius: 6px; background: var(--card); overflow-wrap: anywhere }
.flame .about b { font-weight: 600 } .flame .about div { color: var(--dim) }
.flame .frames { position: relative; overflow: hidden }
.flame .frames button { position: absolute; min-width: 0; min-height: 0; padding: 0 4px; border: 0; border-radius: 3px;
  border-right: 1px solid var(--page); font: 12px system-ui, sans-serif; text-align: left; white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; cursor: pointer }
.flame .ran { background: var(--ran); color: var(--ran-text) }
.flame .waited { background: var(--waited); color: var(--waited-text) }
.flame .key { display: inline-block; width: 10px; height: 10px; border-radius: 2px }
.flame .frames .above { opacity: .75 } .flame .frames .found { box-shadow: inset 0 0 0 2px var(--found) }
.flame .frames button:focus-visible, .flame .frames button:hover { outline: 2px solid var(--text);
  outline-offset: -2px }
`;

const NARROW = 24; // px: a frame without a text

function time(ns) {
  if (ns >= 1e9) return (ns / 1e9).toFixed(2) + " s";
  return ns >= 1e6 ? (ns / 1e6).toFixed(1) + " ms" : Math.round(ns / 1e3) + " us";
}

const share = (part, whole) => (whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "0 %");

// An element with some properties and children.
function element(name, properties, ...kids) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...kids);
  return made;
}

// A frame: { text, ns, kind, parent, root, kids }.
function frame([text, ns, ...kids], kind, parent) {
  const made = { text, ns, kind, parent };
  made.root = parent ? parent.root : made;
  made.kids = kids.map((kid) => frame(kid, kind, made));
  return made;
}

// Fills `box`, an element of the class "flame", with the sentence, a search and the graph of a profile. The page has
// the colours --page, --card, --text, --dim and --line. Returns a function that ends it.
export function flame(box, data) {
  if (!document.getElementById("flame-style")) {
    document.head.append(element("style", { id: "flame-style", textContent: STYLE }));
  }
  const row = matchMedia("(pointer: coarse)").matches ? 36 : 22;
  const ran = frame(data.running, "ran", null), waited = frame(data.waiting, "waited", null);
  ran.text = "ran " + time(ran.ns);
  waited.text = "waiting: " + time(waited.ns) + " in all go blocks";
  const roots = [ran, waited].filter((root) => root.ns > 0);
  let zoomed = null, word = "";

  const about = element("div", { className: "about" }), frames = element("div", { className: "frames" });
  about.setAttribute("aria-live", "polite");
  const search = element("input", { type: "search", placeholder: "Find a function, a line or a channel" });
  search.setAttribute("aria-label", "Find");
  const all = element("button", { type: "button", textContent: "Show all" });
  const key = (kind) => element("i", { className: "key " + kind });

  function show(n) {
    const above = [], verb = n.kind === "ran" ? "ran" : "waited";
    for (let p = n.parent; p && p.parent; p = p.parent) above.unshift(p.text);
    const sums = n.parent ? `${time(n.ns)}: ${share(n.ns, n.root.ns)} of all that ${verb}`
      + (n.parent.parent ? `, ${share(n.ns, n.parent.ns)} of its caller` : "") : `${time(n.ns)} in all`;
    about.replaceChildren(element("b", { textContent: n.text }), element("div", { textContent: sums }),
      element("div", { textContent: above.length ? "in " + above.join(" › ") : "" }));
  }

  function draw() {
    const width = frames.clientWidth, drawn = [];
    let deepest = 0;
    function add(n, x, w, depth, isAbove) {
      if (w < 2) return;
      deepest = Math.max(deepest, depth);
      const isFound = word && n.text.toLowerCase().includes(word);
      const b = element("button", { type: "button", title: `${n.text}: ${time(n.ns)}, ${share(n.ns, n.root.ns)}`,
        className: n.kind + (isAbove ? " above" : "") + (isFound ? " found" : "") });
      Object.assign(b.style, { left: x + "px", width: Math.max(w - 1, 1) + "px", top: depth * row + "px",
        height: row - 1 + "px" });
      if (w > NARROW) b.textContent = n.text;
      else b.setAttribute("aria-label", n.text);
      b.onclick = () => { zoomed = zoomed === n ? null : n; show(n); draw(); };
      b.onfocus = b.onmouseenter = () => show(n);
      drawn.push(b);
    }
    function below(n, x, w, depth) {
      add(n, x, w, depth, false);
      if (w < 2) return;
      for (const kid of n.kids) {
        const part = n.ns > 0 ? w * kid.ns / n.ns : 0;
        below(kid, x, part, depth + 1);
        x += part;
      }
    }
    if (zoomed) {
      const path = [];
      for (let p = zoomed.parent; p; p = p.parent) path.unshift(p);
      path.forEach((p, depth) => add(p, 0, width, depth, true));
      below(zoomed, 0, width, path.length);
    } else {
      roots.forEach((root, i) => below(root, i * width / roots.length, width / roots.length, 0));
    }
    frames.style.height = (deepest + 1) * row + "px";
    frames.replaceChildren(...drawn);
  }

  search.oninput = () => { word = search.value.trim().toLowerCase(); draw(); };
  all.onclick = () => { zoomed = null; draw(); };
  box.replaceChildren(element("h2", { textContent: data.sentence }),
    element("p", {}, `In ${time(data.elapsed)}: Lua code ran ${time(data.ran)}, the scheduler ${time(data.loop)}`
      + (data.blocked ? `; ${time(data.blocked)} the thread was blocked. ` : ". "),
      key("ran"), " what ran, ", key("waited"), " what go blocks waited for, all of them added up; each with a scale "
      + `of its own. Left out: less than ${Number((100 / data.parts).toPrecision(1))} %.`),
    element("div", { className: "tools" }, search, all), about, frames);
  if (roots.length) show(roots[0]);
  else about.hidden = true;
  draw();
  let last = frames.clientWidth;
  const observer = new ResizeObserver(() => {
    if (frames.clientWidth === last) return;
    last = frames.clientWidth;
    draw();
  });
  observer.observe(frames);
  return () => observer.disconnect();
}
]==]

flame.html = [==[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Profile</title>
<style>
:root { color-scheme: light dark; --page: #f6f7f9; --text: #1b2430; --dim: #586375; --line: #d5dae2; --card: #fff }
@media (prefers-color-scheme: dark) { :root { --page: #14181f; --text: #e3e8ef; --dim: #98a3b3; --line: #333c49;
  --card: #1c222b } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 12px; max-width: 1600px; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif }
</style>
</head>
<body>
<main class="flame" id="flame"></main>
<noscript>This page draws its picture with JavaScript.</noscript>
<script id="data" type="application/json">$DATA$</script>
<script type="module">
]==] .. flame.js .. [==[
flame(document.getElementById("flame"), JSON.parse(document.getElementById("data").textContent));
</script>
</body>
</html>
]==]

return flame
