"""A broker inside a script or notebook."""

import ottla

with ottla.Broker() as broker, ottla.Producer(broker.bootstrap_servers) as producer:
    producer.send("hello", b"world")
    producer.flush()
    with ottla.Consumer(
        "hello", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        print(next(consumer).value)
