"""Make the screenshots of the documentation: reports in headless Chromium, on a desk and a phone.

Run it from anywhere: python docs/screenshots.py. It needs chromium and Pillow.
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

from jointsparse import SPCAPSD, Report, regularization_path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests"))

from browser import Browser, chromium  # noqa: E402

COLOURS = 128  # few colours make small files


def breast_cancer(folder: Path) -> Path:
    page = folder / "breast_cancer.html"
    command = [sys.executable, "-m", "jointsparse.cli.main", "select", "--quiet"]
    subprocess.run([*command, "--features", "8", "--report", str(page)], check=True)
    return page


def digits(folder: Path) -> Path:
    X, y = load_digits(return_X_y=True)
    model = SPCAPSD(n_features_to_select=12).fit(X)
    path = regularization_path(model, X, n_points=24, smallest=0.01)
    report = Report.from_estimator(model, X, y, path=path, data="digits", image_shape=(8, 8))
    return report.save(folder / "digits.html")


def photograph(browser: Browser, part: str, name: str, width: int, height: int) -> None:
    """Save what a window of that size shows of the page, or of a part of it."""
    browser.resize(width, height)
    picture = Image.open(io.BytesIO(browser.screenshot(part)))
    small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(HERE / "figures" / f"report-{name}.png", optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, chromium(Path(name)) as browser:
        browser.open(breast_cancer(Path(name)))
        photograph(browser, "", "desk", 1000, 1400)
        browser.point("#heat tr:nth-child(4) img", across=0.2)
        photograph(browser, "#look", "look", 1000, 1400)
        browser.move("curve-slider", 5)
        photograph(browser, "#many", "many", 1000, 1400)
        browser.move("curve-slider", 8)
        browser.run("document.getElementById('folded').open = true")
        browser.move("path-slider", 13)
        photograph(browser, "#path", "path", 1000, 1400)
        browser.run("document.getElementById('folded').open = false; scrollTo(0, 0)")
        photograph(browser, "", "phone", 500, 1400)
        browser.open(digits(Path(name)))
        photograph(browser, "#pixels", "pixels", 1000, 1400)


if __name__ == "__main__":
    main()
