# Three sources of 100 values each, read as one.
import asyncio


async def main():
    merged, left = asyncio.Queue(1), 3

    async def source():
        nonlocal left
        for v in range(1, 101):
            await merged.put(v)
        left -= 1
        if left == 0:
            await merged.put(None)

    n = total = 0
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(source())
        while (v := await merged.get()) is not None:
            n, total = n + 1, total + v
    print(n, total, sep="\t")


asyncio.run(main())
