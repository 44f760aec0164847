"""Writing from `foreachBatch`: the way for queries whose output mode is `update` or `complete`.

Spark lets only its own sinks have these modes, and gives a function each micro-batch instead.  The
rows of a batch that is in the log already are computed again and dropped: whoever keeps state needs
that, or the state would miss a batch.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CHECKPOINT: Final = "checkpointLocation"


def foreach_batch(options: Mapping[str, str]) -> "Callable[[DataFrame, int], None]":
    """A function for `writeStream.foreachBatch` that writes each micro-batch exactly once.

        options = {"kafka.bootstrap.servers": servers, "topic": "totals", "checkpointLocation": dir}
        totals.writeStream.outputMode("update").option("checkpointLocation", dir) \\
            .foreachBatch(ottla.spark.foreach_batch(options)).start()

    Args:
        options: Those of `format("ottla")`; checkpointLocation is that of the query.

    Raises:
        ConfigError: There is no checkpointLocation.
    """
    given = {name.lower() for name in options}
    if _CHECKPOINT.lower() not in given:
        raise ConfigError(f"foreach_batch needs {_CHECKPOINT}, the same as the query has")

    def write(batch: "DataFrame", batch_id: int) -> None:
        writer = batch.write.format("ottla").mode("append").options(**options)
        writer.option("batchId", batch_id).save()

    return write
