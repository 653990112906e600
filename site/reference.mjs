// reference.mjs: the pages of LDoc (make docs) in the site's own frame.
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";

const TAGS = /<[^>]*>/g;

// The pages in docs/reference: [{ url, title, html, ids, sections, headings }]
export function reference(folder) {
  const files = ["index.html", ...["modules", "classes"].flatMap((kind) =>
    readdirSync(path.join(folder, kind)).filter((f) => f.endsWith(".html")).map((f) => `${kind}/${f}`))];
  return files.map((file) => {
    const text = readFileSync(path.join(folder, file), "utf8");
    const inner = /<div id="content">([\s\S]*?)<\/div> <!-- id="content" -->/.exec(text)[1];
    const ids = new Set(), sections = [];
    const name = file === "index.html" ? "Reference" : path.basename(file, ".html");
    const html = inner.replace(/<a name ?= ?"([^"]*)"><\/a>\s*/g, (_, id) => {
      ids.add(id);
      return `<span id="${id}"></span>`;
    }).replace(/<h1>[\s\S]*?<\/h1>/, "").replace(/<br\/?>/g, "")
      .replace(/<pre[^>]*>[\s\S]*?<\/pre>/g, (pre) => pre.replaceAll("\n ", "\n")).replace(/(<table[\s\S]*?<\/table>)/g, '<div class="table">$1</div>');
    for (const entry of html.matchAll(/<dt>\s*<span id="([^"]*)"><\/span>\s*<strong>([\s\S]*?)<\/strong>[\s\S]*?<dd>([\s\S]*?)<\/dd>/g)) {
      sections.push({ id: entry[1], title: entry[2].replace(TAGS, "").trim(), text: entry[3].replace(TAGS, " ") });
    }
    return { url: `reference/${file}`, title: name, html: `<div class="ldoc"><h1>${name}</h1>${html}</div>`, ids, sections, headings: [] };
  });
}
