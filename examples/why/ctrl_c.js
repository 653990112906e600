// A worker that must tidy up; then Ctrl-C.
const { setTimeout: sleep } = require("timers/promises");

async function worker() {
  try {
    console.log("ready");
    await sleep(60000);
  } finally {
    console.log("tidied up");
  }
}

worker();
