"""Spark's own Kafka connector, which PySpark from PyPI does not have: its jars from Maven Central.

Not every version of Spark has all of its parts published there.  A connector that is a little older
than Spark works with it, and is taken where there is nothing better.
"""

from typing import Final

import pyspark

from tools.maven import UnavailableError, jars

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
TOKENS: Final = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
VERSIONS: Final = ((pyspark.__version__, pyspark.__version__), ("4.2.0", "4.0.0"))
"""Of the connector and of its part for tokens, best first."""
NEEDED: Final = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
"""The rest of what they ask for is part of Spark."""


def connector_jars() -> str:
    """Its jars, as the setting `spark.jars` wants them; `UnavailableError` if there are none."""
    reasons: list[str] = []
    for version, tokens in VERSIONS:
        try:
            folder = jars(f"spark-kafka-{version}", f"{CONNECTOR}:{version}", f"{TOKENS}:{tokens}")
        except UnavailableError as error:
            reasons.append(str(error))
            continue
        return ",".join(str(jar) for jar in folder.iterdir() if jar.name.startswith(NEEDED))
    raise UnavailableError("; ".join(reasons))
