"""Spans of Spark's processes in a file, a line of JSON each: what an exporter is to a test.

Such a process finds exporters among the installed packages; `announced` makes a folder that looks
like one, for its path.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ottla.telemetry.workers import EXPORTERS

NAME = "ottla-span-file"
FILE_VARIABLE = "OTTLA_SPAN_FILE"
ROOT = Path(__file__).parents[2]


class FileExporter(SpanExporter):
    """Appends to the file that the environment names; several processes may do so at once."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(f"{span.to_json(indent=None)}\n" for span in spans)
        file = os.open(os.environ[FILE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, lines.encode())
        finally:
            os.close(file)
        return SpanExportResult.SUCCESS


def announced(folder: Path) -> dict[str, str]:
    """The environment in which a process traces to `folder`."""
    package = folder / "span_file-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: span-file\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[{EXPORTERS}]\n{NAME} = {__name__}:FileExporter\n")
    return {
        "OTEL_TRACES_EXPORTER": NAME,
        FILE_VARIABLE: str(folder / "spans.jsonl"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
    }


def spans_in(folder: Path) -> list[dict[str, Any]]:
    """What was traced."""
    return [json.loads(line) for line in (folder / "spans.jsonl").read_text("utf-8").splitlines()]
