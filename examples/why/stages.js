// 1,000 values through two stages, which are generators: each value is asked for when the next stage wants it.
async function* first() {
  for (let i = 1; i <= 1000; i++) yield i;
}

async function* second(numbers) {
  for await (const n of numbers) yield n * n;
}

async function main() {
  let sum = 0;
  for await (const n of second(first())) sum += n;
  console.log(sum);
}

main();
