"""Every way in which a summary may be bad leaves the talk as it was, in a log line and a count (C3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from butler.memory.checks import Fault, repeats_itself
from butler.memory.claims import Deeds
from butler.memory.folding import fold
from butler.memory.notes import SUMMARY_TOKENS, Note, Notes
from butler.memory.refusals import is_apology
from butler.memory.scripts import language_changed
from butler.memory.tokens import count_tokens
from butler.models.failures import TooSlow
from butler.types import Json
from tests.unit.test_compaction import THREAD, compactor

ENGLISH: list[Json] = [
    {"role": "user", "content": "Please send the report to Bob and delete the old backups in /srv/backups."},
    {"role": "assistant", "content": "I will ask for approval of both before anything is done with them."},
    {"role": "user", "content": "Fine. The budget for the new disk is 420 euros, and Ann decides about it on Friday."},
    {"role": "assistant", "content": "Noted. Ann decides on Friday, and 420 euros is the most that we spend."},
]
CHINESE: list[Json] = [
    {"role": "user", "content": "请把报告发给小王,然后删除旧的备份文件,新硬盘的预算是四百二十元。"},
    {"role": "assistant", "content": "好的,这两件事我都会先请您批准,然后再去办理。"},
]
JAPANESE: list[Json] = [
    {"role": "user", "content": "報告書を田中さんに送って、古いバックアップを削除してください。予算は四百二十円です。"},
    {"role": "assistant", "content": "わかりました。どちらも先に承認をお願いしてから進めます。"},
]


def called(name: str, result: str, **more: Any) -> list[Json]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": '{"to": "Bob"}'}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result, **more},
    ]


def notes_answer(*texts: str, **more: Any) -> str:
    return json.dumps({"notes": [{"source": 1, "kind": "fact", "text": text, **more} for text in texts]})


def reason(answer: str, prefix: list[Json] = ENGLISH, told: str = "") -> str | None:
    outcome = fold(answer, prefix, Notes.from_state(None, told))
    return outcome.reason if isinstance(outcome, Fault) else None


@pytest.mark.parametrize("answer", ["", "  \n", "...", '{"notes": []}', "[]"])
def test_an_empty_answer_is_refused(answer: str) -> None:
    assert reason(answer) == "empty"


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't help with that.", "I’m sorry, no.", "**Sorry**, something went wrong.",  # noqa: RUF001
        "I cannot summarise this talk.", "As an AI language model I have no memory.", "Unfortunately, I can't do it.",
        "Error: upstream answered 500", "<html><body>Bad gateway</body></html>", "抱歉,我无法完成这个请求。",
        "对不起,我不能这样做。", "作为一个人工智能,我没有记忆。", "申し訳ありません。", "すみません、できません。",
        "죄송합니다, 도와드릴 수 없습니다.", "Es tut mir leid, das kann ich nicht.", "Je suis désolé, je ne peux pas.",
        "Lo siento, no puedo ayudar.", "Mi dispiace, non posso.", "Desculpe, não posso.", "Извините, я не могу помочь.",
    ],
)  # fmt: skip
def test_an_apology_or_an_error_is_refused_in_any_usual_language(answer: str) -> None:
    assert reason(answer) == "apology"
    assert reason(notes_answer(answer)) in ("apology", "not_in_talk")


@pytest.mark.parametrize(
    "answer",
    [
        "OK", "None", "x", "<|im_end|>", "Sure! How can I help you today?", "Got it. Anything else?", "502 Bad Gateway",
        "HTTP 503", "504 Gateway Time-out", "Request timed out.", "An error occurred while processing your request.",
        "upstream connect error or disconnect/reset before headers", "ValueError: bad input", "Oops! That went wrong.",
        "Failed to generate summary.", "The server is overloaded. Please try again later.", "I must decline.",
        "Apologies for the inconvenience.", "Unable to summarize the conversation.", "I couldn't produce a summary.",
        "Unfortunately, this request cannot be processed.", "We're sorry, something went wrong.", "好的,还有什么?",
    ],
)  # fmt: skip
def test_an_error_or_small_talk_is_no_summary(answer: str) -> None:
    assert reason(answer) in ("apology", "language")


@pytest.mark.parametrize(
    "answer",
    [
        "SUMMARY-ONE: what was said before", "SUMMARY: the user could not decide.", "[SUMMARY-1]", "FOLDED-7781",
        "Okay, Ann decides on Friday.", "The report to Bob failed with an error.", "Error handling is Bob's work.",
        "The older part of the talk.",
    ],
)  # fmt: skip
def test_a_summary_in_a_form_of_its_own_is_taken(answer: str) -> None:
    assert reason(answer) is None


def test_a_note_of_what_a_person_says_may_begin_as_an_error_does() -> None:
    said = "Rate limit of our API is 50 requests per second. I can't eat peanuts. Error codes above 900 are ours."
    talk: list[Json] = [{"role": "user", "content": said}]
    texts = [
        "Rate limit of the API is 50 requests per second.",
        "I can't eat peanuts.",
        "Error codes above 900 are ours.",
    ]
    for text in texts:
        assert reason(notes_answer(text), talk) is None


def test_short_messages_fold_too() -> None:
    talk = [
        message
        for n in range(3)
        for message in ({"role": "user", "content": f"message {n}"}, {"role": "assistant", "content": "ok"})
    ]
    assert reason("SUMMARY: the user gave three short messages and got ok each time.", talk) is None


def test_a_summary_that_only_speaks_of_an_apology_is_none() -> None:
    assert not is_apology("Ann apologised to Bob for the late report.")


def test_what_is_longer_than_its_input_or_over_the_budget_is_refused() -> None:
    long = " ".join(f"Ann told {number * 7919} about {number * 104729}." for number in range(30))
    assert reason(long) == "longer"
    talk = [{"role": "user", "content": long * 50}, {"role": "assistant", "content": "fine"}]
    over = " ".join(f"Ann told {number * 7919} about {number * 104729}." for number in range(190))
    assert reason(over, talk) == "over_budget"
    assert reason("Ann told many about much.", talk) is None


def test_a_free_text_a_little_over_the_budget_is_cut_at_a_sentence_and_folding_goes_on() -> None:
    notes = Notes.from_state(None, "Ann is the host.")
    for number in range(80):
        fact = f"Guest {number} is called Name{chr(97 + number % 26)} and brings {number * 7} plates of food."
        outcome = fold(f"{notes.told} {fact}", [{"role": "user", "content": fact * 2}], notes)
        assert not isinstance(outcome, Fault), (number, outcome)
        notes = outcome.notes
        assert notes.told.endswith(fact) and notes.told.startswith("Ann is the host.")
        assert count_tokens(notes.told) <= SUMMARY_TOKENS


def test_what_repeats_itself_is_refused() -> None:
    talk = [{"role": "user", "content": "the boat lies in the harbour. " * 500}]
    assert reason("I'm a big business! " * 90, talk) == "repeats"
    assert reason("Ann likes the boat. Ann likes the boat. Ann likes the boat. Fine.", talk) == "repeats"
    assert reason("船在港口里停着呢。" * 5, [{"role": "user", "content": "船在港口里停着呢。" * 90}]) == "repeats"
    again = notes_answer(*["The budget for the new disk is 420 euros."] * 6, "Ann decides about it on Friday.")
    assert reason(again) == "repeats"
    varied = " ".join(f"Boat {number} belongs to the person with the number {number * 7919}." for number in range(20))
    assert not repeats_itself(varied)


def test_a_free_text_that_drops_the_summary_so_far_is_refused() -> None:
    old = "Clara lives in Porto, her flat is 78 square metres, the landlord is called Duarte, the rent is 940 euros."
    assert reason("The report goes to Bob; Ann decides about the disk.", told=old) == "dropped_summary"
    kept = "Clara lives in Porto (78 square metres, landlord Duarte, rent 940 euros). Ann decides about the disk."
    assert reason(kept, told=old) is None
    assert reason("Bob gets the report.", told="The harbour is quiet and the wind is fair.") == "dropped_summary"


def test_notes_keep_the_free_text_so_far_word_for_word() -> None:
    outcome = fold(
        notes_answer("The budget for the new disk is 420 euros."), ENGLISH, Notes.from_state(None, "Old talk.")
    )
    assert not isinstance(outcome, Fault)
    assert outcome.notes.render() == "Old talk.\n\nFacts:\n- The budget for the new disk is 420 euros."


@pytest.mark.parametrize(
    ("talk", "answer"),
    [
        (CHINESE, "The user wants the report to be given to Wang and plans for a new disk."),
        (JAPANESE, "The user wants the report to go to Tanaka and plans for a new disk."),
        (ENGLISH, "用户想把报告交给鲍勃,并且为新硬盘准备预算。"),
        (CHINESE, "報告書を王さんに渡したいです。新しいディスクの予算があります。"),
        (JAPANESE, "用户想把报告交给田中,还想清理旧备份,预算四百二十。"),
        (ENGLISH, "Der Bericht soll zu Bob und die alten Backups sollen weg, und das Budget ist 420 Euro für sie."),
    ],
)  # fmt: skip
def test_a_summary_in_another_language_is_refused(talk: list[Json], answer: str) -> None:
    assert reason(answer, talk) == "language"


def test_the_language_of_the_talk_and_of_a_mixed_talk_is_accepted() -> None:
    assert reason("用户想把报告发给小王,想删除旧备份,预算四百二十元。", CHINESE) is None
    assert reason("報告書を田中さんに送り、古いバックアップを削除したい。予算は四百二十円。", JAPANESE) is None
    mixed = [*ENGLISH[:2], *CHINESE]
    assert reason("The user wants the report to go to Bob.", mixed) is None
    assert reason("用户想把报告发给小王,想删除旧备份。", mixed) is None
    assert not language_changed(
        "我们用 Python 写 FastAPI 服务,部署到 Kubernetes", "Python FastAPI service on Kubernetes"
    )
    assert not language_changed("ok", "这是一个很长的总结,说了很多事情。")


FALSE = [
    (ENGLISH, "The report was sent to Bob."), (ENGLISH, "Butler has deleted the old backups in /srv/backups."),
    (ENGLISH, "Bob's report is open. The assistant paid 420 euros for the disk."),
    (ENGLISH, "Sent the report to Bob; Ann decides on Friday."), (ENGLISH, "The backup script was executed on Friday."),
    (CHINESE, "报告已经发送给小王,预算四百二十元。"), (CHINESE, "旧的备份文件已删除。"),
    (CHINESE, "重要的报告已发送给小王。"),
    (JAPANESE, "報告書を田中さんに送信しました。"), (JAPANESE, "古いバックアップは削除されました。"),
]  # fmt: skip


@pytest.mark.parametrize(("talk", "claim"), FALSE)
def test_an_act_that_never_happened_is_not_claimed(talk: list[Json], claim: str) -> None:
    assert reason(claim, talk) == "false_claim"
    refused = [*talk, *called("send_mail", "Not run: a person rejected this action.")]
    assert reason(claim, refused) == "false_claim"
    failed = [*talk, *called("send_mail", "550 mailbox unavailable", failed=True)]
    assert reason(claim, failed) == "false_claim"


@pytest.mark.parametrize(
    ("name", "claim"),
    [("send_mail", "The report was sent to Bob."), ("delete_files", "The old backups in /srv/backups were deleted.")],
)
def test_an_act_with_a_successful_result_may_be_told(name: str, claim: str) -> None:
    assert reason(claim, [*ENGLISH, *called(name, "ok")]) is None
    other = "send_mail" if name == "delete_files" else "delete_files"
    assert reason(claim, [*ENGLISH, *called(other, "ok")]) == "false_claim"


@pytest.mark.parametrize(
    "claim",
    ["The assistant executed clock: 10:15.", "The assistant ran the clock tool and then the weather tool (sunny).",
     "It ran clock on Friday."],
)  # fmt: skip
def test_a_clause_that_names_a_tool_which_succeeded_is_borne_out(claim: str) -> None:
    talk = [*ENGLISH, *called("clock", "10:15"), *called("weather", "21 C, sunny")]
    assert reason(claim, talk) is None
    assert reason(claim) == "false_claim"
    assert reason("The old backups were deleted by the clock.", talk) == "false_claim"


def test_what_a_person_did_needs_no_tool_but_the_words_of_the_talk() -> None:
    talk: list[Json] = [
        {"role": "user", "content": "My sister Clara handed in her notice. I saw Clara and the report."}
    ]
    for told in ("The user's sister sent in her notice.", "Clara sent in her notice."):
        assert Deeds(talk, "").false_claim(told) is None
    for claim in ("The report was sent to Clara.", "Butler sent the report to Clara.", "Clara paid 300 euros to Bob."):
        assert Deeds(talk, "").false_claim(claim) is not None


def test_wishes_plans_denials_and_what_people_say_of_themselves_are_no_false_claims() -> None:
    deeds = Deeds(ENGLISH, "")
    for text in (
        "The user wants the report sent to Bob.", "The backups are to be deleted.", "The report was not sent.",
        "The disk must be paid by Friday.", "用户想把报告发给小王", "旧备份还没有删除", "バックアップを削除したい",
    ):  # fmt: skip
        assert deeds.false_claim(text) is None, text
    told = [{"role": "user", "content": "I paid 300 euros for the bike. Has the mail been sent?"}]
    assert Deeds(told, "").false_claim("The user paid 300 euros for the bike.") is None
    assert Deeds(told, "").false_claim("The mail was sent.") == "The mail was sent"
    assert Deeds(told, "The mail was sent to Ann.").false_claim("The mail was sent to Ann.") is None


def test_a_note_that_claims_what_never_happened_is_left_out_and_the_others_stay() -> None:
    answer = notes_answer("The old backups in /srv/backups were deleted.", "The budget for the new disk is 420 euros.")
    outcome = fold(answer, ENGLISH, Notes())
    assert not isinstance(outcome, Fault)
    assert [note.text for note in outcome.notes.items] == ["The budget for the new disk is 420 euros."]
    assert outcome.left == {"false_claim": 1}
    assert reason(notes_answer("The old backups in /srv/backups were deleted.")) == "false_claim"


def test_json_without_notes_is_neither_notes_nor_a_summary() -> None:
    for answer in ('{"summary": 3}', '{"a": ', "```json\n{}\n```"):
        assert reason(answer) == "unreadable"


async def test_a_refused_fold_is_logged_and_counted_and_the_context_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, _ = compactor(
        "申し訳ありません。", "", TooSlow("The model did not answer within 30 s."), RuntimeError("x")
    )
    history = [*ENGLISH, *ENGLISH, *ENGLISH]
    monkeypatch.setattr("butler.memory.foldparts.BACK_OFF_SECONDS", 0.0)
    with capture_logs() as logs:
        for _ in range(4):
            assert subject.start(THREAD, history, "Old.")
            assert not await subject.settle(THREAD)
            assert subject.take(THREAD, history) is None
    assert subject.counts.refused == {"apology": 1, "empty": 1, "timeout": 1, "error": 1}
    assert [line["reason"] for line in logs] == ["apology", "empty", "timeout", "error"]
    assert all(line["event"] == "compaction_skipped" and line["thread_id"] == THREAD for line in logs)
    assert subject.counts.folded == 0


def test_a_thread_of_an_older_version_has_one_note_of_its_summary() -> None:
    notes = Notes.from_state(None, "Ann has a boat.")
    assert notes.items == (Note(1, "summary", "Ann has a boat."),) and notes.render() == "Ann has a boat."
    assert Notes.from_state(notes.to_json(), "ignored").render() == "Ann has a boat."
    assert SUMMARY_TOKENS == 1000


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("Thirty guests will come to the party.", "30 guests will come to the party."),
        ("Twenty-five guests will come.", "25 guests will come."),
        ("The budget for the trip is 2k euros.", "The budget for the trip is 2000 euros."),
        ("We meet at half past seven at the cafe.", "The user meets at 19:30 at the cafe."),
        ("The launch is on the first of May.", "The launch is on May 1."),
        ("一共三十人参加聚会。", "一共30人参加聚会。"),
        ("预算是三万五千元。", "预算是35000元。"), ("预算是3万元。", "预算是30000元。"),
    ],
)  # fmt: skip
def test_a_number_in_words_may_be_noted_in_digits(said: str, noted: str) -> None:
    assert (
        reason(notes_answer(noted), [{"role": "user", "content": said}, {"role": "assistant", "content": "好 ok"}])
        is None
    )


def test_another_number_than_the_words_say_is_not_found() -> None:
    talk: list[Json] = [{"role": "user", "content": "Thirty guests will come to the party, 一共三十人参加聚会。"}]
    assert reason(notes_answer("40 guests will come to the party."), talk) == "not_in_talk"
    assert reason(notes_answer("一共300人参加聚会。"), talk) == "not_in_talk"
