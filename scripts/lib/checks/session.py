"""A session as a new user has it: `python3 -m checks.session`, by `scripts/test session`.

Two boxes are set up from what the Debian packages bring: the example for a tunnel over Ethernet, edited as docs/guide/install.md says, with
interfaces of the kernel in place of a NIC's ports. Hosts transfer over a link that loses frames, while the operator looks, captures, and
makes the usual mistakes, and the WAN is cut; after each, the boxes say what is wrong, in words, metrics, alerts and on the page, and after
its mend that all is well. No queue pair fails. A Prometheus scrapes both boxes from first to last, with the alert rules and the dashboard
of the packages. All of it runs in a network namespace of its own, which ends with it:

    lr2-host == box-a == lr2-wan == box-b == lr2-host
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from debs import OUT
from lr2run import Process, Processes, RunDir, cable, has_carrier, hurry, ip, leave_network, packet_socket, tidy_end, wait_until

from . import metrics, page
from .box import SAID_S, START_S, Box

_IP = {"a": "10.78.0.1", "b": "10.78.0.2"}
_LIMIT_S = 240
# 4.3 s, and eight of them: a queue pair lives on while a box is away.
_TIMEOUT_EXPONENT = 20
_LOSS = "2e-3"
# Interfaces take frames of wan.mtu with VLAN tags; the slots of packet sockets, and the buffers of lr2-wan and lr2-host, take those frames.
_INTERFACE_MTU, _SLOT, _MTU = 4300, 8192, 8192
# The gateway looks at links every 20 ms; a busy machine takes longer.
_CUT_S = 5
# The tunnel's EtherType, and the first byte of a control message: the version, and 3.
_MESSAGE = re.compile(rb"\x88\xb5[\x13\x23\x33\x43\x53]")


def _port(number: int, interface: str) -> str:
    return packet_socket(number, interface, _SLOT)


class Session:
    """Both boxes, the link and the hosts."""

    def __init__(self, run: Path, processes: Processes) -> None:
        self._run, self._processes = run, processes
        self._root = run / "root"
        for package in sorted(OUT.glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, self._root], check=True)
        self._rules = self._root / "usr" / "share" / "lr2-gateway" / "alerts.yml"
        self._prometheus = metrics.Prometheus.start(processes, run, self._rules)
        self._key = secrets.token_hex(32)
        self._lay_cables()
        self.a, self.b = (Box(site, self._root, run, processes, self._key, (_port(0, f"lan-{site}"), _port(1, f"wan-{site}"))) for site in "ab")
        self._prometheus.scrape({box.name: box.port for box in (self.a, self.b)})
        self._began = time.time()
        self._wan = self._start_wan()
        self._hosts = [self._start_host("b", "responder"), self._start_host("a", "requester")]
        self._well()
        self._flows()

    def _lay_cables(self) -> None:
        # DPDK numbers the fanout group of a port by process id XOR interface index, modulo 2^16. Two interfaces of a namespace may not have the
        # same group: process ids are close together, so these indices are far apart.
        numbers = iter(range(1 << 12, 9 << 12, 1 << 12))
        for site in "ab":
            for ends in ((f"host-{site}", f"lan-{site}"), (f"wan-{site}", f"far-{site}")):
                cable(*ends, (next(numbers), next(numbers)))
                for end in ends:
                    ip("link", "set", end, "mtu", str(_INTERFACE_MTU), "up")

    def _program(self, name: str) -> Path:
        return self._root / "usr" / "bin" / name

    def _dpdk(self, name: str, memory_mib: int) -> list[str]:
        prefix = f"--file-prefix={self._run.name}-{name}"
        return [prefix, f"--memory={memory_mib}MiB", f"--mtu={_MTU}", "--huge=never", f"--json={self._run / name}.json"]

    def _start_wan(self) -> Process:
        ends = [f"--{site}={_port(n, f'far-{site}')}" for n, site in enumerate("ab")]
        words = [*ends, "--rate=100Mbps", "--delay=5ms", f"--loss={_LOSS}", *self._dpdk("wan", 160)]
        wan = self._processes.start("wan", [self._program("lr2-wan"), *words])
        wan.wait_line("lr2-wan: ready", START_S)
        hurry(wan)
        return wan

    def _start_host(self, site: str, role: str) -> Process:
        other = "b" if site == "a" else "a"
        words = [
            f"--device={_port(0, f'host-{site}')}", f"--role={role}", f"--ip={_IP[site]}", f"--peer-ip={_IP[other]}", "--qps=4", "--pmtu=1024",
            "--message=64KiB", "--rate=40Mbps", "--rtt=10ms", "--window=4bdp", f"--timeout={_TIMEOUT_EXPONENT}", "--seconds=600", "--drain=30",
        ]  # fmt: skip
        host = self._processes.start(f"host-{site}", [self._program("lr2-host"), *words, *self._dpdk(f"host-{site}", 64)])
        host.wait_line("lr2-host: ready", START_S)
        hurry(host)
        return host

    def _well(self) -> None:
        for box in (self.a, self.b):
            box.is_well()

    def _alert(self, name: str, *boxes: Box) -> None:
        """Waits until this alert is there for these boxes, if only as pending: some wait for ten seconds."""
        names = {box.name for box in boxes}

        def told() -> bool:
            series = self._prometheus.ask("query", query=f'ALERTS{{alertname="{name}"}}')["result"]
            return names <= {one["metric"]["instance"] for one in series}

        wait_until(told, SAID_S, f"alert {name} of {', '.join(sorted(names))}")

    def _page(self, box: Box, picture: Path | None = None) -> str:
        """The page of a box in a browser, to which the other programs leave the machine meanwhile."""
        running = (self.a.process, self.b.process, self._wan, *self._hosts)
        page.make_way(*running)
        dom = page.load(self._run, f"http://127.0.0.1:{box.port}/", picture)
        hurry(*running)
        return dom

    def _flows(self) -> None:
        """Frames of the hosts cross the tunnel."""
        before = self.b.delivered()
        wait_until(lambda: self.b.delivered() > before + 500, 2 * SAID_S, "frames of the hosts")

    def _ctl(self, box: Box, *words: str, code: int = 0) -> str:
        """What lr2ctl prints, which ends with this code."""
        command = [self._program("lr2ctl"), "--socket", box.socket, *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if ended.returncode != code or not (ended.stdout + ended.stderr).strip():
            raise RuntimeError(f"lr2ctl {' '.join(words)}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout + ended.stderr

    def look(self) -> None:
        for word in ("status", "peers", "lanes", "path", "recovery", "ports", "pools", "build", "events", "config", "parameters"):
            self._ctl(self.a, word)
        self._ctl(self.a, "top", "--once")
        status: dict[str, Any] = json.loads(self._ctl(self.a, "--json", "status"))
        if self._key in json.dumps(status) + self._ctl(self.a, "config"):
            raise RuntimeError("the key is told")

    def lose(self) -> None:
        wait_until(lambda: self.a.metrics().total("lr2_tunnel_lost_frames_total") > 0, SAID_S, "losses that the peer reports")

    def see(self) -> None:
        """A capture, which is analysed; the decisions for some packets."""
        file = self._run / "lan.pcapng"
        self._ctl(self.a, "capture", "--out", str(file), "--port", "lan", "--frames", "200", "--seconds", "10")
        ended = subprocess.run([self._program("lr2-analyze"), file], capture_output=True, text=True, timeout=30, check=False)
        if ended.returncode or _IP["b"] not in ended.stdout:
            raise RuntimeError(f"lr2-analyze: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        self._ctl(self.a, "trace", "--host", _IP["b"], "--packets", "5", "--seconds", "10")
        self._ctl(self.b, "records", "--last", "10")

    def look_at_the_page(self) -> None:
        picture = Path(os.environ.get("LR2_TEST_DIR", self._run)) / "session.png"
        if complaints := list(page.shows(self._page(self.a, picture), "tunnel")):
            raise RuntimeError("the page: " + "; ".join(complaints))
        if not picture.read_bytes().startswith(b"\x89PNG"):
            raise RuntimeError(f"{picture} is no picture")

    def reload(self) -> None:
        """A file that is wrong changes nothing."""
        self.a.write(self.a.text + "nonsense = 1\n")
        if "nonsense" not in (said := self._ctl(self.a, "reload", code=2)):
            raise RuntimeError(said)
        self.a.write(self.a.text.replace('rtt_guess = "10ms"', 'rtt_guess = "12ms"'))
        if "recovery.rtt_guess" not in (said := self._ctl(self.a, "reload")):
            raise RuntimeError(said)
        self.a.write(self.a.text)
        self._ctl(self.a, "reload")
        self._well()

    def wrong_key(self) -> None:
        self.b.write_key(secrets.token_hex(32))
        self._ctl(self.b, "reload")
        for box in (self.a, self.b):
            box.says("the peer has another key")
        if not self.a.metrics().total("lr2_tunnel_refused_messages_total", reason="bad_tag"):
            raise RuntimeError("lr2_tunnel_refused_messages_total says nothing of the key")
        self._alert("Lr2TunnelKey", self.a, self.b)
        if "another key" not in (said := page.text_of(self._page(self.a), "reasons")):
            raise RuntimeError(f"the page says nothing of the key: {said!r}")
        self.b.write_key(self._key)
        self._ctl(self.b, "reload")

    def small_mtu(self) -> None:
        self.b.restart(self.b.text.replace("mtu = 4234", "mtu = 4210"))
        self.b.says("wan.mtu here is 4210, and 4234")
        self.a.says("wan.mtu of the peer is 4210, and 4234")

    def swapped_ports(self) -> None:
        lan, wan = map(json.dumps, self.b.devices)
        self.b.restart(self.b.text.replace(lan, "LAN").replace(wan, lan).replace("LAN", wan))
        self.b.says("lan and wan look swapped")

    def peer_gone(self) -> None:
        self.b.process.stop()
        self.a.says("the peer ended it")
        self._alert("Lr2TunnelDown", self.a)
        self.b.write(self.b.text)
        self.b.start()
        self._well()
        self._flows()

    def upgrade(self) -> None:
        """One box after the other: drained, started."""
        for box in (self.a, self.b):
            self._ctl(box, "drain")
            if code := box.process.wait(START_S):
                raise RuntimeError(f"{box.name}: exit code {code} after drain\n{box.process.tail()}")
            box.start()
            self._well()
        self._flows()

    def other_version(self) -> None:
        """A box that hears another release: what box A says, with another version in its messages."""
        self._flows()
        heard, changed = self._run / "heard.pcapng", self._run / "changed.pcapng"
        self._ctl(self.b, "capture", "--out", str(heard), "--port", "wan", "--direction", "in", "--frames", "2000", "--snaplen", "9000", "--seconds", "3")
        data, count = _MESSAGE.subn(lambda found: found[0][:2] + bytes([found[0][2] + 0x10]), heard.read_bytes())
        if not count:
            raise RuntimeError("no control message of the tunnel was captured")
        changed.write_bytes(data)
        devices = ("net_null0,no-rx=1", f"net_pcap1,rx_pcap={changed}")
        box = Box("c", self._root, self._run, self._processes, self._key, devices)
        box.says("the peer has another version")
        box.process.stop()
        # The wrong key is told for fifteen seconds after its last message: time for the above.
        self._well()

    def still(self) -> None:
        """Nothing crosses the link, whose ports stay up."""
        self._wan.send_signal(signal.SIGSTOP)
        for box in (self.a, self.b):
            box.says("no peer answers")
        self._wan.send_signal(signal.SIGCONT)
        self._well()
        self._flows()

    def cut(self) -> None:
        """Cuts the cable at box A's WAN port. The box takes its LAN port down, and its host loses the carrier."""
        ip("link", "set", "far-a", "down")
        self.a.says("port wan is down", _CUT_S)
        self.a.says("port lan is taken down", _CUT_S)
        wait_until(lambda: not has_carrier("host-a"), _CUT_S, "host A without a carrier")
        counted = self.a.metrics()
        if counted.total("lr2_port_up", port="wan") or not counted.total("lr2_port_held_down", port="lan"):
            raise RuntimeError("the metrics say nothing of the cut")
        self.b.says("no peer answers")
        self._alert("Lr2PortDown", self.a)
        self._alert("Lr2TunnelDown", self.a, self.b)
        if "port wan is down" not in (said := page.text_of(self._page(self.a), "reasons")):
            raise RuntimeError(f"the page says nothing of the cut: {said!r}")
        if not has_carrier("host-b"):
            raise RuntimeError("host B has lost its carrier, too")
        ip("link", "set", "far-a", "up")
        wait_until(lambda: has_carrier("host-a"), SAID_S, "host A with a carrier")
        self._well()
        self._flows()

    def watched(self) -> None:
        """Prometheus has scraped both boxes all the time, and the dashboard shows the tunnel."""
        complaints = [f"Prometheus can't scrape {box.name}" for box in (self.a, self.b) if not metrics.is_up(self._prometheus, box.name)]
        complaints += metrics.alerts(self._prometheus, self._rules)
        complaints += [wrong for box in (self.a, self.b) if (wrong := metrics.said("promtool", "check", "metrics", text=metrics.page(box.port)))]
        dashboard = json.loads((self._rules.parent / "grafana-dashboard.json").read_text())
        shown = [(title, query) for title, query in metrics.queries(dashboard) if "lr2_tunnel_" in query]
        complaints += metrics.unanswered(self._prometheus, shown, self._began, time.time())
        if complaints or not shown:
            raise RuntimeError("; ".join(complaints) or "the dashboard shows no tunnel")

    def end(self) -> None:
        """All that was posted is complete, at queue pairs that live."""
        responder, requester = self._hosts
        if code := requester.stop(60, signal.SIGINT):
            raise RuntimeError(f"{requester.name}: exit code {code}\n{requester.tail()}")
        responder.stop(60, signal.SIGINT)
        host = json.loads((self._run / "host-a.json").read_text())
        other = json.loads((self._run / "host-b.json").read_text())
        if host["qps_failed"] or host["requester"]["pending"] or other["responder"]["corrupt_bytes"] or not host["requester"]["messages"]:
            raise RuntimeError(f"at the end: {json.dumps(host['requester'])}, {host['qps_failed']} queue pairs failed")


