"""A real Prometheus scrapes running gateways: `python3 -m checks.metrics`, in scripts/test.

Two gateways repair the losses of a link between two hosts, first without a tunnel, then with one. What
they serve is clean for `promtool check metrics`; Prometheus takes it, evaluates the alert rules of
configs/alerts.yml, and answers every query of configs/grafana-dashboard.json with data.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo import options
from demo.topology import Pass, total_bytes
from lr2run import Processes, RunDir, free_tcp_port, hugepages, wait_until

from . import ROOT

_CONFIGS = ROOT / "configs"
_RULES = _CONFIGS / "alerts.yml"
_RULE_TESTS = _CONFIGS / "alerts-test.yml"
_DASHBOARD = _CONFIGS / "grafana-dashboard.json"
_LINK = ("--rate", "100Mbps", "--rtt", "10ms", "--seconds", "6", "--mode")
_MODES = ("cached", "tunnel")
# What Grafana puts in place of its variables.
_VARIABLES = {"$__rate_interval": "5s", "$instance": ".*"}
_ALERT = re.compile(r"^ *- alert: (\w+)$", re.MULTILINE)
_TESTED = re.compile(r"alertname: (\w+)$", re.MULTILINE)


def tool(name: str) -> str:
    """The path of a program of Debian's package prometheus, which scripts/test unpacks."""
    return str(Path(os.environ["LR2_PROMETHEUS"], name))


@dataclass
class Prometheus:
    """One that runs, with a file that names its targets."""

    port: int
    targets: Path
    _groups: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, processes: Processes, run: Path) -> "Prometheus":
        port, targets, file = free_tcp_port(), run / "targets.json", run / "prometheus.yml"
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(_RULES)],
            "scrape_configs": [{"job_name": "lr2", "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}]}],
        }
        targets.write_text("[]")
        # JSON is YAML.
        file.write_text(json.dumps(config))
        words = [tool("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={run / 'tsdb'}"]
        process = processes.start("prometheus", [*words, f"--web.listen-address=127.0.0.1:{port}"])
        prometheus = cls(port, targets)
        wait_until(lambda: process.check() or prometheus.is_ready(), 60, "prometheus: ready")
        return prometheus

    def is_ready(self) -> bool:
        try:
            return self._get("/-/ready") is not None
        except OSError:
            return False

    def scrape(self, gateways: dict[str, int]) -> None:
        """Scrape these ports of this machine, by the name of their gateway, beside earlier ones."""
        self._groups += [{"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}} for name, port in gateways.items()]
        # At once: a half-written file is none.
        fresh = self.targets.with_suffix(".new")
        fresh.write_text(json.dumps(self._groups))
        fresh.rename(self.targets)

    def ask(self, what: str, **arguments: str | float) -> Any:
        answer = json.loads(self._get(f"/api/v1/{what}?{urllib.parse.urlencode(arguments)}"))
        if answer["status"] != "success":
            raise ValueError(answer.get("error", "no reason"))
        return answer["data"]

    def _get(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            # The reason is in the answer to a query that it refuses.
            if error.code != 400:
                raise
            return error.read().decode()


def _page(port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def _said(program: str, *arguments: str, text: str | None = None) -> str:
    """What a program complains of; nothing if all is well."""
    ended = subprocess.run([tool(program), *arguments], input=text, capture_output=True, text=True, check=False)
    said = (ended.stdout + ended.stderr).strip()
    # `check metrics` ends with 3 where it only has advice, which is to be followed.
    return (said or f"exit code {ended.returncode}") if ended.returncode else ""


def _rules() -> Iterator[str]:
    """The alert rules by themselves: each fires when it should."""
    for arguments in (("check", "rules", str(_RULES)), ("test", "rules", str(_RULE_TESTS))):
        if said := _said("promtool", *arguments):
            yield f"promtool {arguments[0]} rules: {said}"
    untested = set(_ALERT.findall(_RULES.read_text())) - set(_TESTED.findall(_RULE_TESTS.read_text()))
    for alert in sorted(untested):
        yield f"{_RULE_TESTS.name} has no test of {alert}"


def _run_mode(mode: str, programs: Path, prometheus: Prometheus) -> Iterator[str]:
    """One pass of the demo, which Prometheus watches."""
    scenario, _ = options.parse([*_LINK, mode])
    with RunDir("lr2-metrics") as run, hugepages(total_bytes(scenario)) as enough, Processes(run.path) as processes:
        running = Pass(scenario, mode, programs, run.path, processes, "auto" if enough else "never")
        ports = {f"{mode}-{site}": gateway.control_port for site, gateway in zip("ab", running.gateways, strict=True)}
        prometheus.scrape(ports)
        deadline = time.monotonic() + running.limit_s
        # The page with traffic, of boxes that know each other.
        while running.requester.alive and time.monotonic() < deadline:
            running.check()
            time.sleep(0.2)
        for name, port in ports.items():
            if said := _said("promtool", "check", "metrics", text=_page(port)):
                yield f"{name}: promtool check metrics: {said}"
        for name in ports:
            if not _is_up(prometheus, name):
                yield f"{name}: Prometheus could not scrape it"


def _is_up(prometheus: Prometheus, name: str) -> bool:
    answer = prometheus.ask("query", query=f'max_over_time(up{{instance="{name}"}}[1m])')["result"]
    return bool(answer) and answer[0]["value"][1] == "1"


def queries(dashboard: Any) -> Iterator[tuple[str, str]]:
    """Each query of a dashboard with the title of its panel."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def _dashboard(prometheus: Prometheus, start: float, end: float) -> Iterator[str]:
    """Every query has a number at some time of the run."""
    dashboard = json.loads(_DASHBOARD.read_text())
    found = list(queries(dashboard))
    if len(found) < 20:
        yield f"{_DASHBOARD.name} has {len(found)} queries"
    for title, query in found:
        for name, value in _VARIABLES.items():
            query = query.replace(name, value)
        if unknown := re.search(r"\$\w+", query):
            yield f"{title}: {unknown[0]} is unknown: {query}"
            continue
        try:
            series = prometheus.ask("query_range", query=query, start=start, end=end, step=1)["result"]
        except ValueError as error:
            yield f"{title}: {error}: {query}"
            continue
        if not any(value != "NaN" for one in series for _, value in one["values"]):
            yield f"{title}: no data: {query}"


def _alerts(prometheus: Prometheus) -> Iterator[str]:
    """Prometheus evaluates all rules without an error."""
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    if len(rules) != len(_ALERT.findall(_RULES.read_text())):
        yield f"Prometheus knows {len(rules)} rules"
    for rule in rules:
        if rule["health"] != "ok":
            yield f"{rule['name']}: {rule['health']}: {rule.get('lastError', '')}"


def _complaints() -> Iterator[str]:
    yield from _rules()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    programs = Path(os.environ.get("LR2_BIN", target / "release"))
    with RunDir("lr2-prometheus") as run, Processes(run.path) as processes:
        prometheus = Prometheus.start(processes, run.path)
        start = time.time()
        for mode in _MODES:
            yield from _run_mode(mode, programs, prometheus)
        yield from _dashboard(prometheus, start, time.time())
        yield from _alerts(prometheus)


def main() -> int:
    found = list(_complaints())
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
