// One source of values; two readers get all of them, and the slower one sets the pace.
const { setTimeout: sleep } = require("timers/promises");

// A queue with room for one value: the next put waits.
class Slot {
  #value; #waiting = [];
  async #until(test) {
    while (!test()) await new Promise((resolve) => this.#waiting.push(resolve));
  }
  #wake() {
    this.#waiting.splice(0).forEach((resolve) => resolve());
  }
  async put(value) {
    await this.#until(() => this.#value === undefined);
    this.#value = value;
    this.#wake();
  }
  async take() {
    await this.#until(() => this.#value !== undefined);
    const value = this.#value;
    this.#value = undefined;
    this.#wake();
    return value;
  }
}

async function reader(slot, ms) {
  let sum = 0;
  for (let v; (v = await slot.take()) !== null; ) {
    sum += v;
    await sleep(ms);
  }
  return sum;
}

async function main() {
  const slots = [new Slot(), new Slot()];
  const sums = [reader(slots[0], 0), reader(slots[1], 2)];
  for (const v of [1, 2, 3, 4, 5, null]) for (const slot of slots) await slot.put(v);
  console.log((await Promise.all(sums)).join("\t"));
}

main();
