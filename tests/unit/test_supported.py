"""What the person said and what they did not, also where only a name or a yes or no differs (C6)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from butler.memory.supported import MOST_READ, denials, never_said


@pytest.mark.parametrize(
    ("text", "said", "missing"),
    [
        ("付款给李四", "请不要付款给张三", "李四"),
        ("用户想付款给李四", "帮我看一下付款给谁", "李四"),
        ("请把钱转给王五公司", "请把钱转给我公司", "王五"),
        ("住所は大阪", "住所は東京", "大阪"),
        ("I don't eat meat", "I eat meat", "I don't eat meat"),
        ("I will pay Bob", "I won't pay Bob", "I will pay Bob"),
        ("Never pay Bob", "please pay Bob after reading", "Never pay Bob"),
        ("Pay Bob", "I said you must not pay Bob", "Pay Bob"),
        ("付款给张三", "请不要付款给张三", "付款给张三"),
        ("Eats meat", "I don\u00b4t eat meat", "Eats meat"),
        ("Eats meat", "I don`t eat meat", "Eats meat"),
        ("Eats meat", "I don\u2018t eat meat", "Eats meat"),
        ("Mange viande", "Je ne mange pas viande", "Mange viande"),
        ("Esse Fleisch", "Ich esse niemals Fleisch", "Esse Fleisch"),
        ("Como carne", "Nunca como carne", "Como carne"),
        ("Eet vlees", "Ik eet geen vlees", "Eet vlees"),
        ("用户不吃花生", "我吃花生", "用户不吃花生"),
        ("東京に行かない", "東京に行く", "東京に行かない"),
    ],
)
def test_another_name_or_a_turned_meaning_was_never_said(text: str, said: str, missing: str) -> None:
    assert any(missing in one for one in never_said(text, [said]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The user never eats nuts", "I never eat nuts"),
        ("The user doesn't eat meat", "I do not eat meat, but I like fish"),
        ("I don't eat meat", "I do not eat meat"),
        ("I do not eat meat", "I don\u2019t eat meat"),
        ("I won't fly and can't swim", "I will not fly, I cannot swim"),
        ("I will not fly", "i wont fly"),
        ("I will not fly", "I won\u00b4t fly"),
        ("I've a dog, I'm tall, they'll come, we're five", "I have a dog, I am tall, they will come, we are five"),
        ("The user likes fish", "I do not eat meat, but I like fish"),
        ("The user's birthday is 5 May", "don't forget my birthday is 5 May"),
        ("用户不吃花生", "我不吃花生"),
        ("用户非常喜欢绿茶", "我非常喜欢绿茶"),
        ("用户住在北京", "我住在北京"),
        ("用户喜欢茶", "我喜欢茶"),
        ("ユーザーは東京に住んでいます", "東京に住んでいる"),
    ],
)
def test_what_was_said_in_other_words_is_not_asked_about(text: str, said: str) -> None:
    assert never_said(text, [said]) == []


def test_the_newest_messages_are_read_and_no_more_than_it_takes() -> None:
    read: list[str] = []

    def messages(*texts: str) -> Iterator[str]:
        for text in texts:
            read.append(text)
            yield text

    assert never_said("Likes green tea", messages("I like tea", "it is green", "x", "y")) == []
    assert read == ["I like tea", "it is green"]
    read.clear()
    assert never_said("Likes tea", messages("z " * MOST_READ, "tea")) == ["tea"]
    assert len(read) == 1


def test_words_that_only_look_like_a_denial_are_none() -> None:
    assert [denials(text) for text in ("非常好", "特别好", "不过如此")] == [0, 0, 0]
    assert [denials(text) for text in ("不好", "not good", "don't")] == [1, 1, 1]


def test_many_clauses_over_much_talk_take_no_long_time() -> None:
    assert never_said("I don't like tea", ["a" * MOST_READ])
    text = ". ".join(f"tea{number} no" for number in range(150))
    talk = [". ".join(f"tea{number} tea{number + 1} yes" for number in range(400))] * 30
    began = time.process_time()
    assert never_said(text, talk)
    assert time.process_time() - began < 2
