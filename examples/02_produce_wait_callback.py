"""Wait for one record, or be called back.  Callbacks run on the I/O thread; there is no poll()."""

import logging

import ottla

log = logging.getLogger("audit")


def delivered(md: ottla.RecordMetadata | None, err: ottla.DeliveryError | None) -> None:
    if err is not None:
        log.error("lost: %s (retriable=%s)", err, err.retriable)
    elif md is not None:
        log.info("%s[%d]@%d", md.topic, md.partition, md.offset)


with ottla.Producer() as producer:
    md = producer.send("audit", b"login", headers={"trace-id": "4bf92f"}).result(timeout=60)
    print(md.partition, md.offset)
    producer.send("audit", b"logout", on_delivery=delivered)
