# Six commands, two at a time; their outputs in order.
import asyncio
from asyncio.subprocess import PIPE


async def main():
    slots = asyncio.Semaphore(2)

    async def echo(n):
        async with slots:
            process = await asyncio.create_subprocess_exec("echo", str(n), stdout=PIPE)
            out, _ = await process.communicate()
            return out.decode().strip()

    print(*await asyncio.gather(*(echo(n) for n in range(1, 7))))


asyncio.run(main())
