"""Any end of a script is an orderly one: signals and the time limit become exceptions."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Ended(BaseException):
    """The script was asked to end. Not an `Exception`, so that no test takes it for its own failure."""

    def __init__(self, why: str, number: int) -> None:
        super().__init__(why)
        self.number = number
        """The signal; SIGALRM for the time limit."""

    @property
    def exit_code(self) -> int:
        """As a shell has it: 128 and the signal."""
        return 128 + self.number


@contextlib.contextmanager
def tidy_end(limit_s: float) -> Iterator[None]:
    """Raise `Ended` in the main thread on SIGINT, SIGTERM, SIGHUP and after `limit_s` seconds.

    The first of them counts; later ones are ignored, so that cleaning up isn't
    cut short by an impatient second Ctrl-C. Once the block is left all is as before.
    """
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)

    def end(number: int, _frame: FrameType | None) -> None:
        for each in watched:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGALRM:
            raise Ended(f"not done after {limit_s:.0f} s, the limit for the whole run", number)
        raise Ended(f"ended by {signal.Signals(number).name}", number)

    before = {each: signal.signal(each, end) for each in watched}
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, handler in before.items():
            signal.signal(each, handler)
