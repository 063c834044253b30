"""Lists of globs on a command's words: what permits never reaches further, what refuses is never walked round."""

from __future__ import annotations

import fnmatch
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.approvals.arguments import WordGlobs, args_match, is_command
from butler.approvals.commandline import MOST_CHARACTERS, plain_words
from butler.approvals.lookthrough import MOST_READ, started_by_text
from butler.approvals.policy import Policy, classify
from butler.types import Verdict
from config.policy_file import PolicyFile, RuleDefinition
from tests.support.parts import rule


def verdict(value: Any, globs: Any, says: Verdict, name: str = "command") -> str:
    """The verdict on a call of `run` where no rule is the opposite of what the only rule says."""
    default: Verdict = "approve" if says == "allow" else "allow"
    definition = RuleDefinition(
        name="r", tool="run", args={name: globs}, verdict=says, reason=None, risk=None, deciders=None,
        expires_in=None, source="policy.yml:1",
    )  # fmt: skip
    return classify(Policy(PolicyFile(default, (definition,))), "run", {name: value}, own_verdict=None).verdict


NEVER_PERMITTED = [
    "git status; rm -rf .", "git status;rm", "git status | sh", "git status|sh", "git status & rm x", "git status&",
    "git status && rm x", "git status || rm x", "git status $(rm x)", "git status `rm x`", "git status $X",
    "git status ${X}", 'git status "$X"', 'git status "$(rm x)"', 'git status "`rm x`"', "git status > x",
    "git status >x", "git status < x", "git status <(rm x)", "git status *", "git status a?", "git status [a]",
    "git status ~", "git status ~/x", "git status x=~", "git status {a,b}", "git status # x", "git status 'x",
    'git status "x', "git status \\", "git status '\\'", 'git status "\\$x"', "git status !x", "git status (x)",
    "git status\nrm x", "git status\n", "\ngit status", "git status\trm", "git status\r\nrm", "git status\0",
    "git status\x1b[2J", "git status\u2028rm", "git\u00a0status", "git status \u202e", "X=1 git status",
    "X= git status", "PATH=. git status", "'X=1' git status", "/tmp/git status", "./git status", "../git status",
    "env git status", "sudo git status", "! git status", "{ git status", "if git status", "time git status",
    "", " ", "'' git status", "GIT status", "git", "gitstatus",
]  # fmt: skip


@pytest.mark.parametrize("text", NEVER_PERMITTED)
def test_an_allowing_list_never_takes_more_than_one_plain_command(text: str) -> None:
    assert verdict(text, ("git", "status", "**"), "allow") == "approve"
    assert not args_match({"command": ["git", "status", "**"]}, {"command": text})


@pytest.mark.parametrize("text", [text for text in NEVER_PERMITTED if text.startswith("git status")])
def test_a_wildcard_of_an_allowing_text_does_not_reach_over_shell_syntax(text: str) -> None:
    assert verdict(text, "git status*", "allow") == "approve"
    assert not args_match({"cmd": "git status*"}, {"cmd": text})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git status", ("git", "status")),
        ("  git   status ", ("git", "status")),
        ("git 'status' \"-s\"", ("git", "status", "-s")),
        ("git status 'a; b' '$(x)' '*'", ("git", "status", "a; b", "$(x)", "*")),
        ('git status "say \\"hi\\" \\\\ # ~"', ("git", "status", 'say "hi" \\ # ~')),
        ("git status a\\ b \\; c\\'d", ("git", "status", "a b", ";", "c'd")),
        ("git status HEAD~1 HEAD^ a=b x#y --c=d,e é 'Done!' ok!", ("git", "status", "HEAD~1", "HEAD^", "a=b", "x#y",
         "--c=d,e", "é", "Done!", "ok!")),
        ("git status ''", ("git", "status", "")),
    ],
)  # fmt: skip
def test_a_plain_command_is_split_like_a_shell_does(text: str, words: tuple[str, ...]) -> None:
    assert plain_words(text) == words
    assert verdict(text, ("git", "status", "**"), "allow") == "allow"


