"""Kafka's broker settings that Ottla does not have: which are harmless, and which are not.

Harmless ones are accepted and ignored, with a reason for the log, so that a `server.properties`
written for Kafka starts an Ottla broker.  A setting that would protect something must not be
ignored in silence: it is refused.
"""

from collections.abc import Mapping
from typing import Final

_ONE_NODE: Final = "there is one node, which is its own controller"
_NO_REPLICATION: Final = "there is one node, so nothing is replicated"
_ONE_LOOP: Final = "one event loop does this work, without a pool of threads"
_PLAIN_ONLY: Final = "every listener is PLAINTEXT"
_NO_TIERS: Final = "there is no tiered storage"
_NO_SUCH_GROUPS: Final = "share groups and streams groups are not served"
_OWN_METRICS: Final = "Kafka's metrics reporters are Java classes"
_OS_DECIDES: Final = "the operating system sizes its buffers"
_OLD: Final = "it is about versions of Kafka that are no longer spoken"
_VENDOR: Final = "it belongs to another vendor's broker"

# Name, or a whole family of names -> why it has no effect.
HARMLESS: Final[Mapping[str, str]] = {
    "advertised.host.name": _OLD,
    "auto.include.jmx.reporter": _OWN_METRICS,
    "auto.leader.rebalance.enable": _NO_REPLICATION,
    "background.threads": _ONE_LOOP,
    "broker.heartbeat.interval.ms": _ONE_NODE,
    "broker.id.generation.enable": _OLD,
    "broker.session.timeout.ms": _ONE_NODE,
    "confluent.*": _VENDOR,
    "controlled.shutdown.*": _NO_REPLICATION,
    "controller.*": _ONE_NODE,
    "early.start.listeners": _ONE_NODE,
    "eligible.leader.replicas.enable": _NO_REPLICATION,
    "errors.deadletterqueue.*": _NO_SUCH_GROUPS,
    "fetch.purgatory.purge.interval.requests": _ONE_LOOP,
    "follower.*": _NO_REPLICATION,
    "group.coordinator.append.linger.ms": _ONE_LOOP,
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.cached.buffer.max.bytes": _ONE_LOOP,
    "group.coordinator.threads": _ONE_LOOP,
    "group.share.*": _NO_SUCH_GROUPS,
    "group.streams.*": _NO_SUCH_GROUPS,
    "initial.broker.registration.timeout.ms": _ONE_NODE,
    "inter.broker.listener.name": _ONE_NODE,
    "inter.broker.protocol.version": _OLD,
    "kafka.metrics.*": _OWN_METRICS,
    "leader.imbalance.*": _NO_REPLICATION,
    "listener.security.protocol.map": _PLAIN_ONLY,
    "log.cleaner.threads": _ONE_LOOP,
    "log.dir.failure.timeout.ms": _ONE_NODE,
    "log.initial.task.delay.ms": _ONE_LOOP,
    "log.message.downconversion.enable": _OLD,
    "log.message.format.version": _OLD,
    "metadata.*": _ONE_NODE,
    "metric.reporters": _OWN_METRICS,
    "metrics.*": _OWN_METRICS,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.recovery.threads.per.data.dir": _ONE_LOOP,
    "num.replica.alter.log.dirs.threads": _ONE_LOOP,
    "num.replica.fetchers": _NO_REPLICATION,
    "process.roles": _ONE_NODE,
    "producer.purgatory.purge.interval.requests": _ONE_LOOP,
    "delete.records.purgatory.purge.interval.requests": _ONE_LOOP,
    "queued.max.requests": "each connection has its own limit, ottla.max.in.flight.requests",
    "remote.*": _NO_TIERS,
    "replica.*": _NO_REPLICATION,
    "reserved.broker.max.id": _OLD,
    "security.inter.broker.protocol": _ONE_NODE,
    "share.*": _NO_SUCH_GROUPS,
    "socket.receive.buffer.bytes": _OS_DECIDES,
    "socket.send.buffer.bytes": _OS_DECIDES,
    "telemetry.max.bytes": _OWN_METRICS,
    "unclean.leader.election.interval.ms": _NO_REPLICATION,
    "zookeeper.*": "there is no ZooKeeper",
}

# Name, or a whole family of names -> why it cannot be had.
PROTECTIVE: Final[Mapping[str, str]] = {
    "alter.config.policy.class.name": "policies are Java classes",
    "authorizer.class.name": "there are no access rules yet, so everybody may do everything",
    "client.quota.callback.class": "there are no quotas yet",
    "config.providers": "secrets are not looked up; give the value itself",
    "connections.max.reauth.ms": "there is no SASL yet",
    "create.topic.policy.class.name": "policies are Java classes",
    "delegation.token.*": "there is no SASL yet",
    "max.connection.creation.rate": "there are no quotas yet",
    "max.connections.per.ip.overrides": "one limit, max.connections.per.ip, holds for everybody",
    "password.encoder.*": "there are no encrypted settings",
    "principal.builder.class": "there is no SASL yet",
    "quota.*": "there are no quotas yet",
    "sasl.*": "there is no SASL yet",
    "security.providers": "there is no TLS yet",
    "ssl.*": "there is no TLS yet",
    "super.users": "there are no access rules yet, so everybody may do everything",
}


def reason_to_ignore(name: str) -> str | None:
    """Why one of Kafka's settings has no effect here; None if it is not known to be harmless."""
    return _reason(name, HARMLESS)


def reason_to_refuse(name: str) -> str | None:
    """Why one of Kafka's settings must not be ignored; None if it is none of those."""
    return _reason(name, PROTECTIVE)


def _reason(name: str, reasons: Mapping[str, str]) -> str | None:
    if name in reasons:
        return reasons[name]
    parts = name.split(".")
    families = (".".join(parts[:count]) + ".*" for count in range(len(parts) - 1, 0, -1))
    return next((reasons[family] for family in families if family in reasons), None)
