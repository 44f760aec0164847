"""Administer topics: plain calls, plain results, real exceptions."""

import ottla

with ottla.Admin() as admin:
    week_ms = 7 * 86_400_000
    admin.create_topic("orders", partitions=6, config={"retention.ms": week_ms}, exists_ok=True)
    info = admin.describe_topic("orders")
    print(len(info.partitions), info.config["cleanup.policy"], [p.isr for p in info.partitions])
    admin.alter_config(topic="orders", set={"cleanup.policy": "compact"}, unset=["retention.ms"])
    admin.add_partitions("orders", total=12)
