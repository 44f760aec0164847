"""What tests do with pages: wait for a sample, fill in a form."""

import re
import time
from typing import Any

from starlette.testclient import TestClient

WAIT_S = 200
"""After a slow sample the console rests ten times as long, and then takes the next."""


def token(client: TestClient) -> str:
    """The token that the console's own forms carry."""
    found = re.search(r'name="token" value="([^"]+)"', client.get("/topics").text)
    assert found is not None
    return found[1]


def post(client: TestClient, path: str, **fields: str) -> Any:
    """Send a form as a browser would, and follow where it leads."""
    return client.post(path, data={"token": token(client), **fields})


def wait_for(client: TestClient, path: str, text: str) -> str:
    """The page, once it has this text: samples are taken in the background."""
    deadline_s = time.monotonic() + WAIT_S
    while text not in (shown := client.get(path).text):
        assert time.monotonic() < deadline_s, f"{path} never showed {text!r}: {shown}"
        time.sleep(0.05)
    return shown
