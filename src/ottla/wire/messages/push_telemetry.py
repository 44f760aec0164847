"""PushTelemetry (key 72): a client's own metrics, for the cluster's operators.

v0  the only version                                      (KIP-714)

`metrics` is an OpenTelemetry MetricsData message in protobuf, compressed if `compression_type`
says so.
"""

from ottla.wire.schema import Bool, Bytes, Int8, Int16, Int32, Uuid, message


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool  # the last push of this client
    compression_type: Int8  # numbered as those of record batches
    metrics: Bytes


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
