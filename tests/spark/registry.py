"""A schema registry over HTTP, as Confluent's answers: for tests that read Avro."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NOT_FOUND = {"error_code": 40403, "message": "Schema not found"}


class SchemaRegistry:
    """What it has, and what it was asked."""

    def __init__(self, url: str, schemas: Mapping[int, Any]) -> None:
        self.url = url
        self.schemas = {f"/schemas/ids/{number}": schema for number, schema in schemas.items()}
        self.asked: list[str] = []
        self.is_broken = False

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and body."""
        self.asked.append(path)
        if self.is_broken:
            return 500, {"error_code": 50001, "message": "Error in the backend data store"}
        if path not in self.schemas:
            return 404, NOT_FOUND
        return 200, {"schema": json.dumps(self.schemas[path])}


@contextmanager
def schema_registry(schemas: Mapping[int, Any]) -> Iterator[SchemaRegistry]:
    """One that has these schemas, by their numbers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = SchemaRegistry(f"http://127.0.0.1:{server.server_port}", schemas)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
