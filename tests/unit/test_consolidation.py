"""Memories that outgrew their budget are merged: checked by code, never lost, never in anybody's way (C6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from butler.errors import ModelFailed
from butler.memory.consolidation import MOST_IN_A_ROUND, doubles, merge_request, part_of_round, related, what_is_wrong
from butler.memory.remembered import Memory
from butler.redact import Redactor
from butler.storage import memories
from butler.storage.database import Database
from butler.storage.memories import Source
from butler.types import ChatMessage, CutText
from service import consolidating
from service.consolidating import Consolidator
from tests.support.parts import MIA, add_people, new_database


def memory(text: str, number: int = 0) -> Memory:
    return Memory(f"ID{number}", text, 5, f"2031-{number}", f"2031-{number}", "mia", "model", None, None)


class Merging:
    """A model that gives one answer after the other."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[ChatMessage]] = []

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        timeout: float,  # noqa: ASYNC109
        max_tokens: int | None = None,
    ) -> str:
        assert purpose == "compaction"
        self.asked.append(list(messages))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer == "(silence)":
            await asyncio.Event().wait()
        return answer


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path / "butler.db")
    opened.write_now(add_people)
    yield opened
    opened.close()


def keep(database: Database, *texts: str) -> None:
    for text in texts:
        database.write_now(lambda c, t=text: memories.remember(c, MIA.user_id, t, None, Source("mia", "cli")))  # type: ignore[misc]


def held(database: Database) -> list[str]:
    return sorted(one.text for one in database.write_now(lambda c: memories.live(c, MIA.user_id)))


def consolidator(
    database: Database, model: Merging | None, busy: Callable[[], bool] = lambda: False, budget: int = 20
) -> Consolidator:
    return Consolidator(database, model, Redactor(["sesame-open"]), timeout=5, busy=busy, budget=budget)


TALK = ("Has a dog named Rex", "The dog Rex is 4 years old", "The dog Rex eats no chicken")
MERGED = "Has a dog named Rex, 4 years old, eats no chicken"


async def test_related_memories_become_one_and_undo_takes_it_apart(database: Database) -> None:
    keep(database, *TALK, "Works in Kiel")
    model = Merging(MERGED)
    assert await consolidator(database, model).tidy(MIA.user_id) == 3
    assert held(database) == sorted([MERGED, "Works in Kiel"])
    [merged] = [one for one in database.write_now(lambda c: memories.live(c, MIA.user_id)) if one.text == MERGED]
    assert (merged.by, merged.via) == ("butler", "consolidation")
    database.write_now(lambda c: memories.undo(c, MIA.user_id, merged.memory_id))
    assert held(database) == sorted([*TALK, "Works in Kiel"])
    assert await consolidator(database, Merging()).tidy(MIA.user_id) == 0
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "", "KEEP", "keep.", "Has a dog named Rex and a cat named Tom, 4 years old, eats no chicken",
        "Has a dog named Rex, eats no chicken", "Has a dog, 4 years old, eats no chicken",
        "Dog Rex, 4 years old, eats chicken", "Rex, 4, no", "I'm sorry, I cannot merge these notes of Rex, 4.",
        "Has a dog named Rex. The dog Rex is 4 years old. The dog Rex eats no chicken. " * 2,
        "Has a dog named Rex, 5 years old, 4 years old, eats no chicken", CutText(MERGED),
    ],
)  # fmt: skip
async def test_a_bad_merge_changes_nothing_and_is_not_tried_again(database: Database, answer: str) -> None:
    keep(database, *TALK)
    model = Merging(answer, MERGED)
    worker = consolidator(database, model)
    assert await worker.tidy(MIA.user_id) == 0
    assert await worker.tidy(MIA.user_id) == 0
    assert held(database) == sorted(TALK)
    assert len(model.asked) == 1


async def test_a_model_that_fails_is_left_in_peace_for_a_while(database: Database) -> None:
    keep(database, *TALK)
    model = Merging(ModelFailed("gone"), MERGED)
    worker = consolidator(database, model)
    assert await worker.tidy(MIA.user_id) == await worker.tidy(MIA.user_id) == 0
    assert len(model.asked) == 1
    assert held(database) == sorted(TALK)


