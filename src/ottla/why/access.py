"""How a cluster is asked, by whoever looks at it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.consumer.consumer import Consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Clients that block; whoever opened them closes them."""

    admin: "Admin"
    committed_reader: "Callable[[], Consumer[Any, Any]]"
    """Makes a consumer of committed records; use it with `with`."""
    timeout_s: float
