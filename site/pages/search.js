// search.js: finds sections by words. Loaded with the first use of the search.
import MiniSearch from "minisearch";

export async function load(up) {
  const answer = await fetch(up + "assets/search.json");
  const { options, index } = await answer.json();
  const search = MiniSearch.loadJS(index, options);
  return (text) => search.search(text, { prefix: true, fuzzy: 0.15, combineWith: "AND", boost: { title: 4 } }).slice(0, 12);
}
