"""What Java threw is told in a line, and with what to do about it."""

from ottla.pipeline.runner import failure_of

LOST = """An error occurred while calling o30.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find: ottla.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(Query.scala:770)
"""


def test_a_failure_is_its_first_line_without_the_stack() -> None:
    told = failure_of(LOST.replace("DATA_SOURCE_NOT_FOUND", "OTHER"))
    assert str(told) == (
        "Spark failed: org.apache.spark.SparkClassNotFoundException: [OTHER] Failed to find: ottla."
    )
    assert not hasattr(told, "__notes__")
    assert str(failure_of("")) == "Spark failed: it does not say why"


def test_a_format_that_was_not_found_in_time_is_worth_another_try() -> None:
    (note,) = failure_of(LOST).__notes__
    assert "run the pipeline again" in note
