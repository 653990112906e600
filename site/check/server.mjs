// server.mjs: a static server on the loopback address, as plain as any.
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
  ".wasm": "application/wasm", ".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain; charset=utf-8" };

// Serves a folder. Resolves to { url, sent, close }, where `sent` is the paths that were asked for.
export function serve(folder) {
  const sent = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const file = path.join(folder, path.normalize(decodeURIComponent(url.pathname)));
    sent.push(url.pathname);
    try {
      if (!statSync(file).isFile()) throw new Error("no file");
    } catch {
      response.writeHead(404).end("not found");
      return;
    }
    response.writeHead(200, { "content-type": TYPES[path.extname(file)] || "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () =>
    resolve({ url: `http://127.0.0.1:${server.address().port}/`, sent, close: () => server.close() })));
}
