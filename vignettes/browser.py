"""A headless Chromium, driven over a pipe: nothing to install beside the browser.

:class:`Chromium` starts the browser; a :class:`Tab` opens pages at a width and in a colour scheme, keeps what went wrong while
they loaded, and evaluates JavaScript in them. Chromium's DevTools protocol is JSON over two pipes, which the child finds as file
descriptors 3 and 4; messages end in a null byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
)

#: puts the two pipes where Chromium looks for them (by way of high numbers: either may be 3 or 4 already)
_LAUNCH = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(given), fcntl.F_DUPFD, 10) for given in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

#: what a page may take until it is drawn, in seconds
PATIENCE = 60.0

_DRAWN = """(async () => {
  const mathjax = window.MathJax;
  if (mathjax && mathjax.startup && mathjax.startup.promise) await mathjax.startup.promise;
  await document.fonts.ready;
  for (const image of document.images) image.loading = "eager";
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
})()"""


def find_chromium() -> str:
    """The browser's path; ``CHROMIUM`` in the environment comes first."""
    for name in (os.environ.get("CHROMIUM"), *NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
    sys.exit(f"No Chromium was found ({', '.join(NAMES)}). Install one, or set CHROMIUM to its path.")


class Chromium:
    """A browser with an empty profile; use it in a ``with`` block."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(read_commands), str(write_answers), find_chromium(), *flags],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._buffer, self._number = b"", 0
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.ask("Browser.close")
        except (OSError, RuntimeError):
            self._process.kill()
        self._process.wait(timeout=30)
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def tab(self) -> Tab:
        """A new tab."""
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = Tab(self, session)
        self._listeners[session] = tab.hear
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.ask(f"{domain}.enable")
        return tab

    def ask(self, method: str, values: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        """Send a command and return its answer; events that come before it go to their tabs."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": values or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.listen(deadline - time.monotonic())
            if answer is None:
                raise RuntimeError(f"Chromium did not answer {method} within {PATIENCE:.0f} s.")
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result

    def listen(self, seconds: float) -> dict[str, Any] | None:
        """The next message, or None when there is none in time; events are handed to their tab."""
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise RuntimeError("Chromium went away.")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message and message.get("sessionId") in self._listeners:
            self._listeners[message["sessionId"]](message["method"], message.get("params", {}))
        return message


@dataclass
class Tab:
    """One tab.

    Attributes
    ----------
    browser : Chromium
    session : str
    complaints : list of str
        What went wrong since the page was opened: errors of the console, failed requests, requests to other hosts.
    """

    browser: Chromium
    session: str
    complaints: list[str] = field(default_factory=list)
    _loaded: bool = False
    _host: str = ""
    _urls: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command to this tab."""
        return self.browser.ask(method, values, self.session)

    def look(self, width: int, scheme: str) -> None:
        """Set width and colour scheme of the pages to come."""
        phone = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Open a page and wait until its mathematics, fonts and images are drawn."""
        self.complaints.clear()
        self._loaded, self._host = False, urlsplit(url).netloc
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE
        while not self._loaded:
            if self.browser.listen(deadline - time.monotonic()) is None:
                self.complaints.append(f"not loaded within {PATIENCE:.0f} s")
                return
        self.evaluate(_DRAWN)
        while self.browser.listen(0.05) is not None:  # what is still on its way
            pass

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Save the whole page as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))

    def hear(self, event: str, values: dict[str, Any]) -> None:
        """Note what an event says."""
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            url = values["request"]["url"]
            self._urls[values["requestId"]] = url
            if urlsplit(url).scheme not in ("data", "blob", "about") and urlsplit(url).netloc != self._host:
                self.complaints.append(f"request to another host: {url}")
        elif event == "Network.responseReceived" and values["response"]["status"] >= 400:
            self.complaints.append(f"failed request ({values['response']['status']}): {values['response']['url']}")
        elif event == "Network.loadingFailed" and not values.get("canceled"):
            url = self._urls.get(values["requestId"], "")
            self.complaints.append(f"failed request ({values['errorText']}): {url}")
        elif event == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            said = details.get("exception", {}).get("description", details.get("text", ""))
            self.complaints.append(f"console: {said.splitlines()[0] if said else 'exception'}")
        elif event == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
            said = " ".join(str(part.get("value", part.get("description", ""))) for part in values["args"])
            self.complaints.append(f"console: {said}")
        elif (
            event == "Log.entryAdded" and values["entry"]["level"] == "error" and values["entry"]["source"] != "network"
        ):
            self.complaints.append(f"console: {values['entry']['text']}")