@pytest.mark.parametrize(
    ("globs", "value", "matches"),
    [
        (("git", "status"), "git status", True),
        (("git", "status"), "git status -s", False),
        (("git", "status"), ["git", "status"], True),
        (("git", "status"), ["git", "status; rm"], False),
        (("git", "log", "**"), "git log", True),
        (("git", "log", "**"), "git log -p --all", True),
        (("git", "log", "**"), "git", False),
        (("git", "log", "-[0-9]"), "git log -5", True),
        (("git", "*"), "git status", True),
        (("git", "*"), "git", False),
        (("*", "--version"), "git --version", True),
        (("*", "--version"), "/tmp/git --version", False),
        (("*", "--version"), ["/tmp/git", "--version"], False),
        (("/usr/bin/*", "-v"), "/usr/bin/git -v", True),
        (("/usr/bin/*", "-v"), "/usr/bin/../../tmp/x -v", False),
        (("/*/git", "-v"), "/../git -v", False),
        (("/usr/bin/git",), "/usr/bin/git", True),
        (("/usr/bin/git",), "git", False),
        (("**",), "anything at all", True),
        (("**",), "anything; else", False),
        (("git", "**"), ["git", 1], False),
        (("git", "**"), {"git": "status"}, False),
        (("git", "**"), None, False),
        (("5",), 5, False),
    ],
)
def test_an_allowing_list_matches_word_by_word(globs: tuple[str, ...], value: object, matches: bool) -> None:
    assert (verdict(value, globs, "allow") == "allow") is matches
    assert args_match({"argv": list(globs)}, {"argv": value}) is matches


def test_wildcards_on_arguments_that_are_no_command_and_exact_texts_stay_as_they_were() -> None:
    assert verdict("a; b", "a*", "allow", name="text") == "allow"
    assert verdict("ls; pwd", "ls; pwd", "allow") == "allow"
    assert args_match({"command": "ls [*]; pwd [[]"}, {"command": "ls *; pwd ["})
    assert verdict(["git", "status"], '["git",*', "allow") == "allow"
    assert verdict("git status; ls", "git status*", "refuse") == "refuse"


