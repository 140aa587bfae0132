"""Debian packages of the programs: `python3 -m debs`; scripts/package prepares the machine for it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAMS = ("lr2-gateway", "lr2ctl", "lr2-wan", "lr2-host", "lr2-check-rnic", "lr2-sim", "lr2-analyze")
PACKAGES = ("lr2-gateway", "lr2ctl", "lr2-testbed", "lr2-sim", "lr2-analyze")
# Where the packages are put.
OUT = TARGET / "debian"
