"""One run: which tests, through which network, and their results."""

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
from .link import Setting
from .scenes import Losses, Scene
from .sniff import pcap, sniffing

_BOOT_S = 120
_LINK_UP_S = 30
# Longer than any test.
_MOST_S = 200
# Without recovery a side whose last acknowledgement is lost may wait for ever for one that has ended (send_checked).
_TRIES_WITHOUT_RECOVERY = 3


class Run:
    """One run: its tests and their results."""

    def __init__(self, scenes: Sequence[Scene], bench: Bench, captures: Path | None) -> None:
        self.scenes = scenes
        self.bench = bench
        self.link = bench.link
        self.captures = captures
        self.results: list[dict[str, Any]] = []
        self.reports: dict[str, dict[str, Any]] = {}
        self._off: dict[Losses, dict[str, float]] = {}
        """For how many seconds RDMA was at work in timed cases with recovery off, by losses."""
        self.ended: Ended | None = None
        """Why it ended early, if it did."""

    @property
    def ok(self) -> bool:
        return bool(self.results) and all(result["ok"] for result in self.results)

    def all(self) -> None:
        for number, scene in enumerate(self.scenes):
            took = self._scene(scene, guests_boot=number == 0)
            if timed := [case for case in scene.cases if case.timed and case.name in took]:
                self._against_off(Scene(scene.setting, timed), took)

    def _scene(self, scene: Scene, guests_boot: bool = False, is_again: bool = False) -> dict[str, float]:
        """Run the cases of a scene. For how many seconds RDMA was at work, by those that passed."""
        setting = scene.setting
        took = {}
        with self.link.running(setting):
            if guests_boot:
                self._wait_guests()
            self._wait_link(setting.name)
            for case in scene.cases:
                before = self.bench.seconds
                # Pings would slow a case that is compared in time.
                with self._never_idle() if setting.burst and not case.timed else contextlib.nullcontext():
                    if self._case(case, setting):
                        took[case.name] = self.bench.seconds - before
                        assert took[case.name] > 0 or not case.timed, f"{case.name} does not say how long it took"
            self._note("kernels", setting.name, self._trouble(), time.monotonic(), "nothing amiss in the guests' logs")
        self._after(scene, is_again)
        return took

    def _against_off(self, scene: Scene, took: dict[str, float]) -> None:
        """The same with recovery off. A case that was too slow with recovery has a second chance: both are run again.

        Scenes with equal losses share the times without recovery: there a name is one test of one length.
        """
        start = time.monotonic()
        off = self._off.setdefault(scene.losses, {})
        if missing := [case for case in scene.cases if case.name not in off]:
            off |= self._scene(Scene(scene.setting, missing).named("off", recovery="off"))
        if slow := [case for case in scene.cases if evidence.slower(took[case.name], off.get(case.name))]:
            again = Scene(scene.setting, slow)
            took = took | self._scene(again.named("again"), is_again=True)
            off |= self._scene(again.named("again-off", recovery="off"))
        problems = [
            f"{case.name} took {took[case.name]:.2f} s, {off[case.name]:.2f} s with recovery off; measured twice"
            for case in slow
            if evidence.slower(took[case.name], off.get(case.name))
        ]
        pairs = {case.name: (took[case.name], off[case.name]) for case in scene.cases if case.name in off}
        shown = ", ".join(f"{name} {with_s:.2f} against {without_s:.2f} s" for name, (with_s, without_s) in pairs.items())
        self._note("against-off", scene.setting.name, problems, start, shown)
        self.results[-1]["against_off"] = {name: [round(seconds, 2) for seconds in pair] for name, pair in pairs.items()}

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

    @contextlib.contextmanager
    def _never_idle(self) -> Iterator[None]:
        """The guests ping each other while the block runs. lr2-wan counts the length of a burst of losses in frames. If only one TCP
        connection used the link, a long burst would lose each of its retries, and these wait longer each time, up to a minute."""
        a, b = self.bench.guests
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(a.run, f"echo $$ >/tmp/busy.pid; exec ping -q -i 0.1 {b.ip}", _MOST_S)
            try:
                yield
            finally:
                a.run("kill $(cat /tmp/busy.pid)", 10)

    def _case(self, case: Case, setting: Setting) -> bool:
        """Run a case. Whether it passed."""
        gateways_before = self.link.metrics()
        rnics_before = self._rnics()
        start = time.monotonic()
        problems, detail = self._tried(case, setting)
        seconds = time.monotonic() - start
        # A gateway that was started again has counted from zero.
        gateways = {name: now - gateways_before.get(name, Metrics({})) for name, now in self.link.metrics().items()}
        rnics = {guest: _since(rnics_before[guest], counters) for guest, counters in self._rnics().items()}
        if case.rdma:
            problems += evidence.broken(rnics)
            detail += f"; {evidence.shown(gateways, rnics)}"
        recovers = setting.recovery != "off"
        if case.repaired_inside and recovers:
            # A gateway that was started again has a name of its own.
            survivors = gateways_before.keys() & gateways.keys() if gateways_before.keys() != gateways.keys() else set()
            problems += evidence.repaired(setting, gateways, rnics[self.bench.client.name], survivors)
        if recovers:
            problems += evidence.resent_needlessly(setting, gateways, case.overloads)
        if recovers and not case.restarts:
            problems += evidence.mistaken(gateways)
        if case.reads and recovers:
            problems += evidence.reads_repaired(setting, gateways)
        self._note(case.name, setting.name, problems, start, detail)
        self.results[-1] |= {
            "seconds": round(seconds, 2),
            "gateways": {
                name: {k: v for k, v in each.flat().items() if v} for name, each in gateways.items()
            },
            "rnics": {name: {k: v for k, v in each.items() if v} for name, each in rnics.items()},
        }
        return not problems

    def _tried(self, case: Case, setting: Setting) -> tuple[list[str], str]:
        """Run a case: what is wrong, and what it says."""
        problems: list[str] = []
        before = self.bench.seconds
        for _ in range(1 if setting.recovery != "off" or setting.tries_rnics else _TRIES_WITHOUT_RECOVERY):
            try:
                with self._captured(f"{case.name}-{setting.name}") if case.rdma else contextlib.nullcontext():
                    return [], case.run(self.bench)
            except Failed as failure:
                problems = [str(failure)]
                # What failed is no time to compare with.
                self.bench.seconds = before
        return problems, ""

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

    def _after(self, scene: Scene, is_again: bool) -> None:
        """The link has stopped and has reported its losses."""
        name, segments = scene.setting.name, scene.setting.loss
        self.reports[name] = report = self.link.report()
        # Without enough traffic both ways, which frames are lost is chance. Cases that run again have little.
        if segments and not is_again and scene.setting.recovery != "off" and any(case.repaired_inside for case in scene.cases):
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
    """An RNIC's counters since; one that was made anew has counted from zero."""
    anew = any(value < before.get(name, 0) for name, value in now.items())
    return {name: value - (0 if anew else before.get(name, 0)) for name, value in now.items()}


def say(line: str) -> None:
    """A line for whoever watches, at once."""
    print(line, flush=True)
