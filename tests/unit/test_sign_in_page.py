"""The sign-in page slows wrong tokens down like every route does."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import httpx
import pytest

from butler.people import HOUSE
from butler.storage.users import add_user
from service.http.app import create_app
from service.http.security import RateLimit
from tests.support.parts import new_database


@pytest.mark.parametrize("way", ["link", "cookie"])
async def test_guesses_are_slowed_down_and_the_form_stays_in_reach(tmp_path: Path, way: str) -> None:
    database = new_database(tmp_path / "butler.db")
    _, token = await database.write(lambda c: add_user(c, "ann", "member", HOUSE))
    app = create_app(MagicMock(database=database))
    app.state.failures = RateLimit(per_second=1e-9, burst=2)
    transport = httpx.ASGITransport(app)

    async def open_page(with_token: str) -> int:
        async with httpx.AsyncClient(transport=transport, base_url="http://butler") as browser:
            if way == "link":
                return (await browser.get("/", params={"token": with_token})).status_code
            return (await browser.get("/", headers={"Cookie": f"butler_token={with_token}"})).status_code

    async with httpx.AsyncClient(transport=transport, base_url="http://butler") as browser:
        assert [await open_page("wrong") for _ in range(4)] == [401, 401, 429, 429]
        assert (await browser.get("/")).status_code == 401
        assert await open_page(token) == (303 if way == "link" else 200)
    database.close()
