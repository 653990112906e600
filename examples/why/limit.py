# Twenty calls of 5 ms, four at a time; the results in order.
import asyncio

running = most = 0


async def fetch(n):
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.005)
    running -= 1
    return n * n


async def main():
    slots = asyncio.Semaphore(4)

    async def limited(n):
        async with slots:
            return await fetch(n)

    results = await asyncio.gather(*(limited(n) for n in range(1, 21)))
    print(len(results), results[0], results[19], most, sep="\t")


asyncio.run(main())
