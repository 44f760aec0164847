"""What Java threw is told in a line."""

from ottla.pipeline.runner import failure_of

LOST = """An error occurred while calling o30.load.
: org.apache.spark.SparkException: Task not serializable
\tat org.apache.spark.util.ClosureCleaner$.ensureSerializable(ClosureCleaner.scala:405)
"""


def test_a_failure_is_its_first_line_without_the_stack() -> None:
    told = failure_of(LOST)
    assert str(told) == "Spark failed: org.apache.spark.SparkException: Task not serializable"
    assert str(failure_of("")) == "Spark failed: it does not say why"
