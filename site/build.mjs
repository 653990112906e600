// build.mjs WORK OUT INDEX: writes the site to OUT. WORK has the module (runnel.js, runnel.wasm, modules.txt,
// worlds.txt) and the packages of npm; INDEX is what scripts/docs/search_index.lua has written. SITE_URL is the address
// that the site will have, and SOURCE_URL what comes before the path of a file of the sources where it is edited, if
// they are known; SOURCES is the archive of the sources. Fails if a link leads nowhere.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chartHtml } from "./charts.mjs";
import { FRONT, frontHtml } from "./front.mjs";
import { convert as convertWith } from "./markdown.mjs";
import { template } from "./template.mjs";
import { escape, luaHtml } from "./lua_html.mjs";
import { drawing } from "./pictures.mjs";
import { pack } from "./share.mjs";
import { workbench, workbenchPage } from "./workbench.mjs";

const [, , WORK, OUT, INDEX] = process.argv;
const HERE = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
const packages = createRequire(path.resolve(WORK, "package.json"));
const esbuild = packages("esbuild");
const { Marked } = await import(pathToFileURL(path.resolve(WORK, "node_modules/marked/lib/marked.esm.js")));
const convert = (...args) => convertWith(Marked, ...args);

const broken = [];
const write = (url, text) => {
  const to = path.join(OUT, url);
  mkdirSync(path.dirname(to), { recursive: true });
  writeFileSync(to, text);
};
const copy = (from, url) => {
  mkdirSync(path.dirname(path.join(OUT, url)), { recursive: true });
  copyFileSync(from, path.join(OUT, url));
};
const git = (...args) => {
  try {
    return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return "";
  }
};

// ---- which pages there are, in their order ----

const markdown = (folder) => readdirSync(folder).filter((f) => f.endsWith(".md")).sort().map((f) => path.posix.join(folder, f));
const inManual = readFileSync("docs/manual/README.md", "utf8").matchAll(/^\| \[[^\]]*\]\(([\w-]+\.md)\)/gm);
const manual = [...new Set([...inManual].map((m) => `docs/manual/${m[1]}`))]; // other tables name some of them again
const FIRST = ["docs/tutorial.md", "docs/why.md", "docs/recipes.md", "docs/flow.md", "docs/testing.md", "docs/from-go.md", "docs/from-core-async.md",
  "docs/neovim.md", "docs/openresty.md", "docs/love.md", "docs/testing-lua.md"];
const LAST = ["docs/guarantees.md", "docs/proofs.md", "docs/machines.md", "docs/deploy.md", "docs/performance.md", "docs/embedding.md", "docs/sandboxes.md", "docs/architecture.md", "docs/where.md", "docs/keepers.md",
  "docs/costs.md", "docs/rejected.md", "CONTRIBUTING.md", "CHANGELOG.md"];
const all = markdown("docs");
const MANUAL = ["docs/manual/README.md", ...manual, ...markdown("docs/manual").filter((f) => !manual.includes(f) && !f.endsWith("/README.md"))];
const files = {
  start: FIRST.filter((f) => all.includes(f)),
  manual: MANUAL,
  more: [...all.filter((f) => !FIRST.includes(f) && !LAST.includes(f)), ...LAST.filter((f) => existsSync(f))],
};
const known = new Set(["README.md", ...Object.values(files).flat()]);
const urlOf = (file) => (file === "README.md" ? "index.html" : file.replace(/\.md$/, ".html"));
const upOf = (url) => "../".repeat(url.split("/").length - 1);

// ---- links ----

const steps = readdirSync(path.join(HERE, "tour")).filter((f) => /^\d\d-.*\.md$/.test(f)).sort();
const links = []; // { from, file, id }: to pages, checked when all are known
const pictures = new Set(), sources = new Set();

// The address, from the page at `url`, of what a link of a Markdown file means.
const resolver = (file, url) => (href, alt) => {
  if (/^[a-z]+:/.test(href)) return href;
  const [to, id] = href.split("#");
  const target = to ? path.posix.normalize(path.posix.join(path.posix.dirname(file), to)).replace(/\/$/, "") : file;
  const up = upOf(url);
  if (target === "site/README.md" && file === "README.md") return `${up}tour/${steps[0].slice(0, 2)}.html`; // the site itself
  if (known.has(target)) {
    links.push({ from: file, target: urlOf(target), id });
    return (to ? up + urlOf(target) : "") + (id ? "#" + id : "");
  }
  if (!existsSync(target)) {
    broken.push(`${file}: there is no ${href}`);
    return "#";
  }
  if (target.endsWith(".svg")) return { html: chartHtml(target, alt) };
  if (target.endsWith(".png")) {
    pictures.add(target);
    return up + target;
  }
  sources.add(target);
  return up + sourceUrl(target);
};

// Files of the tree that a page links to are pages, too; folders are lists of their files.
const sourceUrl = (target) => `source/${target}${statSync(target).isDirectory() ? "/index" : ""}.html`;

