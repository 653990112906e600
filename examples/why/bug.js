// A bug: the promise of the end is never fulfilled, so the loop waits for ever.
async function* source() {
  yield 1;
  await new Promise(() => {});
}

async function main() {
  for await (const v of source()) console.log(v);
  console.log("the end");
}

main();
