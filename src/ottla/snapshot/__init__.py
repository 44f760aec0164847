"""Snapshots of a data directory in one file: what `ottla snapshot` and `ottla restore` run.

`archive` says what is in such a file, `taking` writes it and `restoring` reads it; `control` is
what is said to a broker that runs.

Both ends are all or nothing: the file appears under its name when it is whole and on disk, and a
data directory when everything in it was compared with its checksum.
"""
