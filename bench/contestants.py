"""`python -m bench.contestants NAME PORT TOPIC RECORD_BYTES`: one contestant, in a process.

It does a round for each line on its input, which says how many records, or round trips.  What the
round took is a line on its output.
"""

import gc
import json
import sys
from dataclasses import asdict

from bench.contest import Contestant
from bench.load_clients import LOAD_WRITERS
from bench.readers import READERS
from bench.round_trips import ROUND_TRIPS
from bench.writers import WRITERS

CONTESTANTS: dict[str, type[Contestant]] = {
    kind.__name__: kind for kind in (*WRITERS, *READERS, *ROUND_TRIPS, *LOAD_WRITERS)
}


def main() -> None:
    name, port, topic, record_bytes = sys.argv[1:]
    contestant = CONTESTANTS[name](int(port), topic, int(record_bytes))
    gc.collect()
    gc.freeze()  # as races do: see `bench.harness`
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(asdict(contestant.round(int(line)))), flush=True)
    contestant.close()


if __name__ == "__main__":
    main()
