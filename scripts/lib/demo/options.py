"""The demo's command line, and the scenario that follows from it."""

import argparse
import re
from dataclasses import dataclass, fields
from pathlib import Path

from lr2run import parse_seconds, quantities

LOSSY_MODES = ("off", "lr2", "cached")
# The tunnel over Ethernet. Losses on the LANs are repaired beside it, from the first NAK on: `recovery.lan` is "auto" by default.
TUNNEL = "tunnel"
TUNNELS = (TUNNEL, "tunnel-udp")
MODES = (*LOSSY_MODES, *TUNNELS, "auto", "direct")
# How the tunnel chooses among its lanes, `wan.spray`; the first one is the default.
SPRAYS = ("earliest", "pinned", "oblivious", "reps", "strack")

# Segments with loss, and their names for people.
PLACES = {
    "src-lan": "the LAN between source and gateway",
    "wan": "the long haul",
    "dst-lan": "the LAN between gateway and destination",
    "ack": "the long haul's way back, of ACKs and STATUS",
}
LANS = ("src-lan", "dst-lan")
BOTTLENECK = "dst-lan"
"""The LAN that --lan-rate narrows."""

# Its switch queues the LAN's capacity in this time, which is lr2-wan's default.
LAN_QUEUE_S = 0.05

# Bytes around the payload of a WRITE's middle packet: Ethernet 14, IPv4 20,
# UDP 8, BTH 12, ICRC 4; its first packet has a RETH of 16 besides. On the wire
# each frame takes another 24: preamble, FCS, gap.
HEADERS = 14 + 20 + 8 + 12 + 4
RETH = 16
WIRE_OVERHEAD = 24

# The hosts' NICs are a little slower than the link, so that resends find room
# on it. At equal rates a queue would build up in front of the link that never
# drains: each resend would add to the delay of all that follows.
NIC_SHARE = 0.98

# Where a path dies, what was on it goes out again on the others, which carry all new frames as well: as much room
# as the tenth that nobody plans a link without.
ROOM_FOR_A_DEAD_PATH = 0.9

# A requester may have this many BDP outstanding. While a hole is open no ACK
# returns; with one BDP the sender would stall for a round trip at each loss.
WINDOW_BDP = 4


# The requester asks for an ACK this often. An RNIC ignores a second NAK until a
# positive ACK has arrived, so a loss before the first ACK behind a resend costs
# a timeout. With one ACK per 64 KiB message, which is the least that RNICs do,
# these timeouts would be a third of the loss's cost without recovery.
ACK_EVERY = 2


# Each path takes so much longer, one way, than the one before it, as a share of the first one's delay.
PATH_STEP = 0.2


@dataclass(frozen=True)
class Kill:
    """A path that dies."""

    path: int
    """From 1 on."""
    after_s: float
    """Since the start of the link."""


