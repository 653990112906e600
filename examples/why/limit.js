// Twenty calls of 5 ms, four at a time; the results in order.
const { setTimeout: sleep } = require("timers/promises");

let running = 0, most = 0;
async function fetch(n) {
  running++;
  most = Math.max(most, running);
  await sleep(5);
  running--;
  return n * n;
}

async function main() {
  const numbers = Array.from({ length: 20 }, (_, i) => i + 1);
  const results = [];
  let next = 0;
  async function worker() {
    while (next < numbers.length) {
      const i = next++;
      results[i] = await fetch(numbers[i]);
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()]);
  console.log([results.length, results[0], results[19], most].join("\t"));
}

main();
