"""A headless Chromium for the tests, by its own protocol through a pipe: no driver, no package."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time

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
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0  # seconds for an answer: machines that run tests may be busy
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Tab": 9, "Enter": 13}


class Browser:
    """One page: opens files, runs scripts in them, and knows what was logged and requested."""

    def __init__(self, write, read):
        self._write, self._read, self._rest = write, read, b""
        self._number, self._session, self._events = 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        """Send one command of the protocol and return what comes back."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(PATIENCE)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return answer["result"]

    def _next(self, seconds):
        """Return the next message; events are kept for later."""
        deadline = time.monotonic() + seconds
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            assert left > 0, f"Chromium said nothing for {seconds:.0f} s"
            if select.select([self._read], [], [], left)[0]:
                part = os.read(self._read, 1 << 20)
                assert part, "Chromium ended"
                self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        found = json.loads(message)
        if "method" in found:
            self._events.append(found)
        return found

    def open(self, path):
        """Load a file; return when its script has run."""
        self._events.clear()  # what earlier pages did is not this one's
        self.send("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._next(PATIENCE)
        self.wait(
            "return document.querySelector('#data') === null || "
            "document.documentElement.dataset.ready === 'yes'"
        )

    def wait(self, script):
        """Wait until a script returns something true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < deadline, f"{script} is still false: {self.errors()}"
            time.sleep(0.02)

    def run(self, script, *arguments):
        """Run the body of a function in the page; return what it returns."""
        call = f"(function () {{{script}\n}}).apply(null, {json.dumps(list(arguments))})"
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        found = self.send("Runtime.evaluate", expression=call, **options)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def resize(self, width, height=900, *, scale=1, phone=False):
        """Show the page in a window of that size."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def phone(self, width):
        """Show the page as on a phone of that width; 0 for a desk again."""
        if width:
            self.resize(width, 800, scale=2, phone=True)
        else:
            self.send("Emulation.clearDeviceMetricsOverride")

    def dark(self, wanted):
        """Ask for dark colours, as the system of a user would."""
        value = "dark" if wanted else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def move(self, slider, value):
        """Move a slider, as a hand would."""
        self.run(
            "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('input', {bubbles: true}));",
            slider,
            value,
        )

    def press(self, selector, *keys):
        """Press keys on an element."""
        self.run("document.querySelector(arguments[0]).focus()", selector)
        for key in keys:
            for kind in ("rawKeyDown", "keyUp"):
                code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
                self.send("Input.dispatchKeyEvent", type=kind, **code)

    def point(self, selector, across=0.5, down=0.5):
        """Move the mouse over an element, to a share of its width and height."""
        x, y = self.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect();"
            "return [b.left + arguments[1] * b.width, b.top + arguments[2] * b.height]",
            selector,
            across,
            down,
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, selector=""):
        """Return what the window shows, or the whole of an element, as the bytes of a PNG."""
        clip = {}
        if selector:
            box = self.run(
                "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
                "return [b.left + scrollX, b.top + scrollY, b.width, b.height]",
                selector,
            )
            clip = {"clip": dict(zip(("x", "y", "width", "height"), box, strict=True))}
            clip["clip"]["scale"] = 1
            clip["captureBeyondViewport"] = True
        return base64.b64decode(self.send("Page.captureScreenshot", format="png", **clip)["data"])

    def printed(self):
        """Return the page on paper, as the bytes of a PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def errors(self):
        """Return what the page logged, such as a refused script, and errors of its own."""
        self.send("Runtime.evaluate", expression="0")  # what was logged before has arrived then
        found, rest = [], []
        for event in self._events:
            text = json.dumps(event["params"])
            kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
            (found if event["method"] in kinds else rest).append((text, event))
        self._events = [event for _, event in rest]
        return [text for text, _ in found]

    def requests(self):
        """Return the addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def chromium(folder, *flags):
    """Start a browser with an empty profile in the folder; skip, saying so, where there is none."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("chromium is not installed")
    ours_read, theirs_write = os.pipe()
    theirs_read, ours_write = os.pipe()

    def as_three_and_four():
        # Chromium reads from 3 and writes to 4. First out of the way, for they may be 4 and 3.
        read, write = theirs_read, theirs_write
        while read in (3, 4):
            read = os.dup(read)
        while write in (3, 4):
            write = os.dup(write)
        os.dup2(read, 3)
        os.dup2(write, 4)

    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=as_three_and_four,
    )
    os.close(theirs_read)
    os.close(theirs_write)
    try:
        browser = Browser(ours_write, ours_read)
        yield browser
        browser._session = None
        with contextlib.suppress(AssertionError, OSError):
            browser.send("Browser.close")
    finally:
        os.close(ours_write)
        os.close(ours_read)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)
