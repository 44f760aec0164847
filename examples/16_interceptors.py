"""Interceptors (KIP-42) see each record before it is sent, and what became of it."""

import time

import ottla


class Stamp(ottla.ProducerInterceptor):
    def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
        return record.with_header("sent-at", str(time.time_ns()))

    def on_ack(
        self, metadata: ottla.RecordMetadata | None, error: ottla.DeliveryError | None
    ) -> None:
        if error is not None:
            print("failed", error)


with ottla.Producer(interceptors=[Stamp()]) as producer:
    producer.send("orders", b"...")
