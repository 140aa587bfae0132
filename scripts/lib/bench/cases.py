"""The measurements."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

HEADERS = 14 + 20 + 8 + 12 + 4
"""Of a data frame: Ethernet, IPv4, UDP, BTH, ICRC; bytes."""

_MOST_PER_ACK = 32


class Data(StrEnum):
    """Which way data goes, seen from the LAN."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


@dataclass(frozen=True)
class Traffic:
    """The traffic of the ports' far sides. In-order new packets of all flows, and ACKs in the reverse direction."""

    payload: int
    """Bytes per data packet."""
    flows: int
    """Queue pairs, a power of two."""
    in_flight: int
    """Data frames that are not acknowledged."""
    loss: float = 0.0
    """Part of the data packets that the long haul loses; a gateway makes good for it."""
    pause_us: int = 0
    """Time from one packet to the next, with nothing in between; 0: always more."""

    @property
    def per_ack(self) -> int:
        """Packets of a flow per ACK: a quarter of those in flight, at least 1 and at most 32."""
        wanted = max(1, min(_MOST_PER_ACK, self.in_flight // self.flows // 4))
        return 1 << wanted.bit_length() - 1

    @property
    def delay(self) -> int:
        """Frames between one that asks for an ACK and that ACK, so that `in_flight` are out on average."""
        return max(1, self.in_flight - self.flows * (self.per_ack - 1) // 2)

    @property
    def frame(self) -> int:
        """Bytes of a data frame, without FCS."""
        return self.payload + HEADERS

    @property
    def most_held(self) -> int:
        """Data frames that a program may have to hold at a time."""
        held = self.delay + self.flows * self.per_ack + 2048
        # A gap stays open for a round trip, and packets held behind it take one more.
        return 4 * held if self.loss else held

    def __str__(self) -> str:
        return f"{self.payload} B, {count(self.flows)} flows, {count(self.in_flight)} in flight"

    def with_loss(self, loss: float) -> "Traffic":
        return replace(self, loss=loss)


@dataclass(frozen=True)
class Dut:
    """A program under test and how it runs."""

    name: str
    """`testpmd`, `ovs`, `hold`, `sentry`, `depot`, `both` or `tunnel`."""
    mode: str
    """testpmd: its forwarding mode; a gateway: recovery; one with a tunnel: the end that data make of it."""
    workers: int = 1
    """Of a gateway. With one receive queue all comes in at the first, and belongs to the last."""
    queues: int = 1
    """Of each port, one for each worker, and the traffic for each."""
    udp: bool = False
    """Of a tunnel: over UDP rather than Ethernet."""
    ports: int = 1
    """WAN ports of a tunnel."""
    lanes: int = 1
    """Of each of them."""
    idle: str = "busy"
    """Of a gateway: how a worker waits that finds nothing to do."""
    records: bool = True
    """Of a gateway: its flight recorder is on."""
    lan: str = "off"
    """Of a tunnel: `recovery.lan`."""
    repaired: int = 0
    """With `lan = "auto"`: pairs of hosts, of 64 flows each, that had a NAK."""

    @property
    def alone(self) -> "Dut":
        """The case that this one is compared with: one worker, queue, port and lane, and LANs that are not repaired."""
        return replace(self, workers=1, queues=1, ports=1, lanes=1, lan="off", repaired=0)

    @property
    def may_move(self) -> bool:
        """Whether frames may go out again on another lane: where one is silent, as all are to a worker that others kept from its core."""
        return self.ports * self.lanes > 1

    @property
    def is_gateway(self) -> bool:
        return self.name in ("sentry", "depot", "both", "tunnel")

    @property
    def is_tunnel(self) -> bool:
        return self.name == "tunnel"

    @property
    def data(self) -> Data:
        """The way that gives it work: a Depot's data come from the WAN, and those that a tunnel receives."""
        return {"depot": Data.IN, "both": Data.BOTH}.get(self.place, Data.OUT)

    @property
    def place(self) -> str:
        """Of the pipelines those that data take: `sentry`, `depot` or `both`."""
        return {"sender": "sentry", "receiver": "depot"}.get(self.mode, "both") if self.is_tunnel else self.name

    def __str__(self) -> str:
        recorder = "" if self.records else ", not recorded"
        repair = repair_of(self.lan, self.repaired)
        return f"{self.name} {self.mode}".strip() + extent(self.workers, self.udp, self.ports, self.lanes) + repair + recorder


def extent(workers: int, udp: bool, ports: int, lanes: int) -> str:
    """What is there besides one of each, and Ethernet."""
    several = [f", {number} {what}" for number, what in ((workers, "workers"), (ports, "WAN ports"), (ports * lanes, "lanes")) if number > 1]
    return (" over UDP" if udp else "") + "".join(several)


def repair_of(lan: str, repaired: int) -> str:
    """What repair of the LANs there is beside a tunnel."""
    pairs = f", {repaired} repaired" if repaired else ""
    return "" if lan == "off" else f", lan {lan}{pairs}"


IO = Dut("testpmd", "io")
MACSWAP = Dut("testpmd", "macswap")
HOLD = Dut("hold", "")
OVS = Dut("ovs", "")
OFF = Dut("both", "off")
SENTRY_LR2 = Dut("sentry", "lr2")
SENTRY_CACHED = Dut("sentry", "cached")
DEPOT_LR2 = Dut("depot", "lr2")
DEPOT_CACHED = Dut("depot", "cached")
BOTH = Dut("both", "cached")
TUNNEL_SENDER = Dut("tunnel", "sender")
TUNNEL_RECEIVER = Dut("tunnel", "receiver")
TUNNEL_BOTH = Dut("tunnel", "both")
TUNNEL = (TUNNEL_SENDER, TUNNEL_RECEIVER, TUNNEL_BOTH)

SCALED = tuple(replace(dut, workers=2, queues=2) for dut in (OFF, *TUNNEL))
"""As many workers as there are cores, each with a queue of each port."""

SPRAYED = tuple(
    replace(dut, udp=udp, ports=ports, lanes=lanes)
    for udp, ports, lanes in ((False, 2, 1), (False, 4, 1), (True, 1, 1), (True, 1, 8), (True, 2, 4), (True, 4, 2))
    for dut in TUNNEL
)
"""Several lanes, and several WAN ports: over Ethernet a lane each, over UDP several."""

LANS = tuple(replace(dut, lan=lan) for lan in ("auto", "on") for dut in (TUNNEL_SENDER, TUNNEL_RECEIVER))
"""Beside the same with `recovery.lan = "off"`: `"auto"` is the default with a tunnel."""
REPAIRED = tuple(replace(dut, lan="auto", repaired=pairs) for pairs in (1, 10) for dut in (TUNNEL_SENDER, TUNNEL_RECEIVER))
"""Of 64 k flows, one in a thousand and one in a hundred are repaired."""

ALL = (IO, MACSWAP, OVS, HOLD, OFF, SENTRY_LR2, SENTRY_CACHED, DEPOT_LR2, DEPOT_CACHED, BOTH, *TUNNEL)
_HOLDING = (MACSWAP, OVS, HOLD, SENTRY_CACHED, DEPOT_CACHED, BOTH, *TUNNEL)
_SCALING = (MACSWAP, OVS, HOLD, OFF, SENTRY_LR2, SENTRY_CACHED, DEPOT_LR2, DEPOT_CACHED, *TUNNEL)
_RECOVERING = (SENTRY_LR2, SENTRY_CACHED, DEPOT_LR2, DEPOT_CACHED, BOTH, *TUNNEL)
UNRECORDED = tuple(replace(dut, records=False) for dut in (SENTRY_CACHED, DEPOT_CACHED, TUNNEL_SENDER, TUNNEL_RECEIVER))
"""Beside the same with the flight recorder, which writes where packets are lost."""
LOSS = 0.01

PAYLOADS = (64, 1024, 4096)
CENTRE = Traffic(1024, 64, 4096)
"""Every axis goes through it."""
ONE_EACH = Traffic(1024, 64, 64)
"""A packet of each flow in flight and an ACK for each, as with thousands of flows: the reference for those."""


@dataclass(frozen=True)
class Case:
    """A program under a traffic."""

    dut: Dut
    traffic: Traffic

    def __str__(self) -> str:
        return f"{self.dut}{f', {100 * self.traffic.loss:g} % loss' if self.traffic.loss else ''}"


@dataclass(frozen=True)
class Group:
    """Programs to be compared under one traffic, and the loss of some of it, if any."""

    traffic: Traffic
    cases: tuple[Case, ...]

    def with_loss(self, loss: float) -> "Group":
        """The same with another loss in the cases that have one; without these, if it is 0."""
        lossless = [case for case in self.cases if not case.traffic.loss]
        lossy = [Case(case.dut, case.traffic.with_loss(loss)) for case in self.cases if case.traffic.loss and loss]
        return Group(self.traffic, (*lossless, *lossy))

    @property
    def rounds_most(self) -> int:
        """A million flows take a minute to be connected."""
        return 2 if self.traffic.flows > 1 << 18 else 100


def group(traffic: Traffic, duts: Iterable[Dut], lossy: Iterable[Dut] = ()) -> Group:
    with_loss = traffic.with_loss(LOSS)
    return Group(traffic, (*(Case(dut, traffic) for dut in duts), *(Case(dut, with_loss) for dut in lossy)))


def quick() -> list[Group]:
    """Each program at each size, and loss in the middle."""
    return [group(replace(CENTRE, payload=payload), ALL, _RECOVERING if payload == CENTRE.payload else ()) for payload in PAYLOADS]


def full() -> list[Group]:
    """The axes payload, frames in flight and flows, each through the centre, and with loss."""
    payloads = [group(replace(CENTRE, payload=payload), ALL, _RECOVERING) for payload in PAYLOADS]
    sprayed = [group(replace(CENTRE, in_flight=in_flight), SPRAYED) for in_flight in (CENTRE.in_flight, 1 << 17)]
    scaled = [group(traffic, SCALED) for traffic in (ONE_EACH, CENTRE, replace(CENTRE, in_flight=1 << 17))]
    held = [
        group(Traffic(payload, CENTRE.flows, in_flight), _HOLDING, (SENTRY_CACHED, DEPOT_CACHED))
        for payload in PAYLOADS[1:]
        for in_flight in (64, 1 << 17)
    ]
    flows = [group(replace(CENTRE, flows=flows), _SCALING) for flows in (1, 1 << 12, 1 << 16, 1 << 20)]
    lans = [group(CENTRE, LANS), group(replace(CENTRE, flows=1 << 16), (*LANS, *REPAIRED))]
    return merged([*payloads, group(CENTRE, (), UNRECORDED), *lans, *scaled, *sprayed, *held, group(ONE_EACH, _SCALING), *flows])


def smoke() -> list[Group]:
    """One of each kind of program, small."""
    sprayed = (dut for dut in SPRAYED if dut.mode == "both")
    return [group(CENTRE, (MACSWAP, HOLD, OFF, SENTRY_CACHED, DEPOT_CACHED, BOTH, *TUNNEL, *LANS, *SCALED, *sprayed), _RECOVERING)]


def merged(groups: list[Group]) -> list[Group]:
    """Each traffic once, with all cases that are named for it."""
    by_traffic: dict[Traffic, dict[Case, None]] = {}
    for each in groups:
        by_traffic.setdefault(each.traffic, {}).update(dict.fromkeys(each.cases))
    return [Group(traffic, tuple(sorted(cases, key=lambda case: case.traffic.loss))) for traffic, cases in by_traffic.items()]


def chosen(groups: list[Group], names: list[str] | None) -> Iterator[Group]:
    """The groups with these programs only; macswap stays, since all is compared with it."""
    for each in groups:
        cases = tuple(case for case in each.cases if names is None or {case.dut.name, f"{case.dut.name} {case.dut.mode}".strip(), str(case.dut)} & {*names})
        if cases:
            base = tuple(case for case in each.cases if case.dut == MACSWAP and case not in cases)
            yield Group(each.traffic, base + cases)


def count(number: int) -> str:
    """`4 k` for 4096."""
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if number >= size and number % size == 0:
            return f"{number // size} {unit}"
    return str(number)
