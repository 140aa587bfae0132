"""Reading a Prometheus endpoint: the text exposition format, as far as counters and gauges go."""

import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# name{label="value",...} number [timestamp]
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(?P<key>[a-zA-Z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\n": "\n", "\\\\": "\\", '\\"': '"'}

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Metrics:
    """All samples of one scrape."""

    samples: Mapping[tuple[str, Labels], float]

    @classmethod
    def parse(cls, text: str) -> "Metrics":
        samples: dict[tuple[str, Labels], float] = {}
        for line in text.splitlines():
            if not line.startswith("#") and (sample := _SAMPLE.match(line)):
                labels = frozenset(
                    (label["key"], re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), label["value"]))
                    for label in _LABEL.finditer(sample["labels"] or "")
                )
                samples[sample["name"], labels] = float(sample["value"])
        return cls(samples)

    def total(self, name: str, **labels: str) -> float:
        """The sum over all samples of this name that carry these labels; 0 if there is none."""
        wanted = set(labels.items())
        return sum(
            value
            for (its_name, its_labels), value in self.samples.items()
            if its_name == name and wanted <= its_labels
        )

    def flat(self) -> dict[str, float]:
        """`name{key="value"}` to value, for a report."""
        ordered = sorted((name, sorted(labels), value) for (name, labels), value in self.samples.items())
        return {name + _in_braces(labels): value for name, labels, value in ordered}

    def __sub__(self, earlier: "Metrics") -> "Metrics":
        """The differences since an earlier scrape of the same process; gauges as they are now."""
        return Metrics(
            {
                key: value - (earlier.samples.get(key, 0.0) if key[0].endswith("_total") else 0.0)
                for key, value in self.samples.items()
            }
        )


def _in_braces(labels: Sequence[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}" if labels else ""


def scrape(port: int, host: str = "127.0.0.1", timeout_s: float = 5) -> Metrics | None:
    """The metrics at http://host:port/metrics; None while nobody answers there."""
    # No proxy, even if the environment names one: this is the local machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{host}:{port}/metrics", timeout=timeout_s) as answer:
            return Metrics.parse(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None
