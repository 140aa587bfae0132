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


def main() -> int:
    report = Path(os.environ["LR2_TEST_DIR"], "demo.json")
    demo = [ROOT / "scripts" / "demo", "--seconds", _SECONDS, "--rate", _RATE, "--json", report]
    if code := subprocess.run(demo, check=False).returncode:
        return code
    passes = {each["mode"]: each for each in json.loads(report.read_text())["passes"]}
    found = _complaints(passes)
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
