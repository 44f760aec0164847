"""GetTelemetrySubscriptions (key 71): which metrics the cluster wants from this client.

v0  the only version                                      (KIP-714)

Clients that see it advertised begin to push metrics on their own: advertise it only if wanted.
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, String, Uuid, message


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid  # zero: give me one


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: tuple[Int8, ...]  # numbered as those of record batches
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: tuple[String, ...]  # prefixes; empty: none, "": all
