"""Fuzzing: `python3 -m checks.fuzz`, by scripts/fuzz and by the step of scripts/test.

libFuzzer on the stable toolchain: the compiler's own coverage pass needs no
nightly. Every run starts from fuzz/corpus; new inputs go elsewhere, and only
--keep brings it back, minimised.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lr2run import Ended, tidy_end

from . import ROOT

_FUZZ = ROOT / "fuzz"
_CORPUS = _FUZZ / "corpus"
_TARGETS = ("frame", "cm", "control", "config", "sentry", "depot", "switch", "shim", "encapsulation", "session", "lanes", "fec")
_SECONDS = 8
# With --pinned and LR2_LONG=1: inputs in all, corpus included. Some four seconds for each target. Without LR2_LONG half of them.
_PINNED = {
    "frame": 500_000,
    "cm": 1_000_000,
    "control": 300_000,
    "config": 10_000,
    "encapsulation": 400_000,
    "sentry": 5_000,
    "depot": 8_000,
    "switch": 6_000,
    "shim": 300_000,
    "session": 5_000,
    "lanes": 5_000,
    "fec": 40_000,
}
_PINNED_LIMIT_S = 120

# Coverage of every edge, and of every comparison, for the fuzzer.
_COVERAGE = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
)
# An input takes well under a millisecond; one that takes this long hangs.
_HANG_S = 10
_MEMORY_MIB = 2048
# Inputs that are kept stay small enough to read, and the corpus to clone.
_KEPT_BYTES = 768
# How libFuzzer says where the input is.
_WRITTEN = "Test unit written to "
# Beyond the time it was told, for the last input and the end.
_GRACE_S = 30


@dataclass(frozen=True)
class Fuzzer:
    program: Path
    target: str
    work: Path
    """New inputs of this run, and the input that a crash came from."""

    def command(self, *arguments: str | Path) -> list[str]:
        limits = [f"-timeout={_HANG_S}", f"-rss_limit_mb={_MEMORY_MIB}", f"-artifact_prefix={self.work}/"]
        return [str(self.program), *limits, *map(str, arguments)]

    @property
    def found(self) -> Path:
        return self.work / "found"

    @property
    def corpus(self) -> Path:
        return _CORPUS / self.target

    @property
    def log(self) -> Path:
        return self.work / "log"

    def start(self, seconds: int | None) -> subprocess.Popen[bytes]:
        """For so long, or, with None, the pinned inputs."""
        command = self._pinned() if seconds is None else self._timed(seconds)
        with self.log.open("wb") as log:
            return subprocess.Popen(command, cwd=self.work, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def _timed(self, seconds: int) -> list[str]:
        self.found.mkdir(parents=True, exist_ok=True)
        return self.command("-print_final_stats=1", f"-max_total_time={seconds}", self.found, self.corpus)

    def _pinned(self) -> list[str]:
        """The same inputs on every run: nothing from earlier runs, nor the folder's order, the clock or an address counts."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.found.mkdir(parents=True)
        runs = _PINNED[self.target] // (1 if os.environ.get("LR2_LONG") == "1" else 2)
        seeds = self.work / "seeds"
        seeds.write_text(",".join(map(str, sorted(self.corpus.iterdir()))))
        how = ["-seed=1", "-reload=0", f"-runs={runs}", f"-seed_inputs=@{seeds}"]
        return [*_fixed_addresses(), *self.command("-print_final_stats=1", *how, self.found)]

    def keep(self) -> None:
        """Inputs that add coverage, old or new, are the corpus from now on."""
        kept = self.work / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        # Edges alone: by how often each is taken next to every input is different.
        merge = self.command("-set_cover_merge=1", "-use_counters=0", f"-max_len={_KEPT_BYTES}", kept, self.corpus, self.found)
        subprocess.run(merge, stderr=subprocess.DEVNULL, check=True)
        shutil.rmtree(self.corpus)
        shutil.copytree(kept, self.corpus)

    def summary(self) -> str:
        """The fuzzer's last word on coverage and speed."""
        lines = [line for line in self._lines() if " cov: " in line]
        first, last = (_fields(line) for line in (lines[0], lines[-1])) if lines else ({}, {})
        units = next((line.split()[-1] for line in self._lines() if "number_of_executed_units" in line), "?")
        return (
            f"{self.target:<13} {units:>9} inputs, coverage {first.get('cov:', '?')} -> {last.get('cov:', '?')} edges, "
            f"features {first.get('ft:', '?')} -> {last.get('ft:', '?')}"
        )

    def complaint(self) -> str:
        """The failure, and how to see it again."""
        lines = [line for line in self._lines() if not line.startswith(("#", "\tNEW_FUNC"))]
        inputs = [line.rpartition(_WRITTEN)[2] for line in lines if _WRITTEN in line]
        again = ["  again: " + shlex.join([str(self.program), path]) for path in inputs]
        return "\n".join(["    " + line for line in lines[-60:]] + again)

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()


