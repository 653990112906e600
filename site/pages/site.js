// site.js: what all pages of the site have: the search, the theme, the menu of narrow screens, and the snippets.
import { attachAll } from "./snippets.js";

const up = document.body.dataset.up;

// ---- the search ----

const field = document.getElementById("search"), list = document.getElementById("found");
let search = null, shown = 0;

const loadSearch = () => (search ||= import(new URL("search.js", import.meta.url).href).then((it) => it.load(up)));

// A result: the title, which page it is on, and the excerpt with the words that were found.
function resultHtml({ url, title, page, excerpt }) {
  const a = document.createElement("a"), where = document.createElement("small"), text = document.createElement("span");
  a.href = up + url;
  a.textContent = title;
  where.textContent = title === page ? "" : page;
  for (const [words, isFound] of excerpt) {
    text.append(isFound ? Object.assign(document.createElement("mark"), { textContent: words }) : words);
  }
  a.append(where, text);
  return a;
}

async function find() {
  const text = field.value.trim(), number = ++shown;
  const results = text ? (await loadSearch())(text, () => { if (number === shown) find(); }) : [];
  if (number !== shown) return; // a later key was faster
  list.replaceChildren(...results.map(resultHtml));
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

// ---- light and dark ----

const root = document.documentElement, theme = document.getElementById("theme");
if (theme) {
  theme.onclick = () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only */ }
  };
}

// ---- the menu ----

const menu = document.getElementById("menu");
if (menu) menu.onclick = () => menu.setAttribute("aria-expanded", document.body.classList.toggle("with-menu"));
const sidebar = document.querySelector(".sidebar"), here = sidebar?.querySelector("a.here");
requestAnimationFrame(() => {
  if (here && here.offsetTop > sidebar.clientHeight - 60) sidebar.scrollTop = here.offsetTop - sidebar.clientHeight / 2;
});

// ---- what is wider than the page ----

// Tables and code that go on fade out at that side. First all are measured, then changed: one layout is enough.
function cue(boxes) {
  const sides = boxes.map((box) => [box.scrollLeft > 1 && "left", box.scrollLeft + box.clientWidth < box.scrollWidth - 1 && "right"]);
  boxes.forEach((box, i) => {
    const more = sides[i].filter(Boolean).join(" ");
    if (more === (box.dataset.more || "")) return;
    box.dataset.more = more;
    if (!more || box.matches(".editor")) return;
    box.tabIndex = 0; // so that the keyboard scrolls it
    box.setAttribute("role", "group");
    box.ariaLabel ||= box.matches(".table") ? "a table that goes on at its side" : "code that goes on at its side";
  });
}
const widths = new ResizeObserver((entries) => cue(entries.map(({ target }) => target)));
for (const box of document.querySelectorAll(".table, pre:not([aria-hidden]), .editor")) {
  box.addEventListener("scroll", () => cue([box]), { passive: true });
  widths.observe(box);
}

for (const button of document.querySelectorAll("button.copy")) {
  button.onclick = async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  };
}

attachAll();
