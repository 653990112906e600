# Asks three mirrors, takes the first answer, and ends the other questions.
import asyncio

cancelled = 0


async def ask(name, ms):
    global cancelled
    try:
        await asyncio.sleep(ms / 1000)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return name


async def main():
    mirrors = {"near": 5, "far": 2000, "farther": 3000}
    tasks = [asyncio.create_task(ask(name, ms)) for name, ms in mirrors.items()]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    print(done.pop().result(), cancelled, sep="\t")


asyncio.run(main())