def _fields(line: str) -> dict[str, str]:
    words = line.split()
    return dict(zip(words, words[1:]))


def _fixed_addresses() -> list[str]:
    """The command that runs a program without address randomisation; a sandbox may forbid it."""
    prefix = ["setarch", "-R"]
    allowed = subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL).returncode == 0
    return prefix if allowed else []


def _host() -> str:
    version = subprocess.run(["rustc", "-vV"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(line.split()[1] for line in version.splitlines() if line.startswith("host:"))


def _build(targets: list[str]) -> Path:
    """The folder of the programs. With --target the flags are not for build scripts."""
    folder, host = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "fuzz"), _host()
    command = ["cargo", "build", "--quiet", "--locked", "--profile", "fuzz", "--features", "engine"]
    command += ["--manifest-path", str(_FUZZ / "Cargo.toml"), "--target-dir", str(folder), "--target", host]
    for target in targets:
        command += ["--bin", target]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTFLAGS": " ".join(_COVERAGE)}, check=True)
    return folder / host / "fuzz"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description=f"Fuzzes parsers and pipelines. The targets: {', '.join(_TARGETS)}.",
        epilog="Exit code: 0 nothing found, 1 something found, 2 could not run.",
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="only these")
    parser.add_argument("--seconds", type=int, default=_SECONDS, help=f"how long each runs [{_SECONDS}]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many run at a time [one per core]")
    parser.add_argument("--keep", action="store_true", help="bring what is new into fuzz/corpus, minimised")
    parser.add_argument("--pinned", action="store_true", help="a fixed seed and number of inputs, the same on every run, as in scripts/test")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.targets if name not in _TARGETS]:
        parser.error(f"no target {', '.join(unknown)}; the targets are {', '.join(_TARGETS)}")
    if options.seconds < 1 or options.jobs < 1:
        parser.error("--seconds and --jobs: give at least 1")
    return options


def _run(fuzzers: list[Fuzzer], jobs: int, seconds: int | None) -> Iterator[tuple[Fuzzer, int]]:
    """Runs `jobs` at a time; gives each that has ended, with its exit code."""
    waiting = deque(fuzzers)
    running: dict[Fuzzer, tuple[subprocess.Popen[bytes], float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                fuzzer = waiting.popleft()
                limit = (seconds or _PINNED_LIMIT_S) + _GRACE_S
                running[fuzzer] = (fuzzer.start(seconds), time.monotonic() + limit)
            for fuzzer, (process, deadline) in list(running.items()):
                if time.monotonic() > deadline:
                    process.kill()
                    process.wait()
                if (code := process.poll()) is not None:
                    del running[fuzzer]
                    yield fuzzer, code
            time.sleep(0.05)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()


def _work() -> Path:
    """A step's own folder, which stays if the step fails; else one in the cache, where a run goes on where the last one ended."""
    return Path(os.environ.get("LR2_TEST_DIR") or os.environ["LR2_CACHE"], "fuzz")


def main() -> int:
    options = _options()
    if options.check:
        return 0
    targets = options.targets or list(_TARGETS)
    try:
        programs = _build(targets)
    except subprocess.CalledProcessError:
        return 2
    fuzzers = [Fuzzer(programs / target, target, _work() / target) for target in targets]
    start = time.monotonic()
    failed = 0
    rounds = -(-len(fuzzers) // options.jobs)
    seconds = None if options.pinned else options.seconds
    try:
        with tidy_end(rounds * ((seconds or _PINNED_LIMIT_S) + 2 * _GRACE_S)):
            for fuzzer, code in _run(fuzzers, options.jobs, seconds):
                print(f"{'FAIL' if code else 'ok':<4}  {fuzzer.summary()}", flush=True)
                if code:
                    failed += 1
                    print(fuzzer.complaint(), flush=True)
    except Ended as error:
        print(f"scripts/fuzz: {error}", file=sys.stderr)
        return error.exit_code
    if options.keep and not failed:
        for fuzzer in fuzzers:
            fuzzer.keep()
    word = "FAIL" if failed else "PASS"
    print(f"{word}: {failed} of {len(fuzzers)} targets found something, {time.monotonic() - start:.0f} s after the build")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
