// The programs of make bench-programs in Node.js: main.js NAME ARGUMENT...
"use strict"
const fs = require("fs"), http = require("http"), net = require("net"), readline = require("readline")
const { spawn } = require("child_process")

// Calls f with 1 to n, `at` calls at a time.
async function each(n, at, f) {
  let next = 1
  const worker = async () => { while (next <= n) await f(next++) }
  await Promise.all(Array.from({ length: at }, worker))
}

const lines = path => readline.createInterface({ input: fs.createReadStream(path), crlfDelay: Infinity })

const programs = {
  async logs(path) {
    const counts = new Map()
    for await (const line of lines(path)) {
      const end = line.indexOf(" "), key = end < 0 ? line : line.slice(0, end)
      if (key) counts.set(key, (counts.get(key) || 0) + 1)
    }
    const list = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    for (const [key, n] of list.slice(0, 20)) console.log(String(n).padStart(8) + "  " + key)
  },

  async commands(n) {
    let ok = 0
    await each(Number(n), 8, () => new Promise(resolve => {
      spawn("true", [], { stdio: "ignore" }).on("exit", code => { ok += code === 0; resolve() })
    }))
    console.log(ok)
  },

  proxy(port) {
    const listener = net.createServer(client => {
      const server = net.connect(Number(port), "127.0.0.1")
      client.pipe(server)
      server.pipe(client)
      client.on("error", () => server.destroy())
      server.on("error", () => client.destroy())
    })
    listener.listen(0, "127.0.0.1", () => console.log("port " + listener.address().port))
  },

  async json(path) {
    let sum = 0, n = 0
    for await (const line of lines(path)) { sum += JSON.parse(line).value; n++ }
    console.log(n + " " + sum.toFixed(0))
  },

  async retries(n) {
    let sum = 0
    await each(Number(n), 100, async i => {
      for (let t = 0; t < 3; t++) {
        let timer
        const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("late")), 60000) })
        const job = async () => {
          await null
          if (i % 10 === 0 && t === 0) throw new Error("try again")
          return i
        }
        try {
          const result = await Promise.race([job(), late])
          sum += result
          return
        } catch (err) {
          await new Promise(resolve => setTimeout(resolve, 1))
        } finally { clearTimeout(timer) }
      }
    })
    console.log(sum)
  },

  timers(n) {
    const timers = []
    let sum = 0
    for (let i = 1; i <= Number(n); i++) timers[i] = setTimeout(i => { sum += i }, 2000 + i * 7919 % 1000, i)
    for (let i = 1; i <= Number(n); i++) if (i % 10 !== 0) clearTimeout(timers[i])
    process.on("exit", () => console.log(sum))
  },

  hello() {
    const server = http.createServer((request, response) => response.end("hello"))
    server.listen(0, "127.0.0.1", () => console.log("port " + server.address().port))
  },

  async requests(n, url) {
    let bytes = 0
    const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
    await each(Number(n), 64, () => new Promise((resolve, reject) => {
      http.get(url, { agent }, response => {
        response.on("data", piece => { bytes += piece.length })
        response.on("end", resolve)
      }).on("error", reject)
    }))
    console.log(bytes)
    agent.destroy()
  },
}

Object.assign(programs, require("./more.js"))
programs[process.argv[2]](...process.argv.slice(3))
