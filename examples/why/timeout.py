# Gives a call 10 ms; it needs longer, and is ended.
import asyncio


async def slow():
    await asyncio.sleep(2)
    return "an answer"


async def main():
    try:
        print(await asyncio.wait_for(slow(), 0.010))
    except asyncio.TimeoutError:
        print("false", "true", sep="\t")


asyncio.run(main())
