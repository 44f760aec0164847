"""`ottla log dump`: what is in the files of a log, without a broker.

It opens files for reading only and takes no lock, so it may look at the files of a running broker,
whose newest batches may then be cut off.  A folder is a partition, or a data directory with all its
partitions.
"""

import mmap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import click

from ottla.cli.log.tables import Report, Table
from ottla.cli.output import Output, format_option, table, verbose_option
from ottla.errors import StorageError
from ottla.quantities import counted

ROWS_AT_A_TIME: Final = 500
"""How many rows share their column widths: a segment may have millions."""


@click.command("dump")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|FOLDER...",
)
@click.option("--records", is_flag=True, help="Print the records of a segment, not its batches.")
@click.option("--verify", is_flag=True, help="Check checksums, records, and indexes against logs.")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, paths: tuple[Path, ...], records: bool, verify: bool) -> None:
    """Print what is in the files of a log.

    Segments, indexes, transaction indexes, producer snapshots and checkpoints are understood,
    Kafka's own as well.

    \b
    Examples:
      ottla log dump ottla-data --verify
      ottla log dump ottla-data/orders-0
      ottla log dump ottla-data/orders-0 --records -o json
    """
    problems: list[str] = []
    found = [path for given in paths for path in _files_of(given)]
    for number, path in enumerate(found):

        def report(what: str, path: Path = path) -> None:
            problems.append(what)
            output.say(f"problem: {path}: {what}")

        contents = read_file(path, report, records=records, verify=verify)
        if contents is None:
            _skip(output, path, paths)
            continue
        if len(found) > 1 and not output.is_json:
            click.echo(f"{'' if number == 0 else chr(10)}{path}")
        _print(output, path, contents)
    if problems:
        raise StorageError(f"{counted(len(problems), 'problem')} found")


def _files_of(path: Path) -> Iterator[Path]:
    """A file, or the files of a folder and of the partitions in it, by name."""
    if path.is_file():
        yield path
        return
    for inner in sorted(path.iterdir()):
        if inner.is_file():
            yield inner
        elif inner.is_dir():
            yield from (file for file in sorted(inner.iterdir()) if file.is_file())


def read_file(path: Path, report: Report, *, records: bool, verify: bool) -> Table | None:
    """The contents of a file as a table; None if it is none that belongs to a log."""
    from ottla.cli.log import others, segments
    from ottla.log import files

    if (by_name := others.BY_NAME.get(path.name)) is not None:
        return by_name(path.read_bytes(), report)
    parsed = files.parse_name(path.name)
    if parsed is None:
        return None
    match parsed.kind:
        case files.LOG:
            make = segments.record_table if records else segments.batch_table
            return make(_mapped(path), report, verify=verify)
        case files.OFFSET_INDEX:
            log_path = path.with_name(path.name.replace(files.OFFSET_INDEX, files.LOG))
            log = _mapped(log_path) if verify and log_path.exists() else None
            return others.offset_index(path.read_bytes(), parsed.base_offset, log, report)
        case files.TIME_INDEX:
            return others.time_index(path.read_bytes(), parsed.base_offset, report)
        case files.TRANSACTION_INDEX:
            return others.aborted_transactions(path.read_bytes(), report)
        case _:
            return others.producer_snapshot(path.read_bytes(), report)


def _mapped(path: Path) -> memoryview:
    """The bytes of a file, brought into memory as they are looked at."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _skip(output: Output, path: Path, asked_for: tuple[Path, ...]) -> None:
    if path in asked_for:
        raise click.UsageError(f"{path} is not a file of a log")
    if output.verbose:
        output.say(f"left out: {path} is not a file of a log")


def _print(output: Output, path: Path, contents: Table) -> None:
    columns, rows = contents
    if output.is_json:
        for row in rows:
            output.json_line({"file": str(path), **dict(zip(columns, row, strict=True))})
        return
    is_first = True
    while group := list(islice(rows, ROWS_AT_A_TIME)):
        lines = table(columns, [[_cell(cell) for cell in row] for row in group], for_people=False)
        for line in lines if is_first else lines[1:]:
            click.echo(line)
        is_first = False
    if is_first:
        click.echo("(empty)")


def _cell(cell: object) -> object:
    """A cell that fits into a line: control characters would break the table."""
    match cell:
        case list():
            return ",".join(f"{name}={_cell(value)}" for name, value in cell) or "-"
        case {"base64": encoded}:
            return f"base64:{encoded}"
        case str():
            return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cell)
        case _:
            return cell
