"""The command line of scripts/check-rnic."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from lr2run import parse_seconds

from . import CHECKS

_SHORTEST_HOLD_S, _LONGEST_HOLD_S = 1e-3, 1.0
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 1.0, 3600.0


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    a: str
    b: str
    rnic: str
    only: tuple[str, ...]
    skip: tuple[str, ...]
    hold: str
    wait: str
    out: Path
    rdma: str
    address: str
    gid_index: str
    program_options: tuple[str, ...]
    """For lr2-check-rnic, as they are."""

    @property
    def markdown(self) -> Path:
        """The report for people."""
        return self.out.with_name(self.out.name + ".md")

    @property
    def json(self) -> Path:
        """The report for programs."""
        return self.out.with_name(self.out.name + ".json")


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in CHECKS]:
        raise argparse.ArgumentTypeError(f"no check {', '.join(map(repr, unknown))}; the checks are {', '.join(CHECKS)}")
    return names


def _time(text: str, least: float, most: float, allowed: str) -> str:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not least <= seconds <= most:
        raise argparse.ArgumentTypeError(f"{text} is out of range: {allowed}")
    # The program has no minutes, and no exponents.
    return f"{round(seconds * 1e6)}us"


def _hold(text: str) -> str:
    return _time(text, _SHORTEST_HOLD_S, _LONGEST_HOLD_S, "1ms to 1s")


def _wait(text: str) -> str:
    return _time(text, _SHORTEST_WAIT_S, _LONGEST_WAIT_S, "1s to 60m")


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"check-rnic: {message}; see --help\n")


def parse(words: list[str] | None = None) -> tuple[Options, bool, bool]:
    """The options; whether only they are to be checked; whether the checks are to be listed."""
    parser = _Parser(
        prog="check-rnic",
        description="Tries on the RNICs of two hosts what LR2 gateways do to them, and writes a report to attach to an issue. "
        "This box is the wire between the hosts; perftest on them makes the traffic, as you are told step by step.",
        epilog=f"Checks: {', '.join(CHECKS)}. Exit code: 0 nothing differs, 1 something does, 2 could not run, or nothing was tried.",
    )
    parser.add_argument("--a", metavar="DEVICE", help="port to host A: a PCI address, or a DPDK virtual device")
    parser.add_argument("--b", metavar="DEVICE", help="port to host B")
    parser.add_argument("--rnic", metavar="TEXT", default="not described", help="the RNICs in your words, for the report: model, firmware, driver, settings")
    parser.add_argument("--only", type=_checks, default=(), metavar="CHECK,...", help="run only these checks")
    parser.add_argument("--skip", type=_checks, default=(), metavar="CHECK,...", help="leave these checks out")
    parser.add_argument("--list", action="store_true", help="list the checks, and what LR2 relies on in each")
    parser.add_argument("--hold", type=_hold, default="5ms", metavar="TIME", help="for how long packets may be held: less than a third of the queue pairs' timeout [5ms]")
    parser.add_argument("--wait", type=_wait, default="5m", metavar="TIME", help="for how long each kind of traffic is awaited [5m]")
    parser.add_argument("--out", type=Path, default=Path("rnic-report"), metavar="PATH", help="reports, without .md and .json [rnic-report]")
    parser.add_argument("--rdma", default="DEVICE", metavar="NAME", help="name of the RDMA device on the hosts, for the commands that are shown, as mlx5_0")
    parser.add_argument("--gid-index", default="INDEX", metavar="N", help="index of the hosts' RoCEv2 GID, for these commands, as show_gids has it")
    parser.add_argument("--address", default="ADDRESS", metavar="ADDRESS", help="address of host B, for these commands")
    parser.add_argument("--cores", metavar="CPU", help="CPU for the wire [any]")
    parser.add_argument("--mtu", type=int, metavar="BYTES", help="largest IP packet [9000]")
    parser.add_argument("--huge", choices=("auto", "never", "require"), help="whether to use hugepages [auto]")
    parser.add_argument("--idle", choices=("busy", "adaptive"), help="how the wire waits while there is nothing to do [busy]")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args(words)
    if not found.list:
        for name in ("a", "b"):
            if not getattr(found, name):
                parser.error(f"--{name} is missing: the port to host {name.upper()}, a PCI address such as 0000:3b:00.0")
        if found.a == found.b:
            parser.error("--a and --b are the same port: give one for each host")
        if not [name for name in CHECKS if (not found.only or name in found.only) and name not in found.skip]:
            parser.error("--only and --skip leave no check")
        if not found.out.absolute().parent.is_dir():
            parser.error(f"--out {found.out}: there is no folder {found.out.absolute().parent}")
    more = [word for name in ("cores", "mtu", "huge", "idle") if (value := getattr(found, name)) for word in (f"--{name}", str(value))]
    options = Options(
        found.a,
        found.b,
        found.rnic,
        found.only,
        found.skip,
        found.hold,
        found.wait,
        found.out,
        found.rdma,
        found.address,
        found.gid_index,
        tuple(more),
    )
    return options, found.check, found.list
