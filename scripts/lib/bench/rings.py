"""The cost of a handoff from one worker to another.

Each port has one receive queue. With two workers, the first one polls the LAN's, the second one the WAN's, and all
hosts of the traffic are the second one's: the first does nothing but hand off. Their own
cycles, next to those of one worker that does it all, are what a ring costs on either side.
"""

import statistics
import time
from dataclasses import dataclass, field, replace
from typing import Any

from lr2run import Metrics, ProcessFailed, TimedOut

from .cases import CENTRE, OFF, SENTRY_CACHED, Case, Group
from .counters import busy_ns, threads
from .measure import started, wait_steady
from .programs import Place

_SETTLE_S = 0.3


def groups() -> list[Group]:
    """One worker, and two."""
    duts = [replace(dut, workers=workers) for dut in (OFF, SENTRY_CACHED) for workers in (1, 2)]
    return [Group(CENTRE, tuple(Case(dut, CENTRE) for dut in duts))]


@dataclass
class _Moment:
    counts: dict[str, int]
    metrics: Metrics
    busy: dict[str, int]
    at_ns: int

    def worker_ns(self, worker: int) -> float:
        """Of rounds in which it found something to do."""
        return 1e9 * self.metrics.total("lr2_worker_seconds_total", worker=str(worker), state="busy")


@dataclass
class _Result:
    case: Case
    cycles: list[list[float]] = field(default_factory=list)
    """By round, of each worker, per packet, without the port's."""
    handed: list[float] = field(default_factory=list)
    """By round, the part of all frames."""
    problems: list[str] = field(default_factory=list)


def _own_cycles(workers: list[str], before: _Moment, after: _Moment, hz: float) -> list[float]:
    grown = {name: value - before.counts[name] for name, value in after.counts.items()}
    packets = max(1, grown["out_data"] + grown["out_acks"])
    port = (grown["port_cycles"], grown["port_cycles_1"])
    wall = after.at_ns - before.at_ns
    made = []
    for number, thread in enumerate(workers):
        # A worker polls all the time: time that it didn't run, others took, of the port's time as of its own.
        ran = (after.busy[thread] - before.busy[thread]) / wall
        busy = (after.worker_ns(number) - before.worker_ns(number)) * hz / 1e9
        made.append(ran * (busy - port[number]) / packets)
    return made


def _one(place: Place, result: _Result, seconds: float) -> None:
    case = result.case
    with started(place, case) as (program, page):
        wait_steady(page, program, case)
        time.sleep(_SETTLE_S)
        pid = program.process.pid
        moments = []
        for pause in (seconds, 0):
            moments.append(_Moment(page.read(), program.metrics(), busy_ns(pid), time.monotonic_ns()))
            time.sleep(pause)
        before, after = moments
        result.problems += program.complaints()
        result.cycles.append(_own_cycles(threads(pid, "worker-"), before, after, page.tsc_hz))
        grown = after.metrics - before.metrics
        frames, handed = (grown.total(f"lr2_port_{what}_frames_total") for what in ("received", "handoff"))
        result.handed.append(handed / max(1.0, frames))


def measure(place: Place, rounds: int, seconds: float) -> list[dict[str, Any]]:
    results = [_Result(case) for group in groups() for case in group.cases]
    for _ in range(rounds):
        for result in results:
            if result.problems:
                continue
            try:
                _one(place, result, seconds)
            except (ProcessFailed, TimedOut) as error:
                result.problems.append(str(error))
    return [_row(result, results) for result in results]


def _row(result: _Result, results: list[_Result]) -> dict[str, Any]:
    dut = result.case.dut
    row: dict[str, Any] = {"dut": dut.name, "mode": dut.mode, "workers": dut.workers, "problems": result.problems}
    if not result.cycles:
        return row
    own = [statistics.median(of_worker) for of_worker in zip(*result.cycles, strict=True)]
    handed = statistics.median(result.handed)
    row |= {"handoff": round(handed, 3), "cycles": [round(cycles, 1) for cycles in own]}
    alone = next((r for r in results if r.cycles and r.case.dut.workers == 1 and (r.case.dut.name, r.case.dut.mode) == (dut.name, dut.mode)), None)
    if dut.workers > 1 and alone and handed:
        # The first does nothing else, and the second all that one worker does.
        one = statistics.median(cycles[0] for cycles in alone.cycles)
        row["enqueue"] = round(own[0] / handed, 1)
        row["dequeue"] = round((own[-1] - one) / handed, 1)
    return row


def table(made: list[dict[str, Any]]) -> str:
    lines = [f"rings between workers; {CENTRE}", f"  {'':<24}{'workers':>8}{'handed off':>12}{'own cycles':>16}{'enqueue':>8}{'dequeue':>8}"]
    for row in made:
        name = f"{row['dut']} {row['mode']}"
        if "cycles" in row:
            own = " + ".join(f"{cycles:.0f}" for cycles in row["cycles"])
            cells = "".join(f"{row[key]:>8.0f}" if key in row else f"{'-':>8}" for key in ("enqueue", "dequeue"))
            lines.append(f"  {name:<24}{row['workers']:>8}{row['handoff']:>12.0%}{own:>16}{cells}")
        lines += [f"  {name:<24} PROBLEM: {problem}" for problem in row["problems"]]
    return "\n".join(lines)
