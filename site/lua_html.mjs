// lua_html.mjs: Lua code as HTML, with a span for each keyword, string, number and comment.

export const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

const KEYWORDS = new Set(("and break do else elseif end false for function goto if in local nil not or repeat return then " +
  "true until while").split(" "));
const TOKEN = /(--\[(=*)\[[\s\S]*?\]\2\]|--[^\n]*)|("(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\[(=*)\[[\s\S]*?\]\4\])|([A-Za-z_]\w*)|(\d[\w.]*)/g;

export function luaHtml(code) {
  let html = "", at = 0;
  for (const match of code.matchAll(TOKEN)) {
    const [text, comment, , string, , word, number] = match;
    const kind = comment ? (comment.startsWith("-->") ? "arrow" : "comment") : string ? "string" : number ? "number"
      : KEYWORDS.has(word) ? "keyword" : null;
    html += escape(code.slice(at, match.index)) + (kind ? `<span class="${kind}">${escape(text)}</span>` : escape(text));
    at = match.index + text.length;
  }
  return html + escape(code.slice(at));
}

// The same with an element for each line, which has a number (site.css). A span that goes over several lines is one in each.
export function linesHtml(code) {
  let open = "";
  return luaHtml(code).split("\n").map((line) => {
    const begins = open;
    for (const [tag] of line.matchAll(/<\/?span[^>]*>/g)) open = tag === "</span>" ? "" : tag;
    return `<span class="line">${begins}${line}${open && "</span>"}\n</span>`;
  }).join("");
}

// An editor with a program in it (pages/editor.js).
export function editorHtml(code) {
  return `<div id="editor" class="editor"><pre aria-hidden="true"><code>${linesHtml(code)}</code></pre>
<textarea aria-label="the program" aria-describedby="leaving" wrap="off" spellcheck="false" autocapitalize="off" autocomplete="off" autocorrect="off">
${escape(code)}</textarea>
<p id="leaving" class="leaving">Tab indents; Esc, then Tab: leaves the editor</p></div>`;
}
