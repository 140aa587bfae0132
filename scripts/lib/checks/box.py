"""A box of the packages, for checks.session: the example for a tunnel over Ethernet, edited as docs/guide/install.md says."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from lr2run import Metrics, Process, Processes, TimedOut, free_tcp_port, hurry, wait_until
from lr2run.metrics import scrape

_EXAMPLE = "usr/share/doc/lr2-gateway/examples/tunnel-ethernet.toml"
START_S = 30
# A condition is said within five seconds of the traffic that shows it; this machine may be busy.
SAID_S = 20


class Box:
    """A gateway from the Debian packages, which are unpacked in `root`, with the packaged example as its configuration."""

    def __init__(self, site: str, root: Path, run: Path, processes: Processes, key: str, devices: tuple[str, str]) -> None:
        """`devices` are LAN and WAN."""
        self.name = f"box-{site}"
        self._program, self._processes = root / "usr" / "bin" / "lr2-gateway", processes
        self.socket, self.file, self.key_file = run / f"control-{site}.sock", run / f"gateway-{site}.toml", run / f"key-{site}"
        self.port = free_tcp_port()
        self.devices = devices
        self.write_key(key)
        self.text = self._edited((root / _EXAMPLE).read_text(), run)
        self.write(self.text)
        self._starts = 0
        self._check()
        self.process = self.start()

    def _edited(self, text: str, run: Path) -> str:
        """The example for this machine, which has no NIC and no hugepages to give."""
        dpdk = f'huge_pages = "never"\nfile_prefix = "{run.name}-{self.name}"'
        peer = f'[peer]\nnode = {"abc".index(self.name[-1]) + 1}\nboot_file = "{run / self.name}.boot"'
        for old, new in (
            ('"0000:3b:00.0"', json.dumps(self.devices[0])),
            ('"0000:3b:00.1"', json.dumps(self.devices[1])),
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
        ended = subprocess.run([self._program, "--config", self.file, "--check"], capture_output=True, text=True, timeout=START_S, check=False)
        if ended.returncode or "# port wan: " not in ended.stdout:
            raise RuntimeError(f"{self.name} --check: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")

    def write_key(self, key: str) -> None:
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(key)

    def start(self) -> Process:
        self._starts += 1
        process = self._processes.start(f"{self.name}-{self._starts}", [self._program, "--config", self.file])
        wait_until(lambda: process.check() or scrape(self.port), START_S, f"{self.name}: its ports")
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

    def says(self, text: str, within_s: float = SAID_S) -> None:
        """Waits until `/healthz` and the log have these words."""
        self._wait_health(lambda said: text in said, within_s, repr(text))
        wait_until(lambda: text in self.process.output().lower(), SAID_S, f"{self.name}: {text!r} in the log")

    def is_well(self) -> None:
        self._wait_health(lambda said: said == "ok\n", 2 * SAID_S, "ok")

    def _wait_health(self, fits: Callable[[str], bool], timeout_s: float, what: str) -> None:
        try:
            wait_until(lambda: fits(self.health()), timeout_s, f"{self.name}: {what} in /healthz")
        except TimedOut as error:
            raise TimedOut(f"{error}; it says {self.health()!r}") from None
