"""Tests of the crates: `python3 -m checks.rust_tests GROUP`, by the steps of scripts/test.

All groups run programs of one build of the whole workspace. With another selection of packages, cargo would give dependencies other
features, and compile these and all that needs them again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import ROOT

_TEST = ["cargo", "test", "--quiet", "--locked", "--workspace"]
_BUILD = [*_TEST, "--features", "analysis/tshark"]
_DPDK = ("dpdk-sys-wrapper", "gateway", "testbed")
"""Crates whose tests open ports of DPDK: one program at a time."""
_DISSECTOR = ("analysis", "dissector")
_LONGEST = (("tests", "it"), ("simulator", "it"), ("simulator", "simulator"), ("benches", "allocations"))
"""Begun first, so that none of these runs alone at the end."""
_NOT_QUICK = (*_DPDK, "simulator", "tests", "benches")
"""Crates that the group `quick` neither builds nor runs."""
_GROUPS = ("pure", "quick", "dpdk", "dissector", "doc")


@dataclass(frozen=True)
class Program:
    """The tests of a target of cargo."""

    crate: str
    target: str
    path: Path
    folder: Path
    """Of its crate: cargo runs tests there."""

    @property
    def name(self) -> str:
        return f"{self.crate}/{self.target}"

    @property
    def group(self) -> str:
        if (self.crate, self.target) == _DISSECTOR:
            return "dissector"
        return "dpdk" if self.crate in _DPDK else "pure"

    @property
    def order(self) -> tuple[int, str]:
        key = (self.crate, self.target)
        return _LONGEST.index(key) if key in _LONGEST else len(_LONGEST), self.name

    def run(self) -> tuple["Program", int, str]:
        """Exit code and output."""
        # For a program that hangs: the output comes at its end.
        print(f"{self.name} begins", flush=True)
        # libtest of a stable toolchain has the times of tests behind a flag.
        command, allowed = [self.path, "-Zunstable-options", "--report-time"], {"RUSTC_BOOTSTRAP": "1"}
        ended = subprocess.run(command, cwd=self.folder, env=os.environ | allowed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return self, ended.returncode, ended.stdout.decode(errors="replace")


def _built(group: str) -> Iterator[Program]:
    """Build the tests of all groups, or of `quick`. Yields the programs of the group."""
    build = [*_TEST, *(f"--exclude={crate}" for crate in _NOT_QUICK)] if group == "quick" else _BUILD
    ended = subprocess.run([*build, "--tests", "--no-run", "--message-format=json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in ended.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            program = Program(folder.name, message["target"]["name"], Path(message["executable"]), folder)
            if group in ("quick", program.group):
                yield program


def _failed(programs: list[Program], jobs: int) -> int:
    """Run the programs, and return the number of those that fail. Their output comes last."""
    failures = []
    with ThreadPoolExecutor(jobs) as pool:
        for program, code, output in pool.map(Program.run, programs):
            if code:
                failures.append(f"# {program.name}: exit code {code}\n{output}")
            else:
                print(f"# {program.name}\n{output}", flush=True)
    print(*failures, sep="\n", flush=True)
    return len(failures)


def main() -> int:
    parser = argparse.ArgumentParser(prog="checks.rust_tests")
    parser.add_argument("group", choices=_GROUPS)
    group = parser.parse_args().group
    start = time.monotonic()
    if group == "doc":
        return subprocess.run([*_BUILD, "--doc"], cwd=ROOT, check=False).returncode
    try:
        programs = sorted(_built(group), key=lambda program: program.order)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print(f"built after {time.monotonic() - start:.1f} s", flush=True)
    failed = _failed(programs, 1 if group == "dpdk" else os.cpu_count() or 1)
    print(f"{failed} of {len(programs)} programs failed")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
