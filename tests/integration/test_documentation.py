#!/usr/bin/env python3
# cmake-once
# cmake-of: docs README.md examples
"""The code in README.md and docs/ is code: every C and C++ block compiles, with gcc and clang, without warnings; a
block with a main() also links and runs. Links between the pages lead somewhere. Options that the pages name exist."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md")),
         *sorted((SOURCE / "examples").glob("*/README.md"))]
BLOCK = re.compile(r"^```(c|cpp)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
COMPILERS = {"c": [("gcc", "-std=c11"), ("clang", "-std=c11")],
             "cpp": [("g++", "-std=c++17"), ("clang++", "-std=c++20")]}
failures = []


def compile_block(page, number, language, code):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = folder / ("block.c" if language == "c" else "block.cc")
        source.write_text(code)
        for compiler, standard in COMPILERS[language]:
            if not shutil.which(compiler):
                continue
            command = [compiler, standard, "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", source]
            if "main(" in code:
                objects = list((BUILD / "tp-async").rglob("tp-async.dir/tp-async.cc.o"))
                command += [*objects, BUILD / "libtrace/libplumb.a", "-o", folder / "program"]
            else:
                command += ["-c", "-o", folder / "block.o"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                failures.append(f"{page}: block {number} with {compiler}:\n{result.stderr}")
            elif "main(" in code:
                status = subprocess.run([folder / "program"], timeout=60, check=False).returncode
                if status != 0:
                    failures.append(f"{page}: block {number} with {compiler}: exit status {status}")


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(page):
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else page.parent / path
        if not file.exists():
            failures.append(f"{page}: there is no {target}")
        elif anchor and anchor not in anchors(file):
            failures.append(f"{page}: {target}: no such heading")


def check_options(page, subcommand):
    """Every --option of a page about a subcommand is in that subcommand's --help, and the other way round."""
    plumb = BUILD / "cli/plumb"
    text = subprocess.run([plumb, subcommand, "--help"], capture_output=True, text=True, check=True).stdout
    there = set(OPTION.findall(text))
    named = set(OPTION.findall(re.sub(r"<!-- other -->.*?<!-- end -->", "", page.read_text(), flags=re.S)))
    for option in sorted(there - named - {"--help"}):
        failures.append(f"{page}: does not mention {option}")
    for option in sorted(named - there):
        failures.append(f"{page}: plumb {subcommand} has no {option}")


def main():
    count = 0
    for page in PAGES:
        for number, (language, code) in enumerate(BLOCK.findall(page.read_text()), 1):
            compile_block(page.relative_to(SOURCE), number, language, code)
            count += 1
        check_links(page)
    for subcommand in ("record", "stat", "extract", "receive", "boot", "list", "view", "doctor", "create", "enable", "status"):
        page = SOURCE / f"docs/plumb-{subcommand}.md"
        if page.exists():
            check_options(page, subcommand)
        else:
            failures.append(f"docs/plumb-{subcommand}.md is missing")
    print("\n".join(failures))
    print(f"{len(PAGES)} pages, {count} blocks of code, {len(failures)} failures")
    if count < 5 or failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