function sourcePage(target) {
  const url = sourceUrl(target), up = upOf(url);
  if (statSync(target).isDirectory()) {
    const entries = readdirSync(target).sort().map((name) => path.posix.join(target, name));
    entries.forEach((entry) => sources.add(entry));
    const list = entries.map((entry) => `<li><a href="${up}${sourceUrl(entry)}">${escape(path.posix.basename(entry))}</a></li>`);
    return { url, title: target + "/", source: target, html: `<h1>${escape(target)}/</h1>\n<ul>${list.join("\n")}</ul>` };
  }
  const text = readFileSync(target, "utf8"), isLua = target.endsWith(".lua");
  const shown = text.length > 200000 ? text.slice(0, 200000) + "\n... (the file goes on)" : text;
  const open = isLua && text.length < 8000 ? `<p class="bar"><a class="open" href="${up}playground/index.html#code=${pack(text)}">open in the playground</a></p>` : "";
  return { url, title: target, source: target, html: `<h1>${escape(target)}</h1>\n<div class="snippet"><pre><code>${isLua ? luaHtml(shown) : escape(shown)}</code></pre>${open}</div>` };
}

// ---- the tour ----


// A step: its text, and its program, the only snippet. An expected output is part of the spec.
async function tourPage(file, i) {
  const url = `tour/${file.slice(0, 2)}.html`, from = `site/tour/${file}`, up = upOf(url);
  const page = convert(from, up, resolver(from, url));
  if (page.snippets.length !== 1) broken.push(`${from}: a step of the tour has one program`);
  const code = page.snippets[0].code + "\n", name = `step_${i + 1}.lua`;
  const text = page.html.replace(/<div class="snippet"[\s\S]*?<\/div>\n(<pre><code>[\s\S]*?<\/code><\/pre>\n)?/, "");
  const dots = steps.map((s, n) => `<a href="${s.slice(0, 2)}.html"${n === i ? ' aria-current="step"' : ""} title="step ${n + 1}">${n + 1}</a>`);
  const next = i + 1 < steps.length ? `<a class="next" href="${steps[i + 1].slice(0, 2)}.html">next →</a>` : "";
  const before = `<nav class="dots" aria-label="the steps">${dots.join("")}${next}</nav>\n<div class="text">${text}</div>`;
  return { ...page, url, source: from, code, title: `${i + 1}. ${page.title}`, tour: true,
    html: workbench({ kind: "tour", name, up, programs: [{ title: page.title, code, ...await pictureOf(code, name) }], before }) };
}

// ---- the playground ----

async function examples() {
  const folder = path.join(HERE, "examples");
  return Promise.all(readdirSync(folder).filter((f) => f.endsWith(".lua")).sort().map(async (f) => {
    const code = readFileSync(path.join(folder, f), "utf8");
    return { file: `site/examples/${f}`, title: /^-- (.*?)[:.]\s/.exec(code)[1], code, ...await pictureOf(code, "playground.lua") };
  }));
}

// ---- all pages ----

rmSync(OUT, { recursive: true, force: true });
const docs = new Map([...known].map((file) => {
  const url = urlOf(file);
  return [file, { ...convert(file, upOf(url), resolver(file, url), file === "README.md" && "Ten minutes at the code"), url, source: file }];
}));
const pictureOf = await drawing(WORK);
const [tour, programs] = await Promise.all([Promise.all(steps.map(tourPage)), examples()]);
const playground = { url: "playground/index.html", title: "Playground", wide: true, source: "site/examples",
  html: workbench({ kind: "playground", name: "playground.lua", up: "../", programs, before: "<h1>Playground</h1>" }) };

const readme = docs.get("README.md");
const toPage = { tour: "tour/01.html", playground: "playground/index.html" };
sources.add("LICENSE");
const top = frontHtml({ ...await pictureOf(FRONT.program, FRONT.name), measured: readFileSync("docs/performance.md", "utf8"),
  archive: path.basename(process.env.SOURCES),
  link: (to) => toPage[to] || resolver("README.md", "index.html")(to) });
