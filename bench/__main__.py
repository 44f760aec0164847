"""`python -m bench [TABLE ...] [--write]`: race, report, and say which targets were missed.

A missed target does not fail the command: figures are for reading.  A contestant that gives a
wrong answer does.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench import broker, clients, groups, kafka, spark, spark_sink, transactions
from bench.harness import Outcome
from bench.report import HEADINGS, RACES, circumstances, page, table

RESULTS = Path(__file__).with_name("RESULTS.md")
TWINS = ("compiled", "python")
WHOLE = {
    "broker": broker.tables,
    "transactions": transactions.tables,
    "groups": groups.tables,
    "clients": clients.tables,
    "spark": spark.tables,
    "spark-sink": spark_sink.tables,
    "kafka": kafka.tables,
}
"""Tables that are not races of twins."""


def outcomes_of(name: str) -> list[Outcome]:
    """Run one table, each twin in a process of its own."""
    outcomes = []
    for twin in TWINS:
        environment = {key: value for key, value in os.environ.items() if key != "OTTLA_PURE"}
        if twin == "python":
            environment["OTTLA_PURE"] = "1"
        command = [sys.executable, "-m", "bench.child", name, twin]
        child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        outcomes += [
            Outcome(**{**row, "ratios": tuple(row["ratios"])}) for row in json.loads(child.stdout)
        ]
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(HEADINGS)}")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - set(HEADINGS)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}: there are {', '.join(HEADINGS)}")
    if arguments.write and arguments.tables:
        parser.error(f"{RESULTS.name} has all tables: leave out the names")

    tables = {}
    for name in arguments.tables or HEADINGS:
        tables[name] = table(outcomes_of(name)) if name in RACES else WHOLE[name]()
        print(f"{HEADINGS[name]}\n", *tables[name], "", sep="\n")
    command = " ".join(["python -m bench", *sys.argv[1:]])
    print(*circumstances(command), sep="\n")
    if arguments.write:
        RESULTS.write_text(page(tables, command))
        print(f"\nwritten to {RESULTS}")


if __name__ == "__main__":
    main()
