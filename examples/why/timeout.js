// Gives a call 10 ms; it needs longer, and is ended: it must take a signal for that.
const { setTimeout: sleep } = require("timers/promises");

async function slow(signal) {
  await sleep(2000, null, { signal });
  return "an answer";
}

async function main() {
  const signal = AbortSignal.timeout(10);
  try {
    console.log(await slow(signal));
  } catch (error) {
    if (!signal.aborted) throw error;
    console.log("false\ttrue");
  }
}

main();
