"""Flower in a real browser: it shows the work, and nothing of what the work is about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.support.demo_run import DemoRun, example_observations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.server,
    pytest.mark.timeout(240),
]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1500,1000",
)
#: The PNG signature.
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    """Open a browser with a fresh profile; skip on a machine without one, fail where it must be there."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        missing = "chromium and chromium-driver are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = program
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


def payload_words() -> set[str]:
    """Return what the observations hold beside the receipt's id, and the names of it: none of that may be seen."""
    hidden = ("content_hash", "policy_hash", "capability_id", "tool_name", "tool_server")
    values = {str(getattr(observation, name)) for observation in example_observations() for name in hidden}
    return {*values, *hidden, "currency"}


#: Links to tasks that are named like a receipt or a delivery.
JOB_LINKS = "a[href*='/task/rcpt_'], a[href*='/task/delivery']"


@dataclass
class Looks:
    """Look at the list of tasks again and again; jobs leave its first page when others come after them."""

    browser: webdriver.Chrome
    address: str
    screenshot: Path
    links: set[str] = field(default_factory=set)
    rows: str = ""
    #: The source of the last page that showed jobs, hidden parts included.
    source: str = ""

    def show(self, state: str) -> bool:
        """Load the list; tell whether a job has been seen in this state."""
        self.browser.get(self.address)
        # The list is drawn again while it is read, and a row that is gone then says so.
        with suppress(StaleElementReferenceException):
            for link in self.browser.find_elements(By.CSS_SELECTOR, JOB_LINKS):
                self.links.add(str(link.get_attribute("href")))
                self.rows += link.find_element(By.XPATH, "./ancestor::tr").text
        source = self.browser.page_source
        if shows_jobs(source):
            self.source = source
            self.browser.save_screenshot(str(self.screenshot))
        return state in self.rows


def shows_jobs(source: str) -> bool:
    """Tell whether the source of a page names a task of jobs."""
    return "chio.settle.observe" in source or "chio.deliver.send" in source


def test_flower_shows_ids_and_states_and_no_payload(tmp_path: Path, browser: webdriver.Chrome) -> None:
    """The tasks page shows jobs by their ids with the states RETRY and SUCCESS; no page shows anything of a payload."""
    with DemoRun(tmp_path, "--keep") as demo:
        demo.wait_until(lambda: "Flower shows the tasks" in demo.output)
        looks = Looks(browser, f"{demo.flower}/tasks", tmp_path / "tasks.png")
        demo.wait_until(lambda: looks.show("RETRY") and bool(looks.source))
        demo.wait_until(lambda: looks.show("SUCCESS"))
        demo.wait_until(lambda: "keeps running" in demo.output)
        pages = [page_of(demo, browser, link) for link in sorted(looks.links)[:3]]

    assert looks.screenshot.read_bytes().startswith(PNG)
    assert pages
    seen = {value for value in payload_words() for page in [looks.source, *pages] if value in page}
    assert seen == set()
    assert demo.running() == []


def page_of(demo: DemoRun, browser: webdriver.Chrome, address: str) -> str:
    """Open the page of a job and return its whole source, hidden parts included."""
    sources: list[str] = []

    def is_there() -> bool:
        # Now and then the browser has no document yet when it says that it has loaded the page.
        browser.get(address)
        sources.append(browser.page_source)
        return shows_jobs(sources[-1])

    demo.wait_until(is_there)
    return sources[-1]