@dataclass(frozen=True)
class Scenario:
    """The link, the hosts and the passes asked for."""

    rate_bps: float
    rtt_s: float
    loss: float
    burst: float | None
    where: str
    """Where the frames are lost; one of `PLACES`."""
    paths: int
    """Paths of the long haul for a tunnel, each with its part of the rate."""
    kill: "Kill | None"
    lan_rate_bps: float | None
    """Rate of the destination's LAN; None: unlimited."""
    pmtu: int
    qps: int
    dcqcn: bool
    """Whether the hosts slow down at congestion notification packets."""
    message: int
    operation: str
    ack_every: int
    seconds: float
    warm_up: float
    seed: int
    modes: tuple[str, ...]
    sprays: tuple[str, ...]
    """Policies with each of which the passes of the tunnel run; none: its default."""
    json: Path | None
    keep: bool

    @property
    def passes(self) -> tuple[tuple[str, str | None], ...]:
        """Mode of each pass, and how the tunnel chooses among its lanes."""
        lossy = ((mode, spray) for mode in self.modes for spray in (self.sprays if mode in TUNNELS and self.sprays else (None,)))
        return (("lossless", None), *lossy)

    @property
    def lossy_link(self) -> str:
        """Which of lr2-wan's links loses frames."""
        return self.where if self.where in LANS else "wan"

    @property
    def lan_links(self) -> tuple[str, ...]:
        """The LANs that lr2-wan emulates; any other is a wire."""
        narrow = (BOTTLENECK,) if self.lan_rate_bps else ()
        lossy = (self.where,) if self.where in LANS else ()
        return tuple(dict.fromkeys((*narrow, *lossy)))

    def nic_bps(self, congested: bool = True) -> float:
        """Rate of the hosts' NICs; not `congested`: the one that the destination's LAN can carry."""
        narrowest = self.rate_bps if congested else self.bottleneck_bps
        return NIC_SHARE * narrowest * self.left

    @property
    def left(self) -> float:
        """Share of the long haul that the hosts use: of what is left when a path has died."""
        return ROOM_FOR_A_DEAD_PATH * (self.paths - 1) / self.paths if self.kill else 1

    @property
    def stall_target_s(self) -> float:
        """For which a flow may stand still when a path dies: twice the longest round trip, and 2 ms."""
        return 2 * self.rtt_s * (1 + PATH_STEP * (self.paths - 1)) + 0.002

    @property
    def bottleneck_bps(self) -> float:
        """Rate of the narrowest segment."""
        return min(self.rate_bps, self.lan_rate_bps or self.rate_bps)

    @property
    def longest_rtt_s(self) -> float:
        """With the queue of a narrow LAN full."""
        return self.rtt_s + (LAN_QUEUE_S if self.lan_rate_bps else 0)

    @property
    def packet_wire_bytes(self) -> int:
        """A full packet on the wire."""
        return min(self.message, self.pmtu) + HEADERS + WIRE_OVERHEAD

    @property
    def carries_bps(self) -> float:
        """Message content per second that fills the narrowest segment."""
        packets = max(1, -(-self.message // self.pmtu))
        reth = RETH if self.operation == "write" else 0
        wire = self.message + packets * (HEADERS + WIRE_OVERHEAD) + reth
        return self.bottleneck_bps * self.message / wire

    @property
    def nic_packets_per_s(self) -> float:
        return self.nic_bps() / (8 * self.packet_wire_bytes)

    @property
    def timeout_exponent(self) -> int:
        """The RNICs' timeout, 4.096 us x 2^x: 67 ms, and no less than four of the longest round trips."""
        exponent = 14
        while 4.096e-6 * 2**exponent < 4 * self.longest_rtt_s and exponent < 31:
            exponent += 1
        return exponent

    @property
    def timeout_s(self) -> float:
        return 4.096e-6 * 2**self.timeout_exponent


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*(B|KiB|MiB)?", text)
    if not match:
        raise ValueError(text)
    return int(match[1]) * {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[match[2]]


def _kill(text: str) -> Kill:
    path, at, after = text.partition("@")
    if not at or not path.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: give a path and a time, such as 2@3s")
    try:
        return Kill(int(path), parse_seconds(after))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {after!r} is no time such as 3s") from None


_message = quantities.checked(_bytes, lambda value: 0 < value <= 1 << 30, "a size such as 64KiB, 1024MiB at most")


def _modes(text: str) -> tuple[str, ...]:
    modes = tuple(text.split(","))
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)!r}: the modes are {', '.join(MODES)}")
    return modes


def _sprays(text: str) -> tuple[str, ...]:
    sprays = SPRAYS if text == "all" else tuple(dict.fromkeys(text.split(",")))
    if unknown := [spray for spray in sprays if spray not in SPRAYS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)!r}: the policies are {', '.join(SPRAYS)}, or all")
    return sprays


