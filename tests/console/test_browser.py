"""The console in a real browser: Debian's Chromium, driven by Selenium.

Skipped where there is no browser; `make setup-browser` installs one.  With OTTLA_PICTURES=FOLDER
every page that is visited leaves its picture there.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.broker.embedded import Broker
from ottla.testing import TestBroker

pytestmark = pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("chromedriver") is None,
    reason="no chromium and chromedriver here: make setup-browser installs them",
)

WAIT_S = 120
PICTURES = os.environ.get("OTTLA_PICTURES")


@pytest.fixture(scope="module")
def address(broker: Broker) -> Iterator[str]:
    with console_of(broker) as address:
        yield address


@contextmanager
def console_of(broker: Broker | TestBroker) -> Iterator[str]:
    """A console in a process of its own, as users start it."""
    arguments = ["console", "--port", "0", "-o", "json", "-b", broker.bootstrap_servers]
    started = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    try:
        yield json.loads(started.stdout.readline())["url"]
        started.terminate()
        assert started.wait(WAIT_S) in (0, -15, 143)
    finally:
        started.kill()
        started.wait(WAIT_S)
        started.stdout.close()


@contextmanager
def broker_with_console() -> Iterator[tuple[str, str]]:
    """Both as users start them together; where the broker is, and where the console."""
    arguments = ["serve", "--console", "--ephemeral", "--port", "0", "--console-port", "0"]
    started = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments, "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    try:
        broker, console = (json.loads(started.stdout.readline()) for _ in range(2))
        yield broker["bootstrap_servers"], console["url"]
        started.terminate()
        assert started.wait(WAIT_S) == 0
    finally:
        started.kill()
        started.wait(WAIT_S)
        started.stdout.close()


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    driver = started_browser()
    driver.set_page_load_timeout(WAIT_S)
    yield driver
    driver.quit()


def started_browser() -> Any:
    """A browser; on a busy machine its driver may not wait long enough, and is asked again."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",  # which is small in containers, and then pages crash
        "--window-size=1480,1000",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    path = shutil.which("chromedriver")
    with suppress(WebDriverException):
        return webdriver.Chrome(options, webdriver.ChromeService(path))
    return webdriver.Chrome(options, webdriver.ChromeService(path))


