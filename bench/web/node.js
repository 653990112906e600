// node.js URL N AT_ONCE: N requests, or a stream if N is 0. Prints how many bytes came.
const [url, n, atOnce] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
let started = 0, size = 0;

async function work() {
  while (started < n) {
    started++;
    size += (await (await fetch(url)).arrayBuffer()).byteLength;
  }
}

async function stream() {
  for await (const piece of (await fetch(url)).body) size += piece.byteLength;
}

(async () => {
  if (n === 0) await stream();
  await Promise.all(Array.from({ length: atOnce }, work));
  console.log(size);
  process.exit(0);
})();
