"""Names that a shell completes: topics, groups and transactional ids of a broker, pipelines.

A shell asks while somebody types, so the broker has a second; where it does not answer there are no
names, and no words either.  `ottla completion` is what makes a shell ask.
"""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.connection import DEFAULT_BOOTSTRAP, Connection
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

Names = Callable[[click.Context, click.Parameter, str], list[str]]

PATIENCE_S: Final = 1.0


def _from_broker(ask: "Callable[[Admin], Iterable[str]]") -> Names:
    def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
        try:
            with Connection(bootstrap, PATIENCE_S, is_quiet=True).admin() as admin:
                return _beginning(incomplete, ask(admin), ctx.params.get(param.name or ""))
        except OttlaError:
            return []  # whoever runs the command will be told

    return names


def _beginning(incomplete: str, names: Iterable[str], given: object) -> list[str]:
    """Those that begin so, without those that are on the line already."""
    taken = given if isinstance(given, tuple) else ()
    return sorted(name for name in names if name.startswith(incomplete) and name not in taken)


topics: Final = _from_broker(lambda admin: admin.list_topics())
groups: Final = _from_broker(lambda admin: (g.group_id for g in admin.group_overview()))
transactional_ids: Final = _from_broker(
    lambda admin: (t.transactional_id for t in admin.list_transactions())
)


def pipelines(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The pipelines that ran on this machine."""
    from ottla.pipeline.state import all_folders, state_dir

    seen = (folder.seen() for folder in all_folders(state_dir(os.environ)))
    return _beginning(incomplete, (state.name for state, _ in seen), None)
