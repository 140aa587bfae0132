"""Starting the programs of a pass and joining them.

    host-a -- ha.sock -- gw-a -- wan-a.sock -- wan -- wan-b.sock -- gw-b -- hb.sock -- host-b

Gateways listen on their memif sockets; hosts and the link connect to them.
Without gateways the link listens. A LAN that is to lose frames, or to be narrow, is one
more link of the wan process, on which the host's side listens:

    host-a -- la.sock -- wan -- ha.sock -- gw-a
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lr2run import Gateway, Metrics, Process, Processes, hurry, last_line, memif, together, wait_until

from .options import BOTTLENECK, LAN_QUEUE_S, PATH_STEP, TUNNEL, TUNNELS, WINDOW_BDP, Scenario

IP = {"a": "10.77.0.1", "b": "10.77.0.2"}

# Largest IP packet: a PMTU of 4096 and its headers.
_MTU = 4200
# The same with the headers of the tunnel, by mode.
_WAN_MTU = {TUNNEL: _MTU + 34, "tunnel-udp": _MTU + 74}


def _wan_ip(site: str, path: int) -> str:
    return f"192.0.{2 + path}.{1 if site == 'a' else 2}"


def _path(number: int) -> str:
    """The name of a path's link, and of its sockets."""
    return f"wan{number or ''}"


# A pass ends in time even if its requester doesn't: start, drain and slack.
_START_S = 60
_DRAIN_S = 15


def memory_mib(scenario: Scenario) -> dict[str, int]:
    """The memory of each kind of program."""
    in_flight = scenario.rate_bps * scenario.rtt_s / 8 / (1 << 20)
    # Both directions of the link, each with a queue of 50 ms in front.
    on_the_link = in_flight + 2 * scenario.rate_bps * 0.05 / 8 / (1 << 20)
    in_lan_queues = 2 * (scenario.lan_rate_bps or 0) * LAN_QUEUE_S / 8 / (1 << 20)
    return {
        # Reordering and resending hold a few BDP; and each port has rings.
        "gateway": 256 + round(10 * in_flight) + 12 * (scenario.paths - 1),
        # Its memory is for frames of 1000 bytes, each in a buffer for 4 KiB.
        # A LAN has rings, and holds nothing unless it is narrow.
        "wan": 128 + round(5 * (on_the_link + in_lan_queues)) + 32 * (len(scenario.lan_links) + 2 * (scenario.paths - 1)),
        "host": 64,
    }


def total_bytes(scenario: Scenario) -> int:
    memory = memory_mib(scenario)
    return (2 * memory["gateway"] + memory["wan"] + 2 * memory["host"]) << 20


@dataclass(frozen=True)
class Reports:
    """The reports of the programs of a finished pass."""

    requester: dict[str, Any]
    responder: dict[str, Any]
    wan: dict[str, Any]
    gateways: dict[str, Metrics]
    warm: dict[str, Metrics]
    """Of the gateways when the warm-up was over; empty if the pass ended before."""


