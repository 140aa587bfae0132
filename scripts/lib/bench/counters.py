"""The traffic port's counters, and the processor time of the thread that polls it."""

import contextlib
import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"LR2TRAF1"
_HEAD = struct.Struct("8sQQQ")
_NAME_BYTES = 24
_SLOT_BYTES = _NAME_BYTES + 8

ERRORS = {
    "bad_order": "packets that came out of order, or not at all",
    "bad_claim": "ACKs, NAKs or control messages that claim what is not so",
    "bad_length": "frames of another length than they came with",
    "bad_flow": "frames of a flow that there is not, or in the wrong direction",
    "bad_icrc": "packets with other bytes than they came with",
    "bad_control": "control messages with a wrong tag, ICRC or form",
    "foreign": "frames of a sort that does not belong here",
    "unexpected": "messages that nobody asked for, or more than the port can hold",
    "no_mbuf": "times that the pool was empty",
    "thread_changes": "times that another thread came",
}
"""Counters that stay zero in a run that is any good, with their meaning."""
WITHOUT_LOSS = {
    "out_repeats": "packets that had come out before",
    "naks": "NAKs",
    "gaps_heard": "reports of missing packets",
    "stalled": "times that a flow had too much outstanding",
}
"""Those that do so where nothing is lost."""


class NotThere(Exception):
    """The port has not made its file yet."""


class Page:
    """The file that the port writes its counters to (traffic-port/counters.h)."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise NotThere(str(error)) from error
        magic, _, count, self.tsc_hz = _HEAD.unpack_from(self._map)
        if magic != _MAGIC:
            raise NotThere(f"{path}: not written yet")
        self._at: dict[str, int] = {}
        for slot in range(count):
            at = _HEAD.size + slot * _SLOT_BYTES
            name = self._map[at : at + _NAME_BYTES].split(b"\0")[0].decode()
            self._at[name] = at + _NAME_BYTES

    def read(self) -> dict[str, int]:
        """All counters, of one moment."""
        while True:
            before = self._version()
            values = {name: struct.unpack_from("Q", self._map, at)[0] for name, at in self._at.items()}
            if before % 2 == 0 and self._version() == before:
                return values

    def _version(self) -> int:
        version: int = struct.unpack_from("Q", self._map, 8)[0]
        return version

    def close(self) -> None:
        self._map.close()


class Pages:
    """The files of a port's queues, one for each."""

    def __init__(self, paths: Sequence[Path]) -> None:
        with contextlib.ExitStack() as stack:
            self.each = [stack.enter_context(contextlib.closing(Page(path))) for path in paths]
            self._stack = stack.pop_all()
        self.tsc_hz = self.each[0].tsc_hz

    def read(self) -> dict[str, int]:
        """The sums of all counters."""
        reads = [page.read() for page in self.each]
        return {name: sum(read[name] for read in reads) for name in reads[0]}

    def close(self) -> None:
        self._stack.close()


def busy_ns(pid: int) -> dict[str, int]:
    """Time on a processor of each thread of a process, nanoseconds, by thread."""
    times = {}
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            times[file.parent.name] = int(file.read_text().split()[0])
        except (OSError, IndexError):
            continue
    return times


def threads(pid: int, name: str) -> list[str]:
    """Those of a process whose names begin like that, in the order of the names."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            found.append((file.read_text().strip(), file.parent.name))
    return [thread for comm, thread in sorted(found) if comm.startswith(name)]


@dataclass(frozen=True)
class Sample:
    """The difference of two looks."""

    frames: int
    """Data frames and ACKs that went out as they should, each once."""
    data_bytes: int
    """Of the data frames among them."""
    seconds: float
    """On the processor, of the thread that polls: time taken by others does not count."""
    cycles: float
    """The same in ticks of the time stamp counter."""
    port_share: float
    """Part of it that was spent in the port's own code."""
    counts: Mapping[str, int]
    """By how much each of the port's counters grew."""

    @property
    def mpps(self) -> float:
        return self.frames / self.seconds / 1e6

    @property
    def gbps(self) -> float:
        return self.data_bytes * 8 / self.seconds / 1e9

    @property
    def per_packet(self) -> float:
        return self.cycles / self.frames

    @property
    def port_per_packet(self) -> float:
        return self.per_packet * self.port_share

    @property
    def own_per_packet(self) -> float:
        """Cycles outside the port."""
        return self.per_packet - self.port_per_packet

    @property
    def clock(self) -> float:
        """Cycles of the core for each tick of the time stamp counter."""
        return self.counts["clock_steps"] / max(1, self.counts["clock_ticks"])

    @property
    def handled(self) -> float:
        """Million data frames and ACKs in a second that the program was given, those that were lost or not needed as well."""
        return (self.counts["in_data"] + self.counts["in_acks"]) / self.seconds / 1e6

    def per_data(self, counter: str) -> float:
        """How many there were for each data packet that went out."""
        return self.counts[counter] / max(1, self.counts["out_data"])

    def errors(self, lossy: bool, repeats: bool) -> dict[str, int]:
        """Unexpected events, in words, and how often they happened; with `repeats` some of these may."""
        names = ERRORS if lossy else ERRORS | {name: what for name, what in WITHOUT_LOSS.items() if name != "out_repeats" or not repeats}
        return {f"{what} ({name})": self.counts[name] for name, what in names.items() if self.counts[name]}


def _together(samples: Sequence[Sample]) -> Sample:
    """What several threads did, each in its own time: their rates add up."""
    rates = sum(sample.frames / sample.seconds for sample in samples if sample.seconds > 0)
    frames = sum(sample.frames for sample in samples)
    cycles = sum(sample.cycles for sample in samples)
    return Sample(
        frames=frames,
        data_bytes=sum(sample.data_bytes for sample in samples),
        seconds=frames / rates if rates else 0.0,
        cycles=cycles,
        port_share=sum(sample.port_share * sample.cycles for sample in samples) / cycles if cycles else 0.0,
        counts={name: sum(sample.counts[name] for sample in samples) for name in samples[0].counts},
    )


class Look:
    """A moment, to be compared with a later one."""

    def __init__(self, pages: Pages, pid: int) -> None:
        self._pages = pages
        self._pid = pid
        self.counts = [page.read() for page in pages.each]
        self.busy = busy_ns(pid)

    def since(self, earlier: "Look") -> Sample:
        """The differences since `earlier`; frames of 0 if nothing happened."""
        grown = {thread: self.busy[thread] - earlier.busy.get(thread, 0) for thread in self.busy}
        if len(self.counts) > 1:
            # Each worker polls a queue of its own.
            busy = [grown.get(thread, 0) for thread in threads(self._pid, "worker-")]
        else:
            # The thread that polls is busy all the time, and no other is.
            busy = [max(grown.values(), default=0)]
        return _together([self._of_queue(*each) for each in zip(busy, self.counts, earlier.counts, strict=True)])

    def _of_queue(self, busy: int, counts: Mapping[str, int], before: Mapping[str, int]) -> Sample:
        delta = {name: value - before[name] for name, value in counts.items()}
        elapsed = max(1, delta["tsc"])
        return Sample(
            frames=delta["out_data"] + delta["out_acks"],
            data_bytes=delta["out_data_bytes"],
            seconds=busy / 1e9,
            cycles=busy / 1e9 * self._pages.tsc_hz,
            port_share=delta["port_cycles"] / elapsed,
            counts=delta,
        )
