// Asks three mirrors, takes the first answer, and ends the other questions.
const { setTimeout: sleep } = require("timers/promises");

let cancelled = 0;
async function ask(name, ms, signal) {
  try {
    await sleep(ms, null, { signal });
  } catch (error) {
    cancelled++;
    throw error;
  }
  return name;
}

async function main() {
  const stop = new AbortController();
  const mirrors = { near: 5, far: 2000, farther: 3000 };
  const asked = Object.entries(mirrors).map(([name, ms]) => ask(name, ms, stop.signal));
  const answer = await Promise.any(asked);
  stop.abort();
  await Promise.allSettled(asked);
  console.log([answer, cancelled].join("\t"));
}

main();
