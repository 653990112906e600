# Ten values in batches of four, or of what has come 2 s after the first.
import asyncio


async def batches(values, n, seconds):
    loop = asyncio.get_running_loop()
    while (value := await values.get()) is not None:
        batch, until = [value], loop.time() + seconds
        while len(batch) < n:
            try:
                value = await asyncio.wait_for(values.get(), until - loop.time())
            except asyncio.TimeoutError:
                break
            if value is None:
                yield batch
                return
            batch.append(value)
        yield batch


async def main():
    values = asyncio.Queue(1)

    async def source():
        for i in range(1, 11):
            await values.put(i)
        await values.put(None)

    task = asyncio.create_task(source())
    print(*[len(batch) async for batch in batches(values, 4, 2)])
    await task


asyncio.run(main())
