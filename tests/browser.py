"""A headless Chromium for the tests, through chromedriver's WebDriver protocol and no package."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """One session: opens pages, runs scripts in them, and knows what was logged and requested."""

    def __init__(self, address, session):
        self.address, self.session = address, session

    def call(self, method, path, **body):
        request = urllib.request.Request(
            f"{self.address}/session/{self.session}{path}",
            method=method,
            data=json.dumps(body).encode() if method == "POST" else None,
            headers={"Content-Type": "application/json"},
        )
        # No proxy that the environment may name: the driver is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path):
        for kind in ("browser", "performance"):  # what earlier pages did is not this one's
            self.log(kind)
        self.call("POST", "/url", url=path.resolve().as_uri())

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def resize(self, width, height):
        self.call("POST", "/window/rect", width=width, height=height)

    def phone(self, width):
        """Show the page as on a phone of that width; 0 for a desk again."""
        command = "setDeviceMetricsOverride" if width else "clearDeviceMetricsOverride"
        size = {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": True}
        self.call(
            "POST",
            "/goog/cdp/execute",
            cmd=f"Emulation.{command}",
            params=size if width else {},
        )

    def move(self, slider, value):
        """Move a slider, as a hand would."""
        self.run(
            "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('input', {bubbles: true}));",
            slider,
            value,
        )

    def log(self, kind):
        return self.call("POST", "/se/log", type=kind)

    def errors(self):
        """Return what the page logged as a warning or worse, such as a refused script."""
        return [entry["message"] for entry in self.log("browser")]

    def requests(self):
        """Return the addresses that the page asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]


def _free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def _wait_for(address, driver):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(200):
        assert driver.poll() is None, "chromedriver ended"
        with contextlib.suppress(OSError), opener.open(f"{address}/status", timeout=5) as answer:
            if json.load(answer)["value"]["ready"]:
                return
        time.sleep(0.1)
    raise AssertionError("chromedriver did not start within 20 s")


@contextlib.contextmanager
def chromium(folder, *flags):
    """Start a browser with an empty profile in the folder; skip, saying so, where there is none."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver_program = shutil.which("chromedriver")
    if program is None or driver_program is None:
        pytest.skip("chromium and chromedriver are not installed")
    address = f"http://127.0.0.1:{_free_port()}"
    driver = subprocess.Popen(
        [driver_program, f"--port={address.rsplit(':', 1)[1]}", "--log-level=OFF"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    browser = Browser(address, "")
    try:
        _wait_for(address, driver)
        options = {
            "binary": program,
            "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}", *flags],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        request = urllib.request.Request(
            f"{address}/session",
            data=json.dumps({"capabilities": {"alwaysMatch": wanted}}).encode(),
            headers={"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            browser.session = json.load(answer)["value"]["sessionId"]
        yield browser
    finally:
        if browser.session:
            with contextlib.suppress(urllib.error.URLError):
                browser.call("DELETE", "")
        driver.terminate()
        driver.wait(timeout=20)
