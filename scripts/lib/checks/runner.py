"""Runs steps one after the other, each for no longer than its limit."""

import contextlib
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
_POLL_S = 0.05


@dataclass(frozen=True)
class Verdict:
    step: Step
    word: str
    """PASS, FAIL or SKIP."""
    seconds: float
    cpu_s: float
    """Of all processes of the step, user and system; a process that nothing waits for does not count."""
    detail: str

    def __str__(self) -> str:
        return f"{self.word}  {self.step.name:<12} {self.seconds:5.0f} s {self.cpu_s:5.0f} s CPU  {self.detail}".rstrip()


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


def low_priority() -> None:
    """For `preexec_fn` of a session's leader: it has the time that all others leave idle."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Where the kernel groups processes by session, the policy counts only within the session.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def _normal_priority(session: int) -> None:
    """End `low_priority` for all threads of the session."""
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        # Others may end meanwhile.
        with contextlib.suppress(OSError):
            if os.getsid(int(task.parent.parent.name)) == session:
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
                (task.parent.parent / "autogroup").write_text("0")


class Runner:
    """Runs steps; keeps their output in the folder `logs`, which they find as LR2_TEST_DIR.

    Leaving it as a context ends what was begun and has not been run.
    """

    def __init__(self, logs: Path, verbose: bool, limit_s: float, patience: float = 1, budgets: bool = False) -> None:
        self.logs = logs
        self.verbose = verbose
        self.patience = patience
        """Factor of the limit of each step."""
        self.budgets = budgets
        """A step above its budget fails."""
        self.deadline = time.monotonic() + limit_s
        self.verdicts: list[Verdict] = []
        self._begun: dict[str, subprocess.Popen[bytes]] = {}
        self._cpu_s = 0.0

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._begun.values():
            if process.poll() is None:
                end_group(process)

    def begin(self, step: Step) -> None:
        """Start the first command of `step`, with low priority; `run` waits for it."""
        self._log(step).write_bytes(b"")
        self._begun[step.name] = self._start(step.commands[0], step, idle=True)

    def run(self, step: Step) -> Verdict:
        start = time.monotonic()
        self._cpu_s = 0
        limit_s = min(step.limit_s * self.patience, self.deadline - start)
        problem = self._problem(step, limit_s)
        seconds = time.monotonic() - start
        if self.budgets and not problem and seconds > step.budget_s:
            problem = f"all well, but {seconds:.0f} s are above its budget of {step.budget_s} s"
        log = self._log(step)
        if problem:
            if not self.verbose:
                _show_end(log)
            detail = f"{problem}; log: {log}"
        else:
            detail = step.what
        return self._note(Verdict(step, "FAIL" if problem else "PASS", seconds, self._cpu_s, detail))

    def skip(self, step: Step, why: str) -> Verdict:
        return self._note(Verdict(step, "SKIP", 0, 0, why))

    @property
    def failed(self) -> bool:
        return any(verdict.word == "FAIL" for verdict in self.verdicts)

    def _note(self, verdict: Verdict) -> Verdict:
        self.verdicts.append(verdict)
        print(verdict, flush=True)
        return verdict

    def _log(self, step: Step) -> Path:
        return self.logs / f"{step.name}.log"

    def _problem(self, step: Step, limit_s: float) -> str | None:
        """The problem, if there was one."""
        deadline = time.monotonic() + limit_s
        begun = self._begun.pop(step.name, None)
        if begun:
            _normal_priority(begun.pid)
        else:
            self._log(step).write_bytes(b"")
        for command in step.commands:
            left_s = deadline - time.monotonic()
            code = None
            if left_s > 0 or begun:
                code, cpu_s = _ended(begun or self._start(command, step), left_s)
                self._cpu_s += cpu_s
            begun = None
            if code is None:
                return f"not done after {max(limit_s, 0):.0f} s"
            if code:
                return f"exit code {code}: {command[0].rpartition('/')[2]} {' '.join(command[1:4])}"
        return None

    def _start(self, command: Command, step: Step, idle: bool = False) -> subprocess.Popen[bytes]:
        # What runs beside another step would print into its output.
        shown = self.verbose and not idle
        with self._log(step).open("ab") as output:
            output.write(f"# {' '.join(command)}\n".encode())
            output.flush()
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **dict(step.environment), "LR2_TEST_DIR": str(self.logs)},
                stdin=subprocess.DEVNULL,
                stdout=None if shown else output,
                stderr=None if shown else subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=low_priority if idle else None,
            )


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> tuple[int | None, float]:
    """Exit code, and seconds of CPU time. If the process takes longer than `limit_s`, end it: the code is `None`."""
    deadline = time.monotonic() + max(limit_s, 0)
    try:
        while not _is_over(process):
            if time.monotonic() >= deadline:
                return None, _cpu_s(process)
            time.sleep(_POLL_S)
        # Before Popen waits for the process: then its times are gone.
        cpu_s = _cpu_s(process)
        return process.wait(), cpu_s
    finally:
        if process.poll() is None:
            end_group(process)


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    """User and system time of a process and of its ended children, proc_pid_stat(5)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _show_end(log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()
    for line in lines[-_LINES_SHOWN:]:
        print(f"    {line}")
