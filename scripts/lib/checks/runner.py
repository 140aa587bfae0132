"""Runs steps one after the other, each for no longer than its limit."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import ROOT
from .steps import Command, Step

_LINES_SHOWN = 60
# How long a step may take to end: guests and hugepages need an end too.
_GRACE_S = 20


@dataclass(frozen=True)
class Verdict:
    step: Step
    word: str
    """PASS, FAIL or SKIP."""
    seconds: float
    detail: str

    def __str__(self) -> str:
        return f"{self.word}  {self.step.name:<12} {self.seconds:5.0f} s  {self.detail}".rstrip()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End `process` and its children; it leads a process group."""
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience_s)
            return
        except subprocess.TimeoutExpired:
            pass


class Runner:
    """Runs steps; keeps their output in the folder `logs`, which they find as LR2_TEST_DIR."""

    def __init__(self, logs: Path, verbose: bool, limit_s: float) -> None:
        self.logs = logs
        self.verbose = verbose
        self.deadline = time.monotonic() + limit_s
        self.verdicts: list[Verdict] = []

    def run(self, step: Step) -> Verdict:
        start = time.monotonic()
        log = self.logs / f"{step.name}.log"
        limit_s = min(step.limit_s, self.deadline - start)
        problem = self._problem(step, log, limit_s)
        if problem:
            if not self.verbose:
                _show_end(log)
            detail = f"{problem}; log: {log}"
        else:
            detail = step.what
        return self._note(Verdict(step, "FAIL" if problem else "PASS", time.monotonic() - start, detail))

    def skip(self, step: Step, why: str) -> Verdict:
        return self._note(Verdict(step, "SKIP", 0, why))

    @property
    def failed(self) -> bool:
        return any(verdict.word == "FAIL" for verdict in self.verdicts)

    def _note(self, verdict: Verdict) -> Verdict:
        self.verdicts.append(verdict)
        print(verdict, flush=True)
        return verdict

    def _problem(self, step: Step, log: Path, limit_s: float) -> str | None:
        """The problem, if there was one."""
        deadline = time.monotonic() + limit_s
        log.write_bytes(b"")
        for command in step.commands:
            left_s = deadline - time.monotonic()
            code = self._command(command, dict(step.environment), log, left_s) if left_s > 0 else None
            if code is None:
                return f"not done after {max(limit_s, 0):.0f} s"
            if code:
                return f"exit code {code}: {command[0].rpartition('/')[2]} {' '.join(command[1:4])}"
        return None

    def _command(self, command: Command, environment: dict[str, str], log: Path, limit_s: float) -> int | None:
        """The exit code; `None` if it took too long."""
        with log.open("ab") as output:
            output.write(f"# {' '.join(command)}\n".encode())
            output.flush()
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment, "LR2_TEST_DIR": str(self.logs)},
                stdin=subprocess.DEVNULL,
                stdout=None if self.verbose else output,
                stderr=None if self.verbose else subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    end_group(process)


def _show_end(log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()
    for line in lines[-_LINES_SHOWN:]:
        print(f"    {line}")
