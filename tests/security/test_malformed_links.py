"""Forms sent to a signed link that are wrong in any way: nothing is decided, and the link stays good."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote_plus

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.client import Client, Json
from tests.support.orders import fresh, park
from tests.support.receiver import Receiver, link_in
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

# Few enough for the limit on the attempts of one address.
MANY = settings(
    max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NO_DECISION = WORDS.filter(lambda word: word not in ("approve", "reject"))
FORMS = st.one_of(
    st.just(""),
    NO_DECISION.map(lambda word: f"decision={quote_plus(word)}"),
    NO_DECISION.map(lambda word: f"decision=approve&decision={quote_plus(word)}"),
    st.tuples(WORDS.filter(lambda name: name not in ("reason", "decision", "")), WORDS).map(
        lambda pair: f"decision=approve&{quote_plus(pair[0])}={quote_plus(pair[1])}"
    ),
    st.sampled_from(["edit", "respond", "Approve", "approve ", "APPROVE", "true", "1", "approved"]).map(
        lambda word: f"decision={quote_plus(word)}"
    ),
    st.sampled_from(["decision=approve&decision=approve", "decision=approve;", "approve", "decision", "=approve",
                     "decision=approve&reason=" + "x" * 2001, "decision=approve&reason=a&reason=b",
                     '{"decision": "approve"}', "decision[]=approve", "decision=approve&args={}"]),
)  # fmt: skip
BYTES = st.binary(max_size=30).filter(lambda body: body not in (b"decision=approve", b"decision=reject"))


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def server(
    shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[ButlerServer]:
    home = tmp_path_factory.mktemp("links")
    made = ButlerServer(home, shared_model.url, {"BUTLER_NOTIFY_URLS": receiver.url("owner")}).start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def waiting(server: ButlerServer, receiver: Receiver) -> tuple[Client, Json, str]:
    """The owner, an action that waits, and the owner's link to it."""
    owner, text = server.client(), fresh("waiting")
    approval = park(owner, text)["approvals"][0]
    return owner, owner.approval(approval["action_id"]), server.url + link_in(receiver.message("owner", text))


def check(server: ButlerServer, waiting: tuple[Client, Json, str], response: httpx.Response) -> None:
    """The form was refused, the action waits as it did, and the link still asks."""
    owner, approval, link = waiting
    assert response.status_code in (413, 422), response.text
    assert "Traceback" not in response.text
    assert owner.approval(approval["action_id"]) == approval
    assert server.workshop.effects(approval["args"]["text"]) == []
    with httpx.Client(trust_env=False) as browser:
        assert 'value="approve"' in browser.get(link).text


def test_a_form_that_is_wrong_decides_nothing(server: ButlerServer, waiting: tuple[Client, Json, str]) -> None:
    @MANY
    @given(form=FORMS)
    def tried(form: str) -> None:
        check(server, waiting, httpx.post(waiting[2], content=form.encode(), headers=FORM, trust_env=False))

    tried()


def test_bytes_that_are_no_form_decide_nothing(server: ButlerServer, waiting: tuple[Client, Json, str]) -> None:
    @MANY
    @given(body=BYTES, kind=st.sampled_from(["application/x-www-form-urlencoded", "application/json", "text/plain"]))
    def tried(body: bytes, kind: str) -> None:
        headers = {"Content-Type": kind}
        check(server, waiting, httpx.post(waiting[2], content=body, headers=headers, trust_env=False))

    tried()


def test_a_link_that_is_not_whole_is_no_link(server: ButlerServer, waiting: tuple[Client, Json, str]) -> None:
    owner, approval, link = waiting
    head, _, token = link.rpartition("/")
    # Of the last character some bits carry nothing.
    last = len(token) - 2

    @MANY
    @given(at=st.integers(0, last), other=st.sampled_from("AZaz09-_.~"))
    def tried(at: int, other: str) -> None:
        if token[at] == other:
            return
        forged = f"{head}/{token[:at]}{other}{token[at + 1 :]}"
        response = httpx.post(forged, content=b"decision=approve", headers=FORM, trust_env=False)
        assert response.status_code == 404
        assert approval["action_id"] not in response.text and approval["args"]["text"] not in response.text

    tried()
    assert owner.approval(approval["action_id"]) == approval
