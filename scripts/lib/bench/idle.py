"""The share of its core that an idle worker takes, and the delay of the packet that ends the idleness.

The port gives a packet now and then only, and says how long each took from when it was to
come in until it went out, which with a program that polls all the time is its way through
the program, and with one that sleeps includes the rest of the sleep.
"""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lr2run import ProcessFailed, TimedOut, wait_until

from .cases import BOTH, OFF, Case, Traffic
from .counters import Page, busy_ns, threads
from .measure import started
from .programs import Place, Running, prefer

_SILENT_US = 100_000_000
"""So long a pause that no packet comes at all."""
_PAUSE_US = 4_999
"""Enough for a worker to sleep as long as it ever does."""
_SLEEPS_US = (50, 1_000)
"""The longest of an `adaptive` worker at first, and after a silence (gateway/src/worker/idle.rs)."""
_SETTLE_S = 0.5
_FLOWS = 64

CASES = (
    # With flows in its table; nothing is due for them.
    Case(replace(BOTH, idle="adaptive"), Traffic(1024, _FLOWS, 1, pause_us=_SILENT_US)),
    Case(replace(OFF, idle="adaptive"), Traffic(1024, _FLOWS, 1, pause_us=_PAUSE_US)),
    Case(replace(OFF, idle="busy"), Traffic(1024, _FLOWS, 1, pause_us=_PAUSE_US)),
)


def _wait_connected(page: Page, program: Running) -> None:
    def connected() -> bool:
        program.process.check()
        return page.read()["connected"] >= _FLOWS

    wait_until(connected, 40, "the queue pairs are not connected")


def _microseconds(name: str) -> int:
    """Microseconds of a counter's name, `wait_50us`."""
    return int(name.removeprefix("wait_").removesuffix("us"))


def _waits(grown: dict[str, int]) -> dict[str, Any]:
    packets = grown["waits"]
    if not packets:
        return {}
    bounds = sorted((_microseconds(name), count) for name, count in grown.items() if name.startswith("wait_") and name.endswith("us"))

    def within(part: float) -> int | None:
        return next((us for us, count in bounds if count >= part * packets), None)

    return {
        "packets": packets,
        "latency_us_mean": round(grown["wait_ns"] / packets / 1000, 2),
        "latency_us_half_within": within(0.5),
        "latency_us_99_percent_within": within(0.99),
    }


def _one(place: Place, case: Case, seconds: float) -> dict[str, Any]:
    made: dict[str, Any] = {
        "dut": case.dut.name,
        "mode": case.dut.mode,
        "idle": case.dut.idle,
        "pause_us": 0 if case.traffic.pause_us == _SILENT_US else case.traffic.pause_us,
        "problems": [],
    }
    try:
        with started(place, case) as (program, page):
            _wait_connected(page, program)
            time.sleep(_SETTLE_S)
            worker = threads(program.process.pid, "worker-")[0]
            began, before, counts = time.monotonic_ns(), busy_ns(program.process.pid), page.read()
            time.sleep(seconds)
            took, after, then = time.monotonic_ns() - began, busy_ns(program.process.pid), page.read()
    except (ProcessFailed, TimedOut, IndexError) as error:
        made["problems"] = [str(error) or "there is no worker thread"]
        return made
    made["core_share"] = round((after[worker] - before[worker]) / took, 5)
    made |= _waits({name: value - counts[name] for name, value in then.items()})
    if case.traffic.pause_us != _SILENT_US and not made.get("packets"):
        made["problems"] = ["no packet came through"]
    return made


def _doze(place: Place, sleep_us: int, seconds: float) -> dict[str, Any]:
    """The kernel's share for the sleeps alone: a loop of sleeps as long as the worker's."""
    made: dict[str, Any] = {"dut": "doze", "mode": f"{sleep_us:,} us", "idle": "sleep", "pause_us": 0, "problems": []}
    words = [place.run / "doze", str(place.cpu), str(sleep_us), str(seconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        prefer(process.pid)
        said, complaint = process.communicate()
    if process.returncode:
        return made | {"problems": [complaint.strip()]}
    share, period = said.split()
    return made | {"core_share": float(share), "sleep_us_in_fact": float(period)}


def measure(place: Place, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Of several rounds of each, the one with the median share."""
    made = [
        [*(_one(place, case, seconds) for case in CASES), *(_doze(place, sleep_us, seconds) for sleep_us in _SLEEPS_US)]
        for _ in range(rounds)
    ]
    return [_middle(rows) for rows in zip(*made, strict=True)]


def _middle(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A round with a problem speaks for all."""
    troubled = [row for row in rows if row["problems"]]
    return troubled[0] if troubled else sorted(rows, key=lambda row: row["core_share"])[(len(rows) - 1) // 2]


def table(made: list[dict[str, Any]]) -> str:
    lines = ["idle worker", f"  {'':<24}{'of a core':>10}{'packets':>9}{'mean':>10}{'half <=':>9}{'99 % <=':>9}"]
    for row in made:
        name = f"{row['dut']} {row['mode']}, {row['idle']}"
        if "core_share" in row:
            line = f"  {name:<24}{row['core_share']:>10.2%}{row.get('packets', '-'):>9}"
            if row.get("packets"):
                line += f"{row['latency_us_mean']:>7.1f} us" + "".join(
                    f"{f'{us} us' if us else '> 1 ms':>9}" for us in (row["latency_us_half_within"], row["latency_us_99_percent_within"])
                )
            lines.append(line)
        lines += [f"  {name:<24} PROBLEM: {problem}" for problem in row["problems"]]
    return "\n".join(lines)
