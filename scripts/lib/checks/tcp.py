"""TCP's rate through the tunnel, beside its rate without loss: `python3 -m checks.tcp`, by `scripts/test tcp`.

The hosts are network namespaces of this machine: the sockets and the TCP are the kernel's, as is what they do about a loss. Bulk
transfers, whose content is compared, cross the tunnel in turn without loss, at 1 % and at 5 % of all frames lost each way, several
times; and boxes that do nothing (`wan.tunnel = "off"`, `recovery.mode = "off"`) at the same losses:

    host-a == box-a -- lr2-wan -- box-b == host-b

Each rate is compared with that without loss of the same round. The sender has nine tenths of the long haul, which is slow enough for
two cores that have other things to do: the rate without loss is the sender's, not that of this machine.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lr2run import Gateway, Namespace, Process, Processes, RunDir, cable, human_bits, hurry, ip, leave_network, memif, packet_socket, quantities, tidy_end, wait_until

from . import ROOT, tcp_offloads
from .tcp_host import Transfer

_IP = {"a": "10.79.0.1", "b": "10.79.0.2"}
_LOSSES = (0.01, 0.05)
_LEAST = 0.9
"""Of TCP's rate without loss, at each of these."""
_ROUNDS, _MORE_ROUNDS = 3, 2
"""Where a median misses, there are some more: a machine whose neighbours take its cores spoils a transfer."""
_FILLED = 0.9
"""The share of the sender's rate that TCP reaches without loss; below, this machine has too much to do."""
_MTU = 1500
_TUNNEL_OVERHEAD = 34
# Ethernet, IPv4, TCP with timestamps; and on the wire preamble, FCS and gap.
_HEADERS, _WIRE = 14 + 20 + 32, 24
_POOLS = {"resend_cache": "8MiB", "reorder_pool": "8MiB", "backup_pool": "8MiB"}
_START_S = 30
_TRANSFER_S = 90
_LIMIT_S = 300


@dataclass(frozen=True)
class Result:
    """A transfer."""

    round: int
    tunnel: bool
    loss: float
    bps: float
    bytes: int
    intact: bool
    resent: int
    """By the sender's TCP."""
    offered: int
    """Frames, both ways, and those that the link lost."""
    lost: int
    resent_inside: int
    """By the tunnels, both ways: frames of the hosts, while the link loses the tunnels' messages too."""

    @property
    def name(self) -> str:
        return f"{'tunnel' if self.tunnel else 'off'}, {self.loss:.0%} lost"

    def complaints(self) -> Iterator[str]:
        if not self.intact:
            yield f"{self.name}: the content arrived damaged"
        if self.lost < self.loss * self.offered / 2:
            yield f"{self.name}: the link lost {self.lost} of {self.offered} frames"
        if self.tunnel and self.loss and self.resent_inside < self.lost / 4:
            yield f"{self.name}: of {self.lost} lost frames the tunnel resent {self.resent_inside}"


