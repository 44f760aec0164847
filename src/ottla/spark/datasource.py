"""What Spark calls for `format("ottla")`: it hands out readers and writers, and knows nothing else.

Spark makes one of these in a planner process, pickles it, and asks copies of it for readers and
writers in other processes.  So nothing is kept here but the options, which Spark keeps itself.

Parameters have the names that Spark uses: it calls these methods by keyword, too.
"""

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ottla.errors import ConfigError
from ottla.spark.options import SinkOptions, SourceOptions

if TYPE_CHECKING:
    from ottla.spark.sink.writer import BatchWriter, StreamWriter


class OttlaDataSource(DataSource):
    """The format "ottla": topics of Ottla and Apache Kafka as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The columns of a source for which the user has chosen none."""
        from ottla.spark.source.columns import default_schema

        return default_schema(SourceOptions.of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads what is there now."""
        from ottla.spark.source.batch import BatchReader

        return BatchReader(SourceOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Reads what is there and what comes."""
        try:
            from ottla.spark.source.stream import StreamReader
        except ImportError as error:
            if error.name != "pyspark.sql.streaming.datasource":
                raise
            raise ConfigError(
                f"streams need PySpark 4.2 or newer, for its limits; this is {pyspark.__version__}"
            ) from error

        return StreamReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        """Writes a DataFrame."""
        from ottla.spark.sink.writer import BatchWriter

        _refuse_overwrite(overwrite, 'df.write.mode("append")')
        return BatchWriter(SinkOptions.of(self.options), schema)

    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> "StreamWriter":
        """Writes micro-batch after micro-batch."""
        from ottla.spark.sink.writer import StreamWriter

        _refuse_overwrite(overwrite, 'df.writeStream.outputMode("append")')
        return StreamWriter(SinkOptions.of(self.options), schema)


def _refuse_overwrite(overwrite: bool, instead: str) -> None:
    if overwrite:
        raise ConfigError(
            f"a log cannot be overwritten, only appended to: use {instead}, or write from "
            "foreachBatch"
        )
