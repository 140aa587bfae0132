"""The page at / in a browser: `python3 -m checks.page [FILE.png]`, in scripts/test.

Two gateways repair the losses of a link between two hosts, first without a tunnel, then with one. Debian's Chromium, without a
window, loads the page of each; its script has to run, to understand every answer, and to show peers, repairs and rates. Then it
loads a page whose script is broken, and one whose answers lack a field: both have to be found. FILE.png gets a picture of the
sending box with a tunnel.
"""

import base64
import contextlib
import hashlib
import html
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from demo import options
from demo.topology import Pass, total_bytes
from lr2run import Process, ProcessFailed, Processes, RunDir, hugepages

from . import ROOT

_LINK = ("--rate", "50Mbps", "--rtt", "10ms", "--loss", "1e-2", "--seconds", "200", "--mode")
# What a peer of the box says in words, and what has to be known of the repair.
_MODES = {"cached": ("answers", "protected"), "tunnel": ("has a session with this box", "up")}
# Of the browser's clock, which stands still while an answer is awaited.
_LOOKS_MS = 6_000
_LIMIT_S = 60
# Traffic before the browser looks.
_WARM_S = 3
# Of the programs beside the browser.
_NICE = 10
_SIZE = (1280, 1240)
_TABLES = ("peers", "recovery", "ports", "pools", "events")

Change = Callable[[str, bytes], bytes]