class Bench:
    """The hosts, and all between them for a transfer at a time."""

    def __init__(self, options: argparse.Namespace, run: Path, processes: Processes) -> None:
        self._options, self._run = options, run
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self._programs = Path(os.environ.get("LR2_BIN", target / "release"))
        self.hosts = {}
        self.receiver_address = _IP["b"]
        # DPDK's fanout groups: see docs/guide/operate.md.
        for number, site in enumerate("ab", 1):
            self.hosts[site] = host = Namespace(processes, f"host-{site}")
            cable(f"lan-{site}", "host", (number << 12, (number << 12) + 1))
            host.take("host", "eth0")
            host.run(*tcp_offloads.switched("eth0", "off"))
            host.run("ip", "address", "add", f"{_IP[site]}/24", "dev", "eth0")

    @property
    def link_bps(self) -> float:
        """TCP's content that fills the link behind the tunnel's header."""
        content = _MTU - (_HEADERS - 14)
        return self._options.rate * content / (_MTU + 14 + 18 + _WIRE)

    @contextlib.contextmanager
    def boxes(self, name: str, tunnel: bool, loss: float) -> Iterator[list[Gateway]]:
        """The boxes and the long haul between them, while the block runs. The report of `lr2-wan` is in its folder then."""
        folder = self._run / name
        folder.mkdir()
        with Processes(folder) as processes:
            boxes = [self._start_box(processes, folder, site, tunnel) for site in "ab"]
            # lr2-wan does not start unless it can connect to them.
            wait_until(lambda: all(_socket(folder, site).is_socket() for site in "ab"), _START_S, "the boxes' WAN ports")
            wan = self._start_wan(processes, folder, loss)
            for box in boxes:
                box.wait_ready(_START_S)
            if tunnel:
                wait_until(lambda: all(box.metrics().total("lr2_tunnel_up") for box in boxes), _START_S, "a session")
            hurry(wan, *(box.process for box in boxes))
            yield boxes
            wan.stop()
            for box in boxes:
                box.process.stop()

    def transfer(self, tunnel: bool, loss: float, number: int) -> Result:
        name = f"{'tunnel' if tunnel else 'off'}-{loss:g}-{number}"
        with self.boxes(name, tunnel, loss) as boxes, Processes(self._run / name) as processes:
            sent = self._send(processes)
            resent = sum(box.metrics().total("lr2_tunnel_sent_frames_total", copy="resent") for box in boxes)
        report = json.loads((self._run / name / "wan.json").read_text())["links"]["wan"]
        ways = [report[way] for way in ("a_to_b", "b_to_a")]
        offered, lost = (sum(way[what]["frames"] for way in ways) for what in ("offered", "lost"))
        return Result(number, tunnel, loss, offered=offered, lost=lost, resent_inside=round(resent), **sent)

    def _start_box(self, processes: Processes, folder: Path, site: str, tunnel: bool) -> Gateway:
        ip("link", "set", f"lan-{site}", "up")
        extra: dict[str, dict[str, Any]] = {"recovery": {**_POOLS, "rtt_guess": f"{self._options.rtt * 1e3:.0f}ms"}, "link_loss": {"forward": "off"}}
        if tunnel:
            extra["wan"] = {"mtu": _MTU + _TUNNEL_OVERHEAD, "tunnel": "ethernet"}
        return Gateway.start(
            processes,
            self._programs / "lr2-gateway",
            folder,
            f"box-{site}",
            lan=packet_socket(0, f"lan-{site}"),
            wan=memif(1, "server", _socket(folder, site)),
            recovery="off",
            memory="256MiB",
            huge_pages="never",
            file_prefix=f"{self._run.name}-{folder.name}-{site}",
            mtu=_MTU,
            extra=extra,
        )

    def _start_wan(self, processes: Processes, folder: Path, loss: float) -> Process:
        o = self._options
        ends = [f"--{site}={memif(number, 'client', _socket(folder, site))}" for number, site in enumerate("ab")]
        words = [
            *ends, "--name=wan", f"--rate={o.rate:.0f}", f"--delay={o.rtt / 2 * 1e9:.0f}ns", f"--queue={o.window * 2}", f"--loss={loss:g}",
            f"--file-prefix={self._run.name}-{folder.name}-wan", "--memory=192MiB", f"--mtu={_MTU + _TUNNEL_OVERHEAD}", "--huge=never",
            f"--json={folder / 'wan.json'}",
        ]  # fmt: skip
        wan = processes.start("wan", [self._programs / "lr2-wan", *words])
        wan.wait_line("lr2-wan: ready", _START_S)
        return wan

    def _send(self, processes: Processes) -> dict[str, Any]:
        """Runs one transfer. Returns the result that the sender prints."""
        o = self._options
        transfer = Transfer(_IP["b"], o.warm_up, o.seconds, round(o.window), o.pace * self.link_bps).to_json()
        command = [sys.executable, "-m", "checks.tcp_host"]
        receiver = processes.start("receiver", self.hosts["b"].words(*command, "receive", transfer))
        receiver.wait_line("^ready", _START_S)
        sender = processes.start("sender", self.hosts["a"].words(*command, "send", transfer))
        hurry(receiver, sender)
        line = sender.wait_line(r"^\{.*\}$", _TRANSFER_S)
        said: dict[str, Any] = json.loads(line[0])
        return said


def _socket(folder: Path, site: str) -> Path:
    return folder / f"wan-{site}.sock"


