#!/usr/bin/env python3
# cmake-once
"""Completion of the plumb command in bash: subcommands, the options that --help shows, their values, files and folders,
and commands behind "--"."""
import os
import pathlib
import re
import subprocess
import sys

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


def output_of(*command):
    return subprocess.run([PLUMB, *command], capture_output=True, text=True, check=True).stdout


def options_in_help(subcommand):
    options = set()
    for line in output_of(subcommand, "--help").splitlines():
        match = re.match(r"\s+(-\w)?,?(--[a-z][a-z-]*)?(\s|$)", line)
        if match:
            options |= {word for word in match.groups()[:2] if word}
    return options


def main():
    assert FILE.read_text() == output_of("completion", "bash"), "the installed file is not what the command prints"
    subcommands = set(re.findall(r"^  ([a-z]+) ", output_of("--help").split("Subcommands:")[1], re.M))
    assert {"record", "list", "view", "doctor"} <= subcommands, subcommands
    assert complete("plumb", "") == subcommands | {"--help", "--version"}, complete("plumb", "")
    assert complete("plumb", "rec") == {"record"}
    for subcommand in subcommands:
        wanted, got = options_in_help(subcommand), complete("plumb", subcommand, "-")
        assert wanted == got, f"{subcommand}: --help has {wanted}, completion {got}"
    assert complete("plumb", "record", "--mode", "") == {"discard", "overwrite", "block"}
    assert complete("plumb", "record", "-o", "/us") == {"/usr"}
    assert str(os.getpid()) in complete("plumb", "record", "-p", "")
    assert complete("plumb", "record", "--duration", "") == set()
    assert complete("plumb", "view", "/et") == {"/etc"}
    assert "/etc/passwd" in complete("plumb", "list", "/etc/passw")
    assert "sleep" in complete("plumb", "record", "--mode", "block", "--", "slee")
    assert complete("plumb", "nonsense", "-") == set()
    print(f"{len(subcommands)} subcommands complete as --help says")


if __name__ == "__main__":
    main()
    sys.exit(0)
