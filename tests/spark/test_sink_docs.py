"""The page on the sink tells the truth: its code runs."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.testing import TestBroker
from tests.spark.sink_world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "exactly-once-spark.md"
BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_on_the_page_runs(spark: "SparkSession", tmp_path: Path) -> None:
    with TestBroker(config={"transaction.two.phase.commit.enable": True}) as broker:
        world = World(broker.bootstrap_servers, tmp_path)
        broker.produce("orders", "espresso", "lungo", "espresso")
        scope: dict[str, Any] = {"bootstrap_servers": world.servers}
        scope["orders"] = world.source(spark, "orders", {})
        scope["lines"] = spark.sql("SELECT 'a line' AS value")
        text = PAGE.read_text("utf-8")
        blocks = list(BLOCK.finditer(text))
        for number, block in enumerate(blocks):
            scope["checkpoint"] = str(tmp_path / f"checkpoint{number}")
            padding = "\n" * text[: block.start(1)].count("\n")
            exec(compile(padding + block[1], PAGE, "exec"), scope)
            if (query := scope.pop("query", None)) is not None:
                query.processAllAvailable()
                query.stop()

        assert len(blocks) == 4
        assert world.committed("shouted") == ["ESPRESSO", "ESPRESSO", "LUNGO"]
        assert world.committed("totals") == ["3"]
        assert world.committed("archive") == ["a line"]
        assert scope["decision"].row_count == 3
