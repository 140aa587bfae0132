"""Processes with a log file each, stopped by pid when their owner is done."""

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from .waiting import TimedOut

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class ProcessFailed(Exception):
    """A process ended that should be running, or ended with an error."""


def _die_with_parent() -> None:
    # Even a script that was killed with SIGKILL leaves nothing running.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Process:
    """One running program; its output, both streams, is in `log`."""

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, nice: int = 0) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        with log.open("ab") as output:
            output.write(f"# {' '.join(self.argv)}\n".encode())
            output.flush()
            self._seen = output.tell()
            try:
                # A session of its own: Ctrl-C reaches the script only, which
                # then stops its processes in order.
                self._popen = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            except OSError as error:
                raise ProcessFailed(f"{name}: can't start {self.argv[0]}: {error.strerror}") from error
        if nice:
            os.setpriority(os.PRIO_PROCESS, self.pid, nice)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    def output(self) -> str:
        """Its output since it was started."""
        with self.log.open("rb") as log:
            log.seek(self._seen)
            return log.read().decode(errors="replace")

    def tail(self, lines: int = 15) -> str:
        """The end of its output, indented for a message."""
        return "\n".join(f"    {line}" for line in self.output().splitlines()[-lines:])

    def check(self) -> None:
        """`ProcessFailed`, with the end of its output, unless it runs."""
        if not self.alive:
            raise ProcessFailed(f"{self.name} ended ({_ending(self.exit_code)}):\n{self.tail()}")

    def wait_line(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """The first match of the regular expression in its output, `^` and `$` matching at lines."""
        found = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + timeout_s
        while True:
            # Alive first, output second: its last words must not be missed.
            alive = self.alive
            if match := found.search(self.output()):
                return match
            if not alive:
                self.check()
            if time.monotonic() > deadline:
                raise TimedOut(f"{self.name}: no {pattern!r} within {timeout_s:g} s:\n{self.tail()}")
            time.sleep(0.1)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it lives."""
        if self.alive:
            self._popen.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Its exit code once it has ended by itself."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{self.name}: still running after {timeout_s:g} s:\n{self.tail()}") from None

    def stop(self, timeout_s: float = 10, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, insist with SIGKILL after `timeout_s`; its exit code."""
        if self.alive:
            self._popen.send_signal(how)
            try:
                self._popen.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        return self._popen.wait()


class Processes:
    """The processes of a run; leaving the block stops them, youngest first."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: list[Process] = []

    def start(self, name: str, argv: Sequence[str | Path], nice: int = 0) -> Process:
        """Start a program; `name` is its name in messages, and that of its log file."""
        process = Process(name, argv, self._logs / f"{name}.log", nice)
        self._started.append(process)
        return process

    def stop_all(self) -> None:
        while self._started:
            self._started.pop().stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
