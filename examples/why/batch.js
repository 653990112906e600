// Ten values in batches of four, or of what has come 2 s after the first.
const { setTimeout: sleep } = require("timers/promises");

async function* source() {
  for (let i = 1; i <= 10; i++) yield i;
}

async function* batches(values, n, ms) {
  let next = values.next();
  for (;;) {
    let result = await next;
    if (result.done) return;
    const batch = [result.value];
    const stop = new AbortController();
    const late = sleep(ms, undefined, { signal: stop.signal }).catch(() => {});
    next = values.next();
    while (batch.length < n) {
      result = await Promise.race([next, late]);
      if (result === undefined || result.done) break;
      batch.push(result.value);
      next = values.next();
    }
    stop.abort();
    yield batch;
  }
}

async function main() {
  const sizes = [];
  for await (const batch of batches(source(), 4, 2000)) sizes.push(batch.length);
  console.log(sizes.join(" "));
}

main();
