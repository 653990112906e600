# A background job fails, and no code waits for its result.
import asyncio


async def job():
    raise OSError("no such host")


async def main():
    task = asyncio.create_task(job())
    await asyncio.sleep(0.020)
    print("the main program ends")
    return task


kept = asyncio.run(main())
