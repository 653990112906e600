# A worker that must tidy up; then Ctrl-C.
import asyncio


async def worker():
    try:
        print("ready", flush=True)
        await asyncio.sleep(60)
    finally:
        print("tidied up")


asyncio.run(worker())
