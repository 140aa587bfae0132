"""`python3 -m bench`; scripts/bench prepares the machine for it."""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lr2run import Ended, hugepages, human_bytes, tidy_end

from . import cases, measure, programs, report
from .cases import Group

_MIB = 1 << 20
_QUICK_S = 270.0
"""After so many seconds --quick begins no other round."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="What testpmd, Open vSwitch, a loop that holds frames, and lr2-gateway cost per packet, on the same ports "
        "and one core. Rounds are interleaved, figures are medians; time that other processes take of the core does not count.",
        epilog="Exit code: 0 all measured, 1 something was out of order, 2 could not run.",
    )
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--quick", action="store_true", help="each program at each frame size, within five minutes")
    sets.add_argument("--smoke", action="store_true", help="a few programs for a moment, to see that it works")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds [5; quick: 2; smoke: 1]")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of a measurement [1; smoke: 0.3]")
    parser.add_argument(
        "--only", action="append", metavar="PROGRAM", help="testpmd, ovs, hold, sentry, depot, both, or with its mode, "
        '"sentry cached"; may be repeated; macswap always runs'
    )  # fmt: skip
    parser.add_argument("--payload", type=int, action="append", metavar="BYTES", help="only these; may be repeated")
    parser.add_argument("--flows", type=int, action="append", metavar="N", help="only these; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = {name for dut in cases.ALL for name in (dut.name, str(dut))}
    for name in options.only or []:
        if name not in names:
            parser.error(f"--only {name!r}: there are {', '.join(sorted(names))}")
    if (options.rounds is not None and options.rounds < 1) or (options.seconds is not None and not 0 < options.seconds <= 60):
        parser.error("--rounds: at least 1; --seconds: more than 0, at most 60")
    return options


def _groups(options: argparse.Namespace) -> list[Group]:
    groups = cases.smoke() if options.smoke else cases.quick() if options.quick else cases.full()
    return [
        group
        for group in cases.chosen(groups, options.only)
        if (not options.payload or group.traffic.payload in options.payload)
        and (not options.flows or group.traffic.flows in options.flows)
    ]


def _without(groups: list[Group], lacks: dict[str, str]) -> list[Group]:
    return [Group(group.traffic, tuple(case for case in group.cases if case.dut.name not in lacks)) for group in groups]


def _cpus() -> tuple[int, int]:
    """One to poll, and one for all else."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[-1], cpus[0]


def _measure(options: argparse.Namespace, groups: list[Group], folder: Path) -> tuple[list[dict[str, Any]], bool]:
    cpu, other = _cpus()
    for name in ("librte_net_traffic.so", "hold"):
        shutil.copy(options.port / name, folder / name)
    place = programs.Place(folder, options.programs / "lr2-gateway", cpu, other)
    rounds = options.rounds or (1 if options.smoke else 2 if options.quick else 5)
    seconds = options.seconds or (0.3 if options.smoke else 1.0)
    deadline = time.monotonic() + (_QUICK_S if options.quick else float("inf"))
    made: list[dict[str, Any]] = []
    good = True
    for group in groups:
        results = measure.group(place, group, rounds, seconds, deadline)
        rows = report.rows(results)
        print(report.table(str(group.traffic), rows) + "\n", flush=True)
        good &= all(result.ok for result in results)
        made += rows
    return made, good


def _machine() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':')[1].strip()}, {os.cpu_count()} CPUs, {platform.release()}"
    return platform.machine()


def main() -> int:
    options = _options()
    groups = _groups(options)
    if options.check:
        return 0
    lacks = programs.missing({case.dut for group in groups for case in group.cases})
    for name, what in lacks.items():
        print(f"scripts/bench: {name} is left out: {what}", file=sys.stderr)
    groups = [group for group in _without(groups, lacks) if group.cases]
    if not groups:
        print("scripts/bench: no case is left", file=sys.stderr)
        return 2
    if len(os.sched_getaffinity(0)) < 2:
        print("scripts/bench: needs two CPUs, one of them for the program under test alone", file=sys.stderr)
        return 2
    need = max(programs.memory(case.dut, case.traffic) for group in groups for case in group.cases) + 128 * _MIB
    start = time.monotonic()
    # Not under /tmp, which all can write to: DPDK loads no driver from there.
    folder = Path(tempfile.mkdtemp(prefix="lr2-bench.", dir="/run"))
    try:
        with tidy_end(2 * 3600), hugepages(need) as enough:
            if not enough:
                pages = -(-need // (2 * _MIB))
                print(
                    f"scripts/bench: needs {human_bytes(need)} of free 2 MiB hugepages, and the kernel did not give them; "
                    f"echo {pages} > /proc/sys/vm/nr_hugepages early after boot, or choose fewer frames with --payload and --flows",
                    file=sys.stderr,
                )
                return 2
            made, good = _measure(options, groups, folder)
    except Ended as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        report.write(options.json, made, {"machine": _machine(), "left_out": lacks})
    print(f"{'PASS' if good else 'FAIL'}: {len(made)} cases, {time.monotonic() - start:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
