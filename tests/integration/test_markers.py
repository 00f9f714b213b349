#!/usr/bin/env python3
# cmake-once
"""A marker's strings end where printf would end them: behind a precision nothing is read, and nothing is recorded."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
# The string ends with its page, without a NUL; the next page can not be read.
PROGRAM = """
#include <plumb/marker.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    char* page = (char*)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* text = page + 4092;
    const char* none = 0;
    mprotect(page + 4096, 4096, PROT_NONE);
    memcpy(text, "abcd", 4);
    plumb_mark(part, fixed, "text %.4s", text);
    plumb_mark(part, star, "text %.*s", 3, text);
    plumb_mark(part, both, "a %d%% b %-*.*s c %.2f d %s e %.0s f %5.1lu", 7, 9, 2, text, 1.5, "whole", text, 8ul);
    plumb_mark(part, shorter, "text %.100s", "ab");
    plumb_mark(part, negative, "text %.*s", -1, "all of it");
    plumb_mark(part, nothing, "text %.9s", none);
    return 0;
}
"""
COMPILERS = [("gcc", "c", "gnu11"), ("clang", "c", "gnu17"), ("g++", "c++", "c++20"), ("clang++", "c++", "c++20")]


class Markers(unittest.TestCase):
    def test_precisions(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, folder)
        build = traced_program.BUILD
        for compiler, language, standard in COMPILERS:
            if shutil.which(compiler) is None:
                continue
            for optimisation in ("-O0", "-O2"):
                with self.subTest(compiler=compiler, optimisation=optimisation):
                    trace, program = folder / f"{compiler}{optimisation}", folder / "program"
                    subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", optimisation, "-Wno-format-overflow",
                                    f"-I{traced_program.SOURCE}/include", "-x", language, "-", "-x", "none",
                                    build / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", build / "libtrace/libplumb.a",
                                    "-lpthread", "-o", program], input=PROGRAM, text=True, check=True)
                    done = subprocess.run([PLUMB, "record", "-o", trace, "--", program], capture_output=True, text=True,
                                          timeout=60, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    seen = {event.name: event.fields for event in babeltrace.events(trace) if event.name.startswith("part:")}
                    for name, texts in (("fixed", ["abcd"]), ("star", ["abc"]), ("both", ["ab", "whole", ""]),
                                        ("shorter", ["ab"]), ("negative", ["all of it"]), ("nothing", ["(null)"])):
                        recorded = [value for value in seen[f"part:{name}"].values() if isinstance(value, str)]
                        self.assertEqual(recorded, texts, name)


if __name__ == "__main__":
    unittest.main()
