// server.mjs FOLDER PORT: a static server on the loopback address, which sends FILE.br or FILE.gz for FILE where the browser
// takes it.
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
  ".wasm": "application/wasm", ".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain; charset=utf-8" };
const ENCODINGS = { br: ".br", gzip: ".gz" };

const sizeOf = (file) => {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat?.isFile() ? stat.size : null;
};

// Serves a folder. Resolves to { url, sent, close }, where `sent` is [{ path, size }] of what was asked for, with the bytes
// of each body.
export function serve(folder, port = 0) {
  const sent = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const file = path.join(folder, path.normalize(decodeURIComponent(url.pathname)).replace(/\/$/, "/index.html"));
    const takes = (request.headers["accept-encoding"] || "").split(/\s*,\s*/);
    const encoding = Object.keys(ENCODINGS).find((one) => takes.includes(one) && sizeOf(file + ENCODINGS[one]) !== null);
    const body = file + (encoding ? ENCODINGS[encoding] : ""), size = sizeOf(body);
    sent.push({ path: url.pathname, size: size ?? 0 });
    if (size === null) {
      response.writeHead(404).end("not found");
      return;
    }
    response.writeHead(200, { "content-type": TYPES[path.extname(file)] || "application/octet-stream", "content-length": size,
      vary: "accept-encoding", ...(encoding && { "content-encoding": encoding }) });
    createReadStream(body).pipe(response);
  });
  return new Promise((resolve) => server.listen(port, "127.0.0.1", () =>
    resolve({ url: `http://127.0.0.1:${server.address().port}/`, sent, close: () => server.close() })));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [, , folder, port] = process.argv;
  console.log((await serve(folder, Number(port))).url);
}
