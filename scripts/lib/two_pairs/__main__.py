"""Command line of scripts/two-pairs."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lr2run import (
    Ended,
    Gateway,
    Process,
    ProcessFailed,
    Processes,
    RunDir,
    TimedOut,
    hurry,
    human_bits,
    last_line,
    leave_network,
    memif,
    packet_socket,
    quantities,
    tidy_end,
    wait_until,
)

from .network import HOST_INTERFACE, HOST_IP, HOST_MAC, LAN_INTERFACE, PAIRS, ROUTER_MAC, SITES, Network, Router

_ROOT = Path(__file__).resolve().parents[3]
_CONFIGS = _ROOT / "configs" / "two-pairs"
MODES = ("off", "auto", "tunnel")
_MTU = 1500
_TUNNEL_OVERHEAD = 34
# For mbufs as large as a slot of a packet socket.
_HOST_MTU = 2000
# The bandwidth-delay product is 50 KB.
_POOLS = {"resend_cache": "8MiB", "reorder_pool": "8MiB", "backup_pool": "8MiB"}
_START_S = 60
# For the routers to find a path, or to leave one: BFD takes 0.45 s, an adjacency of OSPF some seconds.
_ROUTES_S = 30
_END_S = 30
# A queue pair fails after 8 x 268 ms without progress, long after BFD has seen that a path is dead.
_TIMEOUT_EXPONENT = 16
# How each box is restarted.
PLANNED, STOPPED, KILLED = "paths moved first", "SIGTERM", "SIGKILL"
_RESTARTS = (("a", 1, PLANNED), ("b", 1, KILLED), ("a", 2, STOPPED), ("b", 2, PLANNED))
# With --short: with warning and without. SIGTERM tells the peer as much as PLANNED does.
_SHORT = 2


class Pairs:
    """Both pairs, the routers and the hosts, in one mode."""

    def __init__(self, mode: str, options: argparse.Namespace, programs: Path, frr: Path, run: Path, processes: Processes) -> None:
        self.mode = mode
        self._options = options
        self._programs = programs
        self._run = run
        self._processes = processes
        self._network = Network(processes)
        self._hosts: list[Process] = []
        self._stopped: Process | None = None
        self._boxes = {(site, pair): self._start_box(site, pair) for site in SITES for pair in PAIRS}
        # lr2-wan does not start unless it can connect to them.
        sockets = [self._socket(site, pair) for site, pair in self._boxes]
        wait_until(lambda: self._check_boxes() or all(socket.is_socket() for socket in sockets), _START_S, "the boxes' WAN ports")
        self._wan = self._start_wan()
        self._wan.wait_line("lr2-wan: ready", _START_S)
        self._routers = {
            site: Router(processes, self._network.routers[site], frr, _CONFIGS / f"router-{site}.conf", run) for site in SITES
        }
        self._network.know_hosts()
        hurry(self._wan, *(box.process for box in self._boxes.values()), *(p for router in self._routers.values() for p in router.processes))
        self._await_paths(set(PAIRS))
        self._responder = self._start_host("b", "responder")
        self._responder.wait_line("lr2-host: ready", _START_S)
        self.requester = self._start_host("a", "requester")
        self.requester.wait_line("lr2-host: ready", _START_S)
        self._hosts = [self._responder, self.requester]
        hurry(*self._hosts)

    def _start_box(self, site: str, pair: int) -> Gateway:
        name = f"box-{site}{pair}"
        is_tunnel = self.mode == "tunnel"
        extra: dict[str, dict[str, Any]] = {"recovery": _POOLS}
        if is_tunnel:
            extra["wan"] = {"mtu": _MTU + _TUNNEL_OVERHEAD, "tunnel": "ethernet"}
        return Gateway.start(
            self._processes,
            self._programs / "lr2-gateway",
            self._run,
            name,
            within=self._network.boxes[site, pair].words(),
            lan=packet_socket(0, LAN_INTERFACE),
            wan=memif(1, "server", self._socket(site, pair)),
            recovery="off" if is_tunnel else self.mode,
            memory="256MiB",
            huge_pages="never",
            file_prefix=f"{self._run.name}-{name}",
            mtu=_MTU,
            extra=extra,
        )

    def _socket(self, site: str, pair: int) -> Path:
        return self._run / f"wan-{site}{pair}.sock"

    def _start_wan(self) -> Process:
        o = self._options
        links = []
        for pair in PAIRS:
            ends = [memif(2 * pair + n, "client", self._socket(site, pair)) for n, site in enumerate(SITES)]
            links.append([f"--name=pair{pair}", f"--a={ends[0]}", f"--b={ends[1]}", f"--delay={o.rtt / 2 * 1e9:.0f}ns", f"--loss={o.loss:g}"])
        first, second = links
        # lr2-wan takes the options of the program with those of the first link.
        dpdk = self._dpdk("wan", 192, _MTU + _TUNNEL_OVERHEAD)
        return self._processes.start("wan", [self._programs / "lr2-wan", *first, *dpdk, "--next", *second])

    def _start_host(self, site: str, role: str) -> Process:
        o = self._options
        other = "b" if site == "a" else "a"
        words = [
            self._programs / "lr2-host",
            f"--device={packet_socket(0, HOST_INTERFACE)}",
            f"--role={role}",
            f"--ip={HOST_IP[site]}",
            f"--peer-ip={HOST_IP[other]}",
            f"--mac={HOST_MAC[site]}",
            f"--peer-mac={ROUTER_MAC[site]}",
            f"--qps={o.qps}",
            "--pmtu=1024",
            "--message=64KiB",
            f"--rate={o.rate:.0f}",
            f"--rtt={o.rtt * 1e9:.0f}ns",
            "--window=4bdp",
            f"--timeout={_TIMEOUT_EXPONENT}",
            "--seconds=600",
            *self._dpdk(f"host-{site}", 64, _HOST_MTU),
        ]
        return self._processes.start(f"host-{site}", self._network.hosts[site].words(*words))

    def _dpdk(self, name: str, memory_mib: int, mtu: int) -> list[str]:
        prefix, report = f"--file-prefix={self._run.name}-{name}", f"--json={self._report(name)}"
        return [prefix, report, f"--memory={memory_mib}MiB", f"--mtu={mtu}", "--huge=never", "--live=50ms"]

    def _report(self, name: str) -> Path:
        return self._run / f"{name}.json"

    def _await_paths(self, pairs: set[int]) -> None:
        """Until both routers forward over these pairs, and BFD watches each of them."""

        def is_so() -> bool:
            self.check()
            routers = [(self._routers[site], HOST_IP[other]) for site, other in zip(SITES, reversed(SITES), strict=True)]
            return all(router.paths_to(address) == pairs and pairs <= router.watched_paths() for router, address in routers)

        what = "both pairs" if len(pairs) > 1 else f"pair {min(pairs)} alone"
        wait_until(is_so, _ROUTES_S, f"{self.mode}: routes over {what}")

    def restart(self, site: str, pair: int, how: str) -> int:
        """Restarts a box. How many retransmission timeouts the requester had meanwhile."""
        (other,) = set(PAIRS) - {pair}
        before = self._timeouts()
        if how == PLANNED:
            for router in self._routers.values():
                router.cost(pair, 1000)
            self._await_paths({other})
            # The frames that are on the old path arrive before the box is stopped.
            time.sleep(0.2)
        box = self._boxes[site, pair]
        self._stopped = box.process
        code = box.process.stop(how=signal.SIGKILL if how == KILLED else signal.SIGTERM)
        if how != KILLED and code:
            raise ProcessFailed(f"{box.name}: exit code {code} after SIGTERM:\n{box.process.tail()}")
        self._await_paths({other})
        self.run_for(0.5)
        self._boxes[site, pair] = box = self._start_box(site, pair)
        hurry(box.process)
        if how == PLANNED:
            for router in self._routers.values():
                router.cost(pair, None)
        self._await_paths(set(PAIRS))
        self.run_for(1)
        return self._timeouts() - before

    def run_for(self, seconds: float) -> None:
        """Lets traffic run."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check()
            time.sleep(0.1)

    def check(self) -> None:
        """`ProcessFailed` if anything has ended that should run."""
        self._check_boxes()
        for process in (self._wan, *self._hosts):
            process.check()
        for router in self._routers.values():
            router.check()

    def _check_boxes(self) -> None:
        for box in self._boxes.values():
            if box.process is not self._stopped:
                box.process.check()

    def _timeouts(self) -> int:
        line = last_line(self.requester)
        return line["timeouts"] if line else 0

    def finish(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The reports of requester and responder."""
        self.requester.send_signal(signal.SIGTERM)
        self.requester.wait(_END_S)
        self._responder.stop()
        requester, responder = (json.loads(self._report(f"host-{site}").read_text()) for site in SITES)
        return requester, responder


@dataclass(frozen=True)
class Result:
    """The figures of one mode."""

    mode: str
    restarts: list[tuple[str, str, int]]
    """The box, how it was restarted, and how many timeouts the requester had meanwhile."""
    seconds: float
    requester: dict[str, Any]
    responder: dict[str, Any]

    @property
    def goodput_bps(self) -> float:
        return self.requester["requester"]["completed"]["bytes"] * 8 / self.seconds

    @property
    def longest_stall_s(self) -> float:
        return self.responder["responder"]["longest_stall_us"] / 1e6

    def complaints(self) -> Iterator[str]:
        """Failures that the other path has to prevent."""
        host = self.requester
        # With off nothing repairs the losses, and queue pairs may fail.
        if host["qps_failed"] and self.mode != "off":
            yield f"{host['qps_failed']} of {host['qps']} queue pairs failed"
        if (pending := host["requester"]["pending"]) and self.mode != "off":
            yield f"{pending} messages had not ended"
        if corrupt := self.responder["responder"]["corrupt_bytes"]:
            yield f"{corrupt} bytes were corrupt"


def run_mode(mode: str, options: argparse.Namespace, run: Path) -> Result:
    """One pass, in which every box is restarted."""
    programs, frr = Path(os.environ["LR2_BIN"]), Path(os.environ["LR2_FRR"])
    with Processes(run) as processes:
        pairs = Pairs(mode, options, programs, frr, run, processes)
        begin = time.monotonic()
        pairs.run_for(3)
        restarts = []
        for site, pair, how in _RESTARTS[:_SHORT] if options.short else _RESTARTS:
            restarts.append((f"{site.upper()}{pair}", how, pairs.restart(site, pair, how)))
            print("  {}: {} restarted, {}: {} timeouts".format(mode, *restarts[-1]), file=sys.stderr)
        seconds = time.monotonic() - begin
        return Result(mode, restarts, seconds, *pairs.finish())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="two-pairs",
        description="Two pairs of boxes between routers with ECMP (FRR, OSPF and BFD) in network namespaces. "
        "Each box is restarted in turn while queue pairs transfer.",
        epilog="Exit code: 0 the boxes that repair losses lost no queue pair, and carried no less than with off, 1 they did, 2 could not run.",
    )
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--mode", action="append", choices=MODES, help="of the boxes; more than once for several [default: all]")
    parser.add_argument("--rate", type=quantities.rate, default=40e6, help="of the hosts' ports [default: 40Mbps]")
    parser.add_argument("--rtt", type=quantities.time, default=0.01, help="of the long haul [default: 10ms]")
    parser.add_argument("--loss", type=quantities.share, default=0.005, help="share of frames that the long haul loses [default: 0.005]")
    parser.add_argument("--qps", type=quantities.positive(int), default=16, help="queue pairs [default: 16]")
    parser.add_argument("--short", action="store_true", help="restart two boxes, one after its paths were moved and one by SIGKILL, as scripts/test does without --long; the others keep running")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and reports")
    return parser.parse_args()


def _worse(results: list[Result]) -> Iterator[str]:
    """Boxes that repair losses carry no less than boxes that do nothing, also while they are restarted."""
    nothing = next((result.goodput_bps for result in results if result.mode == "off"), 0)
    for result in results:
        if result.goodput_bps < nothing:
            yield f"{result.mode}: {human_bits(result.goodput_bps)}, and {human_bits(nothing)} with off"


def _table(results: list[Result]) -> str:
    lines = ["  mode          goodput  messages  failed queue pairs  longest stall of a queue pair  timeouts"]
    for result in results:
        requester = result.requester["requester"]
        lines.append(
            f"  {result.mode:<7} {human_bits(result.goodput_bps):>13} {requester['messages']:>9} {result.requester['qps_failed']:>19}"
            f" {result.longest_stall_s:>28.2f} s {requester['timeouts']:>9}"
        )
    return "\n".join(lines)


def main() -> int:
    options = _options()
    if options.check:
        return 0
    modes = options.mode or MODES
    run_dir = RunDir("lr2-pairs", keep=options.keep)
    try:
        # A pass takes some 70 s.
        with tidy_end(180 * len(modes)), run_dir as run:
            leave_network()
            results = []
            for mode in modes:
                (run.path / mode).mkdir()
                results.append(run_mode(mode, options, run.path / mode))
    except (ProcessFailed, TimedOut, Ended) as error:
        print(f"two-pairs: {error}", file=sys.stderr)
        if run_dir.keep:
            print(f"two-pairs: logs are in {run_dir.path}", file=sys.stderr)
        return 1
    print(_table(results))
    if run_dir.keep:
        print(f"  Logs and reports: {run_dir.path}")
    complaints = [f"{result.mode}: {complaint}" for result in results for complaint in result.complaints()]
    complaints += _worse(results)
    for complaint in complaints:
        print(f"two-pairs: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
