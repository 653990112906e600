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
