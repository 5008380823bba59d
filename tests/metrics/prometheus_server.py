"""A real Prometheus for tests: a process of its own on loopback, with a fresh data folder."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
OWN: Final = ROOT / ".venv" / "prometheus" / "usr" / "bin"
"""Where `make prometheus` puts it."""
PATIENCE: Final = 90.0


def tool(name: str) -> str:
    """The path of `prometheus` or `promtool`: an installed one, or that of `make prometheus`."""
    found = shutil.which(name) or shutil.which(name, path=str(OWN))
    assert found, f"{name} is not there: `make prometheus` fetches it on Debian and Ubuntu; elsewhere put it on PATH"
    return found


class Prometheus:
    """Scrapes `targets` (host:port) and evaluates `rules` each second. A context manager."""

    def __init__(self, folder: Path, targets: list[str], rules: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.config = folder / "prometheus.yml"
        self.config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}\n"
            f"rule_files: [{json.dumps(str(rules))}]\n"
            f"scrape_configs: [{{job_name: members, static_configs: [{{targets: {json.dumps(targets)}}}]}}]\n"
        )

    def __enter__(self) -> Prometheus:
        self.log = (self.folder / "prometheus.log").open("w")
        command = [tool("prometheus"), f"--config.file={self.config}", f"--storage.tsdb.path={self.folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=self.folder)
        try:
            self.until("it answers", self._answers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def until(self, what: str, true: Any) -> None:
        """Waits until `true()` is; asks five times a second, which is more often than it scrapes."""
        end = time.monotonic() + PATIENCE
        while not true():
            said = (self.folder / "prometheus.log").read_text()[-2000:]
            assert self.process.poll() is None, f"prometheus has ended: {said}"
            assert time.monotonic() < end, (
                f"waited for {PATIENCE:g} s: {what}; firing: {self.firing()}; it said: {said}"
            )
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, **query: str) -> Any:
        """The `data` of an answer of its API; fails on an error, as one in a query is."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {query}: {error.read().decode()}") from None

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The samples of an instant query."""
        return self.get("query", query=query)["result"]

    def firing(self) -> dict[str, dict[str, str]]:
        """The labels of the alerts that fire, by name."""
        alerts = self.get("alerts")["alerts"]
        return {a["labels"]["alertname"]: a["labels"] for a in alerts if a["state"] == "firing"}
