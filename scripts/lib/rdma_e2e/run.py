"""One run: which tests, through what, and what came of them."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lr2run import Ended, TimedOut

from . import cases, evidence
from .bench import Bench, Failed
from .cases import Case
from .link import Gateways, Link, Premise
from .premise import unexpected
from .sniff import pcap, sniffing

_BOOT_S = 120
_LINK_UP_S = 30


class Run:
    """One run: its tests and their results."""

    def __init__(self, link: Link, bench: Bench, only: set[str], captures: Path | None) -> None:
        self.link = link
        self.bench = bench
        self.only = only
        self.captures = captures
        self.results: list[dict[str, Any]] = []
        self.reports: dict[str, dict[str, Any]] = {}
        self.ended: Ended | None = None
        """Why it ended early, if it did."""

    @property
    def ok(self) -> bool:
        return bool(self.results) and all(result["ok"] for result in self.results)

    def all(self) -> None:
        first = self.link.modes[0]
        for mode in self.link.modes:
            chosen = [
                case
                for case in (cases.PLAIN if mode == first else []) + cases.RDMA
                if self._wanted(case.name)
            ]
            if not chosen:
                continue
            with self.link.running(mode):
                if mode == first:
                    self._wait_guests()
                self._wait_link(mode)
                for case in chosen:
                    self._case(case, mode)
                if isinstance(self.link, Gateways):
                    self._note("guests", mode, self._trouble(), time.monotonic())
            self._after(mode, any(case.repaired_inside for case in chosen))

    def _wanted(self, name: str) -> bool:
        return not self.only or name in self.only

    def _wait_guests(self) -> None:
        """A guest with vhost-user starts to boot when its switch has come."""
        start = time.monotonic()
        for guest in self.bench.guests:
            guest.wait_ready(_BOOT_S)
        say(f"     guests up  {time.monotonic() - start:.1f} s")

    def _wait_link(self, mode: str) -> None:
        """Frames pass: ports joined, addresses known."""
        start = time.monotonic()
        a, b = self.bench.guests
        while not a.run(f"ping -c 1 -W 2 {b.ip}", 10).ok:
            if time.monotonic() - start > _LINK_UP_S:
                raise TimedOut(f"{mode}: no ping from {a.name} to {b.name} within {_LINK_UP_S} s")
        say(f"     link up [{mode}]  {time.monotonic() - start:.1f} s")

    def _case(self, case: Case, mode: str) -> None:
        gateways_before = self.link.metrics()
        rnics_before = {guest.name: guest.counters() for guest in self.bench.guests}
        start = time.monotonic()
        problems: list[str] = []
        detail = ""
        if isinstance(self.link, Premise):
            self.link.gateway.begin(lose=case.patient)
        try:
            with self._captured(f"{case.name}-{mode}") if case.rdma else contextlib.nullcontext():
                detail = case.run(self.bench)
        except Failed as failure:
            problems.append(str(failure))
        seconds = time.monotonic() - start
        gateways = {name: now - gateways_before[name] for name, now in self.link.metrics().items()}
        rnics = {
            guest.name: {
                name: value - rnics_before[guest.name].get(name, 0)
                for name, value in guest.counters().items()
            }
            for guest in self.bench.guests
        }
        if case.rdma:
            problems += evidence.broken(rnics)
        if case.repaired_inside and gateways:
            problems += evidence.repaired(mode, gateways, rnics[self.bench.client.name])
            detail += f"; {evidence.summary(mode, gateways)}"
        if case.patient and isinstance(self.link, Premise):
            problems += unexpected(self.link.gateway)
            detail += f"; {self.link.gateway.summary()}"
        self._note(case.name, mode, problems, start, detail)
        self.results[-1] |= {
            "seconds": round(seconds, 2),
            "gateways": {
                name: {k: v for k, v in each.flat().items() if v} for name, each in gateways.items()
            },
            "rnics": {name: {k: v for k, v in each.items() if v} for name, each in rnics.items()},
        }

    @contextlib.contextmanager
    def _captured(self, name: str) -> Iterator[None]:
        """With `captures` set: the headers of both guests' RoCE packets, a file each."""
        if self.captures is None:
            yield
            return
        with sniffing(self.bench.guests, "udp port 4791", snaplen=128):
            yield
        for guest in self.bench.guests:
            (self.captures / f"{name}-{guest.name}.pcap").write_bytes(pcap(guest))

    def _trouble(self) -> Iterator[str]:
        for guest in self.bench.guests:
            for line in evidence.kernel_trouble(self.bench.ask(guest, "dmesg -c")):
                yield f"{guest.name}: kernel: {line}"

    def _after(self, mode: str, lossy: bool) -> None:
        """The link has stopped and has said what it did."""
        self.reports[mode] = report = self.link.report()
        if "a_to_b" in report and lossy:
            lost = {way: report[way]["lost"]["frames"] for way in ("a_to_b", "b_to_a")}
            detail = f"{lost['a_to_b']} frames lost towards {self.bench.server.name}, {lost['b_to_a']} back"
            self._note("losses", mode, evidence.lost(report), time.monotonic(), detail)

    def _note(self, name: str, mode: str, problems: Iterable[str], start: float, detail: str = "") -> None:
        problems = list(problems)
        seconds = time.monotonic() - start
        say(f"{'FAIL' if problems else 'PASS'} {name} [{mode}]  {detail}")
        for problem in problems:
            say("     " + problem.replace("\n", "\n     "))
        self.results.append(
            {
                "name": name,
                "mode": mode,
                "ok": not problems,
                "seconds": round(seconds, 2),
                "detail": detail,
                "problems": problems,
            }
        )


def say(line: str) -> None:
    """A line for whoever watches, at once."""
    print(line, flush=True)