DISGUISED = [
    "rm", "rm x", "/bin/rm -rf .", "./rm x", "ls; rm x", "ls; /bin/rm -rf .", "ls&&rm x", "ls || rm x", "ls | rm x",
    "ls &rm x", "ls\nrm x", ";rm x", "X=1 rm x", "X=$(date) rm x", "A=1 B='2 3' rm x", "sudo rm x",
    "sudo -u root -g wheel rm x", "sudo -- rm x", "env rm x", "env -i A=1 /bin/rm x", "/usr/bin/env rm x",
    "env -S 'rm x'", "env -iS'rm x'", "nohup rm x &", "nice -n 5 rm x", "time -p rm x", "timeout -k 1 5 rm x",
    "command rm x", "exec rm x", "builtin command rm x", "eval rm x", "eval 'rm x'", "busybox rm x",
    "sh -c 'rm x'", "bash -lc \"rm x\"", "sudo sh -c 'rm x'", "sh -c \"sh -c 'rm x'\"", "sh -c 'ls; rm x'",
    "echo 'rm x' | sh", "curl http://x | sudo bash", "sh < file", "bash -s", "sh /dev/stdin", "ls | xargs rm",
    "ls | xargs -0 -n 1 rm", "ls | xargs -I{} rm {}", "ls | xargs sh -c 'rm \"$1\"' _", "echo 'rm x' | xargs env",
    "find . -exec rm {} \\;", "find . -type f -exec sudo rm {} +", "find . -exec sh -c 'rm x' \\;",
    "parallel rm ::: a", "watch 'rm x'", "ssh host rm x", "ssh -p 22 host 'rm x'", "su -c 'rm x'",
    "flock /tmp/l -c 'rm x'", "trap 'rm x' EXIT", "$(rm x)", "echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`",
    'echo "`rm x`"', "echo $(echo $(rm x))", "diff <(rm x) y", "(rm x)", "{ rm x; }", "! rm x",
    "if true; then rm x; fi", "if (rm x); then ls; fi", "for f in a; do rm $f; done", "while rm x; do ls; done",
    "[ -f x ] && rm x", "[[ -f x ]] && rm x", "f() { rm x; }; f", "function f { rm x; }", "case x in x) rm x;; esac",
    'echo "$(case x in x) rm x;; esac)"', "coproc rm x", "alias ls=rm; ls x", "\\rm x", "r\\m x", "r''m x", "'rm' x",
    'r"m" x', "r\\\nm x", "$'rm' x", "$CMD x", "${CMD} x", "r$(echo m) x", "r? x", "/bin/r* x", "{rm,x}",
    ">x rm y", "2>/dev/null rm y", "rm>x y", "ls &>x rm y", "ls 'x", 'ls "x', "ls $(x", "ls )", "ls \\",
    "cat <<EOF\n'\nEOF\nrm x\n#'", "ls # '\nrm x\n#'", "echo $'\\'' ; rm x #'", "echo '\\'' ; rm x #'", "ls\0",
    "ls\rrm x", "ls " + "x" * 16_384, "command eval coproc rm x", "time function g { rm x; }; g", "eval ls '&&' rm x",
    "ssh host ls '&&' rm x", "echo 'rm x' | bash -c sh", "env A.B=1 rm x", "env 'X;=a b' rm x", "time { rm x; }",
    "xargs timeout 5", "setarch -R rm x", "setarch x86_64 -R rm x", "linux64 rm x", "prlimit --nofile=9 rm x",
    "choom -n 0 -- rm x", "sg root -c 'rm x'", "ssh-agent rm x", "fakeroot rm x",
    "start-stop-daemon --start --exec /bin/rm", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "dbus-run-session rm x",
    "systemd-inhibit rm x", "numactl -N0 rm x", "gosu root rm x", "dumb-init rm x", "valgrind rm x", "perf stat rm x",
    "bwrap --bind / / rm x", "firejail rm x", "screen -dm rm x", "tmux new -d 'rm x'", "docker run a rm x",
    "docker compose exec web rm x", "kubectl exec pod -- rm x", "uv run rm x", "poetry run rm x", "npx rm",
    "yash -c 'rm x'", "nu -c 'rm x'", "pwsh -c 'rm x'", "bash5 -c 'rm x'", "bash-5.2 -c 'rm x'",
    "/bin/sh.distrib -c 'rm x'",
]  # fmt: skip


@pytest.mark.parametrize("says", ["refuse", "approve"])
@pytest.mark.parametrize("text", DISGUISED)
def test_a_refusing_or_asking_list_finds_the_program_in_any_disguise(text: str, says: Verdict) -> None:
    assert verdict(text, ("rm", "**"), says) == says


@pytest.mark.parametrize(
    "text",
    [
        "ls", "git status", "git rm x", "rmdir x", "echo rm", "echo 'rm x'", "grep -r \"rm x\" .", "ls -l $HOME",
        "git commit -m \"don't; rm x\"", "ls *.txt | wc -l", "sudo apt install rm-tools", "sudo ls rm",
        "time grep rm x", "X=$(date) git status", "X=1", "[ -f x ] && ls", "[[ -f x ]] && ls", "~/bin/tool x",
        "for f in a; do echo \"$f\"; done", "ls > rm", "ls 2>&1", "ls # rm x", "sh script.sh", "bash -e run.sh x",
        "find . -name rm", "ls | xargs -I{} mv {} x", "echo $((1+2))", "echo ${x:-y}", "sudo systemctl restart \"$s\"",
        "env -u X ls", "if [ -f x ]; then ls; else pwd; fi", "python3 -c 'import os'", "",
    ],
)  # fmt: skip
def test_a_refusing_list_leaves_other_commands_alone(text: str) -> None:
    assert verdict(text, ("rm", "**"), "refuse") == "allow"


