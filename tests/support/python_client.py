"""What tests let the Python client do: observe BASE SESSION COUNT, produce BASE SESSION OUTBOX FROM TO, or take_part BASE SESSION COUNT."""
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


async def take_part(base: str, session: str, count: str) -> None:
    """Prompts, most of which wait, and an answer to each question; it ends when all turns have."""
    observer = Observer(base, session, token=lambda: TOKEN, client_id="python", time_scale=0.025)
    await observer.set_name("Py")
    words = ["permission" if i % 3 == 0 else "hello" for i in range(int(count))]
    prompts = [asyncio.create_task(observer.prompt(word, prompt_id=f"p-{i}")) for i, word in enumerate(words)]
    answers = []
    ends = 0
    async for item in observer:
        assert not isinstance(item, Reset)
        print(json.dumps(item), flush=True)
        if item["type"] == "permission_request":
            assert item in observer.permissions
            answers.append(asyncio.create_task(observer.answer_permission(item["data"]["request_id"], item["data"]["options"][0]["option_id"])))
        ends += item["type"] == "turn_end"
        if ends == len(words):
            await asyncio.gather(*prompts, *answers)  # their events were seen
            break
    receipts = [(await task).prompt_id for task in prompts]
    outcomes = [(await task)["by"] for task in answers]
    print(json.dumps({"connects": observer.connects, "receipts": receipts, "answers": outcomes, "open": len(observer.permissions)}), flush=True)


asyncio.run({"observe": observe, "produce": produce, "take_part": take_part}[sys.argv[1]](*sys.argv[2:]))
