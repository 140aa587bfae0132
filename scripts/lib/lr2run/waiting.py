"""Waiting for something to become true, never longer than said."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TimedOut(Exception):
    """The awaited event did not happen in time."""


def wait_until(condition: Callable[[], T], timeout_s: float, what: str, every_s: float = 0.1) -> T:
    """The first true value of `condition`, asked every `every_s` seconds; `TimedOut` names `what`."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimedOut(f"{what}: not within {timeout_s:g} s")
        time.sleep(every_s)
    return value


def free_tcp_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
