# A bug: the end of the values is not announced, so their reader waits for ever.
import asyncio


async def main():
    values = asyncio.Queue()

    async def source():
        await values.put(1)

    task = asyncio.create_task(source())
    while (v := await values.get()) is not None:
        print(v, flush=True)
    await task


asyncio.run(main())
