"""Expressions over names: what they match, what is refused, and that none takes forever."""

import re

import pytest

from ottla.coordinator.pattern_syntax import PatternError
from ottla.coordinator.patterns import compiled

NAMES = [
    "orders",
    "orders-1",
    "ORDERS",
    "a",
    "b",
    "ab",
    "aaaa",
    "abab",
    "pay.eu",
    "_x",
    "A1",
    "a|b",
    "é",
    "É",
    "größe",
    "日本",
]


@pytest.mark.parametrize(
    ("pattern", "as_python"),
    [
        ("", ""),
        ("orders", "orders"),
        ("orders.*", "orders.*"),
        ("^orders$", "^orders$"),
        (r"\Aorders\z", "orders"),
        ("a|b|", "a|b|"),
        ("(a|b)*", "(a|b)*"),
        ("(ab)+", "(ab)+"),
        ("(?P<name>ab)(?:ab)?", "(ab)(?:ab)?"),
        ("(?<name>ab)", "(ab)"),
        ("[a-c]+", "[a-c]+"),
        ("[^a]*", "[^a]*"),
        ("[]a]+", "[]a]+"),
        ("[a-]+", "[a-]+"),
        (r"[\w.]+", r"[a-zA-Z0-9_.]+"),
        ("[[:alpha:]]+", "[a-zA-Z]+"),
        ("[[:^digit:]]+", "[^0-9]+"),
        ("a{2,4}", "a{2,4}"),
        ("a{4}", "a{4}"),
        ("a{3,}", "a{3,}"),
        ("a{2}?a*?", "a{2}a*"),
        ("a{x", "a\\{x"),
        ("(?i)orders", "(?i)orders"),
        ("(?i:ORD)ers", "(?i:ORD)ers"),
        ("((?i)ORD)ers", "(?i:ORD)ers"),
        ("(?s-i:a)b", "ab"),
        (r"\w+\.\w+", r"\w+\.\w+"),
        (r"\D\d", r"\D\d"),
        (r"\x61\x{62}", "ab"),
        (r"\Qa|b\E", r"a\|b"),
        (r"\Qa|b", r"a\|b"),
        ("(^a|b)$", "(^a|b)$"),
        ("a^b", "a^b"),
        ("(a*)*", "(a*)*"),
        ("é|a", "é|a"),
        ("[^é]", "[^é]"),
        ("[é日]本?", "[é日]本?"),
        ("(?i)é", "(?i)é"),
        ("(?i)[^é]", "(?i)[^é]"),
        (r"\x{65e5}.", "日."),
        ("gr.*ße", "gr.*ße"),
        ("(?i)[^a]+", "(?i)[^a]+"),
        (r"(?i)[\Wa]+", r"(?i)[^b-zA-Z0-9_]+|a+|A+"),
    ],
)
def test_an_expression_matches_whole_names(pattern: str, as_python: str) -> None:
    found = [name for name in NAMES if compiled(pattern).matches(name)]

    assert found == [name for name in NAMES if re.fullmatch(as_python, name)]


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "*a",
        "a|*",
        "a**",
        "a{2}{3}",
        "a{3,2}",
        "a{1001}",
        "[z-a]",
        "[a-\\d]",
        "[a-é]",
        "[[:what:]]",
        "\\",
        "\\x",
        "\\x{110000}",
        "\\1",
        "\\bword\\b",
        "\\pL",
        "(?=a)",
        "(?<=a)",
        "(?P<1>a)",
        "(?P<a",
        "(?i",
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compiled(text)


@pytest.mark.parametrize("text", ["((a{100}){100}){100}", "a{1000}", "(" * 100 + ")" * 100])
def test_an_expression_has_a_limited_size(text: str) -> None:
    with pytest.raises(PatternError):
        compiled(text)


@pytest.mark.parametrize("text", ["(a+)+", "(a|a)*", "(a*)*b", "(.*a){20}"])
def test_an_expression_that_has_countless_ways_is_answered_nevertheless(text: str) -> None:
    """With one way after the other, each of these would take years."""
    assert compiled(text).matches("a" * 248 + "!") is False
