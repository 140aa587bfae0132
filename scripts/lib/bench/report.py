"""The table and the JSON."""

import json
from pathlib import Path
from typing import Any

from .cases import HOLD, MACSWAP, OVS, Dut, count
from .measure import Result

VOID_BELOW = 1.1
"""A program that is less than this much slower than the port alone: the figure is the port's."""


def _mpps(results: list[Result], dut: Dut) -> float | None:
    return next((result.median("mpps") for result in results if result.dut == dut and result.samples), None)


def rows(results: list[Result]) -> list[dict[str, Any]]:
    """Of one traffic."""
    macswap, ovs, hold = (_mpps(results, dut) for dut in (MACSWAP, OVS, HOLD))
    made = []
    for result in results:
        row: dict[str, Any] = {
            "dut": result.dut.name,
            "mode": result.dut.mode,
            "payload": result.traffic.payload,
            "flows": result.traffic.flows,
            "in_flight": result.traffic.in_flight,
            "per_ack": result.traffic.per_ack,
            "data": str(result.dut.data),
            "rounds": len(result.samples),
            "problems": result.problems,
        }
        if result.samples:
            mpps, cycles, port = (result.median(what) for what in ("mpps", "per_packet", "port_per_packet"))
            row |= {
                "mpps": round(mpps, 3),
                "gbps": round(result.median("gbps"), 2),
                "cycles_per_packet": round(cycles, 1),
                "port_cycles_per_packet": round(port, 1),
                "dut_cycles_per_packet": round(cycles - port, 1),
                "headroom": round(cycles / port, 2),
                "void": cycles / port < VOID_BELOW,
                "spread": round(result.spread, 2),
                "ratio_to_macswap": macswap and round(mpps / macswap, 3),
                "ratio_to_ovs": ovs and round(mpps / ovs, 3),
                "ratio_to_hold": hold and round(mpps / hold, 3),
            }
        made.append(row)
    return made


_COLUMNS = (
    ("mpps", "Mpps", 7),
    ("gbps", "Gbit/s", 7),
    ("cycles_per_packet", "cycles", 7),
    ("dut_cycles_per_packet", "its own", 8),
    ("headroom", "headroom", 9),
    ("ratio_to_macswap", "/macswap", 9),
    ("ratio_to_ovs", "/OVS", 6),
    ("ratio_to_hold", "/hold", 6),
    ("spread", "spread", 7),
)


def table(traffic: str, made: list[dict[str, Any]]) -> str:
    lines = [f"{traffic}, {made[0]['per_ack']} per ACK" if made else traffic]
    lines.append(f"  {'':<15}" + "".join(f"{title:>{width}}" for _, title, width in _COLUMNS))
    for row in made:
        name = f"{row['dut']} {row['mode']}".strip()
        if "mpps" in row:
            cells = "".join(f"{_cell(row[key]):>{width}}" for key, _, width in _COLUMNS)
            lines.append(f"  {name:<15}{cells}{'  void: as fast as the port' if row['void'] else ''}")
        lines += [f"  {name:<15} PROBLEM: {problem}" for problem in row["problems"]]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write(path: Path, cases: list[dict[str, Any]], about: dict[str, Any]) -> None:
    path.write_text(json.dumps({**about, "cases": cases}, indent=1) + "\n")


__all__ = ["VOID_BELOW", "count", "rows", "table", "write"]
