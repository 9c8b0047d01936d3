"""Puts a model's stream into a session: python3 stream_model.py SESSION. Replace tokens() by the stream of your model."""
import asyncio, os, sys
from typing import AsyncIterator
from holdfast import Producer

async def tokens() -> AsyncIterator[str]:
    for word in "Here is **what** the model says.\n".split(" "):
        yield word if word.endswith("\n") else word + " "

async def main(session: str) -> None:
    server = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8080")
    async with Producer(server, session, outbox=f"{session}.outbox", token=os.environ["HOLDFAST_TOKEN"]) as producer:
        async for text in tokens():
            await producer.send("agent_message_chunk", {"text": text})
        await producer.send("turn_end", {"stop_reason": "end_turn"})
asyncio.run(main(sys.argv[1]))
