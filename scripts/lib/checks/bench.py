"""scripts/bench for a moment: that the port, the programs and the checks on both sides agree. Not how fast they are.

The port counts every packet that comes out late, twice, damaged or not at all, the gateways every
control message that they can't accept; scripts/bench makes a problem of each. With loss, that
packets were lost and all the same came out, each once.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench import document
from bench.report import extent_of

from . import ROOT

_KEYS = {
    "dut": str,
    "mode": str,
    "payload": int,
    "flows": int,
    "in_flight": int,
    "mpps": float,
    "gbps": float,
    "cycles_per_packet": float,
    "ratio_to_macswap": float,
}
_TUNNEL = ("tunnel sender", "tunnel receiver", "tunnel both")
_WANTED = ("testpmd macswap", "hold", "both off", "sentry cached", "depot cached", "both cached", *_TUNNEL)
_SCALED = tuple(f"{name}, 2 workers" for name in ("both off", *_TUNNEL))
_LOSSY = ("sentry lr2", "sentry cached", "depot lr2", "depot cached", "both cached", *_TUNNEL)
_BESIDES = {"idle": "core_share", "rings": "cycles"}
"""Measurements besides those of programs, and a figure of each."""
_NOT_HERE = 2
"""Exit code of scripts/bench on a machine that it can't run on."""


def _name(case: Mapping[str, Any]) -> str:
    return f"{case.get('dut')} {case.get('mode')}".strip() + extent_of(case)


def _complaints(case: Mapping[str, Any]) -> Iterator[str]:
    name = _name(case)
    for problem in case.get("problems", []):
        yield f"{name}: {problem}"
    for key, kind in _KEYS.items():
        value = case.get(key)
        if not isinstance(value, kind):
            yield f"{name}: {key} is {value!r}, and should be a {kind.__name__}"
        elif kind is float and value <= 0:
            yield f"{name}: {key} is {value}"
    if case.get("loss") and not 0.5 * case["loss"] < case.get("lost_per_packet", 0) < 2 * case["loss"]:
        yield f"{name}: of {case['loss']} lost, {case.get('lost_per_packet')} were"


def _undocumented(made: dict[str, Any]) -> Iterator[str]:
    """The tables and charts that --document would write."""
    page, charts = document.render(made)
    for name in _WANTED:
        if f"| 1024 | {name}" not in page:
            yield f"the page has no line for {name}"
    for name in _SCALED:
        if f"| {name} | 1024" not in page:
            yield f"the page has no line for {name}"
    if "A tunnel over Ethernet" not in page:
        yield "the page has no table of the tunnel"
    if "| 4 k | depot cached |" not in page:
        yield "the page has no table of losses"
    if not charts:
        yield "there is no chart"
    for name, svg in charts.items():
        texts = [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
        if "sentry cached" not in texts:
            yield f"{name}: no bar for a Sentry"


def main() -> int:
    report = Path(os.environ["LR2_TEST_DIR"], "bench.json")
    code = subprocess.run([ROOT / "scripts" / "bench", "--smoke", "--json", report], check=False).returncode
    if code == _NOT_HERE and not report.exists():
        print("not measured: this machine lacks what scripts/bench says above")
        return 0
    made = json.loads(report.read_text()) if report.exists() else {}
    cases = made.get("cases", [])
    names = [(_name(case), case["loss"] > 0) for case in cases]
    wanted = [(name, lossy) for lossy, those in ((False, (*_WANTED, *_SCALED)), (True, _LOSSY)) for name in those]
    found = [f"{name} {'with' if lossy else 'without'} loss is not there" for name, lossy in wanted if (name, lossy) not in names]
    found += [complaint for case in cases for complaint in _complaints(case)]
    if cases and not found:
        found += _undocumented(made)
    for part, figure in _BESIDES.items():
        rows = made.get(part, [])
        found += [f"{part}: {problem}" for row in rows for problem in row["problems"]]
        if not any(row.get(figure) for row in rows):
            found.append(f"{part}: nothing was measured")
    if code:
        found.append(f"scripts/bench ended with {code}")
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
