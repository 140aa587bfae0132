"""The network between the two guests: gateways with a long link."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lr2run import Gateway, Metrics, Process, Processes, together

_STOP_S = 15
# An emulated host may take a tenth of a second to go back to a packet; the
# gateways' own patience, six round trips, is made for hosts that take microseconds.
_RECOVERY = {"rtt_guess": "20ms", "give_up": "500ms"}

_MTU = 9000
# By kind of tunnel: the bytes of its headers, and the addresses of the WAN ports in their prefix.
_TUNNELS: dict[str, tuple[int, dict[str, str]]] = {
    "ethernet": (34, {}),
    "udp": (74, {"a": "192.0.{}.1/30", "b": "192.0.{}.2/30"}),
    "udp-v6": (94, {"a": "2001:db8:{}::1/64", "b": "2001:db8:{}::2/64"}),
}

# Guest 1 is the source.
LANS = {"src-lan": "a", "dst-lan": "b"}
"""The LANs, with their gateway."""


@dataclass(frozen=True)
class Setting:
    """The settings of that network for a while."""

    name: str
    recovery: str = "auto"
    """A mode of the gateways; or `tunnel`, for recovery off and a tunnel between them."""
    loss: Mapping[str, float] = field(default_factory=dict)
    """Share of frames lost, each way, by segment: `src-lan`, `wan`, `dst-lan`."""
    burst: float | None = None
    """Their mean length, if frames are lost in bursts."""
    most_given_up: float = 0.25
    """Of the gaps that the Depot sees, the share that may be left to the RNICs: where a machine
    stands still for longer than a gateway waits."""
    tunnel: str = "ethernet"
    """The kind of tunnel, where there is one: `ethernet`, `udp` over IPv4, or `udp-v6`. With UDP each gateway is the
    other's next hop."""
    paths: int = 1
    """Paths of the long haul for a tunnel, each with ports of its own."""
    tries_rnics: bool = False
    """Neither gateways nor a long haul: lr2-check-rnic is the wire between the guests."""

    @property
    def has_tunnel(self) -> bool:
        return self.recovery == "tunnel"

    @property
    def ports(self) -> int:
        """WAN ports of a gateway."""
        return self.paths if self.has_tunnel else 1

    @property
    def repairs_lans(self) -> bool:
        """Whether the gateways repair the LANs beside the tunnel, from the first packet on."""
        return self.has_tunnel and any(lan in self.loss for lan in LANS)

    def keys(self, site: str) -> dict[str, Any]:
        """A gateway's keys besides the usual ones, by table."""
        lan = {"lan": "on"} if self.repairs_lans else {}
        return {"recovery": _RECOVERY | lan} | ({"wan": self.wan_keys(site, 0)} if self.has_tunnel else {})

    def wan_keys(self, site: str, path: int) -> dict[str, Any]:
        """A gateway's keys for the tunnel, of one of its WAN ports."""
        headers, addresses = _TUNNELS[self.tunnel]
        keys: dict[str, Any] = {"mtu": _MTU + headers}
        if path == 0:
            keys["tunnel"] = self.tunnel.partition("-")[0]
        if addresses:
            own, peer = (addresses[of].format(2 + path) for of in ("ab" if site == "a" else "ba"))
            keys |= {"address": own, "peer": peer.partition("/")[0]}
        return keys


def _path(number: int) -> str:
    """The name of a path of the long haul."""
    return f"wan{number or ''}"


@dataclass(frozen=True)
class LongHaul:
    """The long link, each way."""

    rate: str = "1Gbps"
    delay: str = "10ms"
    seed: int = 1


@dataclass(frozen=True)
class Trial:
    """lr2-check-rnic at work."""

    process: Process
    json: Path

    def wait(self, pattern: str, timeout_s: float) -> None:
        """Until it says that it waits for traffic, or that it is done."""
        self.process.wait_line(pattern, timeout_s)

    def report(self) -> dict[str, Any]:
        """Its report, once it has ended."""
        self.process.wait(_STOP_S)
        report: dict[str, Any] = json.loads(self.json.read_text())
        return report