@pytest.mark.parametrize(
    ("globs", "value", "matches"),
    [
        (("git", "push", "**"), "git push", True),
        (("git", "push", "**"), "git pull", False),
        (("git", "push", "**"), "git >x push", True),
        (("git", "push", "**"), "git 2>x push", True),
        (("git", "push", "**"), "git $X", True),
        (("git", "push"), "git push $X", True),
        (("git", "push"), "git push x", False),
        (("git", "push"), "find . -exec git push \\;", True),
        (("rm", "-rf", "**"), "echo x | xargs rm", True),
        (("rm", "-rf", "**"), "rm -r x", False),
        (("/bin/rm", "**"), "rm x", True),
        (("rm", "**"), ["sh", "-c", "rm x"], True),
        (("rm", "**"), ["sudo", "rm"], True),
        (("rm", "**"), ["echo", "; rm x"], False),
        (("rm", "**"), ["ls", 1], True),
        (("rm", "**"), {"a": 1}, True),
        (("rm", "**"), [], False),
        (("**",), "", True),
        (("X=1", "git"), ["X=1", "git"], True),
    ],
)
def test_a_refusing_list_looks_at_words_and_at_what_only_the_shell_knows(
    globs: tuple[str, ...], value: object, matches: bool
) -> None:
    assert (verdict(value, globs, "refuse") == "refuse") is matches


WORD = st.text("abc-./'\" ;$", min_size=1, max_size=6)
GLOB = st.text("abc*?-./", min_size=1, max_size=4).filter(lambda glob: glob != "**")
PLAIN = st.text("abc-.", min_size=1, max_size=6)
OPERATORS = [
    ";",
    "|",
    "&",
    "&&",
    "||",
    "\n",
    "$(x)",
    "`x`",
    "$X",
    ">x",
    "<x",
    "(x)",
    "\r",
    "\0",
    "*",
    "?",
    "[a]",
    "{a}",
]


@given(st.lists(WORD, max_size=5), st.lists(GLOB, max_size=5), st.booleans())
def test_a_list_value_matches_item_by_item(words: list[str], globs: list[str], opened: bool) -> None:
    if not globs and not opened:
        return
    matched = WordGlobs([*globs, "**"] if opened else globs).permits(words)
    fits = len(words) >= len(globs) if opened else len(words) == len(globs)
    by_item = fits and all(fnmatch.fnmatchcase(word, glob) for word, glob in zip(words, globs, strict=False))
    if globs and words and words[0] != globs[0] and "/" in words[0]:
        # A program by its path is another program; see the tables above.
        assert not matched or by_item
    else:
        assert matched == by_item
    if matched:
        assert WordGlobs([*globs, "**"] if opened else globs).concerns(words)


@given(st.lists(PLAIN, min_size=1, max_size=4), st.sampled_from(OPERATORS), st.data())
def test_no_operator_anywhere_in_a_text_is_permitted(words: list[str], operator: str, data: st.DataObject) -> None:
    text = " ".join(words)
    assert WordGlobs(["**"]).permits(text)
    place = data.draw(st.integers(0, len(text)))
    assert not WordGlobs(["**"]).permits(text[:place] + operator + text[place:])
    assert not args_match({"command": "*"}, {"command": text[:place] + operator + text[place:]})


DISGUISES = [
    "ls; {}", "ls && {}", "true | {}", "ls & {}", "X=1 {}", "A='b c' {}", "sudo {}", "sudo -u root {}", "env {}",
    "env -i Y=2 {}", "nohup {}", "nice -n 3 {}", "time {}", "xargs {}", "command {}", "exec {}", "timeout 5 {}",
    "$({})", "echo `{}`", 'echo "$({})"', "( {} )", "{{ {}; }}", "if {}; then ls; fi", "! {}", ">x {}", "ls\n{}",
]  # fmt: skip


@given(st.lists(st.sampled_from(DISGUISES), max_size=5), st.lists(PLAIN, max_size=3), st.booleans(), st.booleans())
def test_any_disguises_on_top_of_each_other_are_seen_through(
    disguises: list[str], words: list[str], by_path: bool, in_shell: bool
) -> None:
    text = " ".join(["/usr/bin/rm" if by_path else "rm", *words])
    for disguise in disguises:
        if not ("`" in disguise and "`" in text):  # backticks don't nest
            text = disguise.format(text)
    if in_shell:
        text = f"sh -c '{text}'" if "'" not in text else text
    assert WordGlobs(["rm", "**"]).concerns(text), text


