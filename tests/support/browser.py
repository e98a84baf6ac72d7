"""A real browser, Debian's Chromium, which opens pages and tells what it has fetched, and what its console says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.required import require

BROWSER = "REFERENCE_REQUIRE_BROWSER"


def lacking() -> str | None:
    """Say what this machine lacks."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "wanted the package selenium"
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"wanted {' and '.join(names)} (Debian: chromium, chromium-driver)" if names else None


@contextmanager
def browser(width: int = 1600, theme: str = "light") -> Iterator[Browser]:
    """Open a browser; skip the test where there is none."""
    require(lacking(), BROWSER)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=str(shutil.which("chromedriver")))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_page_load_timeout(30)
        feature = {"name": "prefers-color-scheme", "value": theme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """An open browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path | str) -> None:
        self.fetched()  # so that it tells what this page fetches
        self.driver.get(page if isinstance(page, str) else page.resolve().as_uri())

    def run(self, script: str) -> Any:
        """Run JavaScript in the page, and return what it returns."""
        return self.driver.execute_script(script)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def text(self, selector: str = "body") -> str:
        return str(self.all(selector)[0].text)

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def click(self, selector: str) -> None:
        self.all(selector)[0].click()

    def console(self) -> list[str]:
        """Return what the console has said since it was asked last."""
        return [str(each["message"]) for each in self.driver.get_log("browser")]

    def fetched(self) -> list[str]:
        """Return the addresses that were asked for since this was asked last."""
        events = [json.loads(each["message"])["message"] for each in self.driver.get_log("performance")]
        asked = [each for each in events if each["method"] == "Network.requestWillBeSent"]
        return [str(each["params"]["request"]["url"]) for each in asked]