def ratios(results: Sequence[Result], loss: float, tunnel: bool = True) -> list[float]:
    """By round: the rate at this loss, as a share of that without loss."""
    bare = {result.round: result.bps for result in results if result.tunnel and not result.loss}
    return [result.bps / bare[result.round] for result in results if (result.tunnel, result.loss) == (tunnel, loss)]


def missed(results: Sequence[Result]) -> list[str]:
    """The losses at which TCP is slower than the target, or than with boxes that do nothing."""
    found = []
    for loss in _LOSSES:
        share, nothing = median(ratios(results, loss)), median(ratios(results, loss, tunnel=False))
        if share < _LEAST:
            found.append(f"at {loss:.0%} TCP reached {share:.3f} of its rate without loss, {_LEAST} are expected")
        if share < nothing:
            found.append(f"at {loss:.0%} TCP reached {share:.3f} of its rate without loss, and {nothing:.3f} with boxes that do nothing")
    return found


def table(results: Sequence[Result]) -> str:
    lines = [f"  {'lost each way':<18} {'of no loss':<10}   {'by round':<24} TCP's rate"]
    for tunnel, loss in ((True, 0.0), *((True, loss) for loss in _LOSSES), *((False, loss) for loss in _LOSSES)):
        mine = [result for result in results if (result.tunnel, result.loss) == (tunnel, loss)]
        shares = ratios(results, loss, tunnel)
        each, rates = ", ".join(f"{share:.3f}" for share in shares), ", ".join(human_bits(result.bps) for result in mine)
        lines.append(f"  {mine[0].name:<18} {median(shares):<10.3f}   {each:<24} {rates}")
    return "\n".join(lines)


def _rounds(bench: Bench, results: list[Result], rounds: range) -> None:
    """Some rounds; boxes that do nothing are in the first of them: they are far slower."""
    for number in rounds:
        nothing = [(False, loss) for loss in _LOSSES if number == rounds[0]]
        for tunnel, loss in ((True, 0.0), *((True, loss) for loss in _LOSSES), *nothing):
            result = bench.transfer(tunnel, loss, number)
            results.append(result)
            print(
                f"  {result.name}: {human_bits(result.bps)}, {result.bytes >> 10} KiB, {result.resent} segments resent by TCP; "
                f"{result.lost} of {result.offered} frames lost, {result.resent_inside} resent by the tunnel",
                flush=True,
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="checks.tcp", description="TCP's rate through the tunnel, beside its rate without loss.")
    parser.add_argument("--rate", type=quantities.rate, default=50e6, help="of the long haul [50Mbps]")
    parser.add_argument("--rtt", type=quantities.time, default=0.01, help="of the long haul [10ms]")
    parser.add_argument("--pace", type=quantities.positive(float), default=0.9, help="the sender's rate, as a share of the long haul's; 2 or more: as fast as it can [0.9]")
    parser.add_argument("--window", type=quantities.positive(int), default=1 << 19, help="bytes that TCP may have in flight [524288]")
    parser.add_argument("--warm-up", type=quantities.positive(float), default=1.2, help="seconds before those that are measured [1.2]")
    parser.add_argument("--seconds", type=quantities.positive(float), default=1.8, help="that are measured [1.8]")
    return parser.parse_args()


def main() -> int:
    options = _options()
    leave_network()
    results: list[Result] = []
    with tidy_end(limit_s=_LIMIT_S), RunDir("lr2-tcp", keep="LR2_KEEP" in os.environ) as run, Processes(run.path) as processes:
        bench = Bench(options, run.path, processes)
        _rounds(bench, results, range(_ROUNDS))
        if missed(results):
            _rounds(bench, results, range(_ROUNDS, _ROUNDS + _MORE_ROUNDS))
        found = list(tcp_offloads.complaints(bench, processes))
    print(table(results))
    if folder := os.environ.get("LR2_TEST_DIR"):
        Path(folder, "tcp.json").write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    found += [complaint for result in results for complaint in result.complaints()] + missed(results)
    bare, asked = median(result.bps for result in results if result.tunnel and not result.loss), min(options.pace, 1) * bench.link_bps
    if bare < _FILLED * asked:
        found.append(f"without loss TCP reached {human_bits(bare)} of {human_bits(asked)}: this machine has too much to do")
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