class Link:
    """guest 1 - gateway a - lr2-wan - gateway b - guest 2

    A LAN that is to lose frames is one more link of lr2-wan, between guest and gateway.
    Guests are attached by vhost-user. QEMU is the server and DPDK the client of the socket: so
    a restarted DPDK process connects again, and the guest goes on.
    """

    def __init__(self, run: Path, programs: Path, long_haul: LongHaul) -> None:
        self.run = run
        self._programs = programs
        self._long_haul = long_haul
        self._prefix = f"lr2-e2e-{os.getpid()}"
        self._processes: Processes | None = None
        self._setting = Setting("")
        self._gateways: dict[str, Gateway] = {}
        self._wans: list[Process] = []
        self._lives: dict[str, int] = {}
        self._report: dict[str, Any] = {}
        self.trial: Trial | None = None
        """Where lr2-check-rnic is the wire."""

    def device(self, number: int, port: int) -> str:
        """A gateway's side of guest 1's or 2's data port."""
        return f"net_vhost{port},iface={self.run}/guest{number}.sock,client=1"

    def netdev(self, number: int) -> str:
        """QEMU's side of it."""
        return (
            f"-chardev socket,id=vhost,path={self.run}/guest{number}.sock,server=on,wait=off "
            "-netdev vhost-user,id=data,chardev=vhost,queues=1"
        )

    @contextlib.contextmanager
    def running(self, setting: Setting) -> Iterator[None]:
        """Carries frames, while the block runs."""
        if setting.tries_rnics:
            with Processes(self.run) as processes:
                yield from self._tried(processes, setting)
            return
        # Abstract sockets would be visible to, and collide with, other runs; a
        # file left by the last run would keep the server from listening.
        for socket in self.run.glob("*-?.memif"):
            socket.unlink()
        counters = [self.run / f"{_path(path)}-{setting.name}.json" for path in range(setting.ports)]
        with Processes(self.run) as processes:
            self._processes, self._setting, self._lives = processes, setting, {}
            self._wans = [self._start_wan(path, file) for path, file in enumerate(counters)]
            for wan in self._wans:
                wan.wait_line("ready", timeout_s=30)
            self.start("a", "b")
            try:
                yield
                for process in (*(gateway.process for gateway in self._gateways.values()), *self._wans):
                    process.check()
                    process.stop(_STOP_S)
                first, *others = [json.loads(file.read_text()) for file in counters]
                paths = [first["links"]["wan"], *(other["links"]["wan"] for other in others)]
                self._report = first | {"links": first["links"] | {"wan": together(paths)}}
            finally:
                self._gateways = {}
                self._processes = None

    def _tried(self, processes: Processes, setting: Setting) -> Iterator[None]:
        """guest 1 - lr2-check-rnic - guest 2"""
        files = {kind: self.run / f"{setting.name}.{kind}" for kind in ("json", "md")}
        words: list[str | Path] = [
            self._programs / "lr2-check-rnic",
            *("--a", self.device(1, 0), "--b", self.device(2, 1), "--rnic", "Soft-RoCE (rxe) in two QEMU guests without KVM"),
            # The guests' queue pairs have a timeout of 1.07 s, and an emulated guest takes tens of milliseconds to answer.
            *("--hold", "300ms", "--wait", "180s", "--idle", "adaptive", "--json", files["json"], "--markdown", files["md"]),
            *("--file-prefix", f"{self._prefix}-{setting.name}", "--huge", "never", "--mtu", str(_MTU)),
        ]
        self.trial = Trial(processes.start(setting.name, words), files["json"])
        self.trial.process.wait_line("ready", timeout_s=30)
        yield
        self._report = self.trial.report()

    def start(self, *sites: str) -> None:
        """Start gateways and wait until they serve; the first time, or again after `kill`."""
        assert self._processes, "within running()"
        for site in sites:
            life = self._lives[site] = self._lives.get(site, 0) + 1
            lan = next((lan for lan, its in LANS.items() if its == site and lan in self._setting.loss), None)
            self._gateways[site] = Gateway.start(
                self._processes,
                self._programs / "lr2-gateway",
                self.run,
                f"gateway-{site}-{self._setting.name}" + (f"-life{life}" if life > 1 else ""),
                lan=self._memif(1, "client", lan, site) if lan else self.device(ord(site) - ord("a") + 1, 0),
                wan=self._memif(0, "client", _path(0), site),
                more_wans=[
                    {"device": self._memif(1 + path, "client", _path(path), site)} | self._setting.wan_keys(site, path)
                    for path in range(1, self._setting.ports)
                ],
                recovery="off" if self._setting.has_tunnel else self._setting.recovery,
                file_prefix=f"{self._prefix}-{site}",
                huge_pages="never",
                mtu=_MTU,
                extra=self._setting.keys(site),
            )
        for site in sites:
            self._gateways[site].wait_ready()

    def kill(self, *sites: str) -> None:
        """End gateways as a crash does; guests and link stay as they are."""
        for site in sites:
            self._gateways.pop(site).process.stop(how=signal.SIGKILL)

    @contextlib.contextmanager
    def silent(self, path: int) -> Iterator[None]:
        """A path of the long haul carries nothing while the block runs, though its ports stay up: its program stands still.
        Frames that are on their way arrive afterwards."""
        self._wans[path].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._wans[path].send_signal(signal.SIGCONT)

    def _memif(self, number: int, role: str, segment: str, site: str) -> str:
        """The gateway's end of a segment, which lr2-wan listens on."""
        socket = self.run / f"{segment}-{site}.memif"
        ring = ",bsize=10240,rsize=10" if role == "client" else ""
        return f"net_memif{number},role={role},id=0,socket={socket},socket-abstract=no{ring}"

    def _start_wan(self, path: int, counters: Path) -> Process:
        long_haul, setting = self._long_haul, self._setting
        # A Soft-RoCE sender has at most 128 packets on their way: a short queue is long enough.
        words: list[str | Path] = [
            self._programs / "lr2-wan",
            *("--name", "wan", "--a", self._memif(0, "server", _path(path), "a"), "--b", self._memif(1, "server", _path(path), "b")),
            *("--rate", long_haul.rate, "--delay", long_haul.delay, "--queue", "2MiB"),
            *self._losses("wan"),
            *("--json", counters, "--seed", str(long_haul.seed + path), "--file-prefix", f"{self._prefix}-{_path(path)}"),
            *("--memory", "384MiB", "--huge", "never", "--mtu", str(_MTU + max(headers for headers, _ in _TUNNELS.values()))),
        ]
        for number, (lan, site) in enumerate(LANS.items(), 1):
            if lan in setting.loss and path == 0:
                # An emulated guest may leave its ring full for long.
                ends = [self.device(number, number), self._memif(1 + number, "server", lan, site)]
                if lan == "dst-lan":
                    ends.reverse()
                words += ["--next", "--name", lan, "--a", ends[0], "--b", ends[1], "--patience", "500ms", *self._losses(lan)]
        assert self._processes, "within running()"
        return self._processes.start(f"{_path(path)}-{setting.name}", words)

    def _losses(self, segment: str) -> list[str]:
        loss, burst = self._setting.loss.get(segment, 0), self._setting.burst
        return ["--loss", f"{loss:g}", *(["--burst", f"{burst:g}"] if burst else [])] if loss else []

    def metrics(self) -> dict[str, Metrics]:
        """By gateway; one that was started again has a name, and counters, of its own."""
        return {
            f"gateway-{site}" + (f"-life{self._lives[site]}" if self._lives[site] > 1 else ""): gateway.metrics()
            for site, gateway in self._gateways.items()
        }

    def report(self) -> dict[str, Any]:
        """The links' counters of the last run."""
        return self._report | {"long_haul": asdict(self._long_haul)}
