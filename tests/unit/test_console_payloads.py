"""What is shown of bytes, and which records a search finds."""

import pytest

from ottla.console.payloads import MAX_SHOWN, Format, Search, shown


@pytest.mark.parametrize(
    ("data", "wanted", "kind", "text"),
    [
        (None, "auto", "null", "null"),
        (b"", "auto", "empty", "empty"),
        (b'{"a":1}', "auto", "json", '{\n  "a": 1\n}'),
        (b'{"a":1}', "text", "text", '{"a":1}'),
        (b"17", "auto", "text", "17"),
        (b"17", "json", "json", "17"),
        (b"not json", "json", "text", "not json"),
        ("höher".encode(), "auto", "text", "höher"),
        (b"\x00\xff", "auto", "hex", "00 ff"),
        (b"\x00\xff", "text", "hex", "00 ff"),
        (b"abc", "hex", "hex", "61 62 63"),
        (b"bell\x07", "auto", "hex", "62 65 6c 6c 07"),
    ],
)
def test_bytes_are_shown_as_what_they_are(
    data: bytes | None, wanted: Format, kind: str, text: str
) -> None:
    found = shown(data, wanted)
    assert (found.kind, found.text, found.is_cut) == (kind, text, False)


def test_what_is_long_is_cut_and_deep_json_is_text() -> None:
    assert shown(b"a" * (MAX_SHOWN + 1)).is_cut
    assert shown(b"[" * 100_000 + b"]" * 100_000).kind == "text"


@pytest.mark.parametrize(
    ("search", "is_found"),
    [
        (Search(), True),
        (Search(key="k"), True),
        (Search(key="z"), False),
        (Search(value="Brno"), True),
        (Search(key="k", value="Wien"), False),
        (Search(header="trace"), True),
        (Search(header="trace=ab"), True),
        (Search(header="trace=zz"), False),
        (Search(header="other"), False),
        (Search(path="city"), True),
        (Search(path="$.city=Brno"), True),
        (Search(path="city=Wien"), False),
        (Search(path="items.0.price=9.5"), True),
        (Search(path="items.7.price"), False),
        (Search(path="items.0.price.deeper"), False),
    ],
)
def test_a_search_finds_what_has_everything_it_asks_for(search: Search, is_found: bool) -> None:
    value = b'{"city": "Brno", "items": [{"price": 9.5}]}'
    assert search.finds(b"key", value, [("trace", b"ab12")]) is is_found


def test_a_search_for_a_path_passes_over_what_is_no_json() -> None:
    for value in (None, b"", b"text", b"\xff"):
        assert not Search(path="city").finds(None, value, [])
