"""`ottla restore`: a data directory from a snapshot."""

import sys
from pathlib import Path

import click

from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.progress import progress_bar
from ottla.quantities import counted, human_size, local_time


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("data_dir", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only check the snapshot; write nothing.")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, file: Path, data_dir: Path, dry_run: bool) -> None:
    """Make a data directory of a snapshot.

    Every file is compared with its checksum before DATA_DIR appears; if anything is wrong, there is
    none. DATA_DIR must not exist, or be empty.

    \b
    Examples:
      ottla restore monday.snapshot ottla-data
      ottla restore monday.snapshot ottla-data --dry-run
    """
    from ottla.snapshot.archive import SnapshotError
    from ottla.snapshot.restoring import check, check_free, read_header, restore

    try:
        check_free(data_dir)
        header = read_header(file)
        is_watched = sys.stderr.isatty() and not output.is_json
        with progress_bar(file.name, header.size_bytes, is_watched) as bar:
            if dry_run:
                check(file, bar.advance)
            else:
                restore(file, data_dir, bar.advance)
    except OSError as error:
        raise SnapshotError(f"{error.filename or data_dir}: {error.strerror}") from error
    if output.is_json:
        output.json_line(
            {
                "event": "checked" if dry_run else "restored",
                "data_dir": str(data_dir),
                "cluster_id": header.cluster_id,
                "created_ms": header.created_ms,
                "topics": len(header.topics),
                "partitions": sum(header.topics.values()),
                "files": header.file_count,
                "bytes": header.size_bytes,
                "was_clean": header.was_clean,
            }
        )
        return
    done = f"{file} is whole" if dry_run else f"{data_dir} is ready to be served"
    output.say(
        f"{done}: {counted(len(header.topics), 'topic')}, {human_size(header.size_bytes)}, "
        f"as of {local_time(header.created_ms)}"
    )
