"""The table and the JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .cases import HOLD, MACSWAP, OVS, Dut, extent, repair_of
from .measure import Result

VOID_BELOW = 1.1
"""A program that is less than this much slower than the port alone: the figure is the port's."""


def _median(results: list[Result], what: str, dut: Dut, loss: float = 0.0) -> float | None:
    cases = (result for result in results if result.case.dut == dut and result.case.traffic.loss == loss)
    return next((result.median(what) for result in cases if result.samples), None)


def _mpps(results: list[Result], dut: Dut, loss: float = 0.0) -> float | None:
    return _median(results, "mpps", dut, loss)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _ratio(mpps: float, to: float | None) -> float | None:
    return None if to is None else round(mpps / to, 3)


def _figures(result: Result, results: list[Result]) -> dict[str, Any]:
    dut, traffic = result.case.dut, result.case.traffic
    mpps, cycles, port = (result.median(what) for what in ("mpps", "per_packet", "port_per_packet"))
    figures: dict[str, Any] = {
        "mpps": round(mpps, 3),
        "gbps": round(result.median("gbps"), 2),
        "cycles_per_packet": round(cycles, 1),
        "port_cycles_per_packet": round(port, 1),
        "dut_cycles_per_packet": round(cycles - port, 1),
        "headroom": round(cycles / port, 2),
        "void": cycles / port < VOID_BELOW,
        "spread": round(result.spread, 2),
        "clock": round(result.median("clock"), 3),
        "ratio_to_macswap": _ratio(mpps, _mpps(results, MACSWAP)),
        "ratio_to_ovs": _ratio(mpps, _mpps(results, OVS)),
        "ratio_to_hold": _ratio(mpps, _mpps(results, HOLD)),
    }
    if dut != dut.alone:
        figures["ratio_to_one"] = _ratio(mpps, _mpps(results, dut.alone, traffic.loss))
        own = _median(results, "own_per_packet", dut.alone, traffic.loss)
        figures["own_ratio_to_one"] = _ratio(cycles - port, own)
    if dut.may_move:
        figures["repeats_per_packet"] = _rounded(result.median_per_data("out_repeats"), 5)
    if traffic.loss:
        figures |= {
            "ratio_to_no_loss": _ratio(mpps, _mpps(results, dut)),
            "handled_mpps": round(result.median("handled"), 3),
            "lost_per_packet": _rounded(result.median_per_data("lost"), 5),
            "repeats_per_packet": _rounded(result.median_per_data("out_repeats"), 5),
            "rewinds_per_packet": _rounded(result.median_per_data("rewinds"), 5),
        }
    return figures


def rows(results: list[Result]) -> list[dict[str, Any]]:
    """Of one group."""
    made = []
    for result in results:
        dut, traffic = result.case.dut, result.case.traffic
        row: dict[str, Any] = {
            "dut": dut.name,
            "mode": dut.mode,
            "payload": traffic.payload,
            "flows": traffic.flows,
            "in_flight": traffic.in_flight,
            "loss": traffic.loss,
            "per_ack": traffic.per_ack,
            "data": str(dut.data),
            "workers": dut.workers,
            "queues": dut.queues,
            "udp": dut.udp,
            "ports": dut.ports,
            "lanes": dut.lanes,
            "records": dut.records,
            "lan": dut.lan,
            "repaired": dut.repaired,
            "rounds": len(result.samples),
            "problems": result.problems,
        }
        if result.samples:
            row |= _figures(result, results)
        made.append(row)
    return made


def extent_of(row: Mapping[str, Any]) -> str:
    """What there is besides one of each, and Ethernet: `, 2 workers`."""
    return extent(row.get("workers", 1), row.get("udp", False), row.get("ports", 1), row.get("lanes", 1)) + repair_of(
        row.get("lan", "off"), row.get("repaired", 0)
    )


def name_of(row: dict[str, Any]) -> str:
    """`sentry cached, 1 % loss`."""
    recorder = "" if row.get("records", True) else ", not recorded"
    name = f"{row['dut']} {row['mode']}".strip() + extent_of(row) + recorder
    return f"{name}, {100 * row['loss']:g} % loss" if row["loss"] else name


_COLUMNS = (
    ("mpps", "Mpps", 7),
    ("gbps", "Gbit/s", 7),
    ("cycles_per_packet", "cycles", 7),
    ("dut_cycles_per_packet", "its own", 8),
    ("headroom", "headroom", 9),
    ("ratio_to_macswap", "/macswap", 9),
    ("ratio_to_ovs", "/OVS", 6),
    ("ratio_to_hold", "/hold", 6),
    ("ratio_to_no_loss", "/no loss", 9),
    ("ratio_to_one", "/one", 6),
    ("own_ratio_to_one", "own/one", 8),
    ("spread", "spread", 7),
    ("clock", "clock", 6),
)


def table(traffic: str, made: list[dict[str, Any]]) -> str:
    lines = [f"{traffic}, {made[0]['per_ack']} per ACK" if made else traffic]
    lines.append(f"  {'':<42}" + "".join(f"{title:>{width}}" for _, title, width in _COLUMNS))
    for row in made:
        name = name_of(row)
        if "mpps" in row:
            cells = "".join(f"{_cell(row.get(key)):>{width}}" for key, _, width in _COLUMNS)
            lines.append(f"  {name:<42}{cells}{'  void: as fast as the port' if row['void'] else ''}")
        lines += [f"  {name:<42} PROBLEM: {problem}" for problem in row["problems"]]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write(path: Path, made: dict[str, Any]) -> None:
    path.write_text(json.dumps(made, indent=1) + "\n")
