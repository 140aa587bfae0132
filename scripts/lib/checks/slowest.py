"""The slowest tests of a run, from what its steps print."""

import re
from collections.abc import Iterator
from pathlib import Path

_COUNT = 10
_PROGRAM = re.compile(r"^# (\S+/\S+)$")
# As libtest prints it, as scripts/rdma-e2e does, and as the steps that print one line for each part.
_LIBTEST = re.compile(r"^test (\S+).* \.\.\. \w+ <([\d.]+)s>$")
_CASE = re.compile(r"^(?:PASS|FAIL) (\S+ \[\S+\]) +([\d.]+) s:")
_PART = re.compile(r"^ *([\d.]+) s  (\S.*)$")


def _tests(log: Path) -> Iterator[tuple[float, str]]:
    """Seconds and name of each test in the log of a step."""
    program = ""
    for line in log.read_text(errors="replace").splitlines():
        if found := _PROGRAM.match(line):
            program = f"{found[1]} "
        elif found := _LIBTEST.match(line):
            yield float(found[2]), f"{log.stem}: {program}{found[1]}"
        elif found := _CASE.match(line):
            yield float(found[2]), f"{log.stem}: {found[1]}"
        elif found := _PART.match(line):
            yield float(found[1]), f"{log.stem}: {found[2]}"


def table(logs: list[Path]) -> str:
    """The ten slowest; empty where no step printed times."""
    slowest = sorted((test for log in logs if log.exists() for test in _tests(log)), reverse=True)[:_COUNT]
    lines = [f"{seconds:7.1f} s  {name}" for seconds, name in slowest]
    return "\n".join([f"The {len(lines)} slowest:", *lines]) if lines else ""
