"""A real Prometheus scrapes running gateways: `python3 -m checks.metrics`, in scripts/test.

Two gateways repair the losses of a link between two hosts, first without a tunnel, then with one. What
they serve is clean for `promtool check metrics`; Prometheus takes it, evaluates the alert rules of
configs/alerts.yml, and answers every query of configs/grafana-dashboard.json with data. Of gateways with two pairs of ports
each query keeps the pairs apart.
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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo import options
from demo.topology import Pass, total_bytes
from lr2run import Processes, RunDir, TimedOut, free_tcp_port, hugepages, wait_until
from lr2run.gateway import toml
from lr2run.metrics import scrape

from . import ROOT

_CONFIGS = ROOT / "configs"
_RULES = _CONFIGS / "alerts.yml"
_RULE_TESTS = _CONFIGS / "alerts-test.yml"
_DASHBOARD = _CONFIGS / "grafana-dashboard.json"
# Prometheus may scrape a new target ten seconds late: its discovery and its scraper each take up changes every five seconds.
_KNOWN_S = 30
# As long as a rate looks back, and a bit.
_WATCHED_S = 7
# Longer than both: a pass is ended when it was watched.
_LINK = ("--rate", "100Mbps", "--rtt", "10ms", "--seconds", str(_KNOWN_S + 2 * _WATCHED_S), "--mode")
_MODES = ("cached", "tunnel")
# What Grafana puts in place of its variables.
_VARIABLES = {"$__rate_interval": "5s", "$instance": ".*", "$pair": ".*"}
_SELECTOR = re.compile(r"lr2_\w+(\{[^}]*\})?")
_GROUPING = re.compile(r"\bby ?\(([^)]*)\)")
_PAIRS = ("east", "west")
# Queries that need another box or its traffic, of which gateways by themselves have none: peers.
_WITHOUT_DATA = 1
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
    def start(cls, processes: Processes, run: Path, rules: Path = _RULES) -> "Prometheus":
        port, targets, file = free_tcp_port(), run / "targets.json", run / "prometheus.yml"
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
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


def page(port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def said(program: str, *arguments: str, text: str | None = None) -> str:
    """What a program complains of; nothing if all is well."""
    ended = subprocess.run([tool(program), *arguments], input=text, capture_output=True, text=True, check=False)
    words = (ended.stdout + ended.stderr).strip()
    # `check metrics` ends with 3 where it only has advice, which is to be followed.
    return (words or f"exit code {ended.returncode}") if ended.returncode else ""


def _rules() -> Iterator[str]:
    """The alert rules by themselves: each fires when it should."""
    for arguments in (("check", "rules", str(_RULES)), ("test", "rules", str(_RULE_TESTS))):
        if wrong := said("promtool", *arguments):
            yield f"promtool {arguments[0]} rules: {wrong}"
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
        yield from _watched(prometheus, ports)
        running.check()
        # The page with traffic, of boxes that know each other.
        for name, port in ports.items():
            if wrong := said("promtool", "check", "metrics", text=page(port)):
                yield f"{name}: promtool check metrics: {wrong}"
        if not running.requester.alive:
            yield f"{mode}: the traffic has ended early"


def _watched(prometheus: Prometheus, names: Iterable[str]) -> Iterator[str]:
    """Wait until Prometheus has scraped these gateways for as long as rates look back."""
    try:
        wait_until(lambda: all(is_up(prometheus, name) for name in names), _KNOWN_S, "scraped")
    except TimedOut:
        yield from (f"{name}: Prometheus could not scrape it" for name in names if not is_up(prometheus, name))
    time.sleep(_WATCHED_S)


def is_up(prometheus: Prometheus, name: str) -> bool:
    answer = prometheus.ask("query", query=f'max_over_time(up{{instance="{name}"}}[1m])')["result"]
    return bool(answer) and answer[0]["value"][1] == "1"


def _pair(name: str, first: int, wan: dict[str, Any]) -> dict[str, Any]:
    """A `[[pair]]` between ports that lead nowhere."""
    ports = {f"{side}.device": f"net_null{first + n},no-rx=1" for n, side in enumerate(("lan", "wan"))}
    return {"name": name, **ports, "lan.mtu": 1500, "wan.mtu": 1500, **wan}


def _of_pairs(programs: Path, prometheus: Prometheus) -> Iterator[str]:
    """Gateways with two pairs of ports, without a tunnel and with one: no query mixes the pairs."""
    ways: dict[str, dict[str, Any]] = {"cached": {}, "tunnel": {"wan.tunnel": "ethernet", "wan.mtu": 1534}}
    with RunDir("lr2-metrics-pairs") as run, Processes(run.path) as processes:
        ports = {}
        for way, wan in ways.items():
            name = f"pairs-{way}"
            ports[name] = free_tcp_port()
            config = {
                "eal": {"huge_pages": "never", "memory": "512MiB", "file_prefix": f"{run.path.name}-{way}"},
                "worker": {"idle": "adaptive"},
                "peer": {"lab_unkeyed": True},
                "recovery": {"resend_cache": "1MiB", "reorder_pool": "1MiB", "backup_pool": "1MiB"},
                "control": {"listen": f"127.0.0.1:{ports[name]}"},
                "pair": [_pair(pair, 2 * n, wan) for n, pair in enumerate(_PAIRS)],
            }
            file = run.path / f"{name}.toml"
            file.write_text(toml(config))
            process = processes.start(name, [programs / "lr2-gateway", "--config", file])
            wait_until(lambda process=process, name=name: process.check() or scrape(ports[name]), 30, f"{name}: /metrics")
        start = time.time()
        prometheus.scrape(ports)
        yield from _watched(prometheus, ports)
        yield from _apart(prometheus, start, time.time())


def _apart(prometheus: Prometheus, start: float, end: float) -> Iterator[str]:
    """Each query gives series of each pair, and of no other than those that are chosen."""
    found = list(queries(json.loads(_DASHBOARD.read_text())))
    empty = []
    for title, query in found:
        for chosen in (".*", _PAIRS[0], "|".join(_PAIRS)):
            expected = set(_PAIRS) if chosen != _PAIRS[0] else {chosen}
            asked = _filled(query, _VARIABLES | {"$instance": "pairs-.*", "$pair": chosen})
            series = prometheus.ask("query_range", query=asked, start=start, end=end, step=1)["result"]
            if not series:
                empty.append(title)
                break
            by_box: dict[str, set[str]] = {}
            for one in series:
                by_box.setdefault(one["metric"].get("instance", "none"), set()).add(one["metric"].get("pair", "none"))
            if wrong := {box: pairs for box, pairs in by_box.items() if pairs != expected}:
                yield f"{title}: pair {chosen} chosen, and {wrong} found: {asked}"
    if len(empty) > _WITHOUT_DATA:
        yield f"no data of gateways with two pairs: {empty}"


def variables(dashboard: Any) -> Iterator[str]:
    """What keeps a dashboard from being right for a gateway with several pairs of ports, by its text."""
    pair = next((one for one in dashboard["templating"]["list"] if one["name"] == "pair"), {})
    if not pair.get("includeAll") or pair.get("allValue") != ".*" or pair.get("current", {}).get("value") != "$__all":
        yield "there is no variable `pair` with All as its default, which matches a gateway without the label too"
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query, title = target["expr"], panel["title"]
            for selector in _SELECTOR.finditer(query):
                for name in ("instance", "pair"):
                    if f'{name}=~"${name}"' not in (selector[1] or ""):
                        yield f"{title}: {selector[0]} is of every {name}: {query}"
            for grouping in _GROUPING.finditer(query):
                if not {"instance", "pair"} <= set(re.split(r"[, ]+", grouping[1])):
                    yield f"{title}: by ({grouping[1]}) sums over instances or pairs: {query}"
            if "{{pair}}" not in target.get("legendFormat", ""):
                yield f"{title}: the legend does not name the pair: {query}"


def queries(dashboard: Any) -> Iterator[tuple[str, str]]:
    """Each query of a dashboard with the title of its panel."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def _filled(query: str, values: dict[str, str]) -> str:
    """A query with values in place of Grafana's variables."""
    for name, value in values.items():
        query = query.replace(name, value)
    return query


def _dashboard(prometheus: Prometheus, start: float, end: float) -> Iterator[str]:
    """Every query has a number at some time of the run."""
    dashboard = json.loads(_DASHBOARD.read_text())
    found = list(queries(dashboard))
    yield from (f"{_DASHBOARD.name}: {complaint}" for complaint in variables(dashboard))
    if len(found) < 20:
        yield f"{_DASHBOARD.name} has {len(found)} queries"
    yield from unanswered(prometheus, found, start, end)


def unanswered(prometheus: Prometheus, found: list[tuple[str, str]], start: float, end: float) -> Iterator[str]:
    """Complaints about queries, each with a title, that have no number at any time of the run."""
    for title, query in found:
        query = _filled(query, _VARIABLES)
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


def alerts(prometheus: Prometheus, file: Path = _RULES) -> Iterator[str]:
    """Prometheus evaluates all rules of the file without an error."""
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    if len(rules) != len(_ALERT.findall(file.read_text())):
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
        # Last: their ports carry nothing, and lead nowhere.
        yield from _of_pairs(programs, prometheus)
        yield from alerts(prometheus)


def main() -> int:
    found = list(_complaints())
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