def parse(arguments: list[str] | None = None) -> tuple[Scenario, bool]:
    """The scenario, and whether only the command line is to be checked."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Runs RoCEv2 between two hosts over an emulated long link: without loss, then with loss "
        "and the gateways' recovery off, lr2 and cached, and through their tunnel. Every byte delivered is verified.",
        epilog="Congestion: ./scripts/demo --lan-rate 100Mbps --incast 8. Exit code: 0 all messages of all passes "
        "arrived intact (in congestion those of RNICs alone may run out of retries), the first pass reached 0.95 of what the link can carry, and each other pass lost frames; "
        "3 only the first pass fell short; 2 could not run; 1 anything else.",
    )
    add = parser.add_argument
    add("--loss", type=quantities.share, metavar="SHARE", help="frames lost (default 1%%; with --lan-rate 0)")
    add(
        "--where",
        choices=PLACES,
        default="wan",
        help="where: on the LAN of the source, on the long haul, on the LAN of the destination, each in both "
        "directions; or ack, only on the long haul's way back (default wan)",
    )
    add("--burst", type=quantities.positive(float), metavar="FRAMES", help="lose them in bursts of this mean length (default: one by one)")
    add("--rtt", dest="rtt_s", type=quantities.time, default=0.01, metavar="TIME", help="round-trip time of the link (default 10ms)")
    add("--rate", dest="rate_bps", type=quantities.rate, default=1e9, metavar="RATE", help="rate of the link (default 1Gbps)")
    add(
        "--paths",
        type=int,
        default=1,
        choices=range(1, 9),
        metavar="N",
        help="paths of the long haul, a WAN port each, for the tunnel: each has a part of --rate and takes a fifth of half the round "
        "trip longer than the one before it. The other passes have one link of the whole rate (default 1)",
    )
    add(
        "--kill",
        type=_kill,
        metavar="PATH@TIME",
        help="that path, from 1 on, carries nothing from this time after the start of the link on, as 2@3s; the NICs then send "
        "what the others can carry",
    )
    add(
        "--spray",
        dest="sprays",
        type=_sprays,
        default=(),
        metavar="POLICY,...",
        help="how the tunnel chooses among several --paths: a pass of it with each of these, or with all "
        f"({', '.join(SPRAYS)}; default {SPRAYS[0]})",
    )
    add(
        "--lan-rate",
        dest="lan_rate_bps",
        type=quantities.rate,
        metavar="RATE",
        help="rate of the destination's LAN, whose switch holds 50 ms of it and drops the rest: congestion. The "
        "first pass then has NICs that the LAN can carry (default unlimited)",
    )
    add(
        "--incast",
        type=quantities.positive(int),
        metavar="N",
        help="queue pairs that send into the destination's LAN at once: --qps, by the name of what --lan-rate makes of them",
    )
    add("--pmtu", type=int, default=4096, choices=(256, 512, 1024, 2048, 4096), help="path MTU (default 4096)")
    add("--qps", type=quantities.positive(int), metavar="N", help="queue pairs (default 1)")
    add("--dcqcn", action="store_true", help="hosts slow down at congestion notification packets (default: they know none)")
    add("--message", type=_message, default=64 << 10, metavar="SIZE", help="message size (default 64KiB)")
    add("--op", dest="operation", choices=("write", "send"), default="write", help="RDMA operation (default write)")
    add(
        "--ack-every",
        type=quantities.positive(int),
        default=ACK_EVERY,
        metavar="N",
        help=f"packets from one ACK request to the next (default {ACK_EVERY})",
    )
    add("--seconds", type=quantities.positive(float), default=8.0, metavar="S", help="time measured in each pass (default 8)")
    add(
        "--mode",
        dest="modes",
        type=_modes,
        metavar="MODE,...",
        help=f"passes after the one without loss (default {','.join(LOSSY_MODES)}, and tunnel without --lan-rate); "
        "also tunnel-udp, the tunnel in UDP; auto; and direct: without gateways",
    )
    add("--seed", type=int, default=1, metavar="N", help="seed of all random choices (default 1)")
    add("--json", type=Path, metavar="FILE", help="write the results there")
    add("--keep", action="store_true", help="keep logs and reports of all programs")
    add("--check", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.loss is None:
        given.loss = 0.0 if given.lan_rate_bps else 0.01
    if given.modes is None:
        lossy = ("off",) if given.paths > 1 else LOSSY_MODES
        given.modes = lossy if given.lan_rate_bps else (*lossy, TUNNEL)
    if given.lan_rate_bps and given.lan_rate_bps >= given.rate_bps:
        parser.error("--lan-rate must be less than --rate: a LAN that is not narrower is never congested")
    if given.incast and not given.lan_rate_bps:
        parser.error("--incast needs --lan-rate: without it the long haul is the bottleneck")
    if given.incast and given.qps:
        parser.error("--incast and --qps both give the number of queue pairs: leave one out")
    if given.burst is not None and given.loss > given.burst / (given.burst + 1):
        parser.error(f"--loss {given.loss:g} can't be had in bursts of {given.burst:g} frames: at least one arrives between two")
    if given.kill and not 1 <= given.kill.path <= given.paths > 1:
        parser.error(f"--kill {given.kill.path}@...: give several --paths, and one of them")
    if given.sprays and (given.paths == 1 or not any(mode in TUNNELS for mode in given.modes)):
        parser.error("--spray is for a tunnel with several --paths")
    if given.paths > 1 and given.where == "ack":
        parser.error("--where ack needs one path")
    if given.where in LANS and "direct" in given.modes:
        parser.error(f"--where {given.where} needs gateways: without them there is one link, and no LAN")
    if given.lan_rate_bps and "direct" in given.modes:
        parser.error("--lan-rate needs gateways: without them there is one link, and no LAN")
    if not 0 <= given.seed < 1 << 63:
        parser.error("--seed must be between 0 and 2^63")
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.absolute().parent}")
    given.qps = given.incast or given.qps or 1
    given.warm_up = min(1.0, given.seconds / 4)
    # Without loss and congestion there is nothing to recover from.
    given.modes = given.modes if given.loss > 0 or given.lan_rate_bps or given.paths > 1 else ()
    given.json = given.json and given.json.absolute()
    return Scenario(**{field.name: getattr(given, field.name) for field in fields(Scenario)}), given.check