async def test_whoever_begins_to_talk_goes_first(database: Database) -> None:
    keep(database, *TALK)
    talking = iter([False, False, False, True])
    model = Merging("(silence)")
    assert await consolidator(database, model, busy=lambda: next(talking, True)).tidy(MIA.user_id) == 0
    assert held(database) == sorted(TALK) and len(model.asked) == 1
    assert await consolidator(database, Merging(), busy=lambda: True).tidy(MIA.user_id) == 0


async def test_without_a_model_only_doubles_are_merged(database: Database) -> None:
    keep(database, *TALK, "Likes the green tea", "likes green teas")
    assert await consolidator(database, None).tidy(MIA.user_id) == 1
    assert held(database) == sorted([*TALK, "likes green teas"])
    kept = next(one for one in database.write_now(lambda c: memories.live(c, MIA.user_id)) if "teas" in one.text)
    database.write_now(lambda c: memories.undo(c, MIA.user_id, kept.memory_id))
    assert held(database) == sorted([*TALK, "Likes the green tea", "likes green teas"])


async def test_a_secret_in_an_answer_is_masked(database: Database) -> None:
    keep(database, *TALK)
    await consolidator(database, Merging(f"{MERGED} sesame-open")).tidy(MIA.user_id)
    assert not any("sesame" in text for text in held(database))


async def test_within_the_budget_nobody_is_asked(database: Database) -> None:
    keep(database, *TALK)
    model = Merging()
    assert await consolidator(database, model, budget=1000).tidy(MIA.user_id) == 0
    assert database.write_now(lambda c: memories.crowded(c, 1000)) == []
    assert database.write_now(lambda c: memories.crowded(c, 20)) == [MIA.user_id]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna is the mother of Eva", "Eva is the mother of Anna"), ("likes tea", "likes no tea"),
        ("room 12", "room 13"), ("his dog Rex", "my dog Rex"), ("喜欢茶", "不喜欢茶"),
        ("Writes C++", "Writes C#"), ("freezer at -5", "freezer at 5"), ("pays 10 €", "pays 10 $"),
        ("budget > 500", "budget < 500"), ("likes \U0001f436", "likes \U0001f431"),
    ],
)  # fmt: skip
def test_what_only_looks_alike_is_no_double(one: str, other: str) -> None:
    assert doubles([memory(one, 1), memory(other, 2)]) == []


def test_groups_are_bounded_and_hold_only_what_is_related() -> None:
    many = [memory(f"the boat Nora has part {number}", number) for number in range(30)]
    groups = related([*many, memory("allergic to nuts", 99)])
    assert all(2 <= len(group) <= 8 for group in groups)
    assert not any(part.memory_id == "ID99" for group in groups for part in group)
    assert len({part.memory_id for group in groups for part in group}) == sum(map(len, groups))


def test_each_round_compares_a_bounded_part_and_all_get_their_turn() -> None:
    many = [memory(f"fact {number}", number) for number in range(2 * MOST_IN_A_ROUND + 5)]
    parts = [part_of_round(many, number) for number in range(4)]
    assert max(map(len, parts)) == MOST_IN_A_ROUND
    assert parts[0] == many[-MOST_IN_A_ROUND:] == parts[3]
    assert {one.memory_id for part in parts for one in part} == {one.memory_id for one in many}
    assert part_of_round([], 3) == []


