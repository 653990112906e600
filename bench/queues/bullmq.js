// The program of bench/queues.lua for BullMQ.
//
//     node bench/queues/bullmq.js PORT put|work N
'use strict'
const { Queue, Worker } = require('bullmq')

const AT_ONCE = 128
const [port, part, n] = process.argv.slice(2)
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null }

async function put (queue) {
  const value = 'x'.repeat(100)
  let left = Number(n)
  const putSome = async () => {
    while (left-- > 0) await queue.add('message', value)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, putSome))
}

function work () {
  return new Promise((resolve) => {
    const worker = new Worker('queue', async (job) => job.data, { connection, concurrency: AT_ONCE })
    let done = 0
    worker.on('completed', () => {
      if (++done === Number(n)) resolve()
    })
  })
}

async function main () {
  const queue = new Queue('queue', { connection })
  await queue.waitUntilReady()
  const start = process.hrtime.bigint()
  const before = process.cpuUsage()
  await (part === 'put' ? put(queue) : work())
  const cpu = process.cpuUsage(before)
  console.log(Number(process.hrtime.bigint() - start) / 1e9, (cpu.user + cpu.system) / 1e6)
  const count = await (part === 'put' ? queue.getWaitingCount() : queue.getCompletedCount())
  if (count !== Number(n)) throw new Error('messages are missing')
  process.exit()
}

main()
