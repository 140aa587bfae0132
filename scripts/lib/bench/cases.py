"""What is measured."""

from collections.abc import Iterator
from dataclasses import dataclass
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
    """What the ports' far sides send. In-order new packets of all flows, and ACKs in the reverse direction."""

    payload: int
    """Bytes per data packet."""
    flows: int
    """Queue pairs, a power of two."""
    in_flight: int
    """Data frames that are not acknowledged."""

    @property
    def per_ack(self) -> int:
        """Packets of a flow per ACK: a quarter of what it has in flight, at least 1 and at most 32."""
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
        return self.delay + self.flows * self.per_ack + 2048

    def __str__(self) -> str:
        return f"{self.payload} B, {count(self.flows)} flows, {count(self.in_flight)} in flight"


@dataclass(frozen=True)
class Dut:
    """A program under test and how it runs."""

    name: str
    """`testpmd`, `ovs`, `hold`, `sentry`, `depot` or `both`."""
    mode: str
    """testpmd: its forwarding mode; a gateway: recovery."""

    @property
    def is_gateway(self) -> bool:
        return self.name in ("sentry", "depot", "both")

    @property
    def data(self) -> Data:
        """The way that gives it work: a Depot's data come from the WAN."""
        return {"depot": Data.IN, "both": Data.BOTH}.get(self.name, Data.OUT)

    def __str__(self) -> str:
        return f"{self.name} {self.mode}".strip()


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

ALL = (IO, MACSWAP, OVS, HOLD, OFF, SENTRY_LR2, SENTRY_CACHED, DEPOT_LR2, DEPOT_CACHED, BOTH)
_HOLDING = (MACSWAP, HOLD, SENTRY_CACHED, DEPOT_CACHED)
_SCALING = (MACSWAP, SENTRY_LR2, SENTRY_CACHED, DEPOT_CACHED)


@dataclass(frozen=True)
class Group:
    """Programs to be compared under one traffic."""

    traffic: Traffic
    duts: tuple[Dut, ...]


def quick() -> list[Group]:
    """Each program at each size."""
    return [Group(Traffic(payload, 64, 4096), ALL) for payload in (64, 1024, 4096)]


def full() -> list[Group]:
    """Besides, frames held and flows."""
    held = [Group(Traffic(payload, 64, in_flight), _HOLDING) for payload in (1024, 4096) for in_flight in (64, 1 << 17)]
    flows = [Group(Traffic(1024, flows, 4096), _SCALING) for flows in (1, 4096, 1 << 16, 1 << 20)]
    # One ACK per packet, as at 4,096 flows and more: what those are to be compared with.
    flows.insert(0, Group(Traffic(1024, 64, 64), _SCALING))
    return merged([*quick(), *held, *flows])


def smoke() -> list[Group]:
    """One of each kind of program, small."""
    return [Group(Traffic(1024, 64, 1024), (MACSWAP, HOLD, OFF, SENTRY_CACHED, DEPOT_CACHED, BOTH))]


def merged(groups: list[Group]) -> list[Group]:
    """Each traffic once, with all programs that are named for it."""
    by_traffic: dict[Traffic, dict[Dut, None]] = {}
    for group in groups:
        by_traffic.setdefault(group.traffic, {}).update(dict.fromkeys(group.duts))
    return [Group(traffic, tuple(duts)) for traffic, duts in by_traffic.items()]


def chosen(groups: list[Group], names: list[str] | None) -> Iterator[Group]:
    """The groups with these programs only; macswap stays, since all is compared with it."""
    for group in groups:
        duts = tuple(dut for dut in group.duts if names is None or dut.name in names or str(dut) in names or dut == MACSWAP)
        if duts:
            yield Group(group.traffic, duts)


def count(number: int) -> str:
    """`4 k` for 4096."""
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if number >= size and number % size == 0:
            return f"{number // size} {unit}"
    return str(number)
