"""The reference page of settings is current and complete."""

from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.config import settings_of
from ottla.log.config import LogConfig, broker_level
from tools.settings_reference import PAGE, human, main, page


def test_the_page_is_current() -> None:
    assert main(["--check"]) == 0


def test_an_outdated_page_is_noticed_and_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.md"
    path.write_text(page().replace("`retention.ms`", "`retention.hours`"), "utf-8")
    assert main(["--check"], path) == 1
    assert "is outdated" in capsys.readouterr().out
    assert main([], path) == 0
    assert main(["--check"], path) == 0
    assert path.read_text("utf-8") == PAGE.read_text("utf-8")


def test_every_setting_is_on_the_page() -> None:
    text = page()
    names = [*settings_of(LogConfig), *settings_of(BrokerConfig), *broker_level()]
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "`604800000` (7 d)"),
        ("segment.bytes", "`1073741824` (1 GiB)"),
        ("flush.ms", "`9223372036854775807` (no limit)"),
        ("max.message.bytes", "`1048588`"),
        ("preallocate", "`false`"),
        ("leader.replication.throttled.replicas", "empty"),
    ],
)
def test_long_numbers_are_explained(name: str, text: str) -> None:
    assert human(settings_of(LogConfig)[name]) == text
