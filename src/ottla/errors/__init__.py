"""Every exception Ottla raises, in one tree; and which of them answers which error code.

    OttlaError
    ├── ConfigError             ValueError        settings that cannot work: mend them
    ├── ClosedError             RuntimeError      used after close(): open a new one
    ├── MisuseError             RuntimeError      called from where it cannot work
    ├── WireError               ValueError        bytes that are not the protocol
    ├── BatchError              ValueError        a record batch that cannot be accepted
    ├── SerializationError      ValueError        a key or value that a serde cannot handle
    ├── StorageError                              what is on disk is not what we wrote
    ├── TransportError          ConnectionError   the connection went away: try again
    │   └── ConnectError                          no connection could be made
    │       └── TrustError                        ... to a broker that can be trusted: stop
    ├── DeadlineError           TimeoutError      the caller's deadline passed first
    ├── DeliveryError                             a record was not delivered; see its cause
    └── BrokerError                               the broker understood, and said no
        ├── RetriableError                        ask again, after a pause
        │   └── RefreshError                      ask again, after finding out whom to ask
        │       └── UnknownTopicError             ... or the topic does not exist
        ├── AbortableError                        abort the transaction, then go on
        ├── RejoinError                           the group moved on: join it again
        │   └── CommitFailedError                 ... and took the partitions along
        ├── FencedError                           a newer one took our place: stop
        │   └── ProducerFencedError               ... with the same transactional id
        ├── DeniedError         PermissionError   the principal may not do this
        │   └── CredentialsError                  ... nor anything else: stop
        ├── RequestError        ValueError        it cannot work as asked: ask otherwise
        ├── UnsupportedError                      this broker cannot do it: do without
        ├── ConflictError                         it contradicts what is there now
        │   └── TopicExistsError                  ... a topic of that name
        └── NotFoundError       LookupError       what the request names does not exist
            ├── PositionError                     no record there: seek elsewhere
            └── UnknownTopicError                 see above

`DeliveryErrors` is a group (PEP 654) of `DeliveryError`: all that nobody looked at.

Classes say what the caller should *do*; `code` says what *happened*, and `code.advice` says it in
a sentence.  Add a class only when somebody would write an `except` for it.

Inside the core a code is a value (see `codes`).  It becomes an exception once, at the client's
edge, through `raise_for_code` and the one table below.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Self

from ottla.errors.codes import ErrorCode

__all__ = [
    "REACTIONS",
    "AbortableError",
    "BatchError",
    "BrokerError",
    "ClosedError",
    "CommitFailedError",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "CredentialsError",
    "DeadlineError",
    "DeliveryError",
    "DeliveryErrors",
    "DeniedError",
    "ErrorCode",
    "FencedError",
    "MisuseError",
    "NotFoundError",
    "OttlaError",
    "PositionError",
    "ProducerFencedError",
    "RefreshError",
    "RejoinError",
    "RequestError",
    "RetriableError",
    "SerializationError",
    "StorageError",
    "TopicExistsError",
    "TransportError",
    "TrustError",
    "UnknownTopicError",
    "UnsupportedError",
    "WireError",
    "exception_for",
    "raise_for_code",
]


class OttlaError(Exception):
    """Base class: `except OttlaError` catches everything we raise on purpose."""

    retriable: bool = False
    """The same call may succeed later; nothing needs to change but time."""
    fatal: bool = False
    """The client object cannot go on: close it, and start a new one if that makes sense."""
    abort_required: bool = False
    """If a transaction is open it cannot be committed: abort it, and the producer can go on."""


class ConfigError(OttlaError, ValueError):
    """A setting is unknown, out of range, or contradicts another."""


class ClosedError(OttlaError, RuntimeError):
    """The object was used after `close()`."""


class MisuseError(OttlaError, RuntimeError):
    """Called from where it cannot work: a second thread, a callback, a forked process."""


class WireError(OttlaError, ValueError):
    """The bytes are not a valid message of the protocol version in use."""


class BatchError(OttlaError, ValueError):
    """A record batch cannot be accepted; `code` is what the protocol answers to its sender."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type["BatchError"], tuple[ErrorCode, str]]:
        return type(self), (self.code, self.detail)


