"""A real browser without a window: Debian's Chromium and its driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = which("chromium"), which("chromedriver")


@contextmanager
def browser(downloads: Path, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """Open a window that keeps what it downloads in a folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for one in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(one)
    options.add_argument(f"--window-size={width},{height}")
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield window
    finally:
        window.quit()


def until(window: Any, condition: Any, seconds: float = 20) -> Any:
    """Wait for a condition and return what it found; a page that goes meanwhile is waited for, too."""
    return WebDriverWait(window, seconds, 0.1, [StaleElementReferenceException]).until(condition)