@given(st.text("ab cd'\"\\~#!=;$", max_size=12))
def test_whatever_reads_as_plain_is_read_the_same_by_rules_that_refuse(text: str) -> None:
    words = plain_words(text)
    if words is not None:
        assert WordGlobs([word.replace("[", "[[]") for word in words]).concerns(text)


@pytest.mark.parametrize(
    "piece",
    [
        "'' ",
        "$(",
        "`x` ",
        "sudo ",
        "-exec sudo ",
        '"$x"',
        "(",
        "{a",
        "sh -c ",
        "\\",
        "a=",
        "eval ",
        "eval 'a;b' ",
        "-Ia ",
    ],
)
def test_hard_texts_of_any_length_get_an_answer(piece: str) -> None:
    text = "find " + piece * (16_000 // len(piece))
    assert isinstance(WordGlobs(["rm", "**"]).concerns(text), bool)
    assert isinstance(WordGlobs(["find", "**"]).permits(text), bool)
    huge = piece * (200_000 // len(piece))
    assert WordGlobs(["rm", "**"]).concerns(huge)
    assert not WordGlobs(["**"]).permits(huge)


def test_a_rule_of_words_is_covered_only_by_one_that_surely_matches_too() -> None:
    def unreachable(*rules: RuleDefinition) -> dict[str, str]:
        return {found.rule.name: found.by.name for found in Policy(PolicyFile("approve", rules)).unreachable_rules()}

    def named(name: str, says: Verdict, globs: Any) -> RuleDefinition:
        return rule(name, "run", says, command=globs)

    assert unreachable(named("a", "refuse", ("git", "**")), named("b", "allow", ("git", "push"))) == {"b": "a"}
    assert unreachable(named("a", "allow", ("git", "push")), named("b", "allow", ("git", "**"))) == {}
    assert unreachable(named("a", "allow", ("*", "**")), named("b", "allow", ("/bin/x", "**"))) == {}
    assert unreachable(named("a", "allow", "*"), named("b", "allow", "a; b")) == {}
    assert unreachable(named("a", "refuse", "*"), named("b", "allow", ("a", "**"))) == {"b": "a"}
    assert unreachable(named("a", "refuse", ("**",)), named("b", "approve", "x*")) == {"b": "a"}
    assert unreachable(named("a", "refuse", ("rm", "*")), named("b", "approve", ("rm", "**"))) == {}


@pytest.mark.parametrize("name", ["shellCommand", "runCommand", "bash_command", "run-cmd", "Command"])
def test_arguments_that_carry_commands_are_known_by_their_names(name: str) -> None:
    assert is_command(name)
    assert not args_match({name: "git status*"}, {name: "git status; rm -rf ."})


@pytest.mark.parametrize("name", ["text", "recommand", "scripture", "path"])
def test_arguments_with_other_names_are_plain_text(name: str) -> None:
    assert not is_command(name)


def nested(levels: int, width: int, runner: str, before: str) -> str:
    """A runner whose arguments are texts for the same runner, each of which can be read in several ways."""
    if not levels:
        return "ls"
    inner = (f"{before}{levels}{place};{nested(levels - 1, width, runner, before)}" for place in range(width))
    return f"{runner} {' '.join(map(shlex.quote, inner))}"


@pytest.mark.parametrize("before", ["-x=S;", "-S=", "-c=S"])
@pytest.mark.parametrize("runner", ["eval", "watch", "ssh", "sh", "su"])
def test_texts_within_texts_are_read_within_a_bound(runner: str, before: str) -> None:
    lines = [nested(levels, width, runner, before) for levels in range(1, 7) for width in (1, 2, 3, 6)]
    for line in (line for line in lines if len(line) <= MOST_CHARACTERS):
        started = started_by_text(line)
        # Each command that was found stood in a text that was read; over the bound nothing can be told.
        assert started is None or sum(len(" ".join(one.words)) for one in started) <= 2 * MOST_READ
