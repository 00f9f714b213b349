#!/usr/bin/env python3
# cmake-once
# cmake-of: docs cli tools/make-manual
"""The manual pages: one for each subcommand, with every option that --help has, which groff shows without a complaint."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
MANUAL = BUILD / "cli/manual"
# Within a word of its own: what is longer than a line of a terminal stays so.
HARMLESS = re.compile(r"can't break line|cannot break line|cannot adjust line")


def shown(page):
    """The page as a reader sees it, without marks of type."""
    result = subprocess.run(["groff", "-man", "-t", "-ww", "-Tutf8", "-P-cbou", "-rLL=120n", page], capture_output=True,
                            text=True, check=True)
    complaints = [line for line in result.stderr.splitlines() if not HARMLESS.search(line)]
    assert not complaints, f"{page.name}: {complaints}"
    return result.stdout


def help_of(*command):
    return subprocess.run([BUILD / "cli/plumb", *command, "--help"], capture_output=True, text=True, check=True).stdout


def main():
    if not shutil.which("groff"):
        print("groff is not installed")
        sys.exit(77)
    subcommands = re.findall(r"^  ([a-z]+) ", help_of().split("Subcommands:")[1], re.M)
    assert "record" in subcommands
    main_page = shown(MANUAL / "plumb.1")
    for subcommand in subcommands:
        text = shown(MANUAL / f"plumb-{subcommand}.1")
        assert f"plumb-{subcommand}" in main_page, subcommand
        for option in set(re.findall(r"^\s+(?:-\w,)?(--[a-z][a-z-]+)", help_of(subcommand), re.M)):
            assert re.search(rf"{option}(?![\w-])", text), f"plumb-{subcommand}.1 does not name {option}"
    # What the little of Markdown becomes: nothing of it is left.
    for page in sorted(MANUAL.iterdir()):
        text = shown(page)
        assert re.match(r'\.TH \S+ \d "\d{4}-\d\d-\d\d" ', page.read_text().splitlines()[1]), f"{page.name} has no date"
        assert "](" not in text and "**" not in text.replace("/**", ""), f"{page.name} shows Markdown"
    text = shown(MANUAL / "plumb-view.1")
    assert "plumb view --tid 4242 --since +1.5s --until +1.6s trace" in text
    assert re.search(r"^SELECTING", text, re.M) and re.search(r"^\s+shop:order\s+provider and event", text, re.M)
    print(f"{len(subcommands)} subcommands have a page")


if __name__ == "__main__":
    main()