class SerializationError(OttlaError, ValueError):
    """A key or value could not be turned into bytes, or bytes into a key or value.

    `record` is what was read, with raw bytes, for those who put it aside; None on the way out.
    """

    def __init__(self, message: str, record: Any = None) -> None:
        super().__init__(message)
        self.record = record

    def __reduce__(self) -> tuple[type["SerializationError"], tuple[str, Any]]:
        return type(self), (str(self), self.record)


class StorageError(OttlaError):
    """What is on disk is not what Ottla wrote there."""


class TransportError(OttlaError, ConnectionError):
    """The connection failed or went away; whether the request was carried out is unknown."""

    retriable = True


class ConnectError(TransportError):
    """No connection could be made: nobody listens there, or nobody who speaks the protocol."""


class TrustError(ConnectError):
    """The broker's certificate, or ours, is not trusted: TLS settings need mending."""

    retriable = False
    fatal = True


class DeadlineError(OttlaError, TimeoutError):
    """The caller's deadline passed before the operation finished."""

    retriable = True


class DeliveryError(OttlaError):
    """A record was not delivered, or nobody knows whether it was.

    `cause` says why; what it says about retrying, stopping and aborting holds for this one too.
    """

    def __init__(self, topic: str, partition: int | None, cause: OttlaError) -> None:
        where = topic if partition is None else f"{topic}-{partition}"
        super().__init__(f"{where}: {cause}")
        self.topic = topic
        self.partition = partition
        self.cause = cause
        self.retriable: bool = cause.retriable
        self.fatal: bool = cause.fatal
        self.abort_required: bool = cause.abort_required
        self.__cause__: BaseException | None = cause

    @property
    def code(self) -> ErrorCode | None:
        """What the broker answered, if that is the cause."""
        return self.cause.code if isinstance(self.cause, BrokerError) else None

    def __reduce__(self) -> tuple[type["DeliveryError"], tuple[str, int | None, OttlaError]]:
        return type(self), (self.topic, self.partition, self.cause)


class DeliveryErrors(ExceptionGroup[DeliveryError]):
    """Failed deliveries that nobody looked at, told by `flush`, `close` or the end of a `with`."""

    def derive(self, excs: Sequence[DeliveryError]) -> Self:  # type: ignore[override]
        """A part of the group, for `except*`."""
        return type(self)(self.message, excs)


class BrokerError(OttlaError):
    """The broker processed the request and answered with an error code.

    `number` is the code as it came over the wire.  It differs from `code` only when the broker
    is newer than this client and speaks of an error that did not exist yet.
    """

    abort_required = True

    def __init__(self, code: int, detail: str = "") -> None:
        self.code: ErrorCode = ErrorCode.of(code)
        self.number: int = int(code)
        self.detail = detail
        super().__init__(f"{self._name()}: {detail or self.code.advice}")

    def _name(self) -> str:
        if self.number == self.code:
            return self.code.name
        return f"{self.code.name} (code {self.number}, of a newer protocol)"

    def __reduce__(self) -> tuple[type["BrokerError"], tuple[int, str]]:
        return type(self), (self.number, self.detail)


class RetriableError(BrokerError):
    """The same request may succeed after a pause."""

    retriable = True
    abort_required = False


class RefreshError(RetriableError):
    """The request went to the wrong broker: refresh metadata or the coordinator, ask again."""


class AbortableError(BrokerError):
    """The transaction is spoiled, the producer is not: abort, and begin another."""


class RejoinError(BrokerError):
    """The group goes on without this member: give up the partitions and join again."""


class CommitFailedError(RejoinError):
    """Offsets were not committed: the group has given the partitions to another member."""


