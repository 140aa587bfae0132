"""Does a NAK that nobody but a gateway sent rewind a real sender?

LR2's collaborative recovery rests on it: the far gateway hides a hole from the
destination, so the source never hears of it from there; the near gateway
sends the source a NAK with PSN = acked + 1, the oldest packet not acknowledged.
Here a gateway of a hundred lines stands between two guests, loses one packet of
a stream at a time, does just that, and watches the sender. No DPDK and
none of the product's code takes part: this tests the RNIC's driver.
"""

import heapq
import itertools
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .roce import Packet, ahead, nak_like, parse

_ONE_WAY_S = 0.010
_PACKETS_BETWEEN_HOLES = 150
# Sooner than the timers of the senders that are tested: 0.5 s and more.
_PATIENCE_S = 0.4


@dataclass
class Hole:
    """One lost packet and its repair. Times are monotonic seconds."""

    psn: int
    nak_psn: int | None = None
    behind: int = 0
    """By how many packets the NAK's PSN was behind the hole."""
    nak_at: float = 0.0
    rewound_to: int | None = None
    rewound_after_s: float = 0.0
    repaired: bool = False

    @property
    def as_expected(self) -> bool:
        """The sender went back to where the NAK said, and sooner than its own timer would have made it."""
        exact = self.nak_psn is not None and self.rewound_to == self.nak_psn
        return self.repaired and exact and self.rewound_after_s < _PATIENCE_S


@dataclass
class Stream:
    """The requests of one queue pair, from guest 1 to guest 2."""

    qpn: int
    next_psn: int
    acked: int | None = None
    ack_frame: bytes = b""
    hole: Hole | None = None
    quiet_until: int = 0
    """No hole before this PSN."""
    held: list[bytes] = field(default_factory=list)
    """At the far end: packets that arrived behind the hole."""


def unexpected(gateway: "Gateway") -> Iterator[str]:
    """Deviations of the sender from LR2's requirements."""
    if not gateway.holes:
        yield "no packet was lost: nothing was tested"
    if gateway.genuine_naks:
        yield f"the destination saw gaps: {gateway.genuine_naks} NAKs of its own"
    for hole in gateway.holes:
        if not hole.as_expected:
            yield f"not repaired as expected: {hole}"


