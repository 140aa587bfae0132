"""Ends and beginnings under load: of gateways, and of queue pairs."""

import concurrent.futures
import re
import time

from lr2run import Metrics

from . import evidence
from .bench import Bench, Failed
from .cases import Test, copy_checked, perftest_pair

# Long enough for a sender to notice, and for the flow to be protected before.
_BEFORE_S = 1.5
_DEAD_S = 0.3
# Time of the transfer that must be left when the gateways are back.
_AFTER_S = 1.0
_COPIED_MIB = 12
_NEW_DEVICE = "rdma link delete rxe0 && rdma link add rxe0 type rxe netdev data0"


def killed(*sites: str) -> Test:
    """Gateways killed (SIGKILL) and started again while a file is copied; protection has to come back by itself."""

    def run(bench: Bench) -> str:
        link = bench.link
        took_s: list[float] = []

        def kill_and_start() -> None:
            start = time.monotonic()
            time.sleep(_BEFORE_S)
            before = link.metrics()
            if not (_protects(before, "a", "protected") and _protects(before, "b", "synced")):
                raise Failed(f"not protected {_BEFORE_S:g} s after the start")
            link.kill(*sites)
            time.sleep(_DEAD_S)
            link.start(*sites)
            took_s.append(time.monotonic() - start)

        all_s = copy_checked(bench, _COPIED_MIB, kill_and_start).seconds
        left_s = all_s - took_s[0]
        if left_s < _AFTER_S:
            raise Failed(f"{_COPIED_MIB} MiB took {all_s:.1f} s, the restart was over after {took_s[0]:.1f} s: too late to show anything")
        after = link.metrics()
        for site, event in (("a", "protected"), ("b", "synced")):
            if site in sites and not _protects(after, site, event):
                raise Failed(f"gateway {site} did not become {event} again in the {left_s:.1f} s after its restart")
        return f"{_COPIED_MIB} MiB, checksum equal, {all_s:.1f} s; back after {took_s[0]:.1f} s, and protecting"

    return run


def silenced(path: int, seconds: float) -> Test:
    """One of several paths carries nothing for a while; the other takes its frames, and it is used again afterwards."""

    def run(bench: Bench) -> str:
        link = bench.link

        def count(name: str, **labels: str) -> float:
            return sum(each.total(name, **labels) for each in link.metrics().values())

        def silence() -> None:
            time.sleep(_BEFORE_S)
            with link.silent(path):
                time.sleep(seconds)

        moved = count("lr2_tunnel_moved_frames_total")
        all_s = copy_checked(bench, _COPIED_MIB, silence).seconds
        if all_s < _BEFORE_S + seconds:
            raise Failed(f"{_COPIED_MIB} MiB took {all_s:.1f} s: the path was silent for {seconds:g} s after {_BEFORE_S:g} s, and much of it when nothing was sent")
        if (moved := count("lr2_tunnel_moved_frames_total") - moved) == 0:
            raise Failed("no frame was sent again on the other path")
        sent = count("lr2_tunnel_sent_frames_total", lane=str(path), copy="first")
        copy_checked(bench, 1)
        if count("lr2_tunnel_sent_frames_total", lane=str(path), copy="first") == sent:
            raise Failed("the path takes no frames after it was silent")
        if count("lr2_tunnel_session_changes_total") > 2:
            raise Failed("a session ended")
        return f"{_COPIED_MIB} MiB, checksum equal, {all_s:.1f} s; {moved:.0f} frames sent again on the other path"

    return run


def _protects(metrics: dict[str, Metrics], site: str, event: str) -> bool:
    """Whether a gateway has seen that event, or has a session of the tunnel."""
    tunnel = sum(each.total("lr2_tunnel_up") for name, each in metrics.items() if name.startswith(f"gateway-{site}"))
    return _of(metrics, site, event) > 0 or tunnel > 0


def _of(metrics: dict[str, Metrics], site: str, event: str) -> float:
    """Events of flows at a gateway, in its present life."""
    return sum(
        each.total("lr2_flow_events_total", event=event) for name, each in metrics.items() if name.startswith(f"gateway-{site}")
    )


def reused(lives: int) -> Test:
    """The same test again and again, each time with a new RDMA device, so that queue pair numbers recur."""

    def run(bench: Bench) -> str:
        numbers: list[tuple[str, ...]] = []
        seconds: list[str] = []
        for _ in range(lives):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda guest: bench.ask(guest, _NEW_DEVICE), bench.guests))
            bench.forget_gids()
            pair = perftest_pair(bench, "write", 40, 65536)
            seconds.append(f"{pair.seconds:.1f}")
            numbers.append(tuple(re.findall(r"QPN (0x\w+)", pair.client.output)))
            for problem in evidence.broken({guest.name: guest.counters() for guest in bench.guests}):
                raise Failed(problem)
        if len(set(numbers)) != 1 or not numbers[0]:
            raise Failed(f"the queue pairs were to have equal numbers each time: {numbers}")
        return f"{lives} lives of QPs {' and '.join(numbers[0])}, {', '.join(seconds)} s"

    return run
