"""The file that tells the shell where the server is."""

from __future__ import annotations

import stat

import pytest

from service.address import local_url, read_url
from tests.support.server import MakeButler


def test_the_running_server_writes_its_address_and_takes_it_away_when_it_stops(make_butler: MakeButler) -> None:
    server = make_butler().start()
    path = server.data / "server.url"
    assert path.read_text().strip() == server.url
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.stop() == 0
    assert not path.exists()
    assert read_url(server.data) is None


def test_an_address_that_a_killed_server_left_is_replaced(make_butler: MakeButler) -> None:
    server = make_butler().start()
    server.kill()
    assert read_url(server.data) == server.url
    server.start()
    assert read_url(server.data) == server.url


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8710"),
        ("0.0.0.0", "http://127.0.0.1:8710"),
        ("::", "http://[::1]:8710"),
        ("::1", "http://[::1]:8710"),
        ("butler.lan", "http://butler.lan:8710"),
    ],
)
def test_an_address_to_listen_on_becomes_one_to_go_to(host: str, url: str) -> None:
    assert local_url(host, 8710) == url
