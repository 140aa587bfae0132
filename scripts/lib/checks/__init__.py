"""Checks that must pass before a change is taken; scripts/test prepares the machine for them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The source tree."""
