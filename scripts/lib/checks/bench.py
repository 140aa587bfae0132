"""scripts/bench for a moment: that the port, the programs and the checks on both sides agree. Not how fast they are.

The port counts every packet that comes out late, twice, damaged or not at all, the gateways every
control message that they can't accept; scripts/bench makes a problem of each.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
_WANTED = ("testpmd macswap", "hold", "both off", "sentry cached", "depot cached", "both cached")
_NOT_HERE = 2
"""Exit code of scripts/bench on a machine that it can't run on."""


def _complaints(case: Mapping[str, Any]) -> Iterator[str]:
    name = f"{case.get('dut')} {case.get('mode')}".strip()
    for problem in case.get("problems", []):
        yield f"{name}: {problem}"
    for key, kind in _KEYS.items():
        value = case.get(key)
        if not isinstance(value, kind):
            yield f"{name}: {key} is {value!r}, and should be a {kind.__name__}"
        elif kind is float and value <= 0:
            yield f"{name}: {key} is {value}"


def main() -> int:
    report = Path(os.environ["LR2_TEST_DIR"], "bench.json")
    code = subprocess.run([ROOT / "scripts" / "bench", "--smoke", "--json", report], check=False).returncode
    if code == _NOT_HERE and not report.exists():
        print("not measured: this machine lacks what scripts/bench says above")
        return 0
    cases = json.loads(report.read_text())["cases"] if report.exists() else []
    names = [f"{case['dut']} {case['mode']}".strip() for case in cases]
    found = [f"{name} is not there" for name in _WANTED if name not in names]
    found += [complaint for case in cases for complaint in _complaints(case)]
    if code:
        found.append(f"scripts/bench ended with {code}")
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
