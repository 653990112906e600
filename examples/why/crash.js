// A background job fails, and no code waits for its result.
const { setTimeout: sleep } = require("timers/promises");

async function job() {
  throw new Error("no such host");
}

async function main() {
  job();
  await sleep(20);
  console.log("the main program ends");
}

main();
