"""Runs lr2-check-rnic, and tells the operator what to do; see `scripts/check-rnic --help`."""

import json
import os
import signal
import subprocess
import sys
import termios
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

from lr2run import Ended, Process, ProcessFailed, Processes, RunDir, TimedOut, human_seconds, parse_seconds, tidy_end

from .options import Options, parse

_LIMIT_S = 4 * 3600
_STOP_S = 10
# The kinds of traffic: the name for the operator, and the perftest command that makes it.
_TRAFFIC = {
    "messages": ("messages of several packets", "ib_write_bw -s 65536"),
    "reads": ("READs of several packets", "ib_read_bw -s 65536"),
    "atomics": ("atomics", "ib_atomic_bw -A FETCH_AND_ADD"),
    "any": ("any traffic", "ib_write_bw -s 65536"),
}


def say(text: str) -> None:
    print(text, flush=True)


class Guide:
    """Turns the program's lines into sentences."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._begun = ""
        """The check that has begun last."""

    def tell(self, line: str) -> None:
        """A line of the program's output: news in JSON, or a message for people."""
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            if line.strip() and not line.startswith("#") and not line.endswith(": ready"):
                say(line)
            return
        match event.get("event"):
            case "waits":
                self._ask_for(event["traffic"])
            case "begins":
                self._begun = event["check"]
                say(f"  {event['check']}: {event['does']}")
            case "ends":
                if event["check"] != self._begun:
                    say(f"  {event['check']}:")
                say(textwrap.fill(f"{event['verdict']}: {event['observed']}", 110, initial_indent="    ", subsequent_indent="    "))

    def _ask_for(self, traffic: str) -> None:
        options = self._options
        what, command = _TRAFFIC[traffic]
        # With one queue pair the responses can belong to no other. With 16 messages at a time (-t) all packets in flight can be held.
        whole = f"{command} -d {options.rdma} -x {options.gid_index} -F -D 120 -q 1 -t 16"
        wait = human_seconds(parse_seconds(options.wait))
        say(f"\nNow the wire waits for {what}, {wait} at most. End what runs on the hosts, then")
        say(f"  on host B:  {whole}")
        say(f"  on host A:  {whole} {options.address}")
        if sys.stdin.isatty():
            say("  Enter: there will be no such traffic; checks that need it are not tried.")


def _start(options: Options, processes: Processes) -> Process:
    lists = [word for name, value in (("--only", options.only), ("--skip", options.skip)) if value for word in (name, ",".join(value))]
    return processes.start(
        "check-rnic",
        [
            _program(),
            *("--a", options.a, "--b", options.b, "--rnic", options.rnic, "--hold", options.hold, "--wait", options.wait),
            *("--json", options.json.absolute(), "--markdown", options.markdown.absolute()),
            *lists,
            *options.program_options,
        ],
    )


def _program() -> Path:
    return Path(os.environ["LR2_BIN"]) / "lr2-check-rnic"


def _skip_at_enter(process: Process) -> None:
    """From now on each line from the terminal ends the wait for traffic."""

    def read() -> None:
        for _ in sys.stdin:
            process.send_signal(signal.SIGUSR1)

    # What was typed during the build was not meant for this.
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    threading.Thread(target=read, daemon=True).start()


def _follow(process: Process, guide: Guide) -> None:
    """Tell what the program says until it has ended."""
    told = 0
    while True:
        # Alive first, output second: its last words must not be missed.
        alive = process.alive
        lines = process.output().split("\n")
        for line in lines[told : len(lines) - alive]:
            guide.tell(line)
            # Before that SIGUSR1 would end the program.
            if line.endswith(": ready") and sys.stdin.isatty():
                _skip_at_enter(process)
        told = max(told, len(lines) - 1)
        if not alive:
            return
        time.sleep(0.2)


def _run(options: Options) -> int:
    for file in (options.json, options.markdown):
        file.unlink(missing_ok=True)
    say(f"This box becomes the wire between host A ({options.a}) and host B ({options.b}). They need the same subnet; ping first.")
    ended: Ended | None = None
    with RunDir("lr2-rnic") as run, Processes(run.path) as processes:
        process = _start(options, processes)
        try:
            with tidy_end(_LIMIT_S):
                _follow(process, Guide(options))
        except Ended as error:
            ended = error
        # When asked to end it lets held packets go on, and writes what it has.
        code = process.stop(_STOP_S)
    if not options.json.exists():
        # It has said why.
        return ended.exit_code if ended else 2
    say(f"\nReports: {options.markdown} and {options.json}. Attach both to an issue.")
    checks = json.loads(options.json.read_text())["checks"]
    _summary(checks)
    if ended:
        say(f"check-rnic: {ended}")
        return ended.exit_code
    if all(check["verdict"] == "not tried" for check in checks):
        print("check-rnic: nothing was tried: no traffic that fits crossed the wire; does a ping between the hosts?", file=sys.stderr)
        return 2
    return code


def _summary(checks: list[dict[str, Any]]) -> None:
    for verdict in ("as expected", "differs", "not tried"):
        if names := [check["name"] for check in checks if check["verdict"] == verdict]:
            say(f"  {verdict}: {', '.join(names)}")


def main() -> int:
    options, check_only, listing = parse()
    if check_only:
        return 0
    if listing:
        return subprocess.run([_program(), "--list"], check=False).returncode
    try:
        return _run(options)
    except (ProcessFailed, TimedOut, OSError) as error:
        print(f"check-rnic: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
