"""Programs that start other programs: a rule on `rm` has to look through them (A3)."""

from __future__ import annotations

import re

from butler.approvals.commandline import names

SHELLS = names("sh bash dash zsh ksh mksh pdksh oksh yash ash fish rbash csh tcsh nu pwsh elvish xonsh source .")
TEXT_RUNNERS = SHELLS | names("eval trap su runuser sg watch ssh parallel script flock screen tmux")
"""These run the text of an argument as a command."""
LAUNCHERS = TEXT_RUNNERS | names(
    "env sudo doas pkexec gosu su-exec nohup nice ionice chrt taskset numactl prlimit choom time timeout xargs command "
    "exec builtin busybox toybox setsid stdbuf unbuffer chroot unshare nsenter setpriv runcon systemd-run "
    "systemd-inhibit dbus-run-session start-stop-daemon setarch linux32 linux64 i386 i486 i586 i686 x86_64 uname26 "
    "ld-linux ld-musl strace ltrace perf valgrind fakeroot fakechroot faketime eatmydata torsocks torify proxychains "
    "proxychains4 ssh-agent dumb-init tini catchsegv bwrap firejail docker podman kubectl uv uvx poetry pipx pipenv "
    "hatch npx npm pnpm yarn bunx direnv noglob nocorrect"
)
"""These run their arguments as a command."""
FINDERS = frozenset({"find", "fd"})
ADDERS = frozenset({"xargs", "parallel"})
FEEDERS = FINDERS | ADDERS
"""These fill in words of what they run, or add some."""
OWN_WORDS = {
    **dict.fromkeys(names("timeout chroot flock taskset chrt runcon ssh su sg gosu su-exec setarch faketime"), 1),
    **dict.fromkeys(names("perf screen tmux uv poetry pipx pipenv hatch npm pnpm yarn direnv"), 2),
    **dict.fromkeys(names("docker podman kubectl"), 4),
    # Its options take several words each.
    "bwrap": 40,
}
"""How many words of their own stand before the command, beside options."""
_VERSION = re.compile(r"(?<=[a-z])(?:-?[0-9][-0-9.]*|\.distrib)\Z", re.ASCII)
_LOADER = re.compile(r"ld-(linux|musl)\b.*", re.DOTALL)


def name_of(program: str) -> str:
    """The program's own name, without the folder."""
    return program.rpartition("/")[2]


def kind_of(program: str) -> str:
    """What a program is, whatever version its name says: `bash-5.2` is a `bash`."""
    name = name_of(program)
    if name in LAUNCHERS or name in FINDERS:
        return name
    if loader := _LOADER.fullmatch(name):
        return f"ld-{loader[1]}"
    return _VERSION.sub("", name)
