"""`ottla snapshot`: the data directory of a broker, stopped or running, in one file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.output import InUseError, Output, format_option, verbose_option
from ottla.cli.progress import progress_bar
from ottla.errors import OttlaError
from ottla.quantities import counted, human_size

if TYPE_CHECKING:
    from ottla.snapshot.archive import Header


@click.command("snapshot")
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, data_dir: Path, file: Path, force: bool) -> None:
    """Write the data directory of a broker into one file.

    The broker may be stopped, or go on running: then FILE has it as it was at one moment, with
    everything that was acknowledged before.

    FILE is a gzipped tar with a checksum of everything in it. It appears under its name when it is
    whole and on disk. `ottla restore` makes a data directory of it again.

    \b
    Examples:
      ottla snapshot ottla-data monday.snapshot
      ottla snapshot /var/lib/ottla /backup/ottla.snapshot --force
    """
    from ottla.snapshot.archive import SnapshotError
    from ottla.snapshot.taking import broker_data

    if file.exists() and not force:
        refusal = SnapshotError(f"{file} exists")
        refusal.add_note("--force replaces it")
        raise refusal
    if data_dir.resolve() in file.resolve().parents:
        raise click.UsageError(f"{file} would lie in the folder that it is a snapshot of")
    try:
        with broker_data(data_dir) as broker:
            header = broker.header
            is_watched = sys.stderr.isatty() and not output.is_json
            with progress_bar(file.name, header.size_bytes, is_watched) as bar:
                packed_bytes = broker.write(file, bar.advance)
    except BlockingIOError as error:
        raise in_use(data_dir, error) from error
    except OSError as error:
        raise SnapshotError(f"{error.filename or file}: {error.strerror}") from error
    if output.is_json:
        output.json_line(
            {
                "event": "snapshot",
                "file": str(file),
                "cluster_id": header.cluster_id,
                "topics": len(header.topics),
                "partitions": sum(header.topics.values()),
                "files": header.file_count,
                "bytes": header.size_bytes,
                "file_bytes": packed_bytes,
                "was_clean": header.was_clean,
                "was_running": header.was_running,
            }
        )
        return
    output.say(
        f"{file}: {counted(len(header.topics), 'topic')}, "
        f"{counted(sum(header.topics.values()), 'partition')}, "
        f"{human_size(header.size_bytes)} in {human_size(packed_bytes)}" + _advice(header)
    )


def _advice(header: "Header") -> str:
    if header.was_running:
        return "; the broker runs on"
    return "" if header.was_clean else "; the broker had crashed, and recovers when it is served"


def in_use(data_dir: Path, error: OSError) -> OttlaError:
    """Why a data directory cannot be had now."""
    failure = InUseError(f"{data_dir}: {error.strerror}")
    failure.add_note(
        "it cannot be asked for a copy: stop it first, with Ctrl-C or `kill` and its number"
    )
    return failure
