"""Looks at brokers from here: whether they answer, what they are, and where they send clients.

Most connections that fail do so in the second step.  A client asks the address that it was given
who the brokers are, and connects to what it is *told*; an address that is right on the broker's own
machine may lead nowhere from this one.
"""

import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.cli.doctor.asking import Line
from ottla.cli.doctor.checks import Check, fail, ok, warn
from ottla.client.addresses import Address
from ottla.errors import TransportError
from ottla.quantities import about
from ottla.values import dataclass
from ottla.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from ottla.wire.messages.api_versions import ApiVersionsResponse

_METADATA: Final = 12
_NEEDED: Final = {
    0: "Produce",
    1: "Fetch",
    3: "Metadata",
    22: "InitProducerId",
    60: "DescribeCluster",
}
"""APIs without which our clients, or commands, cannot do their work."""

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class Brokers:
    """What was learned of a cluster, for whoever looks at it further."""

    answered: Address | None = None
    """The first address that did."""
    all_reachable: bool = False
    """Whether clients can reach all brokers."""


def brokers_reached(
    bootstrap: list[Address], timeout_s: float, learned: Brokers, *, is_expected: bool
) -> Iterator[Check]:
    """Every address that was given, then every address that the first of them tells clients.

    Where no broker `is_expected`, it is no failure that there is none.
    """
    for address in bootstrap:
        checks = list(_bootstrap(address, timeout_s, learned))
        if not is_expected and learned.answered is None:
            yield warn(
                f"broker {address}",
                "nobody answers",
                "`ottla serve` starts one; -b names one that is elsewhere",
            )
        else:
            yield from checks
    if learned.answered is not None:
        yield from _advertised(learned.answered, timeout_s, learned)


def _bootstrap(address: Address, timeout_s: float, learned: Brokers) -> Iterator[Check]:
    what = f"broker {address}"
    began_s = time.monotonic()
    try:
        with Line(address, timeout_s) as line:
            answer = line.api_versions()
    except (OSError, TransportError) as error:
        yield fail(what, *_trouble(address, error))
        return
    took = about(round((time.monotonic() - began_s) * 1000))
    learned.answered = learned.answered or address
    yield ok(what, f"answers, in {took}; {len(answer.api_keys)} APIs")
    yield from _abilities(what, answer)


def _abilities(what: str, answer: "ApiVersionsResponse") -> Iterator[Check]:
    known = {told.api_key for told in answer.api_keys}
    missing = [name for key, name in _NEEDED.items() if key not in known]
    if missing:
        yield warn(
            f"{what}, APIs",
            f"it lacks {', '.join(missing)}",
            "not everything works with it: Kafka has these since 2.8",
        )
    levels = {told.name: told.max_version_level for told in answer.finalized_features}
    if not levels:
        return
    shown = ", ".join(f"{name} {level}" for name, level in sorted(levels.items()))
    if levels.get("transaction.version", 0) < 2:
        yield warn(
            f"{what}, features",
            shown,
            "with transaction.version 2, transactions are safe from late requests (KIP-890); the "
            "exactly-once sink is best on it",
        )
        return
    yield ok(f"{what}, features", shown)


def _advertised(bootstrap: Address, timeout_s: float, learned: Brokers) -> Iterator[Check]:
    try:
        with Line(bootstrap, timeout_s) as line:
            line.api_versions()
            metadata = line.ask(MetadataRequest(topics=()), max_version=_METADATA)
    except (OSError, TransportError) as error:
        yield fail("advertised listeners", *_trouble(bootstrap, error))
        return
    checks = [
        _one_advertised(told.node_id, Address(told.host, told.port), bootstrap, timeout_s)
        for told in sorted(metadata.brokers, key=lambda told: told.node_id)
    ]
    learned.all_reachable = bool(checks) and all(check.state == "ok" for check in checks)
    if not checks:
        yield fail(
            "advertised listeners",
            f"{bootstrap} names no broker",
            "it is just starting, or lost its cluster: look at its log, and again in a moment",
        )
    yield from checks


def _one_advertised(node_id: int, told: Address, bootstrap: Address, timeout_s: float) -> Check:
    what = f"advertised listener of broker {node_id}"
    try:
        with Line(told, timeout_s) as line:
            line.api_versions()
    except (OSError, TransportError) as error:
        found, _ = _trouble(told, error)
        return fail(what, f"{told}, where clients are sent, {found}", _remedy(told, bootstrap))
    return ok(what, f"{told} is reachable from here")


def _remedy(told: Address, bootstrap: Address) -> str:
    setting = "`ottla serve --advertise HOST:PORT`, or advertised.listeners of Apache Kafka"
    if told.host in LOOPBACK and bootstrap.host not in LOOPBACK:
        return (
            f"the broker believes that its clients are on its own machine: {setting}, with an "
            f"address that leads there from here, such as {bootstrap}"
        )
    return (
        f"clients need an address that leads to it from here: {setting}. In a container, that is "
        "the port that the host forwards"
    )


def _trouble(address: Address, error: OSError | TransportError) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    if isinstance(error, socket.gaierror):
        return "has a name that nobody knows here", f"see whether {address.host!r} is spelled right"
    if isinstance(error, ConnectionRefusedError):
        return (
            "refuses connections",
            "no broker listens there: start it, or see whether the port is right",
        )
    if isinstance(error, TimeoutError):
        return (
            "does not answer in time",
            "a firewall may drop what is sent there, or the machine is off; --timeout waits longer",
        )
    if isinstance(error, TransportError):
        return f"is no broker ({error})", "see whether the port is right: it may be HTTP, or TLS"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return (
            "hangs up when asked for its versions",
            "it may want TLS or SASL, or be no broker at all",
        )
    return f"cannot be reached: {error.strerror or error}", "see whether the network leads there"
