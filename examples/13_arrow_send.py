"""Arrow out: the key from one column, the value from several as JSON; one future for all rows."""

# pyright: basic
# because pyarrow comes without types.

import pyarrow as pa

import ottla

table = pa.table({"user": ["a", "b"], "clicks": [3, 7]})
with ottla.Producer() as producer:
    sent = producer.send_arrow(
        "clicks", table, key="user", value=["user", "clicks"], value_format="json"
    )
    print(sent.result(60))  # {0: range(100, 101), 4: range(17, 18)}
