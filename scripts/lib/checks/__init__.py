"""What must hold before a change is taken; scripts/test prepares the machine for it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The source tree."""
