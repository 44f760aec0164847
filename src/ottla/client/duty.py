"""Work that is done whenever there may be something to do, in turns of the event loop.

A task that waits for an event would need two turns of the loop, a future and a timer each time.
Here a turn is one call, and the next alarm stays where it is as long as it is early enough: an
alarm that rings in vain costs less than one that is moved each time.
"""

import asyncio
from collections.abc import Callable
from typing import Final

_LEAST_DELAY_S: Final = 0.0005
"""So that what is due after a rounding error of time does not keep the loop busy."""


class Duty:
    """Lives in one loop, and so do its methods; `turn` may be handed to `call_soon_threadsafe`."""

    def __init__(self, work: Callable[[], float | None]) -> None:
        """`work` returns when it wants to be called again at the latest, in the loop's time."""
        self._work = work
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._is_called = False

    async def run(self) -> None:
        """Take turns for ever, the first one at once; raises what `work` raises."""
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self.turn()
        try:
            await self._over
        finally:
            self._over = None
            self._stop_alarm()

    def rings_by(self, due_s: float) -> bool:
        """Whether an alarm is set that rings by then.  Safe from any thread.

        It stays set until its turn begins, or until an earlier one takes its place: so whoever puts
        work there before he asks need not call, if that work is not due before `due_s`.
        """
        alarm = self._alarm
        return alarm is not None and alarm.when() <= due_s

    def call(self) -> None:
        """Have a turn soon; calls before it are one."""
        if not self._is_called and self._loop is not None:
            self._is_called = True
            self._loop.call_soon(self._come)

    def turn(self) -> None:
        """Work now.  Does nothing before `run`, or after its end."""
        self._is_called = False
        if self._over is None or self._over.done():
            return
        try:
            due_s = self._work()
        except Exception as error:  # told by `run`: a turn has nobody to raise it to
            self._over.set_exception(error)
        else:
            self._plan(due_s)

    def _come(self) -> None:
        if self._is_called:  # and nobody took a turn meanwhile
            self.turn()

    def _plan(self, due_s: float | None) -> None:
        if due_s is None or (self._alarm is not None and self._alarm.when() <= due_s):
            return
        assert self._loop is not None
        due_s = max(due_s, self._loop.time() + _LEAST_DELAY_S)
        if self._alarm is None or self._alarm.when() > due_s:
            self._stop_alarm()
            self._alarm = self._loop.call_at(due_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.turn()

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
