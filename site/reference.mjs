// reference.mjs: the pages of LDoc (make docs) in the site's own frame, with an index of all names.
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { escape } from "./lua_html.mjs";

const TAGS = /<[^>]*>/g;
const plain = (html) => html.replace(TAGS, "").replace(/\s+/g, " ").trim();

// One page of LDoc as { url, title, html, ids, sections, headings }.
function pageOf(folder, file) {
  const text = readFileSync(path.join(folder, file), "utf8");
  const inner = /<div id="content">([\s\S]*?)<\/div> <!-- id="content" -->/.exec(text)[1];
  const ids = new Set(), sections = [], headings = [];
  const name = file === "index.html" ? "Reference" : path.basename(file, ".html");
  const html = inner.replace(/<a name ?= ?"([^"]*)"><\/a>\s*/g, (_, id) => {
    ids.add(id);
    return `<span id="${id}"></span>`;
  }).replace(/<h1>[\s\S]*?<\/h1>/, "").replace(/<br\/?>/g, "")
    .replace(/<ol>((?:(?!<li>|<ol>)[\s\S])*?)<\/ol>/g, '<div class="returns">$1</div>') // LDoc: a list of one that is no item
    .replace(/<pre[^>]*>[\s\S]*?<\/pre>/g, (pre) => pre.replaceAll("\n ", "\n")).replace(/(<table[\s\S]*?<\/table>)/g, '<div class="table">$1</div>');
  for (const part of html.matchAll(/<h2 class="section-header[^>]*>\s*<span id="([^"]*)"><\/span>([\s\S]*?)<\/h2>|<dt>\s*<span id="([^"]*)"><\/span>\s*<strong>([\s\S]*?)<\/strong>[\s\S]*?<dd>([\s\S]*?)<\/dd>/g)) {
    const [, section, heading, id, title, words] = part;
    if (section) headings.push({ depth: 2, id: section, title: plain(heading) });
    else {
      sections.push({ id, title: plain(title), text: plain(words) });
      headings.push({ depth: 3, id, title: plain(title).replace(/ *\(.*$/, "") });
    }
  }
  const own = name === "Reference" ? "lua/runnel" : `lua/runnel/${name.replace(/^runnel\.?/, "").replace(/^(Channel)?$/, "meta")}.lua`;
  return { url: `reference/${file}`, title: name, source: own, html: `<div class="ldoc"><h1>${name}</h1>${html}</div>`, ids, sections, headings };
}

// All names by their first letters, each with the module that has it.
function indexHtml(pages) {
  const names = pages.flatMap((page) => page.sections.map(({ id, title }) => ({ name: title.replace(/ *\(.*$/, "").replace(/^.*[.:]/, ""),
    place: page.title, href: `${page.url.replace(/^reference\//, "")}#${id}` })));
  const letters = new Map();
  for (const one of names) {
    const letter = one.name[0].toUpperCase();
    if (!letters.has(letter)) letters.set(letter, []);
    letters.get(letter).push(one);
  }
  return [...letters.keys()].sort().map((letter) => `<h3>${escape(letter)}</h3>\n<ul>${letters.get(letter)
    .sort((a, b) => a.name.localeCompare(b.name) || a.place.localeCompare(b.place))
    .map(({ name, place, href }) => `<li><a href="${href}">${escape(name)}</a> <small>${escape(place)}</small></li>`).join("\n")}</ul>`).join("\n");
}

// The pages in docs/reference, the first of which is the list of modules.
export function reference(folder) {
  const [first, ...pages] = ["index.html", ...["modules", "classes"].flatMap((kind) =>
    readdirSync(path.join(folder, kind)).filter((f) => f.endsWith(".html")).map((f) => `${kind}/${f}`))].map((file) => pageOf(folder, file));
  first.html += `<h2 id="index">Index of all names</h2>\n<div class="index">${indexHtml(pages)}</div>`;
  first.ids.add("index");
  return [first, ...pages];
}
