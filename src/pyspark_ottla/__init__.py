"""Makes `format("ottla")` known: Spark looks for modules named `pyspark_*` and their DefaultSource.

It must stay quick to import and must never fail: Spark imports it in every session, used or not.
"""

from ottla.spark.datasource import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
