"""Reports of lr2-wan and lr2-host."""

import json
from typing import Any

from .process import Process


def together(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The counters of several links as those of one; of times, those of the first."""
    first, *others = reports

    def added(key: str, value: Any) -> Any:
        if key.endswith("_us"):
            return value
        same = [report[key] for report in others]
        return together([value, *same]) if isinstance(value, dict) else value + sum(same)

    return {key: added(key, value) for key, value in first.items()}


def last_line(process: Process) -> dict[str, Any] | None:
    """The newest of the JSON lines that a program writes while it runs."""
    for line in reversed(process.output().splitlines()):
        if line.startswith("{") and line.endswith("}"):
            return json.loads(line)
    return None
