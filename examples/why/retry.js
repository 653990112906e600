// Repeats a call that fails twice, with a pause that doubles.
const { setTimeout: sleep } = require("timers/promises");

let tries = 0;
async function fetch() {
  tries++;
  if (tries < 3) throw new Error("no answer");
  return "a page";
}

async function retry(f, times, pause) {
  for (let i = 0; ; i++) {
    try {
      return await f();
    } catch (error) {
      if (i === times - 1) throw error;
      await sleep(pause * 2 ** i);
    }
  }
}

async function main() {
  console.log([await retry(fetch, 5, 2), tries].join("\t"));
}

main();
