"""Two guests that run something with each other."""

import concurrent.futures
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from .guest import Guest, Result
from .link import Link

_PID = "/tmp/server.pid"
_LIMIT_S = 60
"""For a client, before it is stopped."""


class Failed(Exception):
    """A test did not hold; the text is for people."""


@dataclass(frozen=True)
class Pair:
    """How a server in guest 2 and its client in guest 1 ended."""

    server: Result
    client: Result
    seconds: float
    """From the client's start to its end, its connection over TCP included."""

    def shown(self) -> str:
        """How both ended, for people."""
        return (
            f"client: exit code {self.client.code} after {self.seconds:.0f} s\n{_end_of(self.client)}\n"
            f"server: exit code {self.server.code}\n{_end_of(self.server)}"
        )


class Bench:
    """Guest 1 is the client and sends; guest 2 is the server; the link is between them."""

    def __init__(self, client: Guest, server: Guest, link: Link) -> None:
        self.client = client
        self.server = server
        self.link = link
        self.seconds = 0.0
        """For how long RDMA was at work, in all tests that say so."""
        self._gids: dict[str, int] = {}

    def took(self, seconds: float) -> float:
        """RDMA was at work for so long: counts it, and returns it."""
        self.seconds += seconds
        return seconds

    @property
    def guests(self) -> tuple[Guest, Guest]:
        return self.client, self.server

    def gid(self, guest: Guest) -> int:
        """Index of the RoCEv2 GID of the guest's IPv4 address; it stays the same as long as the device is there."""
        if guest.name not in self._gids:
            self._gids[guest.name] = self._find_gid(guest)
        return self._gids[guest.name]

    def forget_gids(self) -> None:
        """The guests have new devices."""
        self._gids.clear()

    def _find_gid(self, guest: Guest) -> int:
        ip = "".join(f"{int(byte):02x}" for byte in guest.ip.split("."))
        wanted = f"0000:0000:0000:0000:0000:ffff:{ip[:4]}:{ip[4:]}"
        result = guest.run(f"cd /sys/class/infiniband/rxe0/ports/1/gids && grep -l {wanted} *", 20)
        if not result.ok:
            raise Failed(f"{guest.name}: rxe0 has no GID for {guest.ip}: {result.output}")
        return int(result.output.split()[0])

    def ask(self, guest: Guest, script: str, timeout_s: float = 30) -> str:
        """The output of a command that must succeed."""
        result = guest.run(script, timeout_s)
        if not result.ok:
            raise Failed(f"{guest.name}: exit code {result.code}\n{_end_of(result)}")
        return result.output

    def pair(
        self,
        server: str,
        client: str,
        listens: str,
        serves_on: bool = False,
        meanwhile: Callable[[], None] | None = None,
        excused: str | None = None,
        may_fail: bool = False,
    ) -> Pair:
        """Run `server` in guest 2 and, once `listens` succeeds there, `client` in guest 1.

        `Failed` unless both end well, or they `may_fail`.
        `meanwhile` is called while the client runs. A client whose whole output matches the
        regular expression `excused` has ended well, with any exit code. A server that
        `serves_on` is stopped when the client is done; any other has to end by itself.
        """
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            script = f"sh -c 'echo $$ >{_PID}; exec {server}'"
            serving = pool.submit(self.server.run, script, _LIMIT_S + 15)
            try:
                self._wait_listening(serving, listens)
                start = time.monotonic()
                asking = pool.submit(self.client.run, client, _LIMIT_S)
                if meanwhile:
                    meanwhile()
                result = asking.result(_LIMIT_S + 40)
                seconds = time.monotonic() - start
                if excused and re.fullmatch(excused, result.output.strip()):
                    result = Result(0, result.output)
                if serves_on or not result.ok:
                    self._stop_server()
                served = serving.result(_LIMIT_S + 40)
            except BaseException:
                self._stop_server()
                raise
        pair = Pair(served, result, seconds)
        if not may_fail and not (result.ok and (served.ok or serves_on)):
            raise Failed(pair.shown())
        return pair

    def _wait_listening(self, serving: "concurrent.futures.Future[Result]", listens: str) -> None:
        for _ in range(40):
            if serving.done():
                result = serving.result()
                raise Failed(f"server: ended at once, exit code {result.code}\n{_end_of(result)}")
            if self.server.run(listens, 10).ok:
                return
            time.sleep(0.3)
        raise Failed("server: does not listen")

    def _stop_server(self) -> None:
        self.server.run(f"kill $(cat {_PID})", 10)


def _end_of(result: Result, lines: int = 12) -> str:
    return "\n".join(f"    {line}" for line in result.output.strip().splitlines()[-lines:])
