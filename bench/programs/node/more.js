// Programs of make bench-programs that move values between stages, and servers (main.js).
"use strict"
const fs = require("fs"), http = require("http"), net = require("net"), path = require("path")
const readline = require("readline")

const lines = file => readline.createInterface({ input: fs.createReadStream(file), crlfDelay: Infinity })

const say = server => server.listen(0, "127.0.0.1", 1024, () => console.log("port " + server.address().port))

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

module.exports = {
  async stages(file) {
    async function* decode() { for await (const line of lines(file)) yield JSON.parse(line) }
    async function* change(events) {
      for await (const event of events) {
        if (event.value % 2 === 0) yield { id: event.id, name: event.name, value: event.value * 2 }
      }
    }
    async function* encode(events) { for await (const event of events) yield JSON.stringify(event) }
    let n = 0, bytes = 0
    for await (const text of encode(change(decode()))) { n++; bytes += text.length }
    console.log(n, bytes)
  },

  async words(file) {
    const counts = new Map()
    for await (const line of lines(file)) {
      for (const word of line.match(/[A-Za-z]+/g) || []) counts.set(word, (counts.get(word) || 0) + 1)
    }
    const list = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    for (const [word, n] of list.slice(0, 20)) console.log(n, word)
  },

  async crawl(n, url) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 })
    let bytes = 0, next = 1, began = 0
    const get = i => new Promise((resolve, reject) => {
      http.get(url + "?" + i, { agent }, response => {
        response.on("data", piece => { bytes += piece.length })
        response.on("end", resolve)
      }).on("error", reject)
    })
    let turn = Promise.resolve()
    const begin = () => turn = turn.then(async () => { // at most 100 begin in 100 ms
      if (began > 0 && began % 100 === 0) await sleep(100)
      began++
    })
    const worker = async () => {
      while (next <= n) {
        const i = next++
        await begin()
        await get(i)
      }
    }
    await Promise.all(Array.from({ length: 8 }, worker))
    console.log(bytes)
    agent.destroy()
  },

  files(dir) {
    say(http.createServer((request, response) => {
      const name = path.normalize(decodeURIComponent(request.url))
      if (name.includes("..")) return response.writeHead(404).end()
      const file = path.join(dir, name)
      fs.stat(file, (err, stat) => {
        if (err || !stat.isFile()) return response.writeHead(404).end()
        response.writeHead(200, { "content-length": stat.size, "content-type": "text/plain" })
        fs.createReadStream(file).pipe(response)
      })
    }))
  },

  wsecho() {
    const { WebSocketServer } = require(process.env.NODE_WS || "ws")
    const server = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false })
    server.on("listening", () => console.log("port " + server.address().port))
    server.on("connection", conn => conn.on("message", (data, isBinary) => conn.send(data, { binary: isBinary })))
  },

  chat() {
    const clients = new Set()
    say(net.createServer(conn => {
      clients.add(conn)
      conn.setNoDelay()
      conn.write("welcome\n")
      let part = ""
      conn.on("data", piece => {
        const list = (part + piece).split("\n")
        part = list.pop()
        for (const line of list) for (const client of clients) client.write(line + "\n")
      })
      conn.on("close", () => clients.delete(conn))
      conn.on("error", () => {})
    }))
  },

  // Each file is looked at again after 10 ms.
  tail(dir, n) {
    let left = Number(n), sum = 0
    const buffer = Buffer.alloc(65536)
    for (let i = 1; i <= 50; i++) {
      const fd = fs.openSync(`${dir}/${i}.log`)
      let part = ""
      const look = () => {
        for (;;) {
          const size = fs.readSync(fd, buffer, 0, buffer.length, null)
          if (size === 0) break
          const list = (part + buffer.toString("latin1", 0, size)).split("\n")
          part = list.pop()
          for (const line of list) {
            sum += Number(line.split(" ")[0])
            if (--left === 0) fs.writeFileSync(dir + "/done", `${n} ${sum}\n`)
          }
        }
        setTimeout(look, 10)
      }
      look()
    }
    console.log("port 1")
  },
}
