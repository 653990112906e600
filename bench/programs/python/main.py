"""The programs of make bench-programs in Python, with asyncio: main.py NAME ARGUMENT..."""
import asyncio
import csv
import json
import sqlite3
import sys
from collections import Counter

from more import PROGRAMS


async def each(n, at, f):
    """Calls f with 1 to n, `at` calls at a time."""
    numbers = iter(range(1, n + 1))

    async def worker():
        for i in numbers:
            await f(i)

    await asyncio.gather(*(worker() for _ in range(at)))


def logs(path):
    counts = Counter()
    with open(path, "rb") as file:
        for line in file:
            key = line.split(b" ", 1)[0]
            if key:
                counts[key] += 1
    for key, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20]:
        print("%8d  %s" % (n, key.decode()))


async def commands(n):
    ok = 0

    async def run(_):
        nonlocal ok
        process = await asyncio.create_subprocess_exec("true")
        code = await process.wait()
        ok += code == 0

    await each(int(n), 8, run)
    print(ok)


async def proxy(port):
    async def copy(reader, writer):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()

    async def serve(reader, writer):
        back, out = await asyncio.open_connection("127.0.0.1", int(port))
        try:
            await asyncio.gather(copy(reader, out), copy(back, writer))
        except OSError:
            pass
        out.close()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print("port", listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


def store_csv(path):
    db = sqlite3.connect(":memory:")
    db.execute("create table sale(id integer, name text, amount integer, city text)")
    with open(path, newline="") as lines, db:
        db.executemany("insert into sale values (?, ?, ?, ?)", csv.reader(lines))
    for row in db.execute("select city, count(*), sum(amount) from sale group by city order by city"):
        print(*row, sep="\t")


def sum_json(path):
    total, n = 0, 0
    with open(path, "rb") as file:
        for line in file:
            total += json.loads(line)["value"]
            n += 1
    print("%d %.0f" % (n, total))


async def actors(n):
    n = int(n)
    inboxes, total = [asyncio.Queue(1) for _ in range(n)], 0

    async def actor(inbox):
        nonlocal total
        own = 0
        for _ in range(10):
            own += await inbox.get()
        total += own

    tasks = [asyncio.create_task(actor(inbox)) for inbox in inboxes]
    for message in range(1, 11):
        for inbox in inboxes:
            await inbox.put(message)
    await asyncio.gather(*tasks)
    print(total)


async def timers(n):
    loop, total, fired = asyncio.get_running_loop(), 0, asyncio.Event()
    left = int(n) // 10

    def add(i):
        nonlocal total, left
        total, left = total + i, left - 1
        if left == 0:
            fired.set()

    handles = [loop.call_later((2000 + i * 7919 % 1000) / 1000, add, i) for i in range(1, int(n) + 1)]
    for i, handle in enumerate(handles, 1):
        if i % 10:
            handle.cancel()
    await fired.wait()
    print(total)


async def retries(n):
    total = 0

    async def job(i, t):
        await asyncio.sleep(0)
        if i % 10 == 0 and t == 0:
            raise RuntimeError("try again")
        return i

    async def attempt(i):
        nonlocal total
        for t in range(3):
            try:
                result = await asyncio.wait_for(job(i, t), 60)
                total += result
                return
            except RuntimeError:
                await asyncio.sleep(0.001)

    await each(int(n), 100, attempt)
    print(total)


if __name__ == "__main__":
    programs = {"logs": logs, "commands": commands, "proxy": proxy, "json": sum_json, "csv": store_csv, "actors": actors,
                "timers": timers, "retries": retries, **PROGRAMS}
    result = programs[sys.argv[1]](*sys.argv[2:])
    if result is not None:
        try:
            asyncio.run(result)
        except KeyboardInterrupt:
            pass
