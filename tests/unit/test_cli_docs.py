"""The pages show commands that exist, with options that they have."""

import re
import shlex
from itertools import takewhile

import click
import pytest

from ottla.cli import main as cli
from tests.architecture.source import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = re.compile(r"^ *\$ .*?\bottla (.+)$", re.MULTILINE)
SHELL = {"|", "||", ">", ";", "&&", "#", ")"}


def commands() -> list[list[str]]:
    """Every command on the pages, as its words; the second of a pipe, too."""
    lines = [line for page in PAGES for line in SHOWN.findall(page.read_text("utf-8"))]
    parts = [part for line in lines for part in line.split("| ottla ")]
    split = [shlex.split(part.replace(")", " ) ")) for part in parts]
    return [list(takewhile(lambda word: word not in SHELL, words)) for words in split]


def test_there_are_commands_on_the_pages() -> None:
    assert {words[0] for words in commands()} >= {"serve", "topic", "produce", "consume", "log"}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_on_a_page_can_be_given_like_that(words: list[str]) -> None:
    command: click.Command = cli.cli
    context = click.Context(command, info_name="ottla", **command.context_settings)
    while isinstance(command, click.Group) and not _stands_alone(command, words):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    command.make_parser(context).parse_args(list(words))


def _stands_alone(group: click.Group, words: list[str]) -> bool:
    """Whether a group is called by itself, as some can be."""
    return group.invoke_without_command and (not words or words[0].startswith("-"))