class Gateway:
    """Carries frames between the sockets of two guests' network backends, in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._theirs = {n: str(folder / f"guest{n}.sock") for n in (1, 2)}
        self._ours = {n: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for n in (1, 2)}
        for n, own in self._ours.items():
            own.bind(str(folder / f"gateway{n}.sock"))
            own.setblocking(False)
        self._folder = folder
        self._flight: list[tuple[float, int, int, bytes]] = []
        self._order = itertools.count()
        self._stream: Stream | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._lose = False
        self.holes: list[Hole] = []
        """Those of the running test …"""
        self.past_holes: list[Hole] = []
        """… and of those before it."""
        self.genuine_naks = 0
        """From the destination; it should not notice any hole."""

    def begin(self, lose: bool) -> None:
        """A new test begins: whether to lose packets of it."""
        self._lose = lose
        self.past_holes += self.holes
        self.holes = []
        self.genuine_naks = 0

    def summary(self) -> str:
        """The events, in words."""
        exact = [hole for hole in self.holes if hole.as_expected]
        times = sorted(hole.rewound_after_s * 1e3 for hole in exact)
        text = f"{len(self.holes)} losses, {len(exact)} NAKs obeyed"
        return text + (f", in {times[0]:.1f} to {times[-1]:.1f} ms" if times else "")

    def netdev(self, number: int) -> str:
        """QEMU's arguments for guest `number`'s side."""
        return (
            f"-netdev dgram,id=data,local.type=unix,local.path={self._theirs[number]},"
            f"remote.type=unix,remote.path={self._folder}/gateway{number}.sock"
        )

    def __enter__(self) -> "Gateway":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for own in self._ours.values():
            own.close()

    def _carry(self) -> None:
        while not self._stop.is_set():
            now = time.monotonic()
            pause = max(0.0, min(0.1, self._flight[0][0] - now)) if self._flight else 0.1
            readable, _, _ = select.select(list(self._ours.values()), [], [], pause)
            for n, own in self._ours.items():
                while own in readable:
                    try:
                        frame = own.recv(65536)
                    except BlockingIOError:
                        break
                    self._near(n, frame)
            while self._flight and self._flight[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(self._flight)
                self._far(to, frame)

    def _send(self, to: int, frame: bytes) -> None:
        while not self._stop.is_set():
            try:
                self._ours[to].sendto(frame, self._theirs[to])
                return
            except BlockingIOError:
                time.sleep(0.0005)  # QEMU's queue is full: it will read
            except (FileNotFoundError, ConnectionRefusedError):
                return  # not there yet, or gone

    def _cross(self, to: int, frame: bytes) -> None:
        heapq.heappush(self._flight, (time.monotonic() + _ONE_WAY_S, next(self._order), to, frame))

    def _near(self, number: int, frame: bytes) -> None:
        """A frame from a guest, about to cross the link."""
        packet = parse(frame)
        if number == 1 and packet and packet.is_request and self._request(packet):
            return
        self._cross(3 - number, frame)

    def _request(self, packet: Packet) -> bool:
        """The near gateway: loss, and the filter. True: the packet is gone."""
        stream = self._stream
        if stream is None or stream.qpn != packet.qpn:
            stream = self._stream = Stream(
                packet.qpn, packet.psn, quiet_until=packet.psn + _PACKETS_BETWEEN_HOLES
            )
        hole = stream.hole
        if ahead(packet.psn, stream.next_psn) >= 0:
            stream.next_psn = (packet.psn + 1) % (1 << 24)
            ready = hole is None and stream.acked is not None and ahead(packet.psn, stream.quiet_until) >= 0
            if self._lose and ready:
                stream.hole = Hole(packet.psn)
                self.holes.append(stream.hole)
                return True
            return False
        if hole is None or hole.nak_psn is None:
            return False
        if hole.rewound_to is None:
            hole.rewound_to = packet.psn
            hole.rewound_after_s = time.monotonic() - hole.nak_at
        return packet.psn != hole.psn

    def _far(self, to: int, frame: bytes) -> None:
        """A frame that has crossed the link."""
        packet, stream = parse(frame), self._stream
        if packet is None or stream is None:
            self._send(to, frame)
        elif to == 2 and packet.is_request and packet.qpn == stream.qpn:
            self._arrived(stream, packet, frame)
        else:
            if to == 1:
                self._acknowledged(stream, packet, frame)
            self._send(to, frame)

    def _arrived(self, stream: Stream, packet: Packet, frame: bytes) -> None:
        """The far gateway: hold packets behind a hole; the near one's NAK follows a link's delay later."""
        hole = stream.hole
        if hole is None or ahead(packet.psn, hole.psn) < 0:
            self._send(2, frame)
        elif packet.psn == hole.psn:
            hole.repaired = True
            stream.hole = None
            stream.quiet_until = stream.next_psn + _PACKETS_BETWEEN_HOLES
            for each in (frame, *stream.held):
                self._send(2, each)
            stream.held.clear()
        else:
            stream.held.append(frame)
            if len(stream.held) == 1:
                threading.Timer(_ONE_WAY_S, self._nak, (stream, hole)).start()

    def _nak(self, stream: Stream, hole: Hole) -> None:
        assert stream.acked is not None
        hole.nak_psn = (stream.acked + 1) % (1 << 24)
        hole.behind = ahead(hole.psn, hole.nak_psn)
        hole.nak_at = time.monotonic()
        self._send(1, nak_like(stream.ack_frame, hole.nak_psn))

    def _acknowledged(self, stream: Stream, packet: Packet, frame: bytes) -> None:
        if packet.is_nak:
            self.genuine_naks += 1
        elif packet.is_ack:
            stream.acked = packet.psn
            stream.ack_frame = frame
