"""Proof from counters: of the RNICs' health, of losses, and of their repair inside the network."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lr2run import Metrics

from .link import Setting


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


GAPS_SEEN = Counter("gaps", "lr2_depot_gaps_total", (("event", "seen"),))
GAPS_FILLED = Counter("filled", "lr2_depot_gaps_total", (("event", "filled"),))
GAPS_GIVEN_UP = Counter("given up", "lr2_depot_gaps_total", (("event", "given_up"),))
HELD = Counter("held behind a gap", "lr2_depot_packets_total", (("event", "held"),))
DEPOT_NACKS = Counter("Depot-NACKs", "lr2_depot_nacks_sent_total")
RESENT = Counter("resent from the cache", "lr2_sentry_resent_total")
NAKS = Counter("NAKs made for the source", "lr2_naks_total", (("from", "sentry"),))
REWINDS = Counter("rewinds they caused", "lr2_sentry_passes_total", (("cause", "solicited"),))
FILTERED = Counter("repeats kept off the link", "lr2_dropped_frames_total", (("reason", "filtered_repeat"),))
LET_THROUGH = Counter("repeats let through", "lr2_sentry_packets_total", (("event", "repeat_needed"),))

LAN_NAKS = Counter("NAKs made for loss on the source's LAN", "lr2_naks_total", (("from", "sentry_source_lan"),))
LOCAL_RESENT = Counter("resent behind the Depot", "lr2_depot_local_resent_total")
_DELIVERED = [Counter("", "lr2_depot_packets_total", (("event", event),)) for event in ("in_order", "drained")]

READ_GAPS_SEEN = Counter("gaps among READ responses", "lr2_read_gaps_total", (("event", "seen"),))
READ_GAPS_FILLED = Counter("filled", "lr2_read_gaps_total", (("event", "filled"),))
READ_GAPS_GIVEN_UP = Counter("given up", "lr2_read_gaps_total", (("event", "given_up"),))

TUNNEL_LOST = Counter("frames lost in the tunnel", "lr2_tunnel_lost_frames_total")
TUNNEL_RESENT = Counter("frames resent by the tunnel", "lr2_tunnel_sent_frames_total", (("copy", "resent"),))
TUNNEL_GIVEN_UP = Counter("numbers of the tunnel given up", "lr2_tunnel_given_up_numbers_total", (("reason", "timeout"),))

# Counters that must not be zero after a test of WRITE or SEND, by recovery mode.
_ALWAYS = [GAPS_SEEN, DEPOT_NACKS, HELD, GAPS_FILLED]
REPAIRED: dict[str, list[Counter]] = {
    "cached": [*_ALWAYS, RESENT],
    "auto": [*_ALWAYS, RESENT],
    "lr2": [*_ALWAYS, NAKS, REWINDS, FILTERED, LET_THROUGH],
    "tunnel": [TUNNEL_LOST, TUNNEL_RESENT],
}

# And where the LANs are repaired beside the tunnel. What the source's LAN loses, the Sentry asks for.
_LANS_REPAIRED = [LOCAL_RESENT, LAN_NAKS]

MOST_OF_OFF = 1.2
"""Longest time of a timed case with recovery, as a multiple of its time without."""

BYPASSED = Counter("flows bypassed", "lr2_flow_events_total", (("event", "bypassed"),))
NEW_INCARNATIONS = Counter("new incarnations", "lr2_flow_events_total", (("event", "new_epoch"),))

_TIMED_OUT = Counter("", "lr2_depot_local_resent_total", (("cause", "timeout"),))
_RESENT_BEHIND = 0.01
_RESENT_BEHIND_OVERLOADED = 0.1
_RESENT_BEHIND_ANYWAY = 64
"""Of the packets that a Depot delivers, the share that it may resend because of timeouts on a LAN that loses
nothing (86 to 164 of 2,400 where the guest's ring loses some), and how many in any case: a guest that is emulated
stands still at times for longer than `t_out`. Packets that it requests by a NAK, its ring has lost."""

# Repeats of the source on its LAN, including those that are dropped.
_REPEATED = [
    FILTERED,
    Counter("", "lr2_dropped_frames_total", (("reason", "filtered_spurious_timeout"),)),
    *(Counter("", "lr2_sentry_packets_total", (("event", f"repeat_{why}"),)) for why in ("needed", "doubtful", "unprotected")),
]
# Counters shown for every test, if they are not zero.
_SHOWN = [
    TUNNEL_LOST,
    TUNNEL_RESENT,
    GAPS_SEEN,
    GAPS_FILLED,
    GAPS_GIVEN_UP,
    HELD,
    DEPOT_NACKS,
    RESENT,
    NAKS,
    REWINDS,
    FILTERED,
    LET_THROUGH,
    LAN_NAKS,
    LOCAL_RESENT,
    READ_GAPS_SEEN,
    READ_GAPS_FILLED,
    READ_GAPS_GIVEN_UP,
    Counter("READ responses resent", "lr2_read_responses_total", (("event", "resent"),)),
    BYPASSED,
    NEW_INCARNATIONS,
]

# rxe's own counters that must not move in either guest: a queue pair that failed.
BROKEN = ("retry_exceeded_err", "retry_rnr_exceeded_err", "send_err")
# A killed gateway can't resend the frames of its last round trip: about two, at 100 frames per second and 20 ms.
_SENT_LAST = 2
# Counted by the sender whenever it starts again at an earlier packet.
REWOUND = "completer_retry_err"

_KERNEL_TROUBLE = re.compile(
    r"BUG:|WARNING:|Oops|Call Trace|soft lockup|blocked for more than|rxe\S*: .*([Ff]ail|[Ee]rror|[Ii]nvalid)"
)


def repaired(
    setting: Setting, counted: Mapping[str, Metrics], sender: Mapping[str, int], survivors: Collection[str]
) -> Iterator[str]:
    """The missing evidence that losses were repaired inside the network; empty: it is proven.

    `survivors`: gateways whose peer was killed meanwhile.
    """
    for counter in REPAIRED[setting.recovery] + (_LANS_REPAIRED if setting.repairs_lans else []):
        if counter.of(counted) <= 0:
            yield f"{counter} is zero: no {counter.what}"
    for name, metrics in counted.items():
        given_up = TUNNEL_GIVEN_UP.of({name: metrics})
        if given_up > (_SENT_LAST if name in survivors else 0):
            yield f"{name}: {given_up:.0f} {TUNNEL_GIVEN_UP.what}"
    seen, given_up = GAPS_SEEN.of(counted), GAPS_GIVEN_UP.of(counted)
    # One is chance: each copy of a packet can be lost as the first was.
    if given_up > max(1, seen * setting.most_given_up):
        yield f"{given_up:.0f} of {seen:.0f} gaps were given up"
    if setting.recovery == "lr2" and sender.get(REWOUND, 0) <= 0:
        yield f"guest1: {REWOUND} is zero: the NAKs did not rewind the sender"


def slower(with_s: float, without_s: float | None) -> bool:
    """Whether something took too long with recovery; None: without, it did not even end."""
    return without_s is not None and with_s > without_s * MOST_OF_OFF


def reads_repaired(setting: Setting, counted: Mapping[str, Metrics]) -> Iterator[str]:
    """The same for READ responses, which only a cache can repair; of those not filled, the requester asks again."""
    if setting.recovery not in ("lr2", "tunnel") and not READ_GAPS_SEEN.of(counted):
        yield f"{READ_GAPS_SEEN} is zero: no {READ_GAPS_SEEN.what}"


def resent_needlessly(setting: Setting, counted: Mapping[str, Metrics], overloaded: bool) -> Iterator[str]:
    """A Depot's resends on a LAN that lost nothing, if there were too many."""
    if setting.recovery == "off" or "dst-lan" in setting.loss:
        return
    delivered = sum(counter.of(counted) for counter in _DELIVERED)
    share = _RESENT_BEHIND_OVERLOADED if overloaded else _RESENT_BEHIND
    resent, most = _TIMED_OUT.of(counted), _RESENT_BEHIND_ANYWAY + share * delivered
    if resent > most:
        yield f"{resent:.0f} packets were resent behind the Depot after timeouts, for {delivered:.0f} that it delivered; {most:.0f} at most"


def mistaken(counted: Mapping[str, Metrics]) -> Iterator[str]:
    """Incarnations that a gateway saw begin, though each test has queue pairs of its own."""
    # Bypassed until its path MTU is known, a flow begins again once it is.
    if (new := NEW_INCARNATIONS.of(counted)) > (known := BYPASSED.of(counted)):
        yield f"{new:.0f} new incarnations of queue pairs that were not reset, {known:.0f} of them after a bypass"


def broken(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Counters of a guest's RNIC that say that a queue pair failed."""
    for guest, counters in counted.items():
        for name in BROKEN:
            if counters.get(name, 0) > 0:
                yield f"{guest}: {name} is {counters[name]}"


def lost(report: Mapping[str, Any], segments: Iterable[str]) -> Iterator[str]:
    """The missing evidence that each of `segments` lost frames each way, and that data and responses were among them.

    Of a few frames lost on one segment none may be a request, by chance: that is asked of all segments together.
    """
    for direction, kind in (("a_to_b", "request"), ("b_to_a", "response")):
        ways = {segment: report["links"][segment][direction]["lost"] for segment in segments}
        words = direction.replace("_", " ")
        yield from (f"{segment} lost no frame from {words}" for segment, way in ways.items() if not way["frames"])
        if not any(way[kind] for way in ways.values()):
            yield f"no {kind} was lost from {words} on {', '.join(ways)}"


def losses(report: Mapping[str, Any], segments: Iterable[str]) -> str:
    """Frames lost by segment, in words."""
    ways = {segment: report["links"][segment] for segment in segments}
    return ", ".join(
        f"{segment}: {way['a_to_b']['lost']['frames']} there, {way['b_to_a']['lost']['frames']} back" for segment, way in ways.items()
    )


def kernel_trouble(dmesg: str) -> list[str]:
    """Lines of a guest's kernel log that should not be there."""
    return [line for line in dmesg.splitlines() if _KERNEL_TROUBLE.search(line)]


def shown(counted: Mapping[str, Metrics], rnics: Mapping[str, Mapping[str, int]]) -> str:
    """The events, in words: the RNICs first, then the gateways."""
    rewinds = sum(counters.get(REWOUND, 0) for counters in rnics.values())
    repeated = sum(counter.of(counted) for counter in _REPEATED)
    words = [f"RNICs went back {rewinds} times", f"{repeated:.0f} packets repeated by the source on its LAN"]
    words += [f"{n:.0f} {counter.what}" for counter in _SHOWN if (n := counter.of(counted)) > 0]
    return ", ".join(words)
