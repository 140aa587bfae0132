"""Output for people: the live line and the table at the end."""

import sys
import time
from typing import Any

from lr2run import human_bits, human_bytes, human_seconds

from .options import LAN_QUEUE_S, PATH_STEP, PLACES, Scenario
from .result import Lost, Result

_TITLES = {
    "lossless": "no loss",
    "off": "off",
    "lr2": "lr2",
    "cached": "cached",
    "auto": "auto",
    "tunnel": "tunnel",
    "tunnel-udp": "tunnel-udp",
    "direct": "no gateways",
}


def title(mode: str, spray: str | None) -> str:
    """Of a pass."""
    return f"{_TITLES[mode]} {spray}" if spray else _TITLES[mode]


class LiveLine:
    """One line that is rewritten on a terminal; elsewhere a line now and then."""

    _EVERY_S = 5.0

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._printed = time.monotonic()

    def show(self, text: str) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif time.monotonic() - self._printed >= self._EVERY_S:
            self._printed = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def done(self, text: str) -> None:
        """The final state of a phase."""
        print(f"\r\x1b[K{text}" if self._terminal else text, file=sys.stderr, flush=True)


def progress(title: str, total_s: float, host: dict[str, Any] | None, wan: dict[str, Any] | None) -> str:
    title = f"  {title:<12} "
    if host is None:
        return f"{title}starting"
    ways = [link[way] for link in wan["links"].values() for way in ("a_to_b", "b_to_a")] if wan else []
    lost = sum(way["lost"]["frames"] for way in ways)
    return (
        f"{title}{min(host['elapsed_s'], total_s):4.1f} of {total_s:.1f} s  {human_bits(host['goodput_bps']):>13}  "
        f"{host['messages']} messages, {lost} frames lost, {host['retransmitted']} resent by the host, "
        f"{host['timeouts']} timeouts"
    )


def headline(s: Scenario) -> str:
    bdp = s.rate_bps * s.rtt_s / 8
    loss = f"{s.loss:.3g} of the frames lost" if s.loss else "no loss"
    if s.loss and s.burst:
        loss += f" in bursts of {s.burst:g}"
    if s.loss:
        loss += f" on {PLACES[s.where]}"
    paths = ""
    if s.paths > 1:
        dies = f"; path {s.kill.path} dies {human_seconds(s.kill.after_s)} after the start" if s.kill else ""
        paths = (
            f"The tunnel: {s.paths} paths of {human_bits(s.rate_bps / s.paths)}, "
            f"{human_seconds(s.rtt_s)} to {human_seconds(s.rtt_s * (1 + PATH_STEP * (s.paths - 1)))} round trip{dies}.\n"
        )
    narrow = (
        f"Congestion: the LAN of the destination carries {human_bits(s.lan_rate_bps)} and holds {human_seconds(LAN_QUEUE_S)} of it.\n"
        if s.lan_rate_bps
        else ""
    )
    return (
        f"Link: {human_bits(s.rate_bps)}, {human_seconds(s.rtt_s)} round trip ({human_bytes(bdp)} in flight), {loss}.\n{paths}{narrow}"
        f"Hosts: {s.qps} QP{'s' if s.qps > 1 else ''}, {human_bytes(s.message)} {s.operation.upper()}s, PMTU {s.pmtu}, "
        f"NIC at {s.nic_bps() / s.rate_bps:.3g} of the link, RNIC timeout {human_seconds(s.timeout_s)}."
    )


def table(scenario: Scenario, results: list[Result]) -> str:
    lossless = results[0]
    # Of a narrow LAN no closed form is known, and the gateway's resends into it are of interest.
    special = ["local", "resends"] if scenario.lan_rate_bps else ["in", "theory"]
    head = [
        ["", "goodput", "of no", special[0], "p50", "p99", "longest", "long-haul", "time-", "frames lost, there/back:", "", "", "verified"],
        ["recovery", "", "loss", special[1], "", "", "stall", "bytes", "outs", "src LAN", "WAN", "dst LAN", ""],
    ]
    rows = [_row(scenario, lossless, result) for result in results]
    widths = [max(len(line[column]) for line in head[1:] + rows) for column in range(len(head[0]))]
    widths = [max(width, len(head[0][column]) if column != 9 else 0) for column, width in enumerate(widths)]
    return "\n".join(_line(cells, widths) for cells in head + rows)


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = (cell.ljust(width) if column in (0, 9) else cell.rjust(width) for column, (cell, width) in enumerate(zip(cells, widths, strict=True)))
    return ("  " + "  ".join([first, *others])).rstrip()


def _row(scenario: Scenario, lossless: Result, result: Result) -> list[str]:
    theory = result.expected_share(scenario, lossless)
    special = "" if theory is None else f"{theory:.3f}"
    if scenario.lan_rate_bps:
        special = f"{100 * result.local_resends_share:.2f}%"
    return [
        title(result.mode, result.spray),
        human_bits(result.goodput_bps),
        f"{result.share_of(lossless):.3f}",
        special,
        human_seconds(result.p50_us / 1e6),
        human_seconds(result.p99_us / 1e6),
        human_seconds(result.stall_us / 1e6),
        f"{result.wan_overhead(lossless):.3f}x",
        str(result.timeouts),
        *(_lost(lost) for lost in result.lost.values()),
        human_bytes(result.received_bytes),
    ]


def _lost(lost: Lost) -> str:
    return f"{lost.there}/{lost.back}" if lost.there or lost.back else "0"


def notes(scenario: Scenario, results: list[Result]) -> str:
    lossless = results[0]
    found = (
        f"  Without loss: {lossless.goodput_bps / scenario.carries_bps:.3f} of the {human_bits(scenario.carries_bps)} of "
        f"message content that the link can carry; round trip {human_seconds(lossless.rtt_us / 1e6)} as measured.\n"
        "  p50, p99: from posting a message to its completion. Long-haul bytes: sent into the link per byte delivered, "
        "relative to no loss.\n  Longest stall: between two packets that a queue pair took, after the warm-up."
    )
    if scenario.kill:
        each = (f"{title(result.mode, result.spray)} {result.unarrived}" for result in results)
        found += f"\n  Frames of the source that never reached the destination: {', '.join(each)}. "
        found += f"A flow should stand still for {human_seconds(scenario.stall_target_s)} at most when the path dies (2 round trips and 2 ms)."
        gaps = (f"{title(result.mode, result.spray)} {human_seconds(result.emulator_gap_us / 1e6)}" for result in results)
        found += f"\n  The emulator did not look for frames for up to (a stall may be its own): {', '.join(gaps)}."
    if scenario.lan_rate_bps:
        found += (
            "\n  No loss: with NICs that the destination's LAN can carry. Local resends: of the frames that the "
            "gateway sent into that LAN after the warm-up, those from its backup."
        )
    return found
