"""The admin client, for programs that block (`Admin`) and for those with a loop (`AsyncAdmin`).

Both have the same methods, and neither says what they do: that is written once, in the modules of
this package, as functions that take a `Caller` in place of `self`, and are imported when they are
first needed.  Each call has one deadline, `default.api.timeout.ms`.  Both clients may be used by
several threads or tasks at once.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

from ottla.client.admin.calling import Caller
from ottla.client.admin.config import AdminConfig
from ottla.client.admin.subjects import Deferred, Named, Subject
from ottla.client.durations import milliseconds
from ottla.client.engine import Engine
from ottla.client.faces import Driver, next_client_id
from ottla.client.options import ClientOptions, Servers
from ottla.client.ports import real_ports

if TYPE_CHECKING:
    from ottla.client.admin import (
        acls,
        cluster,
        configs,
        group_offsets,
        groups,
        lag,
        positions,
        quotas,
        replicas,
        resets,
        scram,
        topics,
        transactions,
    )
else:
    acls = Subject("acls")
    cluster = Subject("cluster")
    configs = Subject("configs")
    group_offsets = Subject("group_offsets")
    groups = Subject("groups")
    lag = Subject("lag")
    positions = Subject("positions")
    quotas = Subject("quotas")
    replicas = Subject("replicas")
    resets = Subject("resets")
    scram = Subject("scram")
    topics = Subject("topics")
    transactions = Subject("transactions")

P = ParamSpec("P")
T = TypeVar("T")


class AdminOptions(ClientOptions, total=False):
    """Settings of admin clients."""

    retries: int


class Desk:
    """What both clients hold: an engine, its driver, and how a call begins."""

    def __init__(self, config: AdminConfig) -> None:
        self._config = config
        self.engine = Engine(config, real_ports(), client_id=next_client_id("admin"))
        self.driver = Driver(self.engine)

    async def connect(self, timeout_s: float | None = None, *, once: bool = False) -> None:
        """Wait until a broker answers, where the engine is."""
        await self.engine.connect(milliseconds(timeout_s), once=once)

    async def do(
        self,
        work: Callable[Concatenate[Caller, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run one call of a user, where the engine is."""
        caller = Caller(self.engine, max_retries=self._config.retries)
        await self.engine.connect(caller.left_ms)
        return await work(caller, *args, **kwargs)


