"""How cost grows: with partitions, connections, groups, transactions, segments, and the log's size.

Each row is a broker of its own, with so many of one thing and next to nothing of the others; CPU
time is that of the broker.  The last row of a table says how its figures grow.
"""

from bench import scale_clients, scale_log, scale_partitions, scale_requests
from bench.growth import part

PARTS = {
    "requests": scale_requests.requests,
    "partitions": scale_partitions.partitions,
    "connections": scale_clients.connections,
    "groups": scale_clients.groups,
    "members of one group": scale_clients.members,
    "members of one new group": scale_clients.new_members,
    "open transactions": scale_clients.transactions,
    "segments": scale_log.segments,
    "log, MB": scale_log.recovery,
    "cold reads": scale_log.cold_reads,
    "compaction": scale_log.compaction,
}


def tables() -> list[str]:
    """Run everything; all tables, line by line."""
    lines = [
        "One broker of one process for each row.  What grows as n^1 costs the same for each thing; "
        "n^0 does not grow.  Bold is worse than linear.  CPU time is that of the broker.",
        "",
    ]
    for name, measure in PARTS.items():
        lines += part(name, measure)
    return lines[:-1]
