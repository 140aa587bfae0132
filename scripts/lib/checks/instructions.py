"""Instructions of each stage of a packet's way: `python3 -m checks.instructions`, by scripts/instructions and by the step of scripts/test.

callgrind counts in one function of benches/src/bin/instructions.rs, one
case at a time; benches/instructions.toml says how many there may be. Counts are the
same on every run and under any load, on machines alike: the toolchain is pinned, and
valgrind shows every program the same processor, with AVX2 where the machine has it.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lr2run import Ended, tidy_end

from . import ROOT

_PINS = ROOT / "benches" / "instructions.toml"
_TABLE = ROOT / "benches" / "src" / "lib.rs"
_ROW = re.compile(r'^ {4}"([^"]+)", ', re.MULTILINE)
_PROGRAM = "lr2-instructions"
_MEASURED = "lr2_instructions::measured"
_ROUNDS = 356
"""Twice the interval of SYNC(keepalive) in benches/src/link.rs: each flow has sent two of them."""
_TOLERANCE = 0.02
"""A pinned count may grow by so much: less is a matter of where things lie in memory, and of how the compiler feels."""
_LIMIT_S = 300
_HEAD = f"""\
# Instructions per packet, ACK or message of each case in benches/src/lib.rs. Made by
# scripts/instructions --renew; scripts/test instructions fails where one takes over
# {_TOLERANCE:.0%} more. Counted on x86-64 with AVX2.

"""


class _CannotCount(Exception):
    """Why not."""


@dataclass(frozen=True)
class Case:
    name: str
    per_round: int

    def count(self, program: Path, folder: str) -> float:
        """Instructions each time that it is done."""
        profile = Path(folder, re.sub(r"\W+", "-", self.name))
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={profile}",
            f"--toggle-collect={_MEASURED}",
            str(program),
            self.name,
            str(_ROUNDS),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        total = re.search(r"^totals: (\d+)", profile.read_text(), re.MULTILINE) if profile.exists() else None
        if ended.returncode or total is None:
            raise _CannotCount(f"{self.name} could not be counted:\n{ended.stderr}")
        return int(total[1]) / (_ROUNDS * self.per_round)


def _named() -> list[str]:
    """The names of all cases, read from the source, so that a wrong one is refused before the program is built."""
    return _ROW.findall(_TABLE.read_text())


def _build() -> Path:
    # Without `-p`: dependencies have the features that they have in the programs.
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--bin", _PROGRAM]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise _CannotCount("the benchmarks could not be built")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "release", _PROGRAM)


def _cases(program: Path) -> list[Case]:
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in listed.splitlines())
    return [Case(name, int(per_round)) for per_round, name in rows]


def _count(program: Path, cases: Sequence[Case]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = pool.map(lambda case: case.count(program, folder), cases)
        return dict(zip((case.name for case in cases), counts, strict=True))


def _figure(count: float) -> str:
    return f"{count:.1f}" if count < 1000 else f"{count:.0f}"


def _write(counts: dict[str, float]) -> None:
    rows = [f'"{name}" = {_figure(count)}\n' for name, count in counts.items()]
    _PINS.write_text(_HEAD + "".join(rows))


def _print(counts: dict[str, float], pins: dict[str, float]) -> None:
    for name, count in counts.items():
        pin = pins.get(name)
        change = f"{count / pin - 1:+.1%}" if pin else "not pinned"
        print(f"{_figure(count):>8}  {change:>10}  {name}")


def _judge(counts: dict[str, float], pins: dict[str, float], whole: bool) -> int:
    """Prints the differences from the pins; returns how many cases are worse."""
    worse = [f"{name} has no pin" for name in counts if name not in pins]
    better = []
    for name in counts.keys() & pins.keys():
        count, pin = counts[name], pins[name]
        if count > pin * (1 + _TOLERANCE):
            worse.append(f"{name}: grew from {_figure(pin)} to {_figure(count)} instructions, {count / pin - 1:+.1%}")
        elif count < pin * (1 - _TOLERANCE):
            better.append(name)
    if whole:
        worse += [f"{name} is pinned, and no case" for name in pins.keys() - counts.keys()]
    if better:
        print(f"\nBetter than pinned; scripts/instructions --renew keeps it so: {'; '.join(sorted(better))}")
    if worse:
        print("\n" + "\n".join(sorted(worse)))
        print("If a change is worth that, pin it with scripts/instructions --renew, and commit benches/instructions.toml with the change.")
    return len(worse)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/instructions",
        description="Counts the instructions of each stage of a packet's way, and compares them with benches/instructions.toml.",
        epilog="Exit code: 0 as pinned, 1 more than pinned, 2 could not run.",
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only those whose name contains one of these")
    parser.add_argument("--renew", action="store_true", help="pin what is counted")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.renew and options.cases:
        parser.error("--renew pins all cases: give none")
    named = _named()
    if unknown := [part for part in options.cases if not any(part in name for name in named)]:
        parser.error(f"no case contains {', '.join(unknown)}; there are {'; '.join(named)}")
    return options


def _main(options: argparse.Namespace) -> int:
    if platform.machine() != "x86_64":
        print(f"not compared: the counts are those of x86-64, and this is {platform.machine()}")
        return 0
    program = _build()
    known = _cases(program)
    if [case.name for case in known] != _named():
        raise _CannotCount(f"{_TABLE} was not understood: it has not the cases of the program")
    chosen = [case for case in known if not options.cases or any(part in case.name for part in options.cases)]
    counts = _count(program, chosen)
    pins = tomllib.loads(_PINS.read_text()) if _PINS.exists() else {}
    _print(counts, pins)
    if options.renew:
        _write(counts)
        return 0
    return 1 if _judge(counts, pins, whole=not options.cases) else 0


def main() -> int:
    options = _options()
    if options.check:
        return 0
    try:
        with tidy_end(_LIMIT_S * 2):
            return _main(options)
    except _CannotCount as error:
        print(f"scripts/instructions: {error}", file=sys.stderr)
        return 2
    except Ended as error:
        print(f"scripts/instructions: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
