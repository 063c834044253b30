"""Where the command line finds the server, which token it takes, and where it never sends one."""

from __future__ import annotations

from pathlib import Path

import pytest

from butler.errors import ButlerError
from config.environment import Environment, read_environment
from service.cli.place import Place, find_place


def place(home: Path, **values: str) -> Place:
    """The place that a working directory and variables give."""
    return find_place(Environment(values, ".env", {}), home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A working directory with an owner's token."""
    (tmp_path / ".butler").mkdir()
    (tmp_path / ".butler" / "owner.token").write_text("owners-token\n")
    return tmp_path


def test_without_anything_said_it_is_the_address_of_the_settings_and_the_owners_token(home: Path) -> None:
    found = place(home)
    assert (found.url, found.token.get_secret_value()) == ("http://127.0.0.1:8710", "owners-token")
    assert found.token_from == str(home / ".butler" / "owner.token")
    assert "owners-token" not in repr(found)


def test_a_running_servers_own_word_beats_the_settings(home: Path) -> None:
    (home / ".butler" / "server.url").write_text("http://127.0.0.1:4711\n")
    assert place(home, BUTLER_PORT="1234").url == "http://127.0.0.1:4711"


def test_the_variables_beat_everything(home: Path) -> None:
    (home / ".butler" / "server.url").write_text("http://127.0.0.1:4711\n")
    found = place(home, BUTLER_URL="https://butler.example/sub/", BUTLER_TOKEN="mine")
    assert (found.url, found.token.get_secret_value()) == ("https://butler.example/sub", "mine")
    assert not found.is_loopback


def test_with_url_and_token_told_broken_settings_do_not_matter(home: Path) -> None:
    found = place(home, BUTLER_URL="http://localhost:1", BUTLER_TOKEN="mine", BUTLER_PORT="none")
    assert found.url == "http://localhost:1"


def test_an_address_to_listen_on_is_turned_into_one_to_reach(home: Path) -> None:
    assert place(home, BUTLER_HOST="0.0.0.0").url == "http://127.0.0.1:8710"
    assert place(home, BUTLER_HOST="::").url == "http://[::1]:8710"


def test_the_owners_token_is_never_sent_to_another_machine(home: Path) -> None:
    with pytest.raises(ButlerError) as caught:
        place(home, BUTLER_URL="https://butler.example")
    assert caught.value.code == "unauthorized"
    assert "BUTLER_TOKEN" in caught.value.detail


def test_over_plain_http_no_token_leaves_the_machine_unless_told(home: Path) -> None:
    told = {"BUTLER_URL": "http://butler.example", "BUTLER_TOKEN": "mine"}
    with pytest.raises(ButlerError) as caught:
        place(home, **told)
    assert caught.value.code == "invalid_request"
    assert place(home, **told, BUTLER_INSECURE="1").url == "http://butler.example"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "x.localhost"])
def test_loopback_addresses_need_neither(host: str, home: Path) -> None:
    assert place(home, BUTLER_URL=f"http://{host}:8710").is_loopback


@pytest.mark.parametrize(
    "url",
    ["butler.example", "ftp://x", "http://", "http://x:99999", "http://ann:secret@localhost", "http://localhost/?t=1"],
)
def test_an_address_that_can_not_be_used_is_named(url: str, home: Path) -> None:
    with pytest.raises(ButlerError) as caught:
        place(home, BUTLER_URL=url)
    assert caught.value.code == "invalid_request"
    assert "BUTLER_URL" in caught.value.detail
    assert "secret" not in caught.value.detail


def test_no_token_anywhere_is_said_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ButlerError) as caught:
        place(tmp_path)
    assert caught.value.code == "unauthorized"
    assert "owner.token" in caught.value.detail and "Butler's folder" in caught.value.detail


def test_a_token_that_can_not_travel_is_refused_without_being_shown(home: Path) -> None:
    with pytest.raises(ButlerError) as caught:
        place(home, BUTLER_TOKEN="two words")
    assert "two words" not in caught.value.detail


def test_a_port_of_the_systems_choice_needs_a_running_server(home: Path) -> None:
    with pytest.raises(ButlerError) as caught:
        place(home, BUTLER_PORT="0")
    assert caught.value.code == "unreachable"
    assert "butler serve" in caught.value.detail


@pytest.mark.parametrize("url", ["http://192.0.2.7:8710", "https://[2001:db8::1]"])
def test_no_token_goes_where_only_a_file_of_the_folder_says_so(url: str, home: Path) -> None:
    (home / ".butler" / "server.url").write_text(f"{url}\n")
    for values in ({}, {"BUTLER_TOKEN": "mine"}, {"BUTLER_OWNER_TOKEN": "owners-own-token"}):
        with pytest.raises(ButlerError) as caught:
            place(home, **values)
        assert caught.value.code == "invalid_request"
        assert "server.url" in caught.value.detail
    (home / ".butler" / "server.url").unlink()
    with pytest.raises(ButlerError, match="not on this machine"):
        place(home, BUTLER_HOST="192.0.2.7", BUTLER_TOKEN="mine")


def test_the_environments_token_does_not_go_where_a_folders_env_file_says(home: Path) -> None:
    (home / ".env").write_text("BUTLER_URL=https://elsewhere.example\n")
    with pytest.raises(ButlerError) as caught:
        find_place(read_environment({"BUTLER_TOKEN": "mine"}, home), home)
    assert (caught.value.code, "mine" in caught.value.detail) == ("invalid_request", False)
    # Somebody who names the file, or keeps both in it, means it; this machine is no elsewhere.
    named = {"BUTLER_TOKEN": "mine", "BUTLER_ENV_PATH": str(home / ".env")}
    assert find_place(read_environment(named, home), home).url == "https://elsewhere.example"
    (home / ".env").write_text("BUTLER_URL=https://elsewhere.example\nBUTLER_TOKEN=its-own\n")
    assert find_place(read_environment({}, home), home).token.get_secret_value() == "its-own"
    (home / ".env").write_text(f"BUTLER_URL=https://elsewhere.example\nBUTLER_ENV_PATH={home / '.env'}\n")
    with pytest.raises(ButlerError, match="BUTLER_ENV_PATH"):
        find_place(read_environment({"BUTLER_TOKEN": "mine"}, home), home)
    (home / ".env").write_text("BUTLER_URL=http://127.0.0.1:4711\n")
    assert find_place(read_environment({"BUTLER_TOKEN": "mine"}, home), home).is_loopback