Object.assign(readme, { title: "runnel", description: FRONT.description, before: top, scripts: ["site.js", "front.js"], runs: true });
const group = (list) => list.map((file) => docs.get(file));
const menu = [
  { title: "Start", pages: [readme, { ...tour[0], title: "Tour" }, playground, ...group(files.start)] },
  { title: "Manual", pages: group(files.manual) },
  { title: "More", pages: group(files.more) },
];
const order = [readme, ...tour, playground, ...group(files.start), ...group(files.manual), ...group(files.more)];
const dirty = git("status", "--porcelain", "--untracked-files=no") ? " with changes" : "";
const commit = git("rev-parse", "--short=12", "HEAD");
const site = {
  menu,
  root: (process.env.SITE_URL || "").replace(/\/*$/, process.env.SITE_URL ? "/" : ""),
  edit: (process.env.SOURCE_URL || "").replace(/\/*$/, process.env.SOURCE_URL ? "/" : ""),
  sources: process.env.SOURCES && path.basename(process.env.SOURCES),
  release: `${process.env.RUNNEL_VERSION || ""}, ${commit ? `commit ${commit}${dirty}` : "not built from a commit"}`,
  previous: (page) => order[order.findIndex((p) => p.url === page.url) - 1],
  next: (page) => { const at = order.findIndex((p) => p.url === page.url); return at < 0 ? undefined : order[at + 1]; },
};

for (const page of docs.values()) write(page.url, template(page, site));
for (const page of [...tour, playground]) write(page.url, workbenchPage(page, site));
const done = new Set();
while (done.size < sources.size) { // a folder adds more
  for (const target of sources) {
    if (done.has(target)) continue;
    done.add(target);
    const page = sourcePage(target);
    write(page.url, template(page, site));
  }
}
for (const picture of pictures) copy(picture, picture);
copy(process.env.SOURCES, site.sources);
const pages = new Map([...docs.values()].map((page) => [page.url, page]));
for (const { from, target, id } of links) {
  if (id && !pages.get(target).ids.has(id)) broken.push(`${from}: ${target} has no #${id}`);
}

// ---- scripts, styles, the module, the monitor's page ----

const assets = path.join(OUT, "assets");
// The theme that the reader chooses is as good as the system's.
const themes = (css) => css.replace(/@media \(prefers-color-scheme: dark\) \{\s*:root (\{[^}]*\})\s*\}/, (_, dark) =>
  `@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) ${dark} }\n:root[data-theme="dark"] ${dark}`) +
  '\n:root[data-theme="light"] { color-scheme: light; }\n:root[data-theme="dark"] { color-scheme: dark; }\n';
const css = (from, url) => write(url, esbuild.transformSync(themes(readFileSync(from, "utf8")), { loader: "css", minify: true }).code);
const build = (options) => esbuild.buildSync({ bundle: true, minify: true, format: "esm", target: "es2022", logLevel: "error", ...options });
const nodePaths = [path.resolve(WORK, "node_modules")];
build({ entryPoints: ["site.js", "front.js", "workbench.js", "search.js"].map((f) => path.join(HERE, "pages", f)), outdir: assets,
  splitting: true, nodePaths });
css(path.join(HERE, "pages/site.css"), "assets/site.css");
write("assets/worker.js", [path.join(WORK, "runnel.js"), path.join(HERE, "pages/program.js"), path.join(HERE, "pages/worker.js")].map((from) =>
  esbuild.transformSync(readFileSync(from, "utf8"), { minify: true }).code).join("\n"));
for (const name of ["runnel.wasm", "modules.txt", "worlds.txt"]) copy(path.join(WORK, name), `assets/${name}`);
for (const name of ["favicon.svg", "social.png"]) copy(path.join(HERE, "pictures", name), `assets/${name}`);

const MONITOR = "csrc/monitor/page";
await esbuild.build({ entryPoints: [`${MONITOR}/monitor.js`], outfile: path.join(OUT, "monitor/monitor.js"), bundle: true,
  minify: true, format: "esm", target: "es2022", logLevel: "error",
  plugins: [{ name: "stream", setup(it) {
    it.onResolve({ filter: /^\.\/stream\.js$/ }, () => ({ path: path.join(HERE, "pages/monitor_stream.js") }));
  } }] });
for (const name of ["page.html", "monitor.css", ...readdirSync(`${MONITOR}/vendor`).map((f) => `vendor/${f}`)]) {
  const to = `monitor/${path.basename(name)}`;
  if (name.endsWith(".css")) css(`${MONITOR}/${name}`, to);
  else copy(`${MONITOR}/${name}`, to);
}
// ---- the search ----

// The index has the sections by file and id. The texts, of which results show an excerpt, are a file of their own, in the
// order of the sections: results do not wait for it.
const texts = [], bySource = new Map([...docs.values(), ...tour].map((page) => [page.source, page]));
let page;
const [head, words] = /\[=\[\n([\s\S]*)\]=\]/.exec(readFileSync(INDEX, "utf8"))[1].split("\n\n");
const lines = head.split("\n").map((line) => {
  const [id, title] = line.split("\t");
  if (/^[-=] /.test(line)) return line;
  if (id.startsWith("# ")) {
    page = bySource.get(id.slice(2));
    return `# ${page.url}\t${page.title}`;
  }
  const section = id ? page.sections.find((one) => one.id === id) : page.sections[0];
  if (!section) broken.push(`the index of the search: ${page.source} has no #${id}`);
  texts.push((section?.text || "").replace(/\s+/g, " ").trim());
  return `${page.tour ? "" : id}\t${title}`;
});
write("assets/search.txt", `${lines.join("\n")}\n\n${words}`);
write("assets/texts.json", JSON.stringify(texts));

// ---- what the spec runs ----

const snippets = [...docs.values(), ...tour].flatMap((page) => page.snippets.map((s) => ({ ...s, file: page.source })));
const examplePrograms = programs.map(({ file, code }) => ({ code, line: 1, name: "playground.lua", expected: [], why: null, file, example: true }));
writeFileSync(path.join(WORK, "snippets.json"), JSON.stringify([...snippets, ...examplePrograms]));

for (const line of broken) console.error(`site: ${line}`);
if (broken.length) process.exit(1);
console.log(`written: ${OUT}/index.html (${order.length} pages, ${snippets.filter((s) => !s.why).length} snippets that run)`);
