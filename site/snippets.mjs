// snippets.mjs: the snippets of a page: what they are expected to print, and whether they run in a browser. The rules are
// those of spec/support/docs/snippets.lua.

// What a page cannot do, and what shows that a snippet needs it.
const NOT_HERE = [
  [/\brn\.threads?\b|\bshared_chan\b.*\brn\.thread/s, "it needs threads"],
  [/require\s*\(?\s*"runnel\.(nats|http|otlp|tls)|\brn\.(counter|gauge|histogram|metrics|traceparent)\b/, "it needs sockets"],
  [/\brn\.profile\b/, "it needs a timer of processor time"],
  [/require\s*\(?\s*"runnel\.(sqlite|store|queue)/, "it needs files"],
  [/^(?!.*\bsim\.world\b).*require\s*\(?\s*"runnel\.uv/s, "it needs files, sockets or processes"],
  [/require\s*\(?\s*"runnel\.lite/, "it needs the engine in plain Lua, and the page has the one in C"],
  [/require\s*\(?\s*"runnel\.(prompt|driver\.\w+|monitor)|require\s*\(?\s*"luv/, "it needs a library that is not here"],
];

// What a snippet of Lua prints, from its arrows, or from the block of text that follows it.
export function expectedOf(code, next) {
  if (next?.type === "code" && next.lang === "text") return next.text.split("\n");
  return [...code.matchAll(/-->[^\S\n]?([^\n]*)/g)].map((match) => match[1]);
}

// Why a snippet does not run in a page; null if it does.
export function whyNot(code) {
  return NOT_HERE.find(([sign]) => sign.test(code))?.[1] ?? null;
}

// A snippet as a program of its own.
export const standalone = (code) => (/\blocal rn\s*=/.test(code) ? code : `local rn = require "runnel"\n\n${code}`) + "\n";
