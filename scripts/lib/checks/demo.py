"""The demo in a short form, with loss on each segment and with congestion behind the Depot, and whether the
gateways repair it as they should.

The demo itself fails on a damaged, missing or unfinished message: that must never
happen. Here its figures count as well. They are ratios, to the pass without loss of
the same run or to the closed form at the round trip that was measured; and they are
taken on a link slow and long enough that five programs on two cores with something
else to do keep up with it: at 200 Mbit/s a frame takes as long as a time slice, and a
round trip as long as many. A machine whose neighbours take its cores while one pass
runs, and not while another does, spoils a ratio all the same. So figures that miss
their bounds are taken again: those of a gateway that is wrong miss them each time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import ROOT

_TRIES = 3
_TOO_SLOW = 3
"""Exit code of a demo whose pass without loss did not fill the link."""
_LINK = ("--rate", "200Mbps", "--rtt", "20ms")

Passes = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Bounds:
    """By recovery mode; a mode that is not named is not bounded."""

    link: Sequence[str]
    """Options of the demo that choose the link."""
    seconds: float
    only_long: bool = False
    """Left out without LR2_LONG=1: rdma-e2e has losses there as well."""
    of_lossless: Mapping[str, float] = field(default_factory=dict)
    """Goodput, as a share of that without loss: at least."""
    of_theory: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """That share, relative to the closed form: between."""
    of_off: Mapping[str, float] = field(default_factory=dict)
    """That share, relative to the RNICs alone: at least. Below 1 is room for chance, not for harm."""
    long_haul: Mapping[str, float] = field(default_factory=dict)
    """Long-haul bytes per byte delivered, relative to no loss: at most."""
    local_resends: Mapping[str, float] = field(default_factory=dict)
    """Of the frames that the Depot sends into its LAN after the warm-up, the share that it resends: at most."""

    stall_us: Mapping[str, float] = field(default_factory=dict)
    """Longest time between two packets that a queue pair took: at most; and no RNIC timed out, and no frame failed to arrive."""

    def missed(self, passes: Passes) -> Iterator[str]:
        share = {mode: each["share_of_lossless"] for mode, each in passes.items()}
        for mode, least in self.of_lossless.items():
            if share[mode] < least:
                yield f"{mode} reached {share[mode]:.3f} of the pass without loss; {least} are expected"
        for mode, (least, most) in self.of_theory.items():
            theory = passes[mode]["closed_form_share"]
            if not least <= share[mode] / theory <= most:
                yield f"{mode} reached {share[mode]:.3f} of the pass without loss; in theory it is {theory:.3f}, times {least} to {most}"
        for mode, least in self.of_off.items():
            if share[mode] < least * share["off"]:
                yield f"{mode} reached {share[mode]:.3f}, the RNICs alone {share['off']:.3f}: {least} times that is expected"
        for mode, most in self.long_haul.items():
            if (overhead := passes[mode]["wan_overhead"]) > most:
                yield f"{mode} sent {overhead:.3f} times the bytes over the long haul; {most} at most"
        for mode, most in self.stall_us.items():
            if (stall := passes[mode]["longest_stall_us"]) > most:
                yield f"{mode} stood still for {stall / 1000:.1f} ms; {most / 1000:.0f} ms at most"
            if timeouts := passes[mode]["timeouts"]:
                yield f"{mode}: {timeouts} timeouts of RNICs"
            if unarrived := passes[mode]["unarrived_frames"]:
                yield f"{mode}: {unarrived} frames never arrived"
        for mode, most in self.local_resends.items():
            if (resent := passes[mode]["local_resends_share"]) > most:
                yield f"{mode} resent {resent:.2%} of the frames behind the Depot; {most:.0%} at most"


# At 1 % loss. On an idle machine and on one with four busy loops beside it alike,
# lr2 comes within 2 % of its closed form, cached too, off within 12 %.
_BOUNDS = {
    "wan": Bounds(
        link=(*_LINK, "--where", "wan"),
        seconds=4,
        of_lossless={"lr2": 0.52, "cached": 0.93, "tunnel": 0.93},
        of_theory={"off": (0.7, 1.3), "lr2": (0.88, 1.12), "cached": (0.94, 1.06), "tunnel": (0.94, 1.06)},
        of_off={"lr2": 1.25, "cached": 2.0, "tunnel": 2.0},
        long_haul={"lr2": 1.08, "cached": 1.04, "tunnel": 1.05},
    ),
    # NAK(acked) has the source go back by a round trip; its repeats stay off the long haul.
    "src-lan": Bounds(
        link=(*_LINK, "--where", "src-lan"),
        seconds=3,
        only_long=True,
        of_theory={"off": (0.7, 1.4)},
        of_lossless={"lr2": 0.45, "cached": 0.45, "tunnel": 0.45},
        of_off={"lr2": 1.1, "cached": 1.1, "tunnel": 1.1},
        long_haul={"lr2": 1.35, "cached": 1.35, "tunnel": 1.35},
    ),
    # Repaired from the backup pool, in a round trip of the LAN.
    "dst-lan": Bounds(
        link=(*_LINK, "--where", "dst-lan"),
        seconds=3,
        of_lossless={"lr2": 0.93, "cached": 0.93, "tunnel": 0.93},
        of_theory={"off": (0.7, 1.4)},
        long_haul={"lr2": 1.05, "cached": 1.05, "tunnel": 1.1},
    ),
    # An ACK that is lost is made good by the next.
    "ack": Bounds(
        link=(*_LINK, "--where", "ack"),
        seconds=2,
        only_long=True,
        of_lossless={"off": 0.95, "lr2": 0.95, "cached": 0.95, "tunnel": 0.95},
        long_haul={"lr2": 1.02, "cached": 1.02, "tunnel": 1.03},
    ),
    # One of two paths dies under load: the faster one, which carries most of it. The target is two round trips and 2 ms, 50 ms; this is less than the RNICs' timeout, since the
    # machine may have something else to do.
    "paths": Bounds(
        link=(*_LINK, "--paths", "2", "--kill", "1@4s", "--loss", "0", "--mode", "tunnel"),
        seconds=5,
        of_lossless={"tunnel": 0.8},
        stall_us={"tunnel": 120_000},
    ),
    # Eight queue pairs send at twice the rate of their destination's LAN. Without gateways the losses there cost
    # long-haul round trips; a Depot that resends must neither fill that LAN with repeats nor be slower.
    "incast": Bounds(
        link=("--lan-rate", "100Mbps", "--incast", "8"),
        seconds=5,
        of_off={"lr2": 1.0, "cached": 1.0},
        local_resends={"lr2": 0.01, "cached": 0.01},
    ),
}


def _complaints(name: str, bounds: Bounds) -> Iterator[str]:
    """Problems of the demo, or each time with its figures."""
    found = []
    for attempt in range(1, _TRIES + 1):
        code, passes = _demo(name, bounds)
        if code not in (0, _TOO_SLOW):
            yield f"scripts/demo ended with {code}"
            return
        missed = ["the pass without loss fell short"] if code else list(bounds.missed(passes))
        if not missed:
            return
        found += [f"try {attempt} of {_TRIES}: {complaint}" for complaint in missed]
        print(*(f"{name}: {complaint}" for complaint in missed), sep="\n", flush=True)
    yield from found


def _demo(name: str, bounds: Bounds) -> tuple[int, Passes]:
    """Its exit code, and its passes by mode."""
    report = Path(os.environ["LR2_TEST_DIR"], f"demo-{name}.json")
    demo = [ROOT / "scripts" / "demo", *bounds.link, "--seconds", f"{bounds.seconds:g}", "--json", report]
    code = subprocess.run(demo, check=False).returncode
    passes = json.loads(report.read_text())["passes"] if code == 0 else []
    return code, {each["mode"]: each for each in passes}


def main() -> int:
    is_long = os.environ.get("LR2_LONG") == "1"
    chosen = {name: bounds for name, bounds in _BOUNDS.items() if is_long or not bounds.only_long}
    found = [f"{name}: {complaint}" for name, bounds in chosen.items() for complaint in _complaints(name, bounds)]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
