// site.js: what all pages of the site have: the search, the menu of narrow screens, and the snippets.
import { attachAll } from "./snippets.js";

const up = document.body.dataset.up;

// ---- the search ----

const field = document.getElementById("search"), list = document.getElementById("found");
let search = null, shown = 0;

const loadSearch = () => (search ||= import(new URL("search.js", import.meta.url).href).then((it) => it.load(up)));

async function find() {
  const text = field.value.trim(), number = ++shown;
  const results = text ? (await loadSearch())(text) : [];
  if (number !== shown) return; // a later key was faster
  list.replaceChildren(...results.map(({ url, title, page }) => {
    const a = document.createElement("a"), where = document.createElement("small");
    a.href = up + url;
    a.textContent = title;
    where.textContent = title === page ? "" : page;
    a.append(where);
    return a;
  }));
  if (text && !results.length) list.textContent = "nothing found";
  list.hidden = !text;
}

if (field) {
  field.onfocus = loadSearch;
  field.oninput = find;
  field.onkeydown = (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click();
    else if (event.key === "Escape") { field.value = ""; find(); }
    else if (event.key === "ArrowDown") { event.preventDefault(); list.querySelector("a")?.focus(); }
  };
  list.onkeydown = (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.preventDefault();
    (document.activeElement[step] || field).focus();
  };
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      field.focus();
    }
  });
}

// ---- the menu ----

const menu = document.getElementById("menu");
if (menu) menu.onclick = () => menu.setAttribute("aria-expanded", document.body.classList.toggle("with-menu"));
document.querySelector(".sidebar a.here")?.scrollIntoView({ block: "nearest" });

attachAll();
