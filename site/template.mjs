// template.mjs: what surrounds the contents of each page.
import { escape } from "./lua_html.mjs";

// The theme that the reader has chosen (pages/site.js), before anything is shown.
const THEME = 'try{const t=localStorage.getItem("theme");if(t)document.documentElement.dataset.theme=t}catch{}';

// The address of a page, from one that is `up` ("", "../", ...) from the site's top.
const menuHtml = (menu, here, up) => menu.map(({ title, pages }) => `<h2>${escape(title)}</h2>\n${pages.map((page) =>
  `<a${page.url === here.url ? ' class="here" aria-current="page"' : ""} href="${up}${page.url}">${escape(page.title)}</a>`)
  .join("\n")}`).join("\n");

function step(page, up, kind, word) {
  return page ? `<a class="${kind}" rel="${kind}" href="${up}${page.url}"><small>${word}</small>${escape(page.title)}</a>` : "<span></span>";
}

const contents = (headings) => {
  const shown = headings.filter((h) => h.depth === 2 || h.depth === 3);
  return shown.length < 3 ? "" : `<aside class="contents"><h2>On this page</h2>\n${shown.map((h) =>
    `<a class="depth-${h.depth}" href="#${h.id}">${escape(h.title)}</a>`).join("\n")}</aside>`;
};

// The head's lines for search engines and for links that are shared. A picture must have an absolute address there.
function about(page, up, title, root) {
  const text = page.description || `${page.title}: runnel, channels for Lua`;
  const og = { type: "website", title, description: text, image: `${root || up}assets/social.png`, ...(root && { url: root + page.url }) };
  return `<meta name="description" content="${escape(text)}">
${Object.entries(og).map(([key, value]) => `<meta property="og:${key}" content="${escape(value)}">`).join("\n")}
<meta name="twitter:card" content="summary_large_image">`;
}

// What each page says of itself: which file of the sources it is made from, the version, what has changed, the licence and the
// sources.
function footer(page, up, { release, edit, sources }) {
  const file = page.source && `<code>${escape(page.source)}</code>`;
  const own = !file ? "" : edit ? `<p><a href="${escape(edit + page.source)}">Edit this page</a>: ${file}</p>\n`
    : `<p>Edit this page: ${file} in the sources</p>\n`;
  return `<footer>
${own}<p>runnel ${escape(release)} · <a href="${up}CHANGELOG.html">changelog</a> · <a href="${up}source/LICENSE.html">MIT licence</a> ·
<a href="${sources.replace(/^(?![a-z]+:)/, up)}">sources</a></p>
</footer>`;
}

// page: { url, title, html, source?, description?, before?, headings?, wide?, scripts?, runs? }, where `source` is the file
// that it is made from, `before` is HTML above the columns, and `runs` says that a program runs at once. site: { menu,
// release, root, edit, sources, previous(page), next(page) }, where `root` is the site's address, and `edit` what comes
// before the path of a file to edit it, or "" if that is not known; `sources` is the address of the sources.
export function template(page, site) {
  const up = "../".repeat(page.url.split("/").length - 1);
  const scripts = page.scripts || ["site.js"];
  const previous = site.previous(page), next = site.next(page);
  const title = page.url === "index.html" ? "runnel: channels for Lua" : page.title + " - runnel";
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<script>${THEME}</script>
<title>${escape(title)}</title>
${about(page, up, title, site.root)}
<link rel="icon" type="image/svg+xml" href="${up}assets/favicon.svg">
<link rel="stylesheet" href="${up}assets/site.css">
${page.runs ? `<link rel="preload" as="fetch" type="application/wasm" href="${up}assets/runnel.wasm" crossorigin>\n` : ""}${
  scripts.map((name) => `<script type="module" src="${up}assets/${name}"></script>`).join("\n")}
</head>
<body data-up="${up}"${page.wide ? ' class="wide"' : ""}>
<a class="skip" href="#main">to the text</a>
<header class="top">
<button id="menu" aria-expanded="false" aria-label="the list of pages">☰</button>
<a class="brand" href="${up}index.html"><img src="${up}assets/favicon.svg" width="24" height="24" alt=""> runnel</a>
<nav aria-label="main pages"><a href="${up}tour/01.html">tour</a> <a href="${up}playground/index.html">playground</a>
<a href="${up}docs/manual/README.html">manual</a></nav>
<div class="search"><input id="search" type="search" placeholder="search" title="its key: /" aria-label="search" autocomplete="off">
<div id="found" hidden></div></div>
<button id="theme" aria-label="light or dark" title="light or dark">◐</button>
</header>
${page.before || ""}
<div class="columns">
<nav class="sidebar" aria-label="all pages">
${menuHtml(site.menu, page, up)}
</nav>
<main id="main">
${page.html}
<nav class="steps" aria-label="previous and next page">${step(previous, up, "prev", "previous")}${step(next, up, "next", "next")}</nav>
${footer(page, up, site)}
</main>
${page.wide ? "" : contents(page.headings || [])}
</div>
</body>
</html>
`;
}
