// compress.mjs FOLDER: writes FILE.gz and FILE.br beside each text and program of a folder, for servers that send these.
// It runs when all files are there.
import { readFile, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const TEXTS = /\.(html|css|js|json|svg|txt|wasm)$/, LEAST = 200; // bytes

const ENCODINGS = {
  gz: (bytes) => promisify(gzip)(bytes, { level: 9 }),
  br: (bytes) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
};

const folder = process.argv[2];
const files = (await readdir(folder, { recursive: true })).filter((file) => TEXTS.test(file));
await Promise.all(files.map(async (file) => {
  const to = path.join(folder, file), bytes = await readFile(to);
  if (bytes.length < LEAST) return;
  for (const [ending, encode] of Object.entries(ENCODINGS)) await writeFile(`${to}.${ending}`, await encode(bytes));
}));