# In this order: what each is, and how it is done.
_STEPS = (
    ("lr2ctl shows the box", Session.look),
    ("the link loses frames", Session.lose),
    ("capture, analysis, trace, records", Session.see),
    ("the page, with a picture of it", Session.look_at_the_page),
    ("reload, and a file that is wrong", Session.reload),
    ("another key", Session.wrong_key),
    ("a peer of another version", Session.other_version),
    ("a WAN MTU that is too small", Session.small_mtu),
    ("LAN and WAN swapped", Session.swapped_ports),
    ("the peer is gone, and comes back", Session.peer_gone),
    ("both boxes drained and started in turn", Session.upgrade),
    ("the long haul stands still", Session.still),
    ("the WAN is cut, and mended", Session.cut),
    ("Prometheus, alerts and dashboard", Session.watched),
    ("all messages are complete", Session.end),
)


def main() -> int:
    if not list(OUT.glob("*.deb")):
        subprocess.run([sys.executable, "-m", "debs"], check=True)
    leave_network()
    with tidy_end(limit_s=_LIMIT_S), RunDir("lr2-session", keep="LR2_KEEP" in os.environ) as run, Processes(run.path) as processes:
        start = time.monotonic()
        session = Session(run.path, processes)
        print(f"{time.monotonic() - start:5.1f} s  two boxes and hosts of the packages", flush=True)
        for what, step in _STEPS:
            start = time.monotonic()
            step(session)
            print(f"{time.monotonic() - start:5.1f} s  {what}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