async def test_memories_are_compared_off_the_event_loop(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(database, *TALK)
    seen: list[int] = []

    def watched(given: Sequence[Memory]) -> list[list[Memory]]:
        seen.append(threading.get_ident())
        return []

    monkeypatch.setattr(consolidating, "related", watched)
    monkeypatch.setattr(consolidating, "doubles", watched)
    await consolidator(database, Merging()).tidy(MIA.user_id)
    assert len(seen) == 2 and threading.get_ident() not in seen
    await consolidator(database, None).tidy(MIA.user_id)
    await consolidator(database, Merging(), budget=1000).tidy(MIA.user_id)
    await consolidator(database, Merging(), busy=lambda: True).tidy(MIA.user_id)
    assert len(seen) == 4  # Doubles twice; what is related only where a model may be asked.


async def test_what_goes_wrong_with_one_person_does_not_end_the_round(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, seen = consolidator(database, None), list[str]()

    async def tidy(user_id: str) -> int:
        seen.append(user_id)
        raise ValueError("odd")

    monkeypatch.setattr(memories, "crowded", lambda connection, characters: ["one", "two"])
    monkeypatch.setattr(worker, "tidy", tidy)
    await worker.round()
    assert seen == ["one", "two"]


@pytest.mark.parametrize(
    ("parts", "mixed"),
    [
        (("Anna is the sister of Bob", "Bob owns a red boat"), "Anna owns a red boat"),
        (("The dog Rex is 4 years old", "The cat Tom is 9 years old"), "Rex 9 years old"),
        (("Ann eats fish", "Bob eats no meat at home"), "Ann eats no meat at home"),
        (("Takes 5 mg aspirin daily", "Takes 50 mg zocor daily"), "Takes aspirin daily: 50 mg"),
        (("The gate has the code 1234", "The safe has the code 9876"), "The code of the gate, 9876"),
        (("Ann likes Bob and the sea", "Bob has no boat"), "Bob likes Ann"),
        (("我的狗叫雷克斯,今年4岁", "我的猫叫汤姆,今年9岁"), "我的狗今年9岁"),
    ],
)
def test_each_clause_of_a_merged_memory_is_said_by_one_part(parts: tuple[str, ...], mixed: str) -> None:
    long = "and there is some more to say that takes some room here"
    group = [memory(f"{text}, {long}", number) for number, text in enumerate(parts)]
    good = f"{'. '.join(parts)}, {long}"
    assert what_is_wrong(good, group) is None
    wrong = what_is_wrong(f"{good}. {mixed}", group)
    assert wrong is not None and wrong.startswith("no part alone says: ")


def test_a_list_of_codes_is_a_true_merge_and_a_list_of_other_codes_none() -> None:
    parts = [memory("The gate code is 1234 at home", 1), memory("The safe code is 9876 at home", 2)]
    assert what_is_wrong("Codes at home: gate 1234, safe 9876", parts) is None
    assert what_is_wrong("Codes at home: gate 9876, safe 1234", parts) == "no part alone says: gate 9876"


def test_an_age_does_not_move_to_another_person() -> None:
    parts = [memory("Anna is 40 years old", 1), memory("Bob lives in a house in Kiel", 2)]
    assert what_is_wrong("Anna is 40 years old. Bob lives in house, Kiel", parts) is None
    wrong = what_is_wrong("Bob lives in house, Kiel, 40 years old, Anna", parts)
    assert wrong == "no part alone says: 40 years old"


def test_chinese_and_japanese_memories_are_checked_like_english_ones() -> None:
    parts = [memory("我的狗叫雷克斯,今年4岁", 1), memory("我的狗雷克斯不吃鸡肉", 2)]
    assert what_is_wrong("我的狗叫雷克斯,今年4岁,不吃鸡肉", parts) is None
    assert what_is_wrong("我的狗叫雷克斯,今年5岁,不吃鸡肉", parts)
    assert what_is_wrong("我的狗叫雷克斯,今年4岁,每天转账给李四先生", parts)
    assert "data" in merge_request(parts)[0]["content"]


def test_no_sign_of_money_or_number_may_go_or_come() -> None:
    parts = [memory("Writes code at work in C++", 1), memory("Writes code at work in C#", 2)]
    assert "other signs" in str(what_is_wrong("Writes code at work in C.", parts))
    assert what_is_wrong("Writes code at work in C++ and C#.", parts) is None
    parts = [memory("Pays 10 € for the parking", 1), memory("Pays 20 for the parking", 2)]
    assert "other signs" in str(what_is_wrong("Pays 10 and 20 for the parking", parts))


def test_no_denial_may_go_and_no_sign_of_another_place_may_come() -> None:
    parts = [memory("I do not eat pork", 1), memory("I eat chicken daily", 2), memory("I never drink wine", 3)]
    assert what_is_wrong("I do eat pork, never chicken daily, drink wine", parts) == "a denial is lost"
    parts = [memory("用户住在东京,在银行工作", 1), memory("用户的妹妹住在东京附近的千叶县", 2)]
    assert "大阪" in str(what_is_wrong("用户住在大阪,在银行工作,妹妹住在东京附近的千叶县", parts))
