"""Proof from counters: of the RNICs' health, of losses, and of their repair inside the network."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lr2run import Metrics


@dataclass(frozen=True)
class Counter:
    """A family of the gateways' metrics, or some of its members; both gateways are added up."""

    what: str
    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def of(self, metrics: Mapping[str, Metrics]) -> float:
        return sum(each.total(self.name, **dict(self.labels)) for each in metrics.values())

    def __str__(self) -> str:
        labels = ",".join(f'{key}="{value}"' for key, value in self.labels)
        return f"{self.name}{{{labels}}}" if labels else self.name


GAPS_SEEN = Counter("gaps seen", "lr2_depot_gaps_total", (("event", "seen"),))
GAPS_FILLED = Counter("filled", "lr2_depot_gaps_total", (("event", "filled"),))
GAPS_GIVEN_UP = Counter("given up", "lr2_depot_gaps_total", (("event", "given_up"),))
HELD = Counter("held behind a gap", "lr2_depot_packets_total", (("event", "held"),))
DEPOT_NACKS = Counter("Depot-NACKs", "lr2_depot_nacks_sent_total")
RESENT = Counter("resent from the cache", "lr2_sentry_resent_total")
NAKS = Counter("NAKs made for the source", "lr2_naks_total", (("from", "sentry"),))
REWINDS = Counter("rewinds they caused", "lr2_sentry_passes_total", (("cause", "solicited"),))
FILTERED = Counter("repeats kept off the link", "lr2_dropped_frames_total", (("reason", "filtered_repeat"),))
LET_THROUGH = Counter("repeats let through", "lr2_sentry_packets_total", (("event", "repeat_needed"),))

# What must not be zero after a test of WRITE or SEND, by recovery mode.
_ALWAYS = [GAPS_SEEN, DEPOT_NACKS, HELD, GAPS_FILLED]
REPAIRED: dict[str, list[Counter]] = {
    "cached": [*_ALWAYS, RESENT],
    "auto": [*_ALWAYS, RESENT],
    "lr2": [*_ALWAYS, NAKS, REWINDS, FILTERED, LET_THROUGH],
    "off": [],
}
# Of the gaps, the share that may be left to the RNICs (a machine that stands
# still for longer than a gateway waits).
_MOST_GIVEN_UP = 0.1

# rxe's own counters that must not move in either guest: a queue pair that failed.
BROKEN = ("retry_exceeded_err", "retry_rnr_exceeded_err", "send_err")
# Counted by the sender whenever it starts again at an earlier packet.
REWOUND = "completer_retry_err"

_KERNEL_TROUBLE = re.compile(
    r"BUG:|WARNING:|Oops|Call Trace|soft lockup|blocked for more than|rxe\S*: .*([Ff]ail|[Ee]rror|[Ii]nvalid)"
)


def repaired(mode: str, counted: Mapping[str, Metrics], sender: Mapping[str, int]) -> Iterator[str]:
    """What is missing for a proof that losses were repaired inside the network; nothing: it is proven."""
    for counter in REPAIRED[mode]:
        if counter.of(counted) <= 0:
            yield f"{counter} is zero: no {counter.what}"
    seen, given_up = GAPS_SEEN.of(counted), GAPS_GIVEN_UP.of(counted)
    if given_up > seen * _MOST_GIVEN_UP:
        yield f"{given_up:.0f} of {seen:.0f} gaps were given up"
    if mode == "lr2" and sender.get(REWOUND, 0) <= 0:
        yield f"guest1: {REWOUND} is zero: the NAKs did not rewind the sender"


def broken(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Counters of a guest's RNIC that say that a queue pair failed."""
    for guest, counters in counted.items():
        for name in BROKEN:
            if counters.get(name, 0) > 0:
                yield f"{guest}: {name} is {counters[name]}"


def lost(report: Mapping[str, Any]) -> Iterator[str]:
    """What is missing for a proof that the link lost data and answers to it."""
    for direction, kind in (("a_to_b", "request"), ("b_to_a", "response")):
        if not report[direction]["lost"][kind]:
            yield f"lr2-wan lost no {kind} from {direction.replace('_', ' ')}"


def kernel_trouble(dmesg: str) -> list[str]:
    """Lines of a guest's kernel log that should not be there."""
    return [line for line in dmesg.splitlines() if _KERNEL_TROUBLE.search(line)]


def summary(mode: str, counted: Mapping[str, Metrics]) -> str:
    """The counters of the table, in words."""
    counters = [*REPAIRED[mode], GAPS_GIVEN_UP]
    return ", ".join(f"{counter.of(counted):.0f} {counter.what}" for counter in counters)