class Pass:
    """The running programs of one pass."""

    def __init__(self, scenario: Scenario, mode: str, programs: Path, run: Path, processes: Processes, huge: str, spray: str | None = None) -> None:
        self.scenario = scenario
        self.mode = mode
        self._spray = spray
        self.run = run
        self._programs = programs
        self._processes = processes
        self._huge = huge
        self._memory = memory_mib(scenario)
        self._gateways: list[Gateway] = []
        self._warm: dict[str, Metrics] = {}
        self._direct = mode == "direct"
        self._paths = scenario.paths if mode in TUNNELS else 1

        # Sockets of an earlier pass would be in the way.
        for socket in run.glob("*.sock"):
            socket.unlink()
        if not self._direct:
            self._gateways = [self._start_gateway(site) for site in "ab"]
            for gateway in self._gateways:
                gateway.wait_ready(_START_S)
            # It answers for its metrics before its ports are open.
            self._await_sockets()
        self.wan = self._start_wan()
        self.wan.wait_line(r"lr2-wan: ready", _START_S)
        if mode in TUNNELS:
            self._await_sessions()
        self.responder = self._start_host("b", "responder")
        self.responder.wait_line(r"lr2-host: ready", _START_S)
        self.requester = self._start_host("a", "requester")
        hurry(self.wan, self.responder, *(gateway.process for gateway in self._gateways))
        self.requester.wait_line(r"lr2-host: ready", _START_S)
        hurry(self.requester)

    def _name(self, program: str) -> str:
        return "-".join(word for word in (self.mode, self._spray, program) if word)

    def _socket(self, name: str) -> Path:
        return self.run / f"{name}.sock"

    def _await_sockets(self) -> None:
        wans = [_path(number) + "-" for number in range(self._paths)]
        sockets = [self._socket(port + site) for site in "ab" for port in ["h", *wans]]

        def all_there() -> bool:
            for gateway in self._gateways:
                gateway.process.check()
            return all(socket.exists() for socket in sockets)

        wait_until(all_there, _START_S, "the gateways' ports")

    def _await_sessions(self) -> None:
        """Until the gateways have met, so that the tunnel carries all frames of the hosts."""
        wait_until(
            lambda: all(gateway.metrics().total("lr2_tunnel_up") for gateway in self._gateways),
            _START_S,
            "a session of the gateways' tunnel",
        )

    def _start_gateway(self, site: str) -> Gateway:
        return Gateway.start(
            self._processes,
            self._programs / "lr2-gateway",
            self.run,
            self._name(f"gw-{site}"),
            lan=memif(0, "server", self._socket(f"h{site}")),
            wan=memif(1, "server", self._socket(f"{_path(0)}-{site}")),
            recovery="auto" if self.mode == "lossless" else "off" if self.mode in TUNNELS else self.mode,
            memory=f"{self._memory['gateway']}MiB",
            huge_pages=self._huge,
            file_prefix=f"{self.run.name}-gw-{site}",
            mtu=_MTU,
            extra={"wan": self._tunnel(site, 0)} if self.mode in TUNNELS else None,
            more_wans=[
                {"device": memif(1 + number, "server", self._socket(f"{_path(number)}-{site}"))} | self._tunnel(site, number)
                for number in range(1, self._paths)
            ],
        )

    def _tunnel(self, site: str, path: int) -> dict[str, Any]:
        """The keys of a gateway's WAN port for the tunnel; the other gateway is its next hop."""
        keys: dict[str, Any] = {"mtu": _WAN_MTU[self.mode]}
        if path == 0:
            keys["tunnel"] = "ethernet" if self.mode == TUNNEL else "udp"
            if self._spray:
                keys["spray"] = self._spray
        if self.mode != TUNNEL:
            keys |= {"address": f"{_wan_ip(site, path)}/30", "peer": _wan_ip("b" if site == "a" else "a", path)}
        return keys

    def _dpdk(self, program: str, name: str) -> list[str]:
        return [
            f"--file-prefix={self.run.name}-{name}",
            f"--memory={self._memory[program]}MiB",
            f"--mtu={max(_WAN_MTU.values()) if program == 'wan' else _MTU}",
            f"--huge={self._huge}",
            "--live=200ms",
            f"--json={self._report(name)}",
        ]

    def _report(self, name: str) -> Path:
        return self.run / f"{self._name(name)}.json"

    def _start_wan(self) -> Process:
        first, *others = [self._path_words(number) for number in range(self._paths)]
        return self._processes.start(
            self._name("wan"),
            [
                self._programs / "lr2-wan",
                *first,
                f"--seed={self.scenario.seed}",
                *self._dpdk("wan", "wan"),
                *(word for words in others for word in ["--next", *words]),
                *self._lans(),
            ],
        )

    def _path_words(self, number: int) -> list[str]:
        """A path of the long haul, as a link of the wan process."""
        s = self.scenario
        if self._direct:
            ends = [memif(n, "server", self._socket(f"h{site}")) for n, site in enumerate("ab")]
        else:
            # The numbers from 2 on are those of LANs.
            first = 2 * (number + len(s.lan_links)) if number else 0
            ends = [memif(first + n, "client", self._socket(f"{_path(number)}-{site}")) for n, site in enumerate("ab")]
        delay_ns = s.rtt_s / 2 * 1e9 * (1 + PATH_STEP * number)
        dies = [f"--outage={s.kill.after_s:g}s,1000s"] if s.kill and self._paths > 1 and s.kill.path == number + 1 else []
        return [
            f"--name={_path(number)}",
            f"--a={ends[0]}",
            f"--b={ends[1]}",
            f"--rate={s.rate_bps / self._paths:.0f}",
            f"--delay={delay_ns:.0f}ns",
            *self._loss("wan"),
            *dies,
        ]

    def _loss(self, link: str) -> list[str]:
        """The losses of this link of the wan process."""
        s = self.scenario
        if self.mode == "lossless" or link != s.lossy_link:
            return []
        direction = "ba:" if s.where == "ack" else ""
        return [f"--loss={direction}{s.loss:.10g}"] + ([f"--burst={s.burst:g}"] if s.burst else [])

    def _lans(self) -> list[str]:
        """Each LAN that loses frames or is narrow as one more link of the wan process; A is where data comes from."""
        words = []
        for number, lan in enumerate(self.scenario.lan_links, 1):
            site = self._site(lan)
            ends = [memif(2 * number, "server", self._socket(f"l{site}")), memif(2 * number + 1, "client", self._socket(f"h{site}"))]
            if lan == "dst-lan":
                ends.reverse()
            rate = [f"--rate={self.scenario.lan_rate_bps:.0f}"] if lan == BOTTLENECK and self.scenario.lan_rate_bps else []
            words += ["--next", f"--name={lan}", f"--a={ends[0]}", f"--b={ends[1]}", *rate, *self._loss(lan)]
        return words

    @staticmethod
    def _site(lan: str) -> str:
        return "a" if lan == "src-lan" else "b"

    def _start_host(self, site: str, role: str) -> Process:
        s = self.scenario
        # Where its LAN is a link of the wan process, that stands in front of the gateway.
        front = "l" if site in map(self._site, s.lan_links) else "h"
        return self._processes.start(
            self._name(f"host-{site}"),
            [
                self._programs / "lr2-host",
                f"--device={memif(0, 'client', self._socket(front + site))}",
                f"--role={role}",
                f"--ip={IP[site]}",
                f"--peer-ip={IP['b' if site == 'a' else 'a']}",
                f"--qps={s.qps}",
                f"--pmtu={s.pmtu}",
                f"--op={s.operation}",
                f"--message={s.message}",
                f"--rate={s.nic_bps(congested=self.mode != 'lossless'):.0f}",
                f"--rtt={max(s.rtt_s, 1e-4) * 1e9:.0f}ns",
                f"--window={WINDOW_BDP}bdp",
                f"--timeout={s.timeout_exponent}",
                f"--ack-every={s.ack_every}",
                f"--seconds={s.seconds:g}",
                f"--warm-up={s.warm_up:g}",
                f"--drain={_DRAIN_S}",
                f"--seed={s.seed}",
                *(["--dcqcn"] if s.dcqcn else []),
                *self._dpdk("host", f"host-{site}"),
            ],
        )

    @property
    def limit_s(self) -> float:
        """The longest that the requester may take."""
        return self.scenario.warm_up + self.scenario.seconds + _DRAIN_S + 10

    def check(self) -> None:
        """`ProcessFailed` if anything but the requester has ended."""
        for process in (self.wan, self.responder, *(gateway.process for gateway in self._gateways)):
            process.check()

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        """From A to B; none in a pass without them."""
        return tuple(self._gateways)

    def note_warm_up(self) -> None:
        """To be called now and then: remembers the gateways' counters once the warm-up is over."""
        if not self._warm and (host := last_line(self.requester)) and host["elapsed_s"] >= self.scenario.warm_up:
            self._warm = self._metrics()

    def _metrics(self) -> dict[str, Metrics]:
        return {gateway.name[-1]: gateway.metrics() for gateway in self._gateways}

    def finish(self) -> Reports:
        """Stop all programs, in the order of the traffic, and collect the reports."""
        wait_until(lambda: not self.requester.alive, _DRAIN_S, f"{self.requester.name}: end")
        gateways = self._metrics()
        for gateway in self._gateways:
            report = self.run / f"{gateway.name}.json"
            report.write_text(json.dumps(gateways[gateway.name[-1]].flat(), indent=2) + "\n")
        self.responder.stop()
        self.wan.stop()
        self._processes.stop_all()
        return Reports(
            requester=self._read(self.requester, "host-a"),
            responder=self._read(self.responder, "host-b"),
            wan=self._wan_report(),
            gateways=gateways,
            warm=self._warm,
        )

    def _wan_report(self) -> dict[str, Any]:
        """Of all paths together, as one link."""
        report = self._read(self.wan, "wan")
        links = report["links"]
        paths = [links.pop(_path(number)) for number in range(self._paths)]
        return report | {"links": {"wan": together(paths)} | links}

    def _read(self, process: Process, name: str) -> dict[str, Any]:
        file = self._report(name)
        if not file.exists():
            process.check()
        return json.loads(file.read_text())
