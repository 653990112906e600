# One source of values; two readers get all of them, and the slower one sets the pace.
import asyncio


async def main():
    taps = [asyncio.Queue(1), asyncio.Queue(1)]

    async def reader(queue, ms):
        total = 0
        while (v := await queue.get()) is not None:
            total += v
            await asyncio.sleep(ms / 1000)
        return total

    async with asyncio.TaskGroup() as group:
        fast = group.create_task(reader(taps[0], 0))
        slow = group.create_task(reader(taps[1], 2))
        for v in [1, 2, 3, 4, 5, None]:
            for queue in taps:
                await queue.put(v)
    print(fast.result(), slow.result(), sep="\t")


asyncio.run(main())