class FencedError(BrokerError):
    """A newer producer, member or broker took this one's place; it must not go on.

    Code that keeps offsets in a store of its own raises it too, with a message in place of a code.
    """

    fatal = True
    abort_required = False

    def __init__(self, code: int | str, detail: str = "") -> None:
        if isinstance(code, int):
            super().__init__(code, detail)
        else:
            super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, code)
            self.args: tuple[object, ...] = (code,)


class ProducerFencedError(FencedError):
    """A newer producer has this transactional id, or the transaction took too long."""


class DeniedError(BrokerError, PermissionError):
    """The principal may not do this."""


class CredentialsError(DeniedError):
    """Nothing this client does will be let in: it needs other credentials or rights."""

    fatal = True
    abort_required = False


class RequestError(BrokerError, ValueError):
    """The request cannot work as asked, now or later: ask for something else."""


class UnsupportedError(BrokerError):
    """This broker cannot do it: do without, configure it, or upgrade it."""


class ConflictError(BrokerError):
    """The request contradicts what is there now: it exists, is in use, or changed meanwhile."""


class TopicExistsError(ConflictError):
    """There is a topic of this name already."""


class NotFoundError(BrokerError, LookupError):
    """What the request names does not exist."""


class PositionError(NotFoundError):
    """There is nothing at this position: seek elsewhere."""


class UnknownTopicError(RefreshError, NotFoundError):
    """The broker does not have the topic: metadata is behind, or there is no such topic."""


# Decided code by code from the exception that Kafka's own client raises.  We differ from it in
# NOT_CONTROLLER and REBOOTSTRAP_REQUIRED, where its callers do refresh what they know although
# the class does not say so, and in ELECTION_NOT_NEEDED, which Kafka calls retriable.
_CODES_BY_CLASS: Final[Mapping[type[BrokerError], tuple[ErrorCode, ...]]] = {
    BrokerError: (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.FEATURE_UPDATE_FAILED,
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ErrorCode.GROUP_DELETION_FAILED,
        ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
    ),
    RetriableError: (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ),
    RefreshError: (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.REBOOTSTRAP_REQUIRED,
    ),
    UnknownTopicError: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID),
    AbortableError: (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    RejoinError: (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    ),
    FencedError: (
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.STREAMS_TOPOLOGY_FENCED,
    ),
    # In the answer to a Produce, Kafka's client aborts first: a transaction that timed out
    # raises the epoch too (KIP-588).  That is for the transaction machine to tell apart.
    ProducerFencedError: (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED),
    DeniedError: (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ),
    CredentialsError: (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_EXPIRED,
        # Fatal to the producer that bears the id: not even its abort would be let in.
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    RequestError: (
        ErrorCode.INVALID_FETCH_SIZE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.DUPLICATE_RESOURCE,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        ErrorCode.TELEMETRY_TOO_LARGE,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH,
    ),
    UnsupportedError: (
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
    ),
    TopicExistsError: (ErrorCode.TOPIC_ALREADY_EXISTS,),
    ConflictError: (
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.INCONSISTENT_VOTER_SET,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.DUPLICATE_VOTER,
    ),
    NotFoundError: (
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.SNAPSHOT_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_CONTROLLER_ID,
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
        ErrorCode.VOTER_NOT_FOUND,
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
    ),
    PositionError: (
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.POSITION_OUT_OF_RANGE,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    ),
}

REACTIONS: Final[Mapping[ErrorCode, type[BrokerError]]] = MappingProxyType(
    {code: reaction for reaction, codes in _CODES_BY_CLASS.items() for code in codes}
)
"""Error code -> the exception to raise for it.  It has every code but `NONE`."""


def exception_for(code: int, detail: str = "") -> BrokerError:
    """The exception for `code`, not raised; `detail` says what the request was about.

    A number that this version does not know gives a `BrokerError` that shows it.
    """
    known = ErrorCode.of(code)
    if known is ErrorCode.NONE:
        raise ValueError("NONE is not an error")
    return REACTIONS[known](code, detail)


def raise_for_code(code: int, detail: str = "") -> None:
    """Raise the exception for `code`, or return if it is `NONE`."""
    if code != ErrorCode.NONE:
        raise exception_for(code, detail)