@pytest.fixture(autouse=True)
def quiet(driver: Any) -> Iterator[None]:
    """No test leaves a complaint of the browser: blocked scripts and styles are among them."""
    yield
    told = [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE"]
    assert told == []


def wait_until(driver: Any, found: Callable[[Any], object]) -> None:
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    # While one page goes and another comes, what was found may be stale, and a body missing.
    passing = [NoSuchElementException, StaleElementReferenceException]
    WebDriverWait(driver, WAIT_S, ignored_exceptions=passing).until(found)


def has_text(driver: Any, text: str) -> bool:
    from selenium.webdriver.common.by import By

    return text in driver.find_element(By.TAG_NAME, "body").text


def wait_for_text(driver: Any, text: str) -> None:
    wait_until(driver, lambda driver: has_text(driver, text))


def picture(driver: Any, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        driver.save_screenshot(str(Path(PICTURES) / f"{name}.png"))


def test_a_cluster_at_work_as_the_docs_show_it(driver: Any) -> None:
    from selenium.webdriver.common.by import By

    with broker_with_console() as (servers, address):
        with ottla.Admin(servers) as admin:
            for name, count in (("orders", 6), ("clicks", 3), ("payments", 2)):
                admin.create_topic(name, partitions=count)
        driver.get(address)
        with (
            ottla.Producer(servers) as producer,
            ottla.Consumer(
                "orders", bootstrap_servers=servers, group_id="enricher", client_id="enricher-1"
            ) as consumer,
        ):
            for round_number in range(100 if PICTURES else 8):
                for number in range(40 + 10 * (round_number % 4)):
                    order = {"order": round_number * 100 + number, "city": "Brno", "total": 99.5}
                    producer.send("orders", json.dumps(order).encode(), key=b"customer-%d" % number)
                    producer.send("clicks", b"/cart")
                producer.flush()
                consumer.poll(0.5)
                if PICTURES:
                    time.sleep(0.4)  # lines take time

            def is_listed(page: Any) -> bool:
                consumer.poll(0)  # it may still be joining
                return has_text(page, "enricher")

            wait_until(driver, is_listed)
            picture(driver, "console-overview")
            messages = f"{address}/topics/orders/messages?path=city%3DBrno&count=6"
            driver.get(messages)
            while not has_text(driver, "customer-"):
                # A search ends when its time is up; whoever reads asks again.
                assert has_text(driver, "Not everything was looked at")
                driver.get(messages)
            picture(driver, "console-messages")
            for name, path, text in (
                ("group", "/groups/show?id=enricher&to=earliest", "Reset offsets"),
                ("topic", "/topics/orders", "retention.ms"),
            ):
                driver.get(address + path)
                wait_for_text(driver, text)
                picture(driver, f"console-{name}")
        # A line needs three samples at least.
        wait_until(driver, lambda page: page.find_elements(By.CSS_SELECTOR, "svg.chart polyline"))
        driver.get("about:blank")  # it would complain that the console is gone


def test_the_overview_follows_the_cluster_without_a_reload(driver: Any) -> None:
    # A broker of its own: the overview shows the busiest topics alone, and others have made many.
    with (
        Broker() as broker,
        console_of(broker) as address,
        ottla.Admin(broker.bootstrap_servers) as admin,
    ):
        admin.create_topic("topic-1")
        driver.get(address)
        wait_for_text(driver, "topic-1")
        admin.create_topic("topic-2")
        wait_for_text(driver, "topic-2")
        driver.get("about:blank")  # it would complain that the console is gone


def test_a_page_says_that_the_broker_is_gone_and_goes_on_when_it_is_back(driver: Any) -> None:
    with TestBroker() as broker, console_of(broker) as address:
        broker.create_topic("topic-1")
        driver.get(address)
        wait_for_text(driver, "topic-1")
        with broker.faults.refuse_connections():
            broker.faults.drop_connections()
            wait_for_text(driver, "The cluster does not answer")
            assert has_text(driver, "topic-1")  # what was known is still there
        wait_until(driver, lambda page: not has_text(page, "The cluster does not answer"))
        driver.get("about:blank")  # it would complain that the console is gone


def test_a_page_that_gets_no_answer_gives_up_in_time_and_goes_on(
    driver: Any, address: str, broker: Broker, topic: str
) -> None:
    driver.get(f"{address}/topics?find={topic}")
    wait_for_text(driver, topic)
    driver.execute_script(
        """
        const fetches = window.fetch, waits = window.setTimeout;
        window.setTimeout = (act, ms) => waits(act, Math.min(ms, 1));  // time flies
        window.fetch = (url, { signal }) => new Promise((_, reject) => {
          window.fetch = fetches;
          signal.addEventListener("abort", () => reject(signal.reason));
        });
        window.hangs = () => window.fetch !== fetches;
        """
    )
    wait_until(driver, lambda page: not page.execute_script("return hangs()"))
    driver.execute_script("window.setTimeout = (act, ms) => 0")  # and answers come in time
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(f"{topic}-after-it")
    wait_for_text(driver, f"{topic}-after-it")


@pytest.fixture
def row_with_button(driver: Any, address: str, broker: Broker, topic: str) -> Iterator[Any]:
    """The row of an open transaction, with the focus on its button; its age changes by itself.

    An element inside may be another one when it is asked: tests press keys.
    """
    from selenium.webdriver.common.by import By

    name = f"renewed-{topic}"
    producer = ottla.Producer(
        broker.bootstrap_servers, transactional_id=name, transaction_timeout_ms=600_000
    )
    with producer, producer.transaction():
        producer.send(topic, b"undecided").result()
        driver.get(f"{address}/transactions?find={name}")
        wait_for_text(driver, name)
        driver.execute_script("document.querySelector('#rows button').focus()")
        yield driver.find_element(By.ID, "rows")
        producer.send(topic, b"it goes on").result()


def dismiss_the_question(driver: Any) -> None:
    from selenium.webdriver.support import expected_conditions as expected

    wait_until(driver, expected.alert_is_present())
    driver.switch_to.alert.dismiss()


def test_a_row_that_is_renewed_keeps_the_focus_and_still_asks_before_it_aborts(
    driver: Any, row_with_button: Any
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    before = row_with_button.text
    wait_until(driver, lambda _: row_with_button.text != before)

    ActionChains(driver).send_keys(" ").perform()
    dismiss_the_question(driver)


def test_a_button_that_is_held_while_samples_come_is_clicked_when_it_is_let_go(
    driver: Any, row_with_button: Any
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    driver.execute_script(
        "window.seen = 0; window.samples = new EventSource('/live');"
        "samples.addEventListener('sample', () => { seen += 1; });"
    )
    ActionChains(driver).key_down(" ").perform()
    wait_until(driver, lambda page: page.execute_script("return seen") > 2)
    driver.execute_script("samples.close()")
    ActionChains(driver).key_up(" ").perform()
    dismiss_the_question(driver)


def test_records_are_followed_as_they_are_written(
    driver: Any, address: str, broker: Broker, topic: str
) -> None:
    from selenium.webdriver.common.by import By

    driver.get(f"{address}/topics/{topic}/messages")
    driver.find_element(By.ID, "tail").click()
    wait_for_text(driver, "Stop following")
    with ottla.Producer(broker.bootstrap_servers) as producer:
        # When the browser has begun to listen cannot be seen from here: write until it shows.
        def shows(driver: Any) -> bool:
            producer.send(topic, b"<img src=x> live").result()
            return has_text(driver, "<img src=x> live")

        wait_until(driver, shows)
    driver.find_element(By.ID, "tail").click()
    wait_for_text(driver, "Follow")


def test_a_topic_is_created_and_deleted_by_hand(driver: Any, address: str, broker: Broker) -> None:
    from selenium.webdriver.common.by import By

    driver.get(f"{address}/topics")
    form = driver.find_element(By.CSS_SELECTOR, "form[action='/topics']")
    form.find_element(By.NAME, "name").send_keys("by-hand")
    form.submit()
    wait_for_text(driver, "Topic by-hand was created.")
    form = driver.find_element(By.CSS_SELECTOR, "form[action$='/delete']")
    form.find_element(By.NAME, "confirm").send_keys("by-hand")
    form.submit()
    wait_for_text(driver, "Topic by-hand was deleted.")
    with ottla.Admin(broker.bootstrap_servers) as admin:
        assert "by-hand" not in admin.list_topics()


def test_a_group_is_previewed_and_moved(
    driver: Any, address: str, broker: Broker, group: str
) -> None:
    from urllib.parse import quote

    from selenium.webdriver.common.by import By

    driver.get(f"{address}/groups/show?id={quote(group, safe='')}&to=latest")
    wait_for_text(driver, "+2 records")
    driver.find_element(By.XPATH, "//button[text()='Apply']").click()
    wait_for_text(driver, "Moved the offsets of 2 partitions.")
    with ottla.Admin(broker.bootstrap_servers) as admin:
        assert admin.lag(group).total == 0


def test_it_fits_on_a_phone_and_the_keyboard_finds_the_search(
    driver: Any, address: str, topic: str
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    driver.set_window_size(500, 900)
    driver.get(f"{address}/topics")
    wait_for_text(driver, topic)
    width = driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= driver.execute_script("return window.innerWidth")
    ActionChains(driver).send_keys("/").perform()
    wait_until(driver, lambda d: d.switch_to.active_element.get_attribute("name") == "find")
    picture(driver, "console-phone")
    driver.set_window_size(1480, 1000)
