// search.js: finds sections by words. Loaded with the first use of the search.
import MiniSearch from "minisearch";

const BEFORE = 40, LENGTH = 150; // letters of an excerpt, and of it before the first word that is found

// The part of a text where one of the words begins to be found: [[part, whether it is a word]]
function excerptOf(text, words) {
  const found = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "giu");
  const first = Math.max(0, text.search(found)), from = first <= BEFORE ? 0 : text.indexOf(" ", first - BEFORE) + 1;
  const part = text.slice(from, from + LENGTH), pieces = from ? [["… ", false]] : [];
  let at = 0;
  for (const match of part.matchAll(found)) {
    pieces.push([part.slice(at, match.index), false], [match[0], true]);
    at = match.index + match[0].length;
  }
  pieces.push([part.slice(at) + (from + LENGTH < text.length ? " …" : ""), false]);
  return pieces;
}

// Resolves to a function (text, again) -> [{ url, title, page, excerpt }]. While the texts of the excerpts are being
// loaded, these are empty, and again() is called when they are there.
export async function load(up) {
  const get = (name) => fetch(up + "assets/" + name).then((answer) => answer.json());
  let texts = null;
  const whenThere = get("texts.json").then((all) => { texts = all; });
  const { options, index } = await get("search.json");
  const search = MiniSearch.loadJS(index, options);
  return (text, again) => {
    if (!texts) whenThere.then(again, () => {});
    return search.search(text, { prefix: true, fuzzy: 0.15, combineWith: "AND", boost: { title: 4 } }).slice(0, 12)
      .map((one) => ({ ...one, excerpt: texts ? excerptOf(texts[one.id], Object.keys(one.match)) : [] }));
  };
}
