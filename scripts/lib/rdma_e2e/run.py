"""One run: which tests, through what, and what came of them."""

import concurrent.futures
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lr2run import Ended, Metrics, TimedOut

from . import evidence
from .bench import Bench, Failed
from .cases import Case
from .link import Premise, Setting
from .premise import unexpected
from .scenes import Scene
from .sniff import pcap, sniffing

_BOOT_S = 120
_LINK_UP_S = 30


class Run:
    """One run: its tests and their results."""

    def __init__(self, scenes: Sequence[Scene], bench: Bench, captures: Path | None) -> None:
        self.scenes = scenes
        self.bench = bench
        self.link = bench.link
        self.captures = captures
        self.results: list[dict[str, Any]] = []
        self.reports: dict[str, dict[str, Any]] = {}
        self.ended: Ended | None = None
        """Why it ended early, if it did."""

    @property
    def ok(self) -> bool:
        return bool(self.results) and all(result["ok"] for result in self.results)

    def all(self) -> None:
        for number, scene in enumerate(self.scenes):
            setting = scene.setting
            with self.link.running(setting):
                if number == 0:
                    self._wait_guests()
                self._wait_link(setting.name)
                for case in scene.cases:
                    self._case(case, setting)
                self._note("kernels", setting.name, self._trouble(), time.monotonic(), "nothing amiss in the guests' logs")
            self._after(scene)

    def _wait_guests(self) -> None:
        """A guest with vhost-user starts to boot when its switch has come."""
        start = time.monotonic()
        for guest in self.bench.guests:
            guest.wait_ready(_BOOT_S)
        say(f"     guests up  {time.monotonic() - start:.1f} s")

    def _wait_link(self, scene: str) -> None:
        """Frames pass: ports joined, addresses known."""
        start = time.monotonic()
        a, b = self.bench.guests
        while not a.run(f"ping -c 1 -W 2 {b.ip}", 10).ok:
            if time.monotonic() - start > _LINK_UP_S:
                raise TimedOut(f"{scene}: no ping from {a.name} to {b.name} within {_LINK_UP_S} s")
        say(f"     link up [{scene}]  {time.monotonic() - start:.1f} s")

    def _case(self, case: Case, setting: Setting) -> None:
        gateways_before = self.link.metrics()
        rnics_before = self._rnics()
        start = time.monotonic()
        problems: list[str] = []
        detail = ""
        if isinstance(self.link, Premise):
            self.link.gateway.begin(lose=case.patient)
        try:
            with self._captured(f"{case.name}-{setting.name}") if case.rdma else contextlib.nullcontext():
                detail = case.run(self.bench)
        except Failed as failure:
            problems.append(str(failure))
        seconds = time.monotonic() - start
        # A gateway that was started again has counted from zero.
        gateways = {name: now - gateways_before.get(name, Metrics({})) for name, now in self.link.metrics().items()}
        rnics = {guest: _since(rnics_before[guest], counters) for guest, counters in self._rnics().items()}
        if case.rdma:
            problems += evidence.broken(rnics)
            detail += f"; {evidence.shown(gateways, rnics)}"
        if case.repaired_inside and gateways:
            problems += evidence.repaired(setting, gateways, rnics[self.bench.client.name])
        if case.reads and gateways:
            problems += evidence.reads_repaired(setting, gateways)
        if case.patient and isinstance(self.link, Premise):
            problems += unexpected(self.link.gateway)
            detail += f"; {self.link.gateway.summary()}"
        self._note(case.name, setting.name, problems, start, detail)
        self.results[-1] |= {
            "seconds": round(seconds, 2),
            "gateways": {
                name: {k: v for k, v in each.flat().items() if v} for name, each in gateways.items()
            },
            "rnics": {name: {k: v for k, v in each.items() if v} for name, each in rnics.items()},
        }

    def _rnics(self) -> dict[str, dict[str, int]]:
        """rxe's counters by guest."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return dict(pool.map(lambda guest: (guest.name, guest.counters()), self.bench.guests))

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

    def _after(self, scene: Scene) -> None:
        """The link has stopped and has said what it did."""
        name, segments = scene.setting.name, scene.setting.loss
        self.reports[name] = report = self.link.report()
        # Short of a test that runs into losses both ways it is chance.
        if segments and any(case.repaired_inside for case in scene.cases):
            self._note("losses", name, evidence.lost(report, segments), time.monotonic(), evidence.losses(report, segments))

    def _note(self, name: str, scene: str, problems: Iterable[str], start: float, detail: str = "") -> None:
        problems = list(problems)
        seconds = time.monotonic() - start
        say(f"{'FAIL' if problems else 'PASS'} {name} [{scene}]  {seconds:.1f} s: {detail}")
        for problem in problems:
            say("     " + problem.replace("\n", "\n     "))
        self.results.append(
            {
                "name": name,
                "scene": scene,
                "ok": not problems,
                "seconds": round(seconds, 2),
                "detail": detail,
                "problems": problems,
            }
        )


def _since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """What an RNIC has counted since; one that was made anew has counted from zero."""
    anew = any(value < before.get(name, 0) for name, value in now.items())
    return {name: value - (0 if anew else before.get(name, 0)) for name, value in now.items()}


def say(line: str) -> None:
    """A line for whoever watches, at once."""
    print(line, flush=True)
