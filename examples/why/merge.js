// Three sources of 100 values each, read as one.
async function* source() {
  for (let v = 1; v <= 100; v++) yield v;
}

async function* merge(sources) {
  const next = new Map();
  const ask = (s) => next.set(s, s.next().then((result) => ({ s, result })));
  sources.forEach(ask);
  while (next.size > 0) {
    const { s, result } = await Promise.race(next.values());
    if (result.done) next.delete(s);
    else {
      ask(s);
      yield result.value;
    }
  }
}

async function main() {
  let n = 0, sum = 0;
  for await (const v of merge([source(), source(), source()])) {
    n++;
    sum += v;
  }
  console.log([n, sum].join("\t"));
}

main();
