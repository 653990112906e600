# Repeats a call that fails twice, with a pause that doubles.
import asyncio

tries = 0


async def fetch():
    global tries
    tries += 1
    if tries < 3:
        raise OSError("no answer")
    return "a page"


async def retry(f, times, pause):
    for i in range(times):
        try:
            return await f()
        except OSError:
            if i == times - 1:
                raise
            await asyncio.sleep(pause * 2**i)


async def main():
    print(await retry(fetch, 5, 0.002), tries, sep="\t")


asyncio.run(main())
