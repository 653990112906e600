// markdown.mjs: a Markdown file as HTML.
import { readFileSync } from "node:fs";
import path from "node:path";
import { escape, luaHtml } from "./lua_html.mjs";
import { pack } from "./share.mjs";
import { expectedOf, standalone, whyNot } from "./snippets.mjs";

const plain = (html) => html.replace(/<[^>]*>/g, "").replace(/&(amp|lt|gt|quot|#39);/g, (_, c) =>
  ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[c]);

// Code in a text: a name that a browser would break, as at "-", is one word, if it fits into a line of a phone.
const NAME = /[^\s<>]*[-/?![\]{}|][^\s<>]*/g, LONGEST = 32;
const codeHtml = (code) => `<code>${escape(code).replace(NAME, (name) =>
  (name.length < 2 || plain(name).length > LONGEST ? name : `<span class="name">${name}</span>`))}</code>`;

// A text's beginning, of at most 160 letters.
const beginning = (text) => (text.length <= 160 ? text : text.slice(0, 157).replace(/\s+\S*$/, "") + "...").replace(/\s+/g, " ");

// A snippet's HTML. A page is `up` levels below the site's top.
function snippetHtml(snippet, up) {
  const { code, expected, why, name, line } = snippet;
  const open = `${up}playground/index.html#code=${pack(standalone(code))}`;
  const bar = why ? `<p class="bar">does not run in a page: ${escape(why)}</p>`
    : `<p class="bar"><button class="run" disabled>run</button> <a class="open" href="${open}">open in the playground</a></p>`;
  const data = why ? "" : ` data-run data-name="${escape(name)}" data-line="${line}"${expected.length ? ` data-expected="${escape(JSON.stringify(expected))}"` : ""}`;
  return `<div class="snippet"${data}><pre><code>${luaHtml(code)}</code></pre>${bar}</div>\n`;
}

// The lists of this page are names of specs, which few readers want to see: each is shown when it is asked for.
const folded = (file) => file === "docs/guarantees.md";

// Converts a file with marked's class Marked. `resolve(href)` gives the address in the site of a link or picture, or
// { html } of what stands for it; `from` is the title of the first section that is wanted. The result has title, html, ids,
// description (the first paragraph's beginning), sections for the search ({ title, id, text }) and snippets ({ code,
// expected, why, name, line }).
export function convert(Marked, file, up, resolve, from) {
  const text = readFileSync(file, "utf8");
  const page = { title: null, ids: new Set(), sections: [], snippets: [], headings: [] };
  let section = { title: "", id: "", text: "" };
  const note = (words) => { section.text += " " + words; };
  const marked = new Marked({ gfm: true });
  const all = marked.lexer(text), tokens = from ? all.slice(all.findIndex((t) => t.type === "heading" && t.text === from)) : all;
  const following = new Map(tokens.filter((t) => t.type !== "space").map((t, i, all) => [t, all[i + 1]]));
  let place = 0; // of the last snippet in the text, to find its line

  marked.use({ renderer: {
    heading({ tokens: inner, depth }) {
      const html = this.parser.parseInline(inner), title = plain(html);
      const slug = title.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").trim().replace(/ /g, "-"); // as GitHub does
      let id = slug;
      for (let n = 1; page.ids.has(id); n++) id = `${slug}-${n}`;
      page.ids.add(id);
      page.title ||= title;
      section = { title, id, text: "" };
      page.sections.push(section);
      page.headings.push({ depth, id, title });
      return `<h${depth} id="${id}">${html} <a class="anchor" href="#${id}" aria-label="a link to this section">#</a></h${depth}>\n`;
    },
    code(token) {
      const { text: code, lang } = token;
      note(code);
      if (lang !== "lua") return `<pre><code>${escape(code)}</code></pre>\n`;
      place = text.indexOf(code, place);
      const line = text.slice(0, place).split("\n").length - 1;
      const snippet = { code, line, name: path.basename(file), expected: expectedOf(code, following.get(token)), why: whyNot(code) };
      page.snippets.push(snippet);
      return snippetHtml(snippet, up);
    },
    codespan({ text: code }) { return codeHtml(code); },
    paragraph({ tokens: inner }) {
      const html = this.parser.parseInline(inner);
      note(plain(html));
      page.description ||= beginning(plain(html));
      return html.startsWith("<div") ? html : `<p>${html}</p>\n`;
    },
    list(token) {
      if (!folded(file)) return false;
      const items = token.items.map((item) => this.listitem(item)).join("");
      return `<details><summary>${token.items.length} ${token.items.length === 1 ? "test" : "tests"}</summary>\n<ul>\n${items}</ul></details>\n`;
    },
    listitem(item) {
      if (!folded(file)) note(plain(item.text)); // the search finds promises, not names of specs
      return false;
    },
    table(token) {
      note(token.rows.map((row) => row.map((c) => plain(c.text)).join(" ")).join(" "));
      // On a phone the other cells of a row are below the first. All but the longest have the names of their columns, if
      // there are several. Tables of numbers and single words stay as they are, to be compared.
      const lengths = token.header.map((_, column) => Math.max(0, ...token.rows.map((row) => row[column].text.length)));
      const longest = Math.max(...lengths.slice(1));
      const kind = token.header.length === 2 ? "two" : longest > 30 ? "rows" : "";
      const cell = (c, tag, name) => `<${tag}${c.align ? ` class="${c.align}"` : ""}${name ? ` data-column="${escape(name)}"` : ""}>${
        this.parser.parseInline(c.tokens)}</${tag}>`;
      const nameOf = (column) => (kind === "rows" && column > 0 && lengths[column] < longest ? plain(token.header[column].text) : "");
      const cells = (row, tag) => `<tr>${row.map((c, column) => cell(c, tag, nameOf(column))).join("")}</tr>\n`;
      const header = token.header.some((c) => c.text) // a header without a text is none
        ? `<tr>${token.header.map((c) => cell(c, c.text ? "th" : "td")).join("")}</tr>\n` : "";
      return `<div class="table"><table${kind ? ` class="${kind}"` : ""}>${header}${token.rows.map((row) => cells(row, "td")).join("")}</table></div>\n`;
    },
    link({ href, tokens: inner }) {
      return `<a href="${escape(resolve(href))}">${this.parser.parseInline(inner)}</a>`;
    },
    image({ href, text: alt }) {
      const target = resolve(href, alt);
      if (target.html) return target.html;
      return `<img src="${escape(target)}" alt="${escape(alt)}" loading="lazy">`;
    },
  } });
  page.html = marked.parser(tokens);
  return page;
}
