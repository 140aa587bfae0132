"""A session as a new user has it: `python3 -m checks.session`, by `scripts/test session`.

Two boxes are set up from what the Debian packages bring: the example for a tunnel over Ethernet, edited as docs/install.md says, with
ports of memif in place of a NIC's. Hosts transfer over a link that loses frames, while the operator looks, captures, and makes the usual
mistakes; after each, the boxes say what is wrong, and after its mend that all is well. No queue pair fails.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from debs import OUT
from lr2run import Metrics, Process, Processes, RunDir, TimedOut, free_tcp_port, hurry, memif, tidy_end, wait_until
from lr2run.metrics import scrape

_EXAMPLE = "usr/share/doc/lr2-gateway/examples/tunnel-ethernet.toml"
_IP = {"a": "10.78.0.1", "b": "10.78.0.2"}
_LIMIT_S = 240
_START_S = 30
# A condition is said within five seconds of the traffic that shows it; this machine may be busy.
_SAID_S = 20
# 4.3 s, and eight of them: a queue pair lives on while a box is away.
_TIMEOUT_EXPONENT = 20
_LOSS = "2e-3"


class Box:
    """A gateway of the packages, with a configuration that begins as the example."""

    def __init__(self, site: str, root: Path, run: Path, processes: Processes, key: str) -> None:
        self.site = site
        self.name = f"box-{site}"
        self._program, self._processes = root / "usr" / "bin" / "lr2-gateway", processes
        self.lan, self.wan = run / f"lan-{site}.sock", run / f"wan-{site}.sock"
        self.socket, self.file, self.key_file = run / f"control-{site}.sock", run / f"gateway-{site}.toml", run / f"key-{site}"
        self.port = free_tcp_port()
        self.write_key(key)
        self.text = self._edited((root / _EXAMPLE).read_text(), run)
        self.write(self.text)
        self._starts = 0
        self._check()
        self.process = self.start()

    def _edited(self, text: str, run: Path) -> str:
        """The example for this machine, which has no NIC and no hugepages to give."""
        dpdk = f'huge_pages = "never"\nfile_prefix = "{run.name}-{self.site}"'
        peer = f'[peer]\nnode = {"ab".index(self.site) + 1}\nboot_file = "{run / self.name}.boot"'
        for old, new in (
            ('"0000:3b:00.0"', json.dumps(memif(0, "server", self.lan))),
            ('"0000:3b:00.1"', json.dumps(memif(1, "server", self.wan))),
            ('memory = "1GiB"', 'memory = "256MiB"'),
            ("cores = [2]", dpdk),
            ("[peer]", peer),
            ("/etc/lr2/key", str(self.key_file)),
            ('resend_cache = "64MiB"', 'resend_cache = "8MiB"'),
            ('reorder_pool = "64MiB"', 'reorder_pool = "8MiB"'),
            ("/run/lr2-gateway/control.sock\"", f'{self.socket}"\nlisten = "127.0.0.1:{self.port}"'),
        ):
            # The comment above the socket names it for instances, too.
            if text.count(old) != 1:
                raise RuntimeError(f"{_EXAMPLE} has {text.count(old)} times {old}")
            text = text.replace(old, new)
        return text

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def _check(self) -> None:
        ended = subprocess.run([self._program, "--config", self.file, "--check"], capture_output=True, text=True, timeout=_START_S, check=False)
        if ended.returncode or "# port wan: " not in ended.stdout:
            raise RuntimeError(f"{self.name} --check: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")

    def write_key(self, key: str) -> None:
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(key)

    def start(self) -> Process:
        self._starts += 1
        process = self._processes.start(f"{self.name}-{self._starts}", [self._program, "--config", self.file])
        wait_until(lambda: process.check() or (self.lan.is_socket() and self.wan.is_socket() and scrape(self.port)), _START_S, f"{self.name}: its ports")
        hurry(process)
        self.process = process
        return process

    def restart(self, text: str) -> None:
        """Stopped, edited, started."""
        if code := self.process.stop():
            raise RuntimeError(f"{self.name}: exit code {code}\n{self.process.tail()}")
        self.write(text)
        self.start()

    def health(self) -> str:
        """What `/healthz` says, in lower case."""
        self.process.check()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
                return str(answer.read().decode()).lower()
        except urllib.error.HTTPError as error:
            return error.read().decode().lower()

    def metrics(self) -> Metrics:
        self.process.check()
        return scrape(self.port) or Metrics({})

    def delivered(self) -> float:
        return self.metrics().total("lr2_tunnel_delivered_frames_total")

    def says(self, text: str) -> None:
        """Waits until `/healthz` and the log have these words."""
        self._wait_health(lambda said: text in said, _SAID_S, repr(text))
        wait_until(lambda: text in self.process.output().lower(), _SAID_S, f"{self.name}: {text!r} in the log")

    def is_well(self) -> None:
        self._wait_health(lambda said: said == "ok\n", 2 * _SAID_S, "ok")

    def _wait_health(self, fits: Callable[[str], bool], timeout_s: float, what: str) -> None:
        try:
            wait_until(lambda: fits(self.health()), timeout_s, f"{self.name}: {what} in /healthz")
        except TimedOut as error:
            raise TimedOut(f"{error}; it says {self.health()!r}") from None


class Session:
    """Both boxes, the link and the hosts."""

    def __init__(self, run: Path, processes: Processes) -> None:
        self._run, self._processes = run, processes
        self._root = run / "root"
        for package in sorted(OUT.glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, self._root], check=True)
        self._key = secrets.token_hex(32)
        self.a, self.b = (Box(site, self._root, run, processes, self._key) for site in "ab")
        self._wan = self._start_wan()
        self._hosts = [self._start_host("b", "responder"), self._start_host("a", "requester")]
        self._well()
        self._flows()

    def _program(self, name: str) -> Path:
        return self._root / "usr" / "bin" / name

    def _dpdk(self, name: str, memory_mib: int, mtu: int) -> list[str]:
        prefix = f"--file-prefix={self._run.name}-{name}"
        return [prefix, f"--memory={memory_mib}MiB", f"--mtu={mtu}", "--huge=never", f"--json={self._run / name}.json"]

    def _start_wan(self) -> Process:
        ends = [memif(n, "client", box.wan) for n, box in enumerate((self.a, self.b))]
        words = [f"--a={ends[0]}", f"--b={ends[1]}", "--rate=100Mbps", "--delay=5ms", f"--loss={_LOSS}", *self._dpdk("wan", 160, 4234)]
        wan = self._processes.start("wan", [self._program("lr2-wan"), *words])
        wan.wait_line("lr2-wan: ready", _START_S)
        hurry(wan)
        return wan

    def _start_host(self, site: str, role: str) -> Process:
        other, box = ("b", self.a) if site == "a" else ("a", self.b)
        words = [
            f"--device={memif(0, 'client', box.lan)}", f"--role={role}", f"--ip={_IP[site]}", f"--peer-ip={_IP[other]}", "--qps=4", "--pmtu=1024",
            "--message=64KiB", "--rate=40Mbps", "--rtt=10ms", "--window=4bdp", f"--timeout={_TIMEOUT_EXPONENT}", "--seconds=600", "--drain=30",
        ]  # fmt: skip
        host = self._processes.start(f"host-{site}", [self._program("lr2-host"), *words, *self._dpdk(f"host-{site}", 64, 4200)])
        host.wait_line("lr2-host: ready", _START_S)
        hurry(host)
        return host

    def _well(self) -> None:
        for box in (self.a, self.b):
            box.is_well()

    def _flows(self) -> None:
        """Frames of the hosts cross the tunnel."""
        before = self.b.delivered()
        wait_until(lambda: self.b.delivered() > before + 500, 2 * _SAID_S, "frames of the hosts")

    def _ctl(self, box: Box, *words: str, code: int = 0) -> str:
        """What lr2ctl prints, which ends with this code."""
        command = [self._program("lr2ctl"), "--socket", box.socket, *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if ended.returncode != code or not (ended.stdout + ended.stderr).strip():
            raise RuntimeError(f"lr2ctl {' '.join(words)}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout + ended.stderr

    def look(self) -> None:
        for word in ("status", "peers", "lanes", "recovery", "ports", "pools", "build", "events", "config", "parameters"):
            self._ctl(self.a, word)
        self._ctl(self.a, "top", "--once")
        status: dict[str, Any] = json.loads(self._ctl(self.a, "--json", "status"))
        if self._key in json.dumps(status) + self._ctl(self.a, "config"):
            raise RuntimeError("the key is told")

    def lose(self) -> None:
        wait_until(lambda: self.a.metrics().total("lr2_tunnel_lost_frames_total") > 0, _SAID_S, "losses that the peer reports")

    def see(self) -> None:
        """A capture, which is analysed; the decisions for some packets."""
        file = self._run / "lan.pcapng"
        self._ctl(self.a, "capture", "--out", str(file), "--port", "lan", "--frames", "200", "--seconds", "10")
        ended = subprocess.run([self._program("lr2-analyze"), file], capture_output=True, text=True, timeout=30, check=False)
        if ended.returncode or _IP["b"] not in ended.stdout:
            raise RuntimeError(f"lr2-analyze: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        self._ctl(self.a, "trace", "--host", _IP["b"], "--packets", "5", "--seconds", "10")
        self._ctl(self.b, "records", "--last", "10")

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
        self.b.write_key(self._key)
        self._ctl(self.b, "reload")
        self._well()

    def small_mtu(self) -> None:
        self.b.restart(self.b.text.replace("mtu = 4234", "mtu = 4210"))
        self.b.says("wan.mtu here is 4210, and 4234")
        self.a.says("wan.mtu of the peer is 4210, and 4234")

    def swapped_ports(self) -> None:
        lan, wan = (json.dumps(memif(n, "server", socket)) for n, socket in enumerate((self.b.lan, self.b.wan)))
        self.b.restart(self.b.text.replace(lan, "LAN").replace(wan, lan).replace("LAN", wan))
        self.b.says("lan and wan look swapped")

    def peer_gone(self) -> None:
        self.b.process.stop()
        self.a.says("no peer answers")
        self.b.write(self.b.text)
        self.b.start()
        self._well()
        self._flows()

    def upgrade(self) -> None:
        """One box after the other: drained, started."""
        for box in (self.a, self.b):
            self._ctl(box, "drain")
            if code := box.process.wait(_START_S):
                raise RuntimeError(f"{box.name}: exit code {code} after drain\n{box.process.tail()}")
            box.start()
            self._well()
        self._flows()

    def cut(self) -> None:
        """The link stands still: a client of memif that leaves under traffic can take the gateway with it (docs/limits.md)."""
        self._wan.send_signal(signal.SIGSTOP)
        for box in (self.a, self.b):
            box.says("no peer answers")
        self._wan.send_signal(signal.SIGCONT)
        self._well()
        self._flows()

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
    ("reload, and a file that is wrong", Session.reload),
    ("another key", Session.wrong_key),
    ("a WAN MTU that is too small", Session.small_mtu),
    ("LAN and WAN swapped", Session.swapped_ports),
    ("the peer is gone, and comes back", Session.peer_gone),
    ("both boxes drained and started in turn", Session.upgrade),
    ("the long haul is cut", Session.cut),
    ("all messages are complete", Session.end),
)


def main() -> int:
    if not list(OUT.glob("*.deb")):
        subprocess.run([sys.executable, "-m", "debs"], check=True)
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
