"""Programs of make bench-programs that move values between stages, and servers (main.py)."""
import asyncio
import json
import re
from collections import Counter

END = object()


async def until_end(queue):
    while (value := await queue.get()) is not END:
        yield value


async def stages(path):
    decoded, changed, encoded = (asyncio.Queue(100) for _ in range(3))

    async def decode():
        with open(path, encoding="utf-8") as file:
            for line in file:
                await decoded.put(json.loads(line))
        await decoded.put(END)

    async def change():
        async for event in until_end(decoded):
            if event["value"] % 2 == 0:
                await changed.put({"id": event["id"], "name": event["name"], "value": event["value"] * 2})
        await changed.put(END)

    async def encode():
        async for event in until_end(changed):
            await encoded.put(json.dumps(event, separators=(",", ":")))
        await encoded.put(END)

    tasks = [asyncio.ensure_future(f()) for f in (decode, change, encode)]
    n = size = 0
    async for text in until_end(encoded):
        n, size = n + 1, size + len(text)
    await asyncio.gather(*tasks)
    print(n, size)


async def mix(n):
    out, inputs, total = asyncio.Queue(1), [asyncio.Queue(1) for _ in range(1000)], 0

    async def forward(queue):
        while True:
            await out.put(await queue.get())

    async def source():
        for i in range(1, int(n) + 1):
            await inputs[i * 7919 % 1000].put(i)

    tasks = [asyncio.ensure_future(forward(queue)) for queue in inputs] + [asyncio.ensure_future(source())]
    for _ in range(int(n)):
        total += await out.get()
    print(total)
    for task in tasks:
        task.cancel()


async def fan(n):
    jobs, results, total = asyncio.Queue(1), asyncio.Queue(1), 0

    async def worker():
        while True:
            await results.put(await jobs.get() * 2)

    async def source():
        for i in range(1, int(n) + 1):
            await jobs.put(i)

    tasks = [asyncio.ensure_future(worker()) for _ in range(100)] + [asyncio.ensure_future(source())]
    for _ in range(int(n)):
        total += await results.get()
    print(total)
    for task in tasks:
        task.cancel()


def words(path):
    counts = Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            counts.update(re.findall("[A-Za-z]+", line))
    for word, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20]:
        print(n, word)


async def chat():
    clients = set()

    async def serve(reader, writer):
        clients.add(writer)
        writer.write(b"welcome\n")
        try:
            while line := await reader.readline():
                for client in clients:
                    client.write(line)
        except ConnectionError:
            pass
        clients.discard(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def tail(folder, n):
    """Each file is looked at again after 10 ms."""
    left, total = int(n), 0

    async def follow(path):
        nonlocal left, total
        part = ""
        with open(path, encoding="utf-8") as file:
            while True:
                text = file.readline()
                if not text:
                    await asyncio.sleep(0.01)
                    continue
                part += text
                if part.endswith("\n"):
                    total += int(part.split(" ", 1)[0])
                    left, part = left - 1, ""
                    if left == 0:
                        with open(folder + "/done", "w", encoding="utf-8") as done:
                            print(n, total, file=done)

    tasks = [follow("%s/%d.log" % (folder, i)) for i in range(1, 51)]
    print("port 1", flush=True)
    await asyncio.gather(*tasks)


PROGRAMS = {"stages": stages, "mix": mix, "fan": fan, "words": words, "chat": chat, "tail": tail}
