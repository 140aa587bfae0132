"""What stands between the two guests: gateways with a long link, or, to look for a fault, something simpler.

Each kind has `netdev(number)`, QEMU's side of guest 1's or 2's data port; `modes`,
the ways in which it can run; and `running(mode)`, a context during which it carries frames.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from lr2run import Gateway, Metrics, Process, Processes

from . import premise

_STOP_S = 15
# An emulated host may take a tenth of a second to go back to a packet; the
# gateways' own patience, six round trips, is made for hosts that take microseconds.
_RECOVERY = {"rtt_guess": "20ms", "give_up": "500ms"}


@dataclass(frozen=True)
class Settings:
    """The long link, each way."""

    rate: str = "1Gbps"
    delay: str = "10ms"
    loss: float = 0.01
    seed: int = 1


class Link(Protocol):
    """What stands between the guests."""

    @property
    def modes(self) -> Sequence[str]: ...

    def netdev(self, number: int) -> str: ...

    def running(self, mode: str) -> contextlib.AbstractContextManager[None]: ...

    def metrics(self) -> dict[str, Metrics]:
        """Of each gateway, by name; empty where there are none."""
        ...

    def report(self) -> dict[str, Any]:
        """What the long link counted in the last run; empty where it counts nothing."""
        ...


class _Vhost:
    """Guests attached by vhost-user.

    QEMU is the server and DPDK the client of the socket: so a restarted DPDK
    process connects again, and the guest goes on.
    """

    def __init__(self, run: Path) -> None:
        self.run = run

    def socket(self, number: int) -> Path:
        return self.run / f"guest{number}.sock"

    def device(self, number: int, port: int) -> str:
        return f"net_vhost{port},iface={self.socket(number)},client=1"

    def netdev(self, number: int) -> str:
        return (
            f"-chardev socket,id=vhost,path={self.socket(number)},server=on,wait=off "
            "-netdev vhost-user,id=data,chardev=vhost,queues=1"
        )

    def metrics(self) -> dict[str, Metrics]:
        return {}

    def report(self) -> dict[str, Any]:
        return {}


class Gateways(_Vhost):
    """guest 1 - gateway a - lr2-wan - gateway b - guest 2"""

    def __init__(self, run: Path, programs: Path, modes: Sequence[str], settings: Settings) -> None:
        super().__init__(run)
        self.modes = modes
        self._programs = programs
        self._settings = settings
        self._gateways: list[Gateway] = []
        self._report: dict[str, Any] = {}

    @contextlib.contextmanager
    def running(self, mode: str) -> Iterator[None]:
        # Abstract sockets would be visible to, and collide with, other runs; a
        # file left by the last run would keep the server from listening.
        wan_sockets = {name: self.run / f"wan-{name}.sock" for name in "ab"}
        for socket in wan_sockets.values():
            socket.unlink(missing_ok=True)
        counters = self.run / f"wan-{mode}.json"
        prefix = f"lr2-e2e-{os.getpid()}"
        with Processes(self.run) as processes:
            wan = self._start_wan(processes, mode, counters, wan_sockets, f"{prefix}-wan")
            wan.wait_line("ready", timeout_s=30)
            self._gateways = [
                Gateway.start(
                    processes,
                    self._programs / "lr2-gateway",
                    self.run,
                    f"gateway-{name}-{mode}",
                    lan=self.device(number, 0),
                    wan=f"net_memif0,role=client,id=0,socket={wan_sockets[name]},socket-abstract=no,bsize=10240,rsize=10",
                    recovery=mode,
                    file_prefix=f"{prefix}-{name}",
                    huge_pages="never",
                    extra={"recovery": _RECOVERY},
                )
                for number, name in ((1, "a"), (2, "b"))
            ]
            for gateway in self._gateways:
                gateway.wait_ready()
            try:
                yield
                for process in (*(gateway.process for gateway in self._gateways), wan):
                    process.check()
                    process.stop(_STOP_S)
                self._report = json.loads(counters.read_text())
            finally:
                self._gateways = []

    def _start_wan(
        self, processes: Processes, mode: str, counters: Path, sockets: dict[str, Path], prefix: str
    ) -> Process:
        def port(number: int, name: str) -> str:
            return f"net_memif{number},role=server,id=0,socket={sockets[name]},socket-abstract=no"

        settings = self._settings
        # A Soft-RoCE sender has at most 128 packets on their way: a short queue is long enough.
        return processes.start(
            f"wan-{mode}",
            [
                self._programs / "lr2-wan",
                *("--a", port(0, "a"), "--b", port(1, "b")),
                *("--rate", settings.rate, "--delay", settings.delay, "--loss", f"{settings.loss:g}"),
                *("--queue", "2MiB", "--seed", str(settings.seed)),
                *("--json", counters, "--file-prefix", prefix, "--memory", "256MiB", "--huge", "never"),
            ],
        )

    def metrics(self) -> dict[str, Metrics]:
        return {gateway.name.rsplit("-", 1)[0]: gateway.metrics() for gateway in self._gateways}

    def report(self) -> dict[str, Any]:
        return self._report | {"settings": asdict(self._settings)}


class Testpmd(_Vhost):
    """guest 1 - dpdk-testpmd - guest 2: no gateway, no loss. What fails here is no fault of a gateway."""

    # Twice, to see that the guests outlive a restart of the switch.
    modes = ("testpmd", "restarted")

    @contextlib.contextmanager
    def running(self, mode: str) -> Iterator[None]:
        # Not pinned: it polls without a pause, and must not take a CPU from a guest for good.
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        with Processes(self.run) as processes:
            process = processes.start(
                mode,
                [
                    *(
                        "dpdk-testpmd",
                        "--no-huge",
                        "-m",
                        "512",
                        "--no-pci",
                        f"--lcores=0@({cpus}),1@({cpus})",
                    ),
                    f"--file-prefix=lr2-e2e-{os.getpid()}",
                    *(f"--vdev={self.device(number, number - 1)}" for number in (1, 2)),
                    *("--", "--forward-mode=io", "--auto-start", "--stats-period=60"),
                    *(
                        "--total-num-mbufs=8192",
                        "--mbuf-size=10240",
                        "--max-pkt-len=9018",
                        "--no-lsc-interrupt",
                    ),
                ],
                nice=10,
            )
            process.wait_line("Port statistics", timeout_s=30)
            yield
            process.check()


class Premise:
    """guest 1 - a gateway of a hundred lines - guest 2, to test a premise of LR2: see `premise`."""

    modes = ("premise",)

    def __init__(self, run: Path) -> None:
        self.gateway = premise.Gateway(run)

    def netdev(self, number: int) -> str:
        return self.gateway.netdev(number)

    @contextlib.contextmanager
    def running(self, mode: str) -> Iterator[None]:
        with self.gateway:
            yield

    def metrics(self) -> dict[str, Metrics]:
        return {}

    def report(self) -> dict[str, Any]:
        return {"holes": [asdict(hole) for hole in (*self.gateway.past_holes, *self.gateway.holes)]}
