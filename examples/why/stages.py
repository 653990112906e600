# 1,000 values through two stages; when eight wait for the second one, the first waits.
import asyncio


async def main():
    numbers, squares = asyncio.Queue(8), asyncio.Queue(8)

    async def first():
        for i in range(1, 1001):
            await numbers.put(i)
        await numbers.put(None)

    async def second():
        while (n := await numbers.get()) is not None:
            await squares.put(n * n)
        await squares.put(None)

    total = 0
    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        group.create_task(second())
        while (n := await squares.get()) is not None:
            total += n
    print(total)


asyncio.run(main())
