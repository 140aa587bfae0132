"""Rounds and medians."""

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from lr2run import ProcessFailed, TimedOut, wait_until

from .cases import Case, Group
from .counters import Look, NotThere, Pages, Sample
from .programs import Place, Running, running

_SETTLE_S = 0.3
_START_S = 40.0
_FLOWS_PER_S = 20_000
"""Queue pairs that are connected in a second, at least."""
_REPEATS_MOST = 0.02
"""Data packets for each one delivered that need not have crossed the long haul."""
_REPEATS_MOST_BACK = 0.2
"""The same where sources go back: all passes of repeats that are not known to have arrived."""
_STALLED_MOST = 0.02
"""Turns of flows that had their whole window outstanding, for each packet delivered."""


@dataclass
class Result:
    """One program under one traffic."""

    case: Case
    samples: list[Sample] = field(default_factory=list)
    """One per round."""
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return bool(self.samples) and not self.problems

    def median(self, what: str) -> float:
        """Of a property of `Sample`."""
        return statistics.median(getattr(sample, what) for sample in self.samples)

    def median_per_data(self, counter: str) -> float:
        """One of the port's counters, for each data packet that went out."""
        return statistics.median(sample.per_data(counter) for sample in self.samples)

    @property
    def spread(self) -> float:
        """Largest over smallest cycles per packet among the rounds."""
        each = [sample.per_packet for sample in self.samples]
        return max(each) / min(each)


@contextlib.contextmanager
def started(place: Place, case: Case) -> Iterator[tuple[Running, Pages]]:
    """The program, and the counters of its port; both are gone at the end."""
    with running(place, case.dut, case.traffic) as program:

        def there() -> Pages | None:
            program.process.check()
            try:
                return Pages(place.counters(case.dut.queues))
            except NotThere:
                return None

        try:
            page = wait_until(there, _START_S, "")
        except TimedOut:
            raise TimedOut(f"{program.process.name}: the port was not set up:\n{program.process.tail(5)}") from None
        with contextlib.closing(page):
            yield program, page


def wait_steady(page: Pages, process: Running, case: Case) -> None:
    flows = case.traffic.flows * case.dut.queues
    waits_for = "anything"

    def steady() -> bool:
        nonlocal waits_for
        process.process.check()
        counters = page.read()
        if counters["connected"] < flows:
            waits_for = f"{counters['connected']} of {flows} queue pairs are connected"
        elif counters["out_data"] < flows:
            waits_for = "there is no data"
        else:
            waits_for = process.steady(counters) or ""
        return not waits_for

    try:
        wait_until(steady, _START_S + flows / _FLOWS_PER_S, "")
    except TimedOut:
        raise TimedOut(f"{process.process.name}: not in a steady state: {waits_for}\n{process.process.tail(5)}") from None


def _wrong(case: Case, sample: Sample) -> list[str]:
    """Problems that the port's counters show."""
    found = [f"{count} {what}" for what, count in sample.errors(case.traffic.loss > 0, case.dut.may_move).items()]
    # Only who keeps no copies has the source go back.
    goes_back = case.dut.mode == "lr2"
    # Frames of a lane that was taken for silent are reported, and no fault: see `Dut.may_move`.
    if not case.dut.may_move and sample.per_data("out_repeats") > (_REPEATS_MOST_BACK if goes_back else _REPEATS_MOST):
        found.append(f"{sample.per_data('out_repeats'):.2%} of the packets crossed the long haul again though they had arrived")
    if not case.traffic.loss:
        return found
    if sample.counts["lost"] == 0:
        found.append("the long haul lost nothing")
    if sample.counts["naks"] and not goes_back:
        found.append(f"{sample.counts['naks']} NAKs, and the packets are kept")
    if sample.per_data("stalled") > _STALLED_MOST:
        found.append(f"flows had to stop for want of an answer {sample.counts['stalled']} times: losses are not made good for")
    return found


def one_round(place: Place, result: Result, seconds: float) -> None:
    """Start the program, measure it once, stop it."""
    case = result.case
    try:
        with started(place, case) as (program, page):
            wait_steady(page, program, case)
            time.sleep(_SETTLE_S)
            before = Look(page, program.process.pid)
            time.sleep(seconds)
            sample = Look(page, program.process.pid).since(before)
            problems = program.complaints()
    except (ProcessFailed, TimedOut) as error:
        result.problems.append(str(error))
        return
    if sample.frames == 0 or sample.seconds <= 0:
        problems.append("it forwarded nothing")
    else:
        result.samples.append(sample)
    result.problems += problems + _wrong(case, sample)


def group(place: Place, wanted: Group, rounds: int, seconds: float, deadline: float) -> list[Result]:
    """Each program in turn, then all again; rounds that would begin after `deadline` are left out, but for the first."""
    results = [Result(case) for case in wanted.cases]
    for number in range(min(rounds, wanted.rounds_most)):
        if number and time.monotonic() > deadline:
            break
        for result in results:
            # Another round of a failed case would fail again.
            if not result.problems:
                one_round(place, result, seconds)
    return results
