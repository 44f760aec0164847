"""The page on the source tells the truth: its code runs."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import ottla
from ottla.testing import TestBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-source.md"
BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_on_the_page_runs(spark: "SparkSession") -> None:
    with TestBroker() as broker:
        broker.produce("orders", '{"id": 1, "price": 2.5}', '{"id": 2}', "oops")
        with ottla.Admin(broker.bootstrap_servers) as admin:
            admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 1})
        scope = {"spark": spark, "bootstrap_servers": broker.bootstrap_servers}
        text = PAGE.read_text("utf-8")
        blocks = list(BLOCK.finditer(text))
        assert len(blocks) > 2
        for block in blocks:
            padding = "\n" * text[: block.start(1)].count("\n")
            exec(compile(padding + block[1], PAGE, "exec"), scope)
