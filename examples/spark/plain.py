"""Without a pipeline: `format("ottla")` in a Spark program, with a broker inside of it.

python examples/spark/plain.py
"""

import tempfile

import ottla
from ottla.spark.session import session

spark = session("plain")

with ottla.Broker() as broker, tempfile.TemporaryDirectory() as folder:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    with ottla.Producer(broker.bootstrap_servers, value_serde=ottla.JSON) as producer:
        for number in range(1_000):
            producer.send("orders", {"id": number, "amount": number % 7})

    orders = (
        spark.readStream.format("ottla")
        .options(**servers, subscribe="orders", startingOffsets="earliest", valueFormat="json")
        .schema("id long, amount long")
        .load()
    )
    query = (
        orders.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")
        .writeStream.format("ottla")
        .options(**servers, topic="copy", checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    copies = spark.read.format("ottla").options(**servers, subscribe="copy").load()
    print(copies.count(), copies.select("key").distinct().count())
