// The program of bench/queues.lua for pg-boss. Its own worker asks for messages at most twice a second, and stores no
// result for each message of a batch; so this calls `fetch` and `complete`.
//
//     node bench/queues/pg_boss.js PORT put|work N
'use strict'
const PgBoss = require('pg-boss')

const AT_ONCE = 128
const LOOPS = 4 // that fetch messages, AT_ONCE / LOOPS at a time
const [port, part, n] = process.argv.slice(2)

async function put (boss) {
  const data = { value: 'x'.repeat(100) }
  let left = Number(n)
  const putSome = async () => {
    while (left-- > 0) await boss.send('queue', data)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, putSome))
}

async function work (boss) {
  const f = async (data) => data
  let done = 0
  const loop = async () => {
    while (done < Number(n)) {
      const jobs = await boss.fetch('queue', { batchSize: AT_ONCE / LOOPS })
      await Promise.all(jobs.map(async (job) => {
        await boss.complete('queue', job.id, await f(job.data))
        done++
      }))
    }
  }
  await Promise.all(Array.from({ length: LOOPS }, loop))
}

async function main () {
  const boss = new PgBoss({ host: '127.0.0.1', port: Number(port), user: 'postgres', database: 'postgres', max: 10 })
  await boss.start()
  await boss.createQueue('queue')
  const start = process.hrtime.bigint()
  const before = process.cpuUsage()
  await (part === 'put' ? put(boss) : work(boss))
  const cpu = process.cpuUsage(before)
  console.log(Number(process.hrtime.bigint() - start) / 1e9, (cpu.user + cpu.system) / 1e6)
  const state = part === 'put' ? 'created' : 'completed'
  const found = await boss.getDb().executeSql(`select count(*) as n from pgboss.job where name = 'queue' and state = '${state}'`)
  if (Number(found.rows[0].n) !== Number(n)) throw new Error('messages are missing')
  process.exit()
}

main()
