// template.mjs: what surrounds the contents of each page.
import { escape } from "./lua_html.mjs";

const REFERENCE = "reference/index.html"; // stands in the menu for all of its pages

// The address of a page, from one that is `up` ("", "../", ...) from the site's top.
const menuHtml = (menu, here, up) => menu.map(({ title, pages }) => `<h2>${escape(title)}</h2>\n${pages.map((page) =>
  `<a${page.url === here.url || (page.url === REFERENCE && here.url.startsWith("reference/")) ? ' class="here" aria-current="page"' : ""} href="${up}${page.url}">${escape(page.title)}</a>`)
  .join("\n")}`).join("\n");

function step(page, up, kind, word) {
  return page ? `<a class="${kind}" rel="${kind}" href="${up}${page.url}"><small>${word}</small>${escape(page.title)}</a>` : "<span></span>";
}

const contents = (headings) => {
  const shown = headings.filter((h) => h.depth === 2 || h.depth === 3);
  return shown.length < 3 ? "" : `<aside class="contents"><h2>On this page</h2>\n${shown.map((h) =>
    `<a class="depth-${h.depth}" href="#${h.id}">${escape(h.title)}</a>`).join("\n")}</aside>`;
};

// page: { url, title, html, headings?, wide?, scripts? }; site: { menu, release, previous(page), next(page) }
export function template(page, site) {
  const up = "../".repeat(page.url.split("/").length - 1);
  const scripts = page.scripts || ["site.js"];
  const previous = site.previous(page), next = site.next(page);
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="${escape(page.title)}: runnel, core.async's channels for Lua">
<title>${escape(page.url === "index.html" ? "runnel: channels for Lua" : page.title + " - runnel")}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${up}assets/site.css">
</head>
<body data-up="${up}"${page.wide ? ' class="wide"' : ""}>
<header class="top">
<button id="menu" aria-expanded="false" aria-label="the list of pages">☰</button>
<a class="brand" href="${up}index.html">runnel</a>
<nav><a href="${up}tour/01.html">tour</a> <a href="${up}playground/index.html">playground</a>
<a href="${up}docs/manual/README.html">manual</a></nav>
<div class="search"><input id="search" type="search" placeholder="search" title="its key: /" aria-label="search" autocomplete="off">
<div id="found" hidden></div></div>
</header>
<div class="columns">
<nav class="sidebar" aria-label="all pages">
${menuHtml(site.menu, page, up)}
</nav>
<main>
${page.html}
<nav class="steps" aria-label="previous and next page">${step(previous, up, "prev", "previous")}${step(next, up, "next", "next")}</nav>
<footer>runnel ${escape(site.release)}</footer>
</main>
${page.wide ? "" : contents(page.headings || [])}
</div>
${scripts.map((name) => `<script type="module" src="${up}assets/${name}"></script>`).join("\n")}
</body>
</html>
`;
}
