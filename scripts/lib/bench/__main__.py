"""`python3 -m bench`; scripts/bench prepares the machine for it."""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lr2run import Ended, hugepages, human_bytes, quantities, tidy_end

from . import cases, document, idle, measure, programs, report, rings
from .cases import Group

_MIB = 1 << 20
_QUICK_S = 200.0
"""After so many seconds --quick begins no other round: the rest of a group and of the run still fits into five minutes."""
_PARTS = ("idle", "rings")
"""Measurements besides those of programs."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="What testpmd, Open vSwitch, a loop that holds frames, and lr2-gateway cost per packet, on the same ports "
        "and one core; what a gateway with nothing to do takes, and what handing packets from worker to worker costs. "
        "Rounds are interleaved, figures are medians; time that other processes take of the core does not count.",
        epilog="Exit code: 0 all measured, 1 something was out of order, 2 could not run.",
    )
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--quick", action="store_true", help="each program at each frame size, within five minutes")
    sets.add_argument("--smoke", action="store_true", help="a few programs for a moment, to see that it works")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds [5; quick: 2; smoke: 1]")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of a measurement [1; smoke: 0.3]")
    parser.add_argument(
        "--only", action="append", metavar="PROGRAM", help="testpmd, ovs, hold, sentry, depot, both, tunnel, or with its mode, "
        '"sentry cached", with what it has several of, "tunnel sender, 2 workers"; idle; rings; may be repeated; next to programs, macswap always runs'
    )  # fmt: skip
    parser.add_argument("--payload", type=int, action="append", metavar="BYTES", help="only these; may be repeated")
    parser.add_argument("--flows", type=int, action="append", metavar="N", help="only these; may be repeated")
    parser.add_argument("--loss", type=float, metavar="PART", help="of the data packets, in the cases with loss [0.01]; 0: without these")
    parser.add_argument("--json", type=quantities.new_file, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--document", action="store_true", help="write tables and charts of docs/performance.md anew; for a full run"
    )
    parser.add_argument("--from", type=Path, dest="figures", metavar="FILE", help="measure nothing: the figures of an earlier --json")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = {*_PARTS, *(name for dut in (*cases.ALL, *cases.SCALED, *cases.SPRAYED, *cases.UNRECORDED, *cases.LANS, *cases.REPAIRED) for name in (dut.name, str(dut)))}
    for name in options.only or []:
        if name not in names:
            parser.error(f"--only {name!r}: there are {', '.join(sorted(names))}")
    if (options.rounds is not None and options.rounds < 1) or (options.seconds is not None and not 0 < options.seconds <= 60):
        parser.error("--rounds: at least 1; --seconds: more than 0, at most 60")
    if options.loss is not None and not 0 <= options.loss <= 0.2:
        parser.error("--loss: from 0 to 0.2")
    if options.figures and not options.document:
        parser.error("--from: with --document")
    if not options.figures and not _groups(options) and not _parts(options):
        parser.error("nothing is measured with these --only, --payload and --flows together")
    return options


def _groups(options: argparse.Namespace) -> list[Group]:
    groups = cases.smoke() if options.smoke else cases.quick() if options.quick else cases.full()
    if options.loss is not None:
        groups = [group.with_loss(options.loss) for group in groups]
    if options.only and not set(options.only) - {*_PARTS}:
        return []
    return [
        group
        for group in cases.chosen(groups, options.only)
        if (not options.payload or group.traffic.payload in options.payload)
        and (not options.flows or group.traffic.flows in options.flows)
    ]


def _parts(options: argparse.Namespace) -> list[str]:
    """Beside the groups."""
    if options.only:
        return [part for part in _PARTS if part in options.only]
    # Who chooses a traffic wants nothing else.
    return [] if options.payload or options.flows else [*_PARTS]


def _without(groups: list[Group], lacks: dict[str, str]) -> list[Group]:
    without = [Group(group.traffic, tuple(case for case in group.cases if case.dut.name not in lacks)) for group in groups]
    return [group for group in without if group.cases]


def _need(groups: list[Group], parts: list[str]) -> int:
    """Bytes of hugepages."""
    wanted = [case for group in groups for case in group.cases]
    wanted += [case for group in rings.groups() for case in group.cases] if "rings" in parts else []
    wanted += idle.CASES if "idle" in parts else ()
    return max((programs.memory(case.dut, case.traffic) for case in wanted), default=0) + 128 * _MIB


def _cpus() -> tuple[int, int]:
    """One to poll, and one for all else."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[-1], cpus[0]