def _get(url: str) -> tuple[bytes, str, str]:
    """The body of an answer, its type, and its policy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return answer.read(), answer.headers["Content-Type"], answer.headers.get("Content-Security-Policy", "")


def load(run: Path, url: str, picture: Path | None = None) -> str:
    """The page as it is after some looks."""
    words = [
        "chromium",
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        # Nothing leaves this machine.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={run / 'profile'}",
        f"--window-size={_SIZE[0]},{_SIZE[1]}",
        f"--virtual-time-budget={_LOOKS_MS}",
        "--dump-dom",
    ]
    # Its sandbox needs a user that is not root.
    words += ["--no-sandbox"] if os.geteuid() == 0 else []
    words += [f"--screenshot={picture}"] if picture else []
    ended = subprocess.run([*words, url], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if ended.returncode or "<html" not in ended.stdout:
        raise ProcessFailed(f"chromium ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout


def text_of(dom: str, name: str) -> str:
    """The text of the element with this id."""
    found = re.search(rf'<(\w+)[^>]* id="{name}"[^>]*>(.*?)</\1>|<(\w+) id="{name}"[^>]*>(.*?)</\3>', dom, re.DOTALL)
    inner = (found[2] or found[4] or "") if found else ""
    return html.unescape(re.sub(r"<[^>]+>", " ", inner)).strip()


def _heights(dom: str, chart: str) -> list[float]:
    """The points of a chart, above the lowest one. The first look has no rate, and is drawn as 0."""
    drawn = re.search(r'<polyline[^>]* points="([^"]*)"', dom.partition(f'id="{chart}"')[2].partition("</svg>")[0])
    depths = [float(point.split(",")[1]) for point in drawn[1].split()] if drawn else []
    return [max(depths) - depth for depth in depths]


def is_live(dom: str) -> Iterator[str]:
    """Complaints about a page that does not follow its gateway."""
    if not re.search(r'<html[^>]* data-state="live"', dom):
        state = re.search(r'data-state="(\w+)"', dom)
        yield f"the page is {state[1] if state else 'nothing'}, not live: {text_of(dom, 'problem') or 'its script does not run'}"
    looks = re.search(r'data-looks="(\d+)"', dom)
    if not looks or int(looks[1]) < 3:
        yield f"the page has looked {looks[1] if looks else 0} times"


def shows(dom: str, mode: str) -> Iterator[str]:
    """Complaints about what a page shows of a box under traffic."""
    yield from is_live(dom)
    # With a tunnel, flows are of the repair of the LANs, which is off here.
    for name in [*_TABLES, "flows" if mode == "cached" else "lanes"]:
        if "<td" not in (found := dom.partition(f'id="{name}"')[2].partition("</table>")[0]) or "note" in found:
            yield f"{name} has no row"
    peer, repair = _MODES[mode]
    if peer not in text_of(dom, "peers"):
        yield f"peers do not say {peer!r}: {text_of(dom, 'peers')}"
    if repair not in text_of(dom, "flows" if mode == "cached" else "lanes"):
        yield f"{mode}: nothing is {repair!r}"
    # Not the last look alone: on a busy machine hosts may stand still between two.
    if not any(_heights(dom, "bits-chart")):
        yield f"nothing comes from the WAN: {text_of(dom, 'bits')!r}"
    if not _heights(dom, "lost-chart"):
        yield "a chart has no line"


def _policy(body: bytes, policy: str) -> Iterator[str]:
    """The policy names the script and the style that the page has, and nothing from elsewhere."""
    text = body.decode()
    for tag in ("script", "style"):
        inner = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner[1].encode()).digest()).decode() if inner else ""
        if f"{tag}-src 'sha256-{digest}'" not in policy:
            yield f"gateway/src/control/page.rs: the hash of the {tag} is sha256-{digest}"
    if "default-src 'none'" not in policy or "unsafe" in policy:
        yield f"the policy allows too much: {policy}"
    if elsewhere := re.search(r"(?:src|href)=\"(?!data:)[^\"]*\"", text):
        yield f"the page loads something: {elsewhere[0]}"


class _Broken(http.server.ThreadingHTTPServer):
    """A gateway of which an answer is changed on the way."""

    daemon_threads = True

    def __init__(self, port: int, change: Change) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body, kind, _ = _get(f"http://127.0.0.1:{port}{self.path}")
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(change(self.path, body))

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def _without_held(path: str, body: bytes) -> bytes:
    if not path.startswith("/flows"):
        return body
    answer = json.loads(body)
    for flow in answer["flows"]:
        flow.pop("held")
    return json.dumps(answer).encode()


def _misspelt(path: str, body: bytes) -> bytes:
    return body.replace(b"async function look()", b"async function look(") if path == "/" else body


def _without_traffic(path: str, body: bytes) -> bytes:
    return body.replace(b'chart("bits", per(wan))', b'chart("bits", per(() => 0))') if path == "/" else body


def _finds_faults(run: Path, port: int) -> Iterator[str]:
    """A page that can't work, or shows no traffic, has to be found."""
    faults = ((_without_held, "flows.flows.0.held"), (_misspelt, "does not run"), (_without_traffic, "nothing comes from the WAN"))
    for change, part in faults:
        with _Broken(port, change) as broken:
            found = list(shows(load(run, f"http://127.0.0.1:{broken.server_address[1]}/"), "cached"))
            broken.shutdown()
        if not any(part in complaint for complaint in found):
            yield f"{change.__name__.strip('_')} is not found: {found}"


def make_way(*processes: Process) -> None:
    """These programs run ahead of everything else on this machine, and never sleep: now the browser does."""
    for process in processes:
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICE)
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_NICE))


def _run_mode(mode: str, programs: Path, picture: Path | None) -> Iterator[str]:
    scenario, _ = options.parse([*_LINK, mode])
    with RunDir("lr2-page") as run, hugepages(total_bytes(scenario)) as enough, Processes(run.path) as processes:
        running = Pass(scenario, mode, programs, run.path, processes, "auto" if enough else "never")
        time.sleep(_WARM_S)
        make_way(running.wan, running.responder, running.requester, *(gateway.process for gateway in running.gateways))
        for site, gateway in zip("ab", running.gateways, strict=True):
            url = f"http://127.0.0.1:{gateway.control_port}/"
            body, _, policy = _get(url)
            yield from _policy(body, policy)
            for complaint in shows(load(run.path, url, picture if site == "a" else None), mode):
                yield f"{mode}, box {site}: {complaint}"
        if mode == "cached":
            yield from _finds_faults(run.path, running.gateways[0].control_port)
        running.check()


def main() -> int:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    programs = Path(os.environ.get("LR2_BIN", target / "release"))
    picture = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else None
    found = [complaint for mode in _MODES for complaint in _run_mode(mode, programs, picture if mode == "tunnel" else None)]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
