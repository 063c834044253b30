"""notify.yml and BUTLER_NOTIFY_URLS: good ones become channels, faults name the place and no secret."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import SecretStr

from config.notify_file import ChannelDefinition, load_notify_file, owners_channels
from config.notify_urls import secrets_of, split_urls
from config.problems import ConfigError
from config.published import FOLDER, published_schemas

GOOD = """
people:
  - user: ann
    urls: ["ntfy://ntfy.example/${ANN_TOPIC}", "json://hooks.example/ann"]
    events: [approvals]
    links: false
  - user: bob
    urls: ["${BOB_URL}"]
"""
ENVIRON = {"ANN_TOPIC": "planted-topic-1", "BOB_URL": "json://bob:planted-pass-2@hooks.example/bob"}


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> tuple[ChannelDefinition, ...]:
    (tmp_path / "notify.yml").write_text(text, "utf-8")
    return load_notify_file(tmp_path / "notify.yml", ENVIRON if environ is None else environ, cwd=tmp_path)


def faults(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environ)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_file_gives_every_person_its_channels(tmp_path: Path) -> None:
    ann, second, bob = load(tmp_path, GOOD)
    assert ann.url.get_secret_value() == "ntfy://ntfy.example/planted-topic-1"
    assert (ann.user, ann.links, set(ann.events), ann.service) == ("ann", False, {"approvals"}, "ntfy")
    assert ann.variables == ("ANN_TOPIC",)
    assert second.user == "ann"
    assert (bob.user, bob.links, set(bob.events)) == ("bob", True, {"approvals", "replies"})
    assert bob.url.get_secret_value() == ENVIRON["BOB_URL"]
    assert "planted" not in repr((ann, second, bob))


def test_an_absent_file_names_nobody(tmp_path: Path) -> None:
    assert load_notify_file(tmp_path / "notify.yml", {}) == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("persons: []", "notify.yml:1: persons: unknown key"),
        (
            "people:\n  - user: ann\n    link: no\n    urls: ['json://h.example']",
            "notify.yml:3: link: unknown key (did you mean 'links'?)",
        ),
        ("people:\n  - user: ann\n    urls: []", "notify.yml:3: urls: expected"),
        ("people:\n  - urls: ['json://h.example']", "notify.yml:2: user: is missing"),
        (
            "people:\n  - user: ann\n    urls: ['json://h.example']\n    events: [reply]",
            "notify.yml:4: events[0]: expected one of approvals, replies, got 'reply' (did you mean 'replies'?)",
        ),
        (
            "people:\n  - user: ann\n    urls: ['json://h.example/${NOT_SET}']",
            "notify.yml:3: urls[0]: the environment variable 'NOT_SET' is not set",
        ),
        ("people:\n  - user: ann\n    urls: ['json://h.example/{X}']", "a variable is written ${NAME}"),
        (
            "people:\n  - user: ann\n    urls: ['jsom://h.example']",
            "notify.yml:3: urls[0]: Apprise knows no service 'jsom' (did you mean 'json'?)",
        ),
        ("people:\n  - user: ann\n    urls: ['json://a.example', 'json://a.example']", "listed twice"),
        (
            "people:\n  - user: ann\n    urls: ['json://a.example']\n  - user: ann\n    urls: ['json://b.example']",
            "notify.yml:4: user: 'ann' has an entry already at notify.yml:2",
        ),
    ],
)
def test_a_fault_has_its_place(tmp_path: Path, text: str, fault: str) -> None:
    [found] = faults(tmp_path, text)
    assert fault in found


@pytest.mark.parametrize(
    "text",
    [
        "people:\n  - user: ann\n    urls: json://u:planted-secret@h.example",
        "people:\n  - user: json://u:planted-secret@h.example\n    urls: ['json://h.example']",
        "people:\n  - user: ann\n    urls: ['tgram://planted-secret']",
        "people:\n  - user: ann\n    urls: ['planted-secret']",
        "people:\n  - user: ann\n    urls: ['json://h.example/{planted-secret}']",
        "people:\n  - user: ann\n    urls: [json://h.example]\n    links: json://planted-secret",
        "people:\n  - json://planted-secret",
        "people: json://planted-secret",
    ],
)
def test_a_fault_never_repeats_a_url(tmp_path: Path, text: str) -> None:
    found = faults(tmp_path, text)
    assert found
    assert "planted-secret" not in "".join(found)


def test_the_owners_urls_are_parted_at_commas_and_white_space_but_not_inside_one() -> None:
    text = "json://a.example/x, ntfy://b.example/t\nmailto://u:p@c.example?to=x@d.example,y@d.example json://e.example,"
    assert split_urls(text) == [
        "json://a.example/x",
        "ntfy://b.example/t",
        "mailto://u:p@c.example?to=x@d.example,y@d.example",
        "json://e.example",
    ]
    assert [channel.user for channel in owners_channels(SecretStr(text))] == ["owner"] * 4


def test_a_bad_url_of_the_owner_is_counted_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        owners_channels(SecretStr("json://a.example, tgram://planted-secret"))
    [problem] = caught.value.problems
    assert problem.key == "BUTLER_NOTIFY_URLS"
    assert "URL 2 of 2" in problem.message
    assert "planted-secret" not in str(problem)


def test_every_part_of_a_url_that_may_be_secret_is_known() -> None:
    found = secrets_of("json://user:planted%2Fpass@hooks.example:8080/team/planted-token?+X-Key=planted-key")
    assert {"planted/pass", "planted-token", "planted-key", "user"} <= found
    assert not {"hooks.example", "json"} & found
    assert "123456789" in secrets_of("tgram://123456789:abcdefghij/42")


def test_the_published_schema_takes_the_good_file_and_is_up_to_date() -> None:
    schema = json.loads(published_schemas()["notify.schema.json"])
    Draft202012Validator(schema).validate(yaml.safe_load(GOOD))
    assert (FOLDER / "notify.schema.json").read_text("utf-8") == published_schemas()["notify.schema.json"]


def test_without_any_url_apprise_is_not_even_imported(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from config.settings import load_settings\n"
        "from service.wiring import read_configuration\n"
        "import server\n"
        "assert read_configuration(load_settings(), {}).channels == ()\n"
        "assert 'apprise' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True,
        env={"BUTLER_CONFIG_DIR": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
