"""Rounds and medians."""

import statistics
import time
from dataclasses import dataclass, field

from lr2run import ProcessFailed, TimedOut, wait_until

from .cases import Dut, Group, Traffic
from .counters import Look, NotThere, Page, Sample
from .programs import Place, Running, running

_SETTLE_S = 0.3
_START_S = 40.0
_FLOWS_PER_S = 20_000
"""Queue pairs that are connected in a second, at least."""


@dataclass
class Result:
    """One program under one traffic."""

    dut: Dut
    traffic: Traffic
    samples: list[Sample] = field(default_factory=list)
    """One per round."""
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return bool(self.samples) and not self.problems

    def median(self, what: str) -> float:
        """Of a property of `Sample`."""
        return statistics.median(getattr(sample, what) for sample in self.samples)

    @property
    def spread(self) -> float:
        """Largest over smallest cycles per packet among the rounds."""
        each = [sample.per_packet for sample in self.samples]
        return max(each) / min(each)


def _open(place: Place, process: Running) -> Page:
    def there() -> Page | None:
        process.process.check()
        try:
            return Page(place.counters)
        except NotThere:
            return None

    try:
        return wait_until(there, _START_S, "")
    except TimedOut:
        raise TimedOut(f"{process.process.name}: the port was not set up:\n{process.process.tail(5)}") from None


def _wait_steady(page: Page, process: Running, traffic: Traffic) -> None:
    waits_for = "anything"

    def steady() -> bool:
        nonlocal waits_for
        process.process.check()
        counters = page.read()
        if counters["connected"] < traffic.flows:
            waits_for = f"{counters['connected']} of {traffic.flows} queue pairs are connected"
        elif counters["out_data"] < traffic.flows:
            waits_for = "there is no data"
        else:
            waits_for = process.steady(counters) or ""
        return not waits_for

    try:
        wait_until(steady, _START_S + traffic.flows / _FLOWS_PER_S, "")
    except TimedOut:
        raise TimedOut(f"{process.process.name}: not in a steady state: {waits_for}\n{process.process.tail(5)}") from None


def one_round(place: Place, result: Result, seconds: float) -> None:
    """Start the program, measure it once, stop it."""
    try:
        with running(place, result.dut, result.traffic) as program:
            page = _open(place, program)
            try:
                _wait_steady(page, program, result.traffic)
                time.sleep(_SETTLE_S)
                before = Look(page, program.process.pid)
                time.sleep(seconds)
                sample = Look(page, program.process.pid).since(before)
                problems = program.complaints()
            finally:
                page.close()
    except (ProcessFailed, TimedOut) as error:
        result.problems.append(str(error))
        return
    if sample.frames == 0 or sample.seconds <= 0:
        problems.append("it forwarded nothing")
    else:
        result.samples.append(sample)
    problems += [f"the port counted {count} {name}" for name, count in sample.errors.items()]
    result.problems += problems


def group(place: Place, wanted: Group, rounds: int, seconds: float, deadline: float) -> list[Result]:
    """Each program in turn, then all again; rounds that would begin after `deadline` are left out, but for the first."""
    results = [Result(dut, wanted.traffic) for dut in wanted.duts]
    for number in range(rounds):
        if number and time.monotonic() > deadline:
            break
        for result in results:
            if not result.problems:
                one_round(place, result, seconds)
    return results
