// Six commands, two at a time; their outputs in order.
const { execFile } = require("child_process");
const run = require("util").promisify(execFile);

async function main() {
  const results = [];
  let next = 1;
  async function worker() {
    while (next <= 6) {
      const n = next++;
      results[n - 1] = (await run("echo", [String(n)])).stdout.trim();
    }
  }
  await Promise.all([worker(), worker()]);
  console.log(results.join(" "));
}

main();
