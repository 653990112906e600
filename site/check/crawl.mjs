// crawl.mjs: the links of the built site.
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import path from "node:path";

const decode = (text) => text.replace(/&amp;/g, "&").replace(/&quot;/g, '"');

// The paths of all pages.
export function pagesOf(site) {
  return readdirSync(site, { recursive: true }).filter((f) => f.endsWith(".html") && !f.startsWith("monitor/")).sort();
}

// What is wrong with the links, pictures and scripts of all pages: each must be relative, and lead to a file and an anchor
// that exist.
export function brokenLinks(site) {
  const broken = [], ids = new Map();
  const idsOf = (file) => {
    if (!ids.has(file)) ids.set(file, new Set([...readFileSync(file, "utf8").matchAll(/ id="([^"]*)"/g)].map((m) => decode(m[1]))));
    return ids.get(file);
  };
  let links = 0;
  for (const page of pagesOf(site)) {
    const text = readFileSync(path.join(site, page), "utf8");
    for (const [, href] of text.matchAll(/ (?:href|src)="([^"]*)"/g)) {
      const link = decode(href);
      if (/^(https?|mailto|data):/.test(link)) continue;
      links++;
      if (link.startsWith("/")) broken.push(`${page}: ${link} is not relative`);
      const [to, id] = link.split("#");
      const file = to ? path.join(site, path.dirname(page), to) : path.join(site, page);
      if (!existsSync(file) || !statSync(file).isFile()) broken.push(`${page}: ${link} leads nowhere`);
      else if (id && !id.startsWith("code=") && !idsOf(file).has(decodeURIComponent(id))) broken.push(`${page}: ${link}: no such anchor`);
    }
  }
  return { links, broken };
}
