// Five calls, of which one fails; the others go on, and its error is kept.
async function fetch(n) {
  if (n === 3) throw new Error("no such host");
  return n;
}

async function main() {
  const numbers = [1, 2, 3, 4, 5], results = [];
  let problem;
  async function worker() {
    for (let n; (n = numbers.shift()) !== undefined; ) {
      try {
        results.push(await fetch(n));
      } catch (error) {
        problem = error;
      }
    }
  }
  await Promise.all([worker(), worker()]);
  console.log([results.length, problem.message].join("\t"));
}

main();
