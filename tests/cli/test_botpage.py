"""The page for site owners: whole when the configuration is, else with marked gaps; no foreign markup."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from frontlog.botpage import gaps, render
from frontlog.cli import main
from frontlog.config import load
from frontlog.crawl_folder import configure

WHOLE: dict[str, object] = {
    "identity.token": "ExampleBot",
    "identity.contact": "crawler@example.org",
    "identity.info_url": "https://example.org/bot",
    "identity.purpose": "A search engine for <tide tables> & harbours.",
    "identity.addresses": ["192.0.2.0/28", "2001:db8::7"],
    "identity.reverse_dns": "crawl.example.org",
}


class Reader(HTMLParser):
    """Tags that are open, and all text."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_whole_page_says_all_that_a_site_owner_needs() -> None:
    config = load(None, WHOLE)
    page = render(config)
    read = Reader(page)
    assert read.open == []
    text = " ".join(read.text.split())
    for said in (
        "Mozilla/5.0 (compatible; ExampleBot/",
        "+https://example.org/bot",
        "A search engine for <tide tables> & harbours.",
        "User-agent: ExampleBot Disallow: /",
        "Crawl-delay: 30",
        "192.0.2.0/28",
        "$ host 2001:db8::7",
        "must end in .crawl.example.org",
        "crawler@example.org",
        "waits 1 s between two requests, or 10 times",
    ):
        assert said in text, said
    assert 'href="mailto:crawler@example.org"' in page
    assert "todo" not in page.partition("<body>")[2]
    assert gaps(config) == []


def test_gaps_are_marked_and_named() -> None:
    page = render(load())
    assert Reader(page).open == []
    assert page.count('class="todo"') == 4
    assert gaps(load()) == [
        "identity.contact",
        "identity.purpose",
        "identity.addresses",
        "identity.reverse_dns",
        "identity.info_url",
    ]
    assert 'href="https://example.org/me"' in render(
        load(None, {"identity.contact": "https://example.org/me"})
    )


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["botpage", "--set", "identity.token=MyBot"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "<title>MyBot" in shown.stdout
    assert "identity.purpose" in shown.stderr
    Path("c").mkdir()
    configure(Path("c"), None, WHOLE)
    written = CliRunner().invoke(main, ["botpage", "-C", "c", "--out", "bot.html"], catch_exceptions=False)
    assert (written.exit_code, written.output) == (0, "")
    assert Path("bot.html").read_text() == render(load(None, WHOLE))
    assert CliRunner().invoke(main, ["botpage", "-C", "none"]).exit_code == 2


def test_the_settings_of_a_crawl_can_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").mkdir()
    configure(Path("c"), None, WHOLE)
    shown = CliRunner().invoke(main, ["settings", "-C", "c"], catch_exceptions=False).stdout
    assert '\ntoken = "ExampleBot"\n' in shown
    assert "\n# gap_ms_min = 1000\n" in shown
    as_json = CliRunner().invoke(main, ["settings", "-C", "c", "--json"], catch_exceptions=False).stdout
    assert '"identity.token":"ExampleBot"' in as_json
    Path("mine.toml").write_text("[crawl]\npages_max = 3\n")
    mine = CliRunner().invoke(main, ["settings", "--config", "mine.toml"], catch_exceptions=False).stdout
    assert "\npages_max = 3\n" in mine
