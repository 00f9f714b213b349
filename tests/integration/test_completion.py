#!/usr/bin/env python3
# cmake-once
# cmake-of: cli
"""Completion of the plumb command in bash, fish and zsh: subcommands, the options that --help shows, their values, files and
folders, and commands behind "--"."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
FILE = BUILD / "cli/completion/plumb"


def complete(*words):
    """What is offered for the last of these words."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _plumb; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    result = subprocess.run(["bash", "-euc", script, "bash", str(FILE), *words], capture_output=True, text=True,
                            check=False, cwd="/")
    assert result.returncode == 0, f"{words}: {result.stderr}"
    assert result.stderr == "", result.stderr
    return set(result.stdout.split())


def complete_in_fish(text):
    """What fish offers for a command line."""
    with tempfile.TemporaryDirectory() as home:
        script = f"source {BUILD}/cli/completion/plumb.fish; complete -C {text!r}"
        result = subprocess.run(["fish", "--no-config", "-c", script],
                                capture_output=True, text=True, check=True, cwd="/", env={**os.environ, "HOME": home})
    assert result.stderr == "", result.stderr
    return {line.split("\t")[0] for line in result.stdout.splitlines()}


class Zsh:
    """A zsh at a terminal, whose line is read back when it was completed."""

    def __init__(self, home):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir("/")
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "HOME": home, "TERM": "dumb", "PS1": "> "})
        self.say(f"fpath=({BUILD}/cli/completion $fpath); autoload -Uz compinit; compinit -u -D\n")
        self.say("show-line() { print -r -- \"<<$BUFFER>>\"; BUFFER=; }; zle -N show-line; bindkey '^X' show-line; "
                 "setopt no_list_beep no_always_last_prompt; print -r READY-$((1 + 1))\n")
        self.read_to("READY-2")

    def say(self, text):
        os.write(self.terminal, text.encode())

    def read_to(self, pattern):
        text, deadline = "", time.monotonic() + 60
        while not re.search(pattern, text):
            assert time.monotonic() < deadline, f"zsh did not answer: {text!r}"
            if select.select([self.terminal], [], [], 1)[0]:
                text += os.read(self.terminal, 65536).decode(errors="replace")
        return re.search(pattern, text)

    def complete(self, line):
        """What the line has become behind a tabulator."""
        self.say(line + "\t\x18")
        return self.read_to(r"<<(.*?)>>").group(1)

    def end(self):
        self.say("exit\n")
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def check_fish(subcommands):
    assert complete_in_fish("plumb ") >= subcommands, complete_in_fish("plumb ")
    for subcommand in subcommands:
        got = complete_in_fish(f"plumb {subcommand} -")
        missing = options_in_help(subcommand) - got - {"-" + option for option in got}
        assert not missing, f"{subcommand}: fish does not offer {missing}"
    assert complete_in_fish("plumb record --mode ") == {"discard", "overwrite", "block"}
    assert "sleep" in complete_in_fish("plumb record --mode block -- slee")
    assert complete_in_fish("plumb record -- plumb vie") == {"view"}
    assert "/etc/" in complete_in_fish("plumb view /et")
    assert "/etc/passwd" in complete_in_fish("plumb list /etc/passw")


def check_zsh():
    with tempfile.TemporaryDirectory() as home:
        zsh = Zsh(home)
        for line, wanted in {"plumb reco": "plumb record ", "plumb view --monot": "plumb view --monotonic ",
                             "plumb record --mode ov": "plumb record --mode overwrite ",
                             "plumb view /et": "plumb view /etc/", "plumb list /etc/passw": "plumb list /etc/passwd",
                             "plumb completion z": "plumb completion zsh ",
                             "plumb record --mode block -- plumb vie": "plumb record --mode block -- plumb view "}.items():
            got = zsh.complete(line)
            assert got.startswith(wanted), f"{line!r} became {got!r}"
        zsh.end()


def output_of(*command):
    return subprocess.run([PLUMB, *command], capture_output=True, text=True, check=True).stdout


def options_in_help(subcommand):
    options = set()
    for line in output_of(subcommand, "--help").splitlines():
        match = re.match(r"\s+(-\w)?,?(--[a-z][a-z-]*)?(\s|$)", line)
        if match:
            options |= {word for word in match.groups()[:2] if word}
    return options


def check_sessions():
    """Names of sessions are offered where one is asked for; there may be none, and no daemon."""
    assert complete("plumb", "start", "") == set()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("web", "weekly"):
            subprocess.run([PLUMB, "create", name, "-o", f"{folder}/{name}"], check=True, stdout=subprocess.DEVNULL)
        try:
            assert complete("plumb", "start", "we") == {"web", "weekly"}
            assert complete("plumb", "snapshot", "wee") == {"weekly"}
        finally:
            subprocess.run([PLUMB, "destroy", "--all"], check=True, stdout=subprocess.DEVNULL)


def main():
    assert FILE.read_text() == output_of("completion", "bash"), "the installed file is not what the command prints"
    subcommands = set(re.findall(r"^  ([a-z]+) ", output_of("--help").split("Subcommands:")[1], re.M))
    assert {"record", "list", "view", "doctor"} <= subcommands, subcommands
    assert complete("plumb", "") == subcommands | {"--help", "--version"}, complete("plumb", "")
    assert complete("plumb", "rec") == {"record", "receive"}
    for subcommand in subcommands:
        wanted, got = options_in_help(subcommand), complete("plumb", subcommand, "-")
        assert wanted == got, f"{subcommand}: --help has {wanted}, completion {got}"
    assert complete("plumb", "record", "--mode", "") == {"discard", "overwrite", "block"}
    assert complete("plumb", "record", "--log-level", "debug_") >= {"debug_system", "debug_line"}
    assert complete("plumb", "record", "--log-level", "w") == {"warning"}
    assert complete("plumb", "record", "--log-level-only", "w") == {"warning"}
    assert complete("plumb", "enable", "--cgroup", "/sys/fs/cg") == {"/sys/fs/cgroup"}
    assert complete("plumb", "record", "-o", "/us") == {"/usr"}
    assert str(os.getpid()) in complete("plumb", "record", "-p", "")
    assert complete("plumb", "record", "--duration", "") == set()
    assert complete("plumb", "view", "/et") == {"/etc"}
    assert "/etc/passwd" in complete("plumb", "list", "/etc/passw")
    assert "sleep" in complete("plumb", "record", "--mode", "block", "--", "slee")
    assert complete("plumb", "nonsense", "-") == set()
    check_sessions()
    for shell, name in {"zsh": "_plumb", "fish": "plumb.fish"}.items():
        text = (BUILD / "cli/completion" / name).read_text()
        assert text == output_of("completion", shell), f"the installed file for {shell} is not what the command prints"
        if not shutil.which(shell):
            print(f"{shell} is not installed: its completion was not tried")
        elif shell == "fish":
            check_fish(subcommands)
        else:
            check_zsh()
    print(f"{len(subcommands)} subcommands complete as --help says")


if __name__ == "__main__":
    main()
    sys.exit(0)