def _blocking(
    work: Callable[Concatenate[Caller, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Admin", P], T]:
    """A method that waits for `work`."""
    if isinstance(named := cast(Any, work), Named):
        return cast(Callable[Concatenate["Admin", P], T], Deferred(named, _blocking))

    def method(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._desk.driver.call_blocking(lambda: self._desk.do(work, *args, **kwargs))

    return _shown(update_wrapper(method, work), "Admin")


def _awaited(
    work: Callable[Concatenate[Caller, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["AsyncAdmin", P], Coroutine[Any, Any, T]]:
    """A method that awaits `work`."""
    if isinstance(named := cast(Any, work), Named):
        return cast(
            Callable[Concatenate["AsyncAdmin", P], Coroutine[Any, Any, T]],
            Deferred(named, _awaited),
        )

    async def method(self: "AsyncAdmin", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._desk.driver.run_async(self._desk.do(work, *args, **kwargs))

    return _shown(update_wrapper(method, work), "AsyncAdmin")


F = TypeVar("F", bound=Callable[..., Any])


def _shown(method: F, owner: str) -> F:
    """Let `help` show what users call: `self` first, not the caller."""
    told = inspect.signature(method)
    _, *others = told.parameters.values()
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = told.replace(parameters=[itself, *others])  # type: ignore[attr-defined]
    method.__qualname__ = f"{owner}.{method.__name__}"
    return method


class Admin:
    """Looks after a cluster: plain calls, plain results, real exceptions.

    with ottla.Admin("localhost:9092") as admin:
        admin.create_topic("orders", partitions=6, exists_ok=True)
        print(admin.lag("billing").total)

    Every method raises `DeadlineError` if the brokers do not answer in time, and `DeniedError` if
    we may not do what it does.  Threads may share one client.
    """

    def __init__(
        self, bootstrap_servers: Servers | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        """Prepare a client; it connects with `with`, or with the first call.

        Args:
            bootstrap_servers: The brokers to ask first; None: OTTLA_BOOTSTRAP, or localhost:9092.
            options: Settings; see `docs/reference/settings.md`.

        Raises:
            ConfigError: A setting is unknown or out of range.
        """
        self._desk = Desk(AdminConfig.of(bootstrap_servers, **options))

    create_topic = _blocking(topics.create_topic)
    delete_topic = _blocking(topics.delete_topic)
    list_topics = _blocking(topics.list_topics)
    list_partitions = _blocking(topics.list_partitions)
    describe_topic = _blocking(topics.describe_topic)
    describe_topics = _blocking(topics.describe_topics)
    add_partitions = _blocking(topics.add_partitions)

    describe_config = _blocking(configs.describe_config)
    alter_config = _blocking(configs.alter_config)
    list_config_resources = _blocking(configs.list_config_resources)

    list_offsets = _blocking(positions.list_offsets)
    delete_records = _blocking(positions.delete_records)

    list_groups = _blocking(groups.list_groups)
    group_overview = _blocking(groups.group_overview)
    describe_group = _blocking(groups.describe_group)
    describe_groups = _blocking(groups.describe_groups)
    delete_group = _blocking(groups.delete_group)
    remove_members = _blocking(groups.remove_members)
    lag = _blocking(lag.lag)
    list_group_offsets = _blocking(group_offsets.list_group_offsets)
    alter_group_offsets = _blocking(group_offsets.alter_group_offsets)
    delete_group_offsets = _blocking(group_offsets.delete_group_offsets)
    reset_offsets = _blocking(resets.reset_offsets)

    list_transactions = _blocking(transactions.list_transactions)
    describe_transaction = _blocking(transactions.describe_transaction)
    describe_producers = _blocking(transactions.describe_producers)
    hanging_transactions = _blocking(transactions.hanging_transactions)
    abort_transaction = _blocking(transactions.abort_transaction)
    abort_hanging = _blocking(transactions.abort_hanging)
    fence_producers = _blocking(transactions.fence_producers)

    describe_cluster = _blocking(cluster.describe_cluster)
    describe_features = _blocking(cluster.describe_features)
    update_features = _blocking(cluster.update_features)
    describe_log_dirs = _blocking(cluster.describe_log_dirs)
    elect_leaders = _blocking(replicas.elect_leaders)
    list_reassignments = _blocking(replicas.list_reassignments)
    reassign_partitions = _blocking(replicas.reassign_partitions)
    move_replicas = _blocking(replicas.move_replicas)

    create_acls = _blocking(acls.create_acls)
    describe_acls = _blocking(acls.describe_acls)
    delete_acls = _blocking(acls.delete_acls)
    describe_scram_users = _blocking(scram.describe_scram_users)
    set_scram_password = _blocking(scram.set_scram_password)
    delete_scram_password = _blocking(scram.delete_scram_password)
    describe_quotas = _blocking(quotas.describe_quotas)
    alter_quotas = _blocking(quotas.alter_quotas)

    def metrics(self) -> Mapping[str, float]:
        """What was counted so far: requests, connections, bytes."""
        return self._desk.engine.metrics.snapshot()

    def connect(self, timeout: float | None = None, *, once: bool = False) -> None:
        """Reach a broker now; without, `with` or the first call does.

        Args:
            timeout: For how many seconds to try; by default `default_api_timeout_ms`.
            once: Try each address once, and not again and again.

        Raises:
            ConnectError: No broker can be reached; it says why.
            DeadlineError: Somebody is there, but does not answer in time.
        """
        self._desk.driver.run_blocking(self._desk.connect(timeout, once=once))

    def close(self) -> None:
        """Close the connections; twice is no error."""
        self._desk.driver.close_blocking()

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncAdmin:
    """As `Admin`, for asyncio: the same methods, awaited; `aclose` in place of `close`."""

    def __init__(
        self, bootstrap_servers: Servers | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        """Prepare a client, as `Admin` does."""
        self._desk = Desk(AdminConfig.of(bootstrap_servers, **options))

    create_topic = _awaited(topics.create_topic)
    delete_topic = _awaited(topics.delete_topic)
    list_topics = _awaited(topics.list_topics)
    list_partitions = _awaited(topics.list_partitions)
    describe_topic = _awaited(topics.describe_topic)
    describe_topics = _awaited(topics.describe_topics)
    add_partitions = _awaited(topics.add_partitions)

    describe_config = _awaited(configs.describe_config)
    alter_config = _awaited(configs.alter_config)
    list_config_resources = _awaited(configs.list_config_resources)

    list_offsets = _awaited(positions.list_offsets)
    delete_records = _awaited(positions.delete_records)

    list_groups = _awaited(groups.list_groups)
    group_overview = _awaited(groups.group_overview)
    describe_group = _awaited(groups.describe_group)
    describe_groups = _awaited(groups.describe_groups)
    delete_group = _awaited(groups.delete_group)
    remove_members = _awaited(groups.remove_members)
    lag = _awaited(lag.lag)
    list_group_offsets = _awaited(group_offsets.list_group_offsets)
    alter_group_offsets = _awaited(group_offsets.alter_group_offsets)
    delete_group_offsets = _awaited(group_offsets.delete_group_offsets)
    reset_offsets = _awaited(resets.reset_offsets)

    list_transactions = _awaited(transactions.list_transactions)
    describe_transaction = _awaited(transactions.describe_transaction)
    describe_producers = _awaited(transactions.describe_producers)
    hanging_transactions = _awaited(transactions.hanging_transactions)
    abort_transaction = _awaited(transactions.abort_transaction)
    abort_hanging = _awaited(transactions.abort_hanging)
    fence_producers = _awaited(transactions.fence_producers)

    describe_cluster = _awaited(cluster.describe_cluster)
    describe_features = _awaited(cluster.describe_features)
    update_features = _awaited(cluster.update_features)
    describe_log_dirs = _awaited(cluster.describe_log_dirs)
    elect_leaders = _awaited(replicas.elect_leaders)
    list_reassignments = _awaited(replicas.list_reassignments)
    reassign_partitions = _awaited(replicas.reassign_partitions)
    move_replicas = _awaited(replicas.move_replicas)

    create_acls = _awaited(acls.create_acls)
    describe_acls = _awaited(acls.describe_acls)
    delete_acls = _awaited(acls.delete_acls)
    describe_scram_users = _awaited(scram.describe_scram_users)
    set_scram_password = _awaited(scram.set_scram_password)
    delete_scram_password = _awaited(scram.delete_scram_password)
    describe_quotas = _awaited(quotas.describe_quotas)
    alter_quotas = _awaited(quotas.alter_quotas)

    def metrics(self) -> Mapping[str, float]:
        """What was counted so far: requests, connections, bytes."""
        return self._desk.engine.metrics.snapshot()

    async def connect(
        self,
        timeout: float | None = None,  # noqa: ASYNC109, as `Admin`
        *,
        once: bool = False,
    ) -> None:
        """Reach a broker now; see `Admin.connect`."""
        await self._desk.driver.run_async(self._desk.connect(timeout, once=once))

    async def aclose(self) -> None:
        """Close the connections; twice is no error."""
        await self._desk.driver.close_async()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