def _measure(options: argparse.Namespace, groups: list[Group], parts: list[str], folder: Path) -> dict[str, Any]:
    cpu, other = _cpus()
    for name in ("librte_net_traffic.so", "hold", "doze"):
        shutil.copy(options.port / name, folder / name)
    place = programs.Place(folder, options.programs / "lr2-gateway", cpu, other)
    rounds = options.rounds or (1 if options.smoke else 2 if options.quick else 5)
    seconds = options.seconds or (0.3 if options.smoke else 1.0)
    deadline = time.monotonic() + (_QUICK_S if options.quick else float("inf"))
    made: dict[str, Any] = {"machine": _machine(), "command": _command(), "rounds": rounds, "seconds": seconds, "cases": []}
    for group in groups:
        rows = report.rows(measure.group(place, group, rounds, seconds, deadline))
        print(report.table(str(group.traffic), rows) + "\n", flush=True)
        made["cases"] += rows
        if options.json:
            # Of a long run, the results so far.
            report.write(options.json, made)
    if "idle" in parts:
        made["idle"] = idle.measure(place, 1 if options.smoke else 3, seconds)
        print(idle.table(made["idle"]) + "\n", flush=True)
    if "rings" in parts:
        made["rings"] = rings.measure(place, rounds, seconds)
        print(rings.table(made["rings"]) + "\n", flush=True)
    return made


def _rows(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for part in ("cases", *_PARTS) for row in made.get(part, [])]


def _machine() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':')[1].strip()}, {os.cpu_count()} CPUs, Linux {platform.release().split('-')[0]}"
    return platform.machine()


def _say(text: str) -> None:
    print(f"scripts/bench: {text}", file=sys.stderr)


def _fitting(groups: list[Group], parts: list[str], room: int) -> list[Group]:
    """The groups that find room in so many bytes of hugepages."""
    fitting = [group for group in groups if _need([group], parts) <= room]
    for group in groups:
        if group not in fitting:
            _say(f"{group.traffic} is left out: it needs {human_bytes(_need([group], []))} of hugepages")
    return fitting


def _run(options: argparse.Namespace, groups: list[Group], parts: list[str]) -> dict[str, Any] | None:
    """None, having said why, without enough hugepages for anything."""
    # Not under /tmp, which all can write to: DPDK loads no driver from there.
    folder = Path(tempfile.mkdtemp(prefix="lr2-bench.", dir="/run"))
    needs = sorted({_need([group], parts) for group in groups} or {_need([], parts)}, reverse=True)
    try:
        with tidy_end(4 * 3600):
            for need in needs:
                with hugepages(need) as enough:
                    if enough:
                        return _measure(options, _fitting(groups, parts, need), parts, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    pages = -(-needs[-1] // (2 * _MIB))
    _say(
        f"needs {human_bytes(needs[-1])} of free 2 MiB hugepages at least, and the kernel did not give them: in a container the "
        f"host has to; else  echo {pages} > /proc/sys/vm/nr_hugepages  early after boot, or choose less with --payload and --flows"
    )
    return None


def main() -> int:
    options = _options()
    groups, parts = _groups(options), _parts(options)
    if options.check:
        return 0
    if options.figures:
        document.write(json.loads(options.figures.read_text()))
        return 0
    lacks = programs.missing({case.dut for group in groups for case in group.cases})
    for name, what in lacks.items():
        _say(f"{name} is left out: {what}")
    groups = _without(groups, lacks)
    if not groups and not parts:
        _say("no case is left")
        return 2
    if len(os.sched_getaffinity(0)) < 2:
        _say("needs two CPUs, one of them for the program under test alone")
        return 2
    # A program may have a worker on each CPU, before all others.
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    programs.prefer(os.getpid())
    start = time.monotonic()
    try:
        made = _run(options, groups, parts)
    except Ended as error:
        _say(str(error))
        return error.exit_code
    if made is None:
        return 2
    made["left_out"] = lacks
    if options.json:
        report.write(options.json, made)
    if options.document:
        document.write(made)
    rows = _rows(made)
    bad = [row for row in rows if row["problems"]]
    print(f"{'FAIL' if bad else 'PASS'}: {len(rows)} cases, {len(bad)} of them out of order, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


def _command() -> str:
    """The command line, without the options that say where to write."""
    words = iter(sys.argv[1:])
    kept = []
    for word in words:
        if word in ("--programs", "--port", "--json"):
            next(words)
        elif word != "--document":
            kept.append(word)
    return " ".join(["./scripts/bench", *kept])


if __name__ == "__main__":
    sys.exit(main())
