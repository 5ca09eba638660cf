"""The folder of a crawl: which may be used, and that its options outlive the command line that gave them."""

import json
from pathlib import Path

import pytest

from frontlog.crawl_folder import (
    CONFIG_FILE,
    OPTIONS_FILE,
    configure,
    default_folder,
    need_crawl,
    prepare,
)
from frontlog.errors import ConfigError
from frontlog.state.owner_lock import OwnerLock
from frontlog.streams.small_files import write_whole


def test_a_new_crawl_needs_a_seed_and_a_free_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with pytest.raises(ConfigError, match="give a URL to start from"):
        prepare(folder, has_seeds=False)
    assert not folder.exists()
    assert prepare(folder, has_seeds=True) is False
    assert folder.is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="not a folder"):
        prepare(tmp_path / "file", has_seeds=True)
    (folder / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="not empty, and not a crawl"):
        prepare(folder, has_seeds=True)


def test_a_folder_with_only_a_configuration_is_free(tmp_path: Path) -> None:
    (tmp_path / CONFIG_FILE).touch()
    assert prepare(tmp_path, has_seeds=True) is False


def test_a_crawl_can_go_on_without_seeds_but_not_while_it_runs(tmp_path: Path) -> None:
    prepare(tmp_path, has_seeds=True)
    configure(tmp_path, None, {})
    assert prepare(tmp_path, has_seeds=False) is True
    with (
        OwnerLock(tmp_path, command="frontlog crawl", started_ms=0),
        pytest.raises(ConfigError, match="in use by process"),
    ):
        prepare(tmp_path, has_seeds=False)
    assert prepare(tmp_path, has_seeds=False) is True


def test_looking_needs_a_crawl(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        need_crawl(tmp_path / "none")
    with pytest.raises(ConfigError, match="holds no crawl"):
        need_crawl(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="not a folder"):
        need_crawl(tmp_path / "file")
    configure(tmp_path, None, {})
    assert need_crawl(tmp_path) == tmp_path


def test_options_are_remembered_and_replaced_one_by_one(tmp_path: Path) -> None:
    configure(
        tmp_path, None, {"crawl.pages_max": 5, "scope.exclude": ["/a"], "fetch.resolve": {"h": ["192.0.2.1"]}}
    )
    again = configure(tmp_path, None, {})
    assert again.options.crawl.pages_max == 5
    assert again.settings.scope.exclude == ("/a",)
    assert again.options.fetch.resolve == {"h": ("192.0.2.1",)}
    changed = configure(tmp_path, None, {"crawl.pages_max": 7})
    assert (changed.options.crawl.pages_max, changed.settings.scope.exclude) == (7, ("/a",))
    assert configure(tmp_path, None, {}) == changed


def test_options_outrank_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    (tmp_path / CONFIG_FILE).write_text("[crawl]\npages_max = 3\npatience_ms = 9\n")
    config = configure(tmp_path, None, {"crawl.pages_max": 4})
    assert (config.options.crawl.pages_max, config.options.crawl.patience_ms) == (4, 9)
    again = configure(tmp_path, None, {})
    assert again.sources == (str(tmp_path / CONFIG_FILE), str(tmp_path / OPTIONS_FILE))
    assert (again.options.crawl.pages_max, again.options.crawl.patience_ms) == (4, 9)


def test_what_is_refused_is_not_remembered(tmp_path: Path) -> None:
    configure(tmp_path, None, {"crawl.pages_max": 5})
    with pytest.raises(ConfigError):
        configure(tmp_path, None, {"crawl.pages_max": -5})
    assert configure(tmp_path, None, {}).options.crawl.pages_max == 5


def test_a_configuration_that_is_given_is_copied_and_the_old_one_kept(tmp_path: Path) -> None:
    folder, given = tmp_path / "crawl", tmp_path / "mine.toml"
    folder.mkdir()
    given.write_text("[crawl]\npatience_ms = 1 # one\n")
    configure(folder, given, {})
    assert (folder / CONFIG_FILE).read_text() == given.read_text()
    configure(folder, folder / CONFIG_FILE, {})
    assert not (folder / f"{CONFIG_FILE}.old").exists()
    other = tmp_path / "other.toml"
    other.write_text("[crawl]\npatience_ms = 2\n")
    assert configure(folder, other, {}).options.crawl.patience_ms == 2
    assert (folder / f"{CONFIG_FILE}.old").read_text() == given.read_text()
    assert configure(folder, None, {}).options.crawl.patience_ms == 2


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    write_whole(path, "old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.com/a?b=c", "example.com"),
        ("https://User:pw@Example.COM:8443/", "example.com-8443"),
        ("https://example.com:443", "example.com"),
        ("http://[::1]:8000/", "1-8000"),
        ("https://bücher.example/?q", "xn--bcher-kva.example"),
    ],
)
def test_a_crawl_without_a_folder_gets_one_named_after_its_host(url: str, name: str) -> None:
    assert default_folder(url) == Path("crawls") / name


def test_a_damaged_memory_is_said(tmp_path: Path) -> None:
    (tmp_path / OPTIONS_FILE).write_text(json.dumps({"a": 1}))
    with pytest.raises(ConfigError, match=OPTIONS_FILE):
        configure(tmp_path, None, {})
