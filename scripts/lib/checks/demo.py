"""The demo in a short form, and whether its figures are what the gateways are for.

The demo itself fails on a damaged or missing message. Here the order of the
recovery modes counts; the bounds leave room for a few seconds on a shared machine.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from . import ROOT

_SECONDS = "4"
# Half of the demo's own: this is a test of what comes out, not of the machine.
_RATE = "500Mbps"
# Five programs on two cores measure what else runs there, too: a figure that is
# missed is looked at again. A damaged message never is.
_ATTEMPTS = 3
# Of the goodput without loss, at 1 % loss and 10 ms. Go-back-N gets about a
# third, lr2 more than half, selective repeat nearly all.
_CACHED_AT_LEAST = 0.80
_LR2_AT_LEAST = 0.40
# Long-haul bytes per byte delivered, relative to no loss.
_OVERHEAD_AT_MOST = 1.10


def _complaints(passes: dict[str, dict[str, float]]) -> list[str]:
    found = []
    share = {mode: each["share_of_lossless"] for mode, each in passes.items()}
    for mode, least in (("cached", _CACHED_AT_LEAST), ("lr2", _LR2_AT_LEAST)):
        if share[mode] < least:
            found.append(f"{mode} reached {share[mode]:.3f} of the pass without loss; {least} are expected")
    if not share["off"] < share["lr2"] < share["cached"]:
        found.append(f"recovery should help, cached more than lr2: {share}")
    for mode in ("lr2", "cached"):
        if (overhead := passes[mode]["wan_overhead"]) > _OVERHEAD_AT_MOST:
            found.append(f"{mode} sent {overhead:.3f} times the bytes over the long haul; {_OVERHEAD_AT_MOST} at most")
    return found


def _attempt(report: Path) -> tuple[int, dict[str, dict[str, float]]]:
    demo = [ROOT / "scripts" / "demo", "--seconds", _SECONDS, "--rate", _RATE, "--json", report]
    code = subprocess.run(demo, check=False).returncode
    passes = json.loads(report.read_text())["passes"] if report.exists() else []
    return code, {each["mode"]: each for each in passes}


def main() -> int:
    found: list[str] = []
    for attempt in range(1, _ATTEMPTS + 1):
        code, passes = _attempt(Path(os.environ["LR2_TEST_DIR"], f"demo-{attempt}.json"))
        if not passes or any(each["corrupt"] for each in passes.values()):
            return code or 1
        found = _complaints(passes) + ([f"scripts/demo ended with {code}"] if code else [])
        for complaint in found:
            print(f"attempt {attempt} of {_ATTEMPTS}: {complaint}")
        if not found:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
