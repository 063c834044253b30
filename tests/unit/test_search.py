"""Full text over the transcript: every language, only one's own, never what is deleted (C5)."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, text, update

from butler.errors import ButlerError
from butler.memory import archive as archiving
from butler.memory.archive import NEWEST_ALONE, STOPPED, Archive, Searched
from butler.people import Principal
from butler.redact import Redactor
from butler.storage import deleted, search
from butler.storage.database import READERS, Database, TookTooLong
from butler.storage.tables import messages
from butler.words import query_words
from service.memory import MemoryService
from tests.support.parts import ADMIN, MAX, MIA, add_run, new_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path / "butler.db")
    yield opened
    opened.close()


def say(
    database: Database, line: str, *, thread: str = "talk", person: Principal = MIA, role: str = "user", tool: str = ""
) -> str:
    """Put a line into a thread; gives its id."""

    def write(connection: Connection) -> str:
        add_run(connection, f"run of {thread}", thread, person)
        number = connection.execute(text("SELECT count(*) FROM messages")).scalar_one()
        message_id = f"{thread}:{number}:{line[:20]}"
        connection.execute(
            insert(messages).values(
                message_id=message_id, thread_id=thread, run_id=f"run of {thread}", turn=1, role=role, text=line,
                extra={"tool": tool} if tool else None, created_at=f"2031-{number:04}",
            )
        )  # fmt: skip
        return message_id

    return database.write_now(write)


async def found(database: Database, query: str, person: Principal = MIA, **more: str) -> list[str]:
    searched = await Archive(database, Redactor([])).search(person.user_id, query, 20, **more)
    assert (searched.behind, searched.stopped) == (0, "")
    return [one.text for one in searched.found]


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("The boat leaves Kiel on 14 March", "kiel"),
        ("The boat leaves Kiel on 14 March", "March boat"),
        ("Two tickets were bought", "ticket"),
        ("See you at the café", "cafe"),
        ("我下周三去北京出差", "北京"),
        ("我下周三去北京出差", "出差 北京"),
        ("東京都に引っ越しました", "東京"),
        ("来週は京都へ行きます", "京都"),
        ("カタカナとｶﾀｶﾅ", "カタカナ"),
        ("Zug nach Köln um 12:40", "12:40"),
        ("Die Nummer ist AB-1234/56", "AB-1234/56"),
        ("서울에서 만나요", "서울"),
        ("𠮷野家で食べた", "𠮷野家"),
        ("The code is \uff21\uff22\uff23\uff11\uff12\uff13", "abc123"),
    ],
)
async def test_a_word_of_any_language_is_found(database: Database, line: str, query: str) -> None:
    say(database, "Something else entirely 其他 別")
    say(database, line)
    assert await found(database, query) == [unicodedata.normalize("NFKC", line)]


async def test_signs_that_only_stand_near_each_other_are_no_word(database: Database) -> None:
    say(database, "京の東")
    assert await found(database, "東京") == []


async def test_another_persons_lines_are_never_found_not_even_by_an_admin(database: Database) -> None:
    say(database, "the safe is behind the picture", person=MAX, thread="max")
    assert await found(database, "safe") == []
    assert await found(database, "safe", ADMIN) == []
    assert await found(database, "safe", MAX) == ["the safe is behind the picture"]


async def test_lines_with_all_the_words_come_alone_and_else_those_with_any(database: Database) -> None:
    say(database, "red wine")
    say(database, "red wine and bread")
    assert await found(database, "bread wine") == ["red wine and bread"]
    assert set(await found(database, "bread wine cheese")) == {"red wine", "red wine and bread"}


async def test_the_thread_that_asks_comes_first_and_its_own_turn_not_at_all(database: Database) -> None:
    say(database, "bread bread bread", thread="old")
    say(database, "some bread, maybe, some other day", thread="here")
    assert (await found(database, "bread", first="here"))[0].startswith("some")
    assert await found(database, "bread", first="here", without="run of here") == ["bread bread bread"]


async def test_results_of_the_search_itself_are_not_found_again(database: Database) -> None:
    say(database, '{"results": "bread"}', role="tool", tool="search_history")
    say(database, "a page about bread", role="tool", tool="read_page")
    assert await found(database, "bread") == ["a page about bread"]


async def test_a_deleted_thread_is_out_of_the_index_in_the_same_transaction(database: Database) -> None:
    say(database, "the old secret", thread="gone")
    say(database, "a new secret", thread="stays")
    assert len(await found(database, "secret")) == 2
    database.write_now(lambda connection: deleted.delete_thread(connection, "gone"))
    raw = text("SELECT rowid FROM message_words WHERE message_words MATCH 'old'")
    assert database.write_now(lambda connection: connection.execute(raw).all()) == []
    assert await found(database, "secret") == ["a new secret"]


async def test_a_number_that_is_given_out_again_is_indexed_anew(database: Database) -> None:
    say(database, "first", thread="a")
    say(database, "second", thread="b")
    assert await found(database, "second") == ["second"]
    database.write_now(lambda connection: deleted.delete_thread(connection, "b"))
    say(database, "third", thread="c")
    assert await found(database, "third") == ["third"]
    assert await found(database, "second") == []


async def test_a_thread_that_was_never_indexed_can_be_deleted(database: Database) -> None:
    say(database, "first", thread="a")
    say(database, "second", thread="b")
    database.write_now(lambda connection: deleted.delete_thread(connection, "b"))
    assert await found(database, "first second") == ["first"]


async def test_a_line_that_is_changed_is_found_by_what_it_says_now(database: Database) -> None:
    say(database, "before")
    await found(database, "before")
    database.write_now(lambda connection: connection.execute(update(messages).values(text="after")))
    assert await found(database, "before") == []
    assert await found(database, "after") == ["after"]


@pytest.mark.parametrize(
    "query",
    ['"', '"bread', "bread AND", "NOT bread", "words:bread", "bread*", "NEAR(bread wine)", "^bread", "(bread", "bre-ad",
     "{bread}", "bread\0", "' OR 1=1 --", "+bread", 'x" OR "bread'],
)  # fmt: skip
async def test_what_the_index_would_read_as_syntax_is_only_a_word(database: Database, query: str) -> None:
    say(database, "bread and wine")
    try:
        await found(database, query)
    except ButlerError as error:
        assert error.code == "invalid_request"


async def test_a_query_without_a_word_says_so(database: Database) -> None:
    with pytest.raises(ButlerError, match="no word"):
        await found(database, ' "" … ')


@given(query=st.text(max_size=60))
def test_no_query_breaks_the_search(shared_database: Database, query: str) -> None:
    if not query_words(query):
        return
    shared_database.write_now(lambda connection: search.find(connection, MIA.user_id, query, 5))


@pytest.fixture(scope="module")
def shared_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = new_database(tmp_path_factory.mktemp("shared") / "butler.db")
    yield opened
    opened.close()


async def test_a_long_backlog_is_indexed_in_bounded_batches(database: Database) -> None:
    for number in range(search.BATCH_LINES + 5):
        say(database, f"line {number}")
    assert database.write_now(search.catch_up) is True
    assert database.write_now(search.lag) == 5
    assert database.write_now(search.catch_up) is False
    assert database.write_now(search.lag) == 0
    assert await found(database, "68") == ["line 68"]


async def test_an_index_of_another_version_is_made_anew(database: Database) -> None:
    say(database, "bread")
    await found(database, "bread")
    database.write_now(lambda connection: connection.execute(text("UPDATE search_state SET version = 0")))
    database.write_now(search.prepare)
    assert database.write_now(search.lag) == 1
    assert await found(database, "bread") == ["bread"]


async def test_the_excerpt_shows_the_place_and_not_the_whole(database: Database) -> None:
    say(database, "padding " * 400 + "the needle is here" + " padding" * 400)
    [shown] = await found(database, "needle")
    assert "needle" in shown
    assert len(shown) <= search.EXCERPT_LENGTH + 2


async def test_one_line_is_read_in_parts_by_its_owner_alone(database: Database) -> None:
    message_id = say(database, "x" * 10_000 + "end")
    found_line, length = await Archive(database, Redactor([])).line(MIA.user_id, message_id, 10_000, 100)
    assert (found_line.text, length) == ("end", 10_003)
    with pytest.raises(ButlerError) as refusal:
        await Archive(database, Redactor([])).line(MAX.user_id, message_id, 0, 100)
    assert refusal.value.code == "not_found"


async def test_a_secret_is_masked_before_a_line_is_cut(database: Database) -> None:
    message_id = say(database, f"{'so ' * 97}sesame-open-at-once {'and ' * 100}")
    archive = Archive(database, Redactor(["sesame-open-at-once"]))
    [line] = (await archive.search(MIA.user_id, "so", 20)).found
    assert "***" in line.text and "sesame" not in line.text
    assert (await archive.line(MIA.user_id, message_id, 291, 8))[0].text == "*** and "


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


async def test_slow_searches_hold_up_nothing_else_that_reads(database: Database) -> None:
    def endless(connection: Connection) -> object:
        return connection.execute(text(ENDLESS)).scalar()

    def number(connection: Connection) -> object:
        return connection.execute(text("SELECT 7")).scalar()

    order: list[str] = []

    async def slow() -> None:
        with pytest.raises(TookTooLong):
            await database.read_within(0.15, endless)
        order.append("stopped")

    searches = [asyncio.create_task(slow()) for _ in range(READERS + 1)]
    await asyncio.sleep(0)
    for _ in range(2 * READERS):
        assert await database.read(number) == 7
        order.append("read")
    await asyncio.gather(*searches)
    assert order.index("stopped") >= READERS and order.count("stopped") == READERS + 1
    # The reader that was stopped is as good as before.
    assert await database.read_within(5, number) == 7


async def test_searches_that_wait_do_not_hold_up_the_end(database: Database) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(connection: Connection) -> object:
        loop.call_soon_threadsafe(begun.set)
        return connection.execute(text(ENDLESS)).scalar()

    searches = [asyncio.create_task(database.read_within(0.3, endless)) for _ in range(20)]
    await begun.wait()
    start = loop.time()
    await asyncio.to_thread(database.close)
    assert loop.time() - start < 3
    ends = await asyncio.gather(*searches, return_exceptions=True)
    assert isinstance(ends[0], TookTooLong)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends[1:])


@pytest.mark.parametrize(("endless", "found_lines", "why"), [("_BEST", 2, NEWEST_ALONE), ("_BEST _NEWEST", 0, STOPPED)])
async def test_a_search_that_takes_too_long_gives_the_newest_lines_or_says_that_it_was_stopped(
    database: Database, monkeypatch: pytest.MonkeyPatch, endless: str, found_lines: int, why: str
) -> None:
    lines = ["tea and tea", "tea", "the last tea"]
    for line in lines:
        say(database, line)
    monkeypatch.setattr(archiving, "BEST_SECONDS", 0.1)
    monkeypatch.setattr(archiving, "NEWEST_SECONDS", 0.1 if found_lines == 0 else 5)
    for name in endless.split():
        monkeypatch.setattr(search, name, text(ENDLESS))
    searched = await Archive(database, Redactor([])).search(MIA.user_id, "tea", 2)
    assert [one.text for one in searched.found] == lines[:0:-1][:found_lines]
    assert searched.stopped == why


async def test_the_command_says_that_a_search_was_stopped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopped(*_: object, **__: object) -> Searched:
        return Searched([], 0, STOPPED)

    monkeypatch.setattr(Archive, "search", stopped)
    assert await MemoryService(database, Redactor([])).told_search(MIA, "tea", "talk") == STOPPED
