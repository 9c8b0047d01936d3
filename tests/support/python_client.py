"""What tests let the Python client do: observe BASE SESSION COUNT, or produce BASE SESSION OUTBOX FROM TO."""
import asyncio
import json
import os
import sys

from holdfast import Observer, Producer, Reset

TOKEN = os.environ["HOLDFAST_TOKEN"]


async def observe(base: str, session: str, count: str) -> None:
    observer = Observer(base, session, token=lambda: TOKEN, keep=7, time_scale=0.025)
    async for item in observer:
        print(json.dumps({"reset": item.reason} if isinstance(item, Reset) else item), flush=True)
        assert len(observer.history) <= 7
        if not isinstance(item, Reset) and item["seq"] >= int(count):
            break
    print(json.dumps({"connects": observer.connects}), flush=True)


async def produce(base: str, session: str, outbox: str, first: str, end: str) -> None:
    async with Producer(base, session, outbox=outbox, token=TOKEN, time_scale=0.025) as producer:
        for i in range(int(first), int(end)):
            await producer.send("x-note", {"i": i})
            print(i, flush=True)
            await asyncio.sleep(0)
    print(json.dumps({"connects": producer.connects}), flush=True)


asyncio.run({"observe": observe, "produce": produce}[sys.argv[1]](*sys.argv[2:]))
