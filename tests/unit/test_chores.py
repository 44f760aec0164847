"""What a broker does every so often."""

import asyncio
import errno

import pytest

from ottla.broker.chores import Chore


def test_a_chore_never_runs_twice_at_a_time() -> None:
    running = most = 0

    async def act() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async def run() -> None:
        chore = Chore(1_000, act)
        await asyncio.gather(chore.run(), chore.run(), chore.run())

    asyncio.run(run())
    assert most == 1


def test_what_may_pass_puts_a_chore_off_and_any_other_error_ends_it() -> None:
    errors = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO]

    def act() -> None:
        number = errors.pop(0)
        raise OSError(number, "as told")

    with pytest.raises(OSError, match="as told") as failure:
        asyncio.run(Chore(0, act).repeat())
    assert failure.value.errno == errno.EIO
    assert errors == []


def test_who_asks_for_a_chore_hears_of_a_full_disk() -> None:
    def act() -> None:
        raise OSError(errno.ENOSPC, "as told")

    with pytest.raises(OSError, match="as told"):
        asyncio.run(Chore(0, act).run())
