"""Reports of lr2-wan."""

from typing import Any


def together(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The counters of several links as those of one; of times, those of the first."""
    first, *others = reports

    def added(key: str, value: Any) -> Any:
        if key.endswith("_us"):
            return value
        same = [report[key] for report in others]
        return together([value, *same]) if isinstance(value, dict) else value + sum(same)

    return {key: added(key, value) for key, value in first.items()}
