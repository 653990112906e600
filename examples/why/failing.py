# Five calls, of which one fails; the others go on, and its error is kept.
import asyncio


async def fetch(n):
    if n == 3:
        raise OSError("no such host")
    return n


async def main():
    slots = asyncio.Semaphore(2)

    async def limited(n):
        async with slots:
            return await fetch(n)

    results = await asyncio.gather(*(limited(n) for n in range(1, 6)), return_exceptions=True)
    failed = [r for r in results if isinstance(r, Exception)]
    print(len(results) - len(failed), failed[0], sep="\t")


asyncio.run(main())
