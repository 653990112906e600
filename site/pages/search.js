// search.js: finds sections by words, in the index that scripts/docs/search_index.lua has made. Loaded with the first
// use of the search. The rules are those of lua/runnel/prompt/words.lua and search.lua, which find the same
// sections in the same order (spec/docs/search_spec.lua).

const WHOLE = new Set(["cors", "https", "locale"]);
const RELATED = 0.5, MOST = 12;
const BEFORE = 40, LENGTH = 150; // letters of an excerpt, and of it before the first word that is found

function stem(text) {
  let word = text;
  if (word.length < 4 || WHOLE.has(word) || /[\d_]/.test(word)) return word;
  if (/ie[sd]$/.test(word)) word = word.slice(0, -3) + "y";
  else if (/[^sui]s$/.test(word)) word = word.slice(0, -1);
  const cut = word.endsWith("ing") ? 3 : /ed$/.test(word) && !word.endsWith("eed") ? 2
    : word.length > 6 && /[st]ion$/.test(word) ? 3 : 0;
  if (cut && word.length - cut > 2 && /[aeiouy]/.test(word.slice(0, -cut))) word = word.slice(0, -cut);
  if (word.length > 3 && /([a-z])\1$/.test(word)) word = word.slice(0, -1);
  if (word.length > 3 && word.endsWith("e")) word = word.slice(0, -1);
  if (word.length > 3 && word.endsWith("y")) word = word.slice(0, -1) + "i";
  return word;
}

// The stems of the words of a question, each once; without those that say nothing (`stop`), if there are others.
function asked(text, stop) {
  const words = text.toLowerCase().replace(/'s(?![a-z0-9_])/g, "").replaceAll("'", "").match(/[a-z0-9_]+/g) || [];
  const telling = words.filter((word) => !stop.has(word));
  return [...new Set((telling.length ? telling : words).map(stem))];
}

// The text of the index as { sections: [{ page, id, title, pageTitle }], words: Map, related: Map, stop: Set }
export function indexOf(text) {
  const [head, places] = text.split("\n\n"), sections = [], related = new Map();
  let page, pageTitle, stop;
  for (const line of head.split("\n").filter((line) => line)) {
    const [id, title] = line.split("\t");
    if (line.startsWith("- ")) stop = new Set(line.slice(2).split(" "));
    else if (line.startsWith("= ")) {
      const group = line.slice(2).split(" ");
      for (const word of group) related.set(word, [...(related.get(word) || []), ...group.filter((other) => other !== word)]);
    } else if (id.startsWith("# ")) [page, pageTitle] = [id.slice(2), title];
    else sections.push({ page, id, title, pageTitle });
  }
  return { sections, related, stop, words: new Map(places.split("\n").filter((line) => line).map((line) => line.split(" "))) };
}

// Whether one word becomes the other if a letter is inserted, removed or replaced, or exchanged with the next one.
function isLike(one, other) {
  const [a, b] = one.length > other.length ? [other, one] : [one, other];
  if (b.length - a.length > 1) return false;
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  if (a.length < b.length) return a.slice(i) === b.slice(i + 1);
  return a.slice(i + 1) === b.slice(i + 1) || (a[i] === b[i + 1] && a[i + 1] === b[i] && a.slice(i + 2) === b.slice(i + 2));
}

// The words of the index that stand for an asked one, and what each is worth. One that is in no section stands for those
// that begin with it, and if there are none, for those that differ by a letter.
function standingFor({ words, related }, word) {
  const found = new Map((related.get(word) || []).map((other) => [other, RELATED]));
  const all = (test) => { for (const other of words.keys()) if (test(other)) found.set(other, RELATED); };
  if (words.has(word)) found.set(word, 1);
  else if (!found.size && word.length > 1) {
    all((other) => other.startsWith(word) && !/[.:]/.test(other));
    if (!found.size && word.length > 3) all((other) => isLike(word, other));
  }
  return found;
}

// The sections that answer a question, the best first.
export function find(index, text, most) {
  const words = asked(text, index.stop), name = /^\s*([a-z_][\w.:]*[.:]\w+)/i.exec(text)?.[1];
  if (index.words.has(name)) words.push(name); // a name such as ch:put
  const scores = new Map(), matched = new Map();
  let known = 0;
  for (const word of words) {
    const best = new Map();
    for (const [other, worth] of standingFor(index, word)) {
      let number = 0;
      for (const [, step, letter] of (index.words.get(other) || "").matchAll(/(\d+)(\D)/g)) {
        number += Number(step);
        const level = letter.charCodeAt(0) - 64;
        best.set(number, Math.max(best.get(number) || 0, level * level * worth));
      }
    }
    if (best.size) known++;
    for (const [number, worth] of best) {
      scores.set(number, (scores.get(number) || 0) + worth);
      matched.set(number, (matched.get(number) || 0) + 1);
    }
  }
  const worthOf = (number) => scores.get(number) * matched.get(number) / known; // one with all of the words comes first
  return [...scores.keys()].sort((a, b) => worthOf(b) - worthOf(a) || a - b).slice(0, most)
    .map((number) => ({ ...index.sections[number - 1], number }));
}

// The part of a text that begins with what was asked, if it has that, or else with the first of its words:
// [[part, whether it is a word]]
function excerptOf(text, question, stop) {
  const escape = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const stems = asked(question, stop).map((word) => `\\b${escape(word).replace(/i$/, "[iy]")}\\w*`);
  const found = new RegExp([escape(question), ...stems].join("|"), "gi");
  const whole = text.toLowerCase().indexOf(question.toLowerCase()), first = Math.max(0, whole < 0 ? text.search(found) : whole);
  const from = first <= BEFORE ? 0 : text.indexOf(" ", first - BEFORE) + 1;
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
  const get = (name) => fetch(up + "assets/" + name);
  let texts = null;
  const whenThere = get("texts.json").then((answer) => answer.json()).then((all) => { texts = all; });
  const index = indexOf(await (await get("search.txt")).text());
  return (text, again) => {
    if (!texts) whenThere.then(again, () => {});
    return find(index, text, MOST).map(({ page, id, title, pageTitle, number }) => ({ title, page: pageTitle,
      url: page + (id && `#${id}`), excerpt: texts ? excerptOf(texts[number - 1], text, index.stop) : [] }));
  };
}
