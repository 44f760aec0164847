"""asyncio.  send() awaits the acknowledgment; enqueue() only room in the buffer."""

import asyncio

import ottla


async def main() -> None:
    async with ottla.AsyncProducer(value_serde=ottla.JSON) as producer:
        md = await producer.send("orders", {"id": 1})
        acks = [await producer.enqueue("orders", {"id": i}) for i in range(10_000)]
        done = await asyncio.gather(*acks)
        print(md.offset, len(done))


asyncio.run(main())
