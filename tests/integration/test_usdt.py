#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""USDT markers (sys/sdt.h) as events of a recording (`plumb record -k usdt:FILE:PROVIDER:NAME`): with the values that the
program itself printed, by every kind of place that a note can name; and in binaries of the distribution."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from test_user_probes import PLUMB, UserProbesTest, left_by, main

PROGRAM = Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support/marked_shop.c"



class Markers(UserProbesTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.compile("cc", "-O2", PROGRAM, "-o", "shop")
        cls.compile("cc", "-O2", "-no-pie", "-fno-pie", PROGRAM, "-o", "shop_fixed")
        shutil.copy(cls.folder / "shop", cls.folder / "shop_stripped")
        cls.compile("strip", "shop_stripped")

    def printed_and_recorded(self, program, name):
        """For each call, what the program printed of it; and the fields of the event: [(name, value)]."""
        output = self.folder / "output"
        counts, said = self.record(f"usdt:{self.folder}/{program}:shop:{name}",
                                   command=["sh", "-c", f"exec {self.folder}/{program} 5 >{output}"])
        self.assertEqual(counts, {f"shop:{name}": 5})
        printed = [line.split("|")[1:] for line in output.read_text().splitlines() if line.startswith(name + "|")]
        events = [dict(re.findall(r"(arg\d+) = (\".*?\"|[^ ,]+)", line)) for line in self.lines() if f"shop:{name}:" in line]
        return printed, events, said

    def test_arguments_have_the_values_and_types_that_the_program_gave(self):
        for program in ("shop", "shop_fixed"):
            printed, events, said = self.printed_and_recorded(program, "order")
            for (count, _, letter, below, constant), event in zip(printed, events, strict=True):
                self.assertEqual([event[f"arg{i}"] for i in (1, 3, 4, 5)], [count, letter, below, constant])
            self.assertIn("raised in 5 of 5", said)
            printed, events, said = self.printed_and_recorded(program, "memory")
            for values, event in zip(printed, events, strict=True):
                self.assertEqual([float(event[f"arg{i}"]) for i in (1, 2, 3, 4)], [float(value) for value in values])
            self.assertIn("raised in 0 of 5", said)

    def test_every_kind_of_place_is_read_or_left_out(self):
        for program in ("shop", "shop_fixed"):
            printed, events, said = self.printed_and_recorded(program, "hard")
            for values, event in zip(printed, events, strict=True):
                self.assertEqual([event[f"arg{i}"] for i in (*range(1, 11), 13, 14)], values)
                self.assertEqual(set(event), {f"arg{i}" for i in (*range(1, 11), 13, 14, 15)})
            for missing, text in (("arg11", "4@(%rsi,%rax,4)"), ("arg12", "8@%xmm0"), ("arg16", "4@nowhere(%rip)")):
                self.assertIn(f"without {missing}, which is where the kernel can not read it ({text})", said)

    def test_where_no_symbol_says_where_a_variable_is_it_is_left_out(self):
        printed, events, said = self.printed_and_recorded("shop_stripped", "hard")
        for values, event in zip(printed, events, strict=True):
            self.assertEqual([event[f"arg{i}"] for i in range(1, 8)], values[:7])
            self.assertNotIn("arg8", event)
        self.assertIn("arg8, which is where the kernel can not read it (4@table+4(%rip))", said)

    def test_patterns_places_and_filters(self):
        quiet = ["sh", "-c", f"exec {self.folder}/shop 6 >/dev/null"]
        counts, _ = self.record(f"usdt:{self.folder}/shop:shop:*", command=quiet)
        self.assertEqual(counts, {"shop:order": 6, "shop:memory": 6, "shop:hard": 6, "shop:twice": 6})
        places = {re.search(r"__probe_ip = (\w+)", line)[1] for line in self.lines() if "shop:twice" in line}
        self.assertEqual(len(places), 2)
        for pattern in ("*", "shop", "*:o*"):
            counts, _ = self.record(f"usdt:{self.folder}/shop:{pattern}", command=quiet)
            self.assertEqual(counts["shop:order"], 6)
        counts, _ = self.record(f"usdt:{self.folder}/shop:*", "!shop:[mt]*", "!shop:hard", command=quiet)
        self.assertEqual(counts, {"shop:order": 6})
        counts, _ = self.record(f"usdt:{self.folder}/shop:shop:twice if arg1 > 2", command=quiet)
        self.assertEqual(counts, {"shop:twice": 3})
        counts, _ = self.record(f"usdt:{self.folder}/shop:shop:order(name=+0(%si):string)", command=quiet)
        self.assertEqual(re.findall(r'name = "(.*?)"', "".join(self.lines())), ["tea", "x", "a longer name"] * 2)

    def test_a_function_that_begins_with_a_marker_is_probed_beside_it(self):
        marker, function = f"usdt:{self.folder}/shop:shop:order", f"uprobe:{self.folder}/shop:order"
        for patterns in ((marker, function), (function, marker)):
            counts, _ = self.record(*patterns, command=["sh", "-c", f"exec {self.folder}/shop 6 >/dev/null"])
            self.assertEqual(counts, {"shop:order": 6, "uprobe_order": 6})

    def test_a_marker_whose_note_is_wrong_breaks_no_program(self):
        note = """.pushsection .note.stapsdt,"","note"; .balign 4; .4byte 8, 2f-1f, 3; .asciz "stapsdt";
            1: .8byte %s, 0, 0; .asciz "moved"; .asciz "%s"; .asciz ""; .balign 4; 2: .popsection;"""
        text = " ".join((note % ("3f+2", "wrong") + note % ("4f", "right")).split())
        quoted = text.replace('"', '\\"')
        (self.folder / "moved.c").write_text("""
            int main(void) {
                unsigned long number = 0;
                __asm__ volatile("%s 3: movabs $0x1122334455667788, %%0; 4: nop" : "=r"(number));
                return number == 0x1122334455667788 ? 0 : 3;
            }
            """ % quoted)
        self.compile("cc", "-O2", "moved.c", "-o", "moved")
        moved = self.folder / "moved"
        counts, said = self.record(f"usdt:{moved}:*", command=[moved])
        self.assertEqual(counts, {"moved:right": 1})
        self.assertIn("1 of 2 markers stand on no instruction that does nothing", said)
        _, said = self.record(f"usdt:{moved}:moved:wrong", command=[moved], status=1)
        self.assertIn("would break the program", said)

    def test_what_is_not_there_is_named_with_what_is(self):
        for pattern, words in ((f"{self.folder}/shop:shop:ordr", ["no marker shop:ordr", "It has shop:order"]),
                               (f"{self.folder}/shop:bank:*", ["no marker bank:*", "shop:hard"]),
                               (f"{self.folder}/app:*", ["has no USDT markers"]),
                               ("/nowhere/shop:shop:order", ["/nowhere/shop: No such file"])):
            _, said = self.record(f"usdt:{pattern}", command=["true"], status=1)
            for each in words:
                self.assertIn(each, said)
        _, said = self.record(f"usdt:{self.folder}", command=["true"], status=2)
        self.assertIn("usdt:FILE:PROVIDER:NAME", said)

    def test_list_shows_them_with_their_arguments(self):
        text = subprocess.run([PLUMB, "list", "-v", self.folder / "shop"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, r"(?m)^    shop:twice +USDT \(2 places\)$")
        self.assertIn("arg5: u8 1@%ah", text)
        output = subprocess.run([PLUMB, "list", "--json", "-e", "shop:h*", self.folder / "shop"], capture_output=True,
                                text=True, check=True).stdout
        listed = json.loads(output)["files"][0]["markers"]
        self.assertEqual([(marker["marker"], marker["semaphore"], len(marker["arguments"])) for marker in listed],
                         [("shop:hard", False, 16)])
        empty = subprocess.run([PLUMB, "list", self.folder / "app"], capture_output=True, text=True, check=True)
        self.assertIn("has no tracepoints", empty.stderr)

    def test_what_a_killed_recorder_left_has_the_same_names_and_types(self):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--snapshot", "-o", self.trace, "-k",
                                     f"usdt:{self.folder}/shop:*", "--", "sh", "-c",
                                     f"{self.folder}/shop 5 >/dev/null 2>&1; echo done; exec sleep 60"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(recorder.stdout.close)
        self.addCleanup(subprocess.run, [PLUMB, "extract", "--remove"], capture_output=True, check=False)
        self.assertEqual(recorder.stdout.readline(), "done\n")
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        recorder.kill()
        recorder.wait()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        self.trace = self.folder / "rest"
        done = subprocess.run([PLUMB, "extract", "-o", self.trace], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = self.lines()
        self.assertEqual({name: sum(f" {name}: " in line for line in lines) for name in ("shop:order", "shop:twice")},
                         {"shop:order": 5, "shop:twice": 5})
        self.assertEqual([float(re.search(r"arg1 = (\S+),", line)[1]) for line in lines if "shop:memory" in line],
                         [0, 0.25, 0.5, 0.75, 1])
        self.assertEqual(left_by(recorder.pid, self.folder), ([], []))


class OfTheDistribution(UserProbesTest):
    def test_python_says_when_it_imports_and_collects(self):
        python = Path("/usr/bin/python3.11")
        if not python.exists():
            self.skipTest(f"there is no {python}")
        listed = json.loads(subprocess.run([PLUMB, "list", "--json", python], capture_output=True, text=True,
                                           check=True).stdout)["files"][0]["markers"]
        notes = subprocess.run(["readelf", "--notes", python], capture_output=True, text=True, check=True).stdout
        self.assertEqual(len(listed), notes.count("Provider: "))
        code = "import gc\nfor n in range(5): gc.collect(n % 3)\nimport this_is_not_there"
        counts, _ = self.record(f"usdt:{python}:*", command=["sh", "-c", f"{python} -I -S -c '{code}' 2>/dev/null; true"])
        self.assertGreaterEqual(counts["python:gc__start"], 5)
        self.assertEqual(counts["python:gc__start"], counts["python:gc__done"])
        generations = [re.search(r"arg1 = (\d+)", line)[1] for line in self.lines() if "gc__start" in line]
        self.assertIn("0,1,2,0,1", ",".join(generations))
        self.assertGreater(counts["python:import__find__load__start"], 0)
        self.assertGreater(counts["python:audit"], 0)

    def test_exceptions_of_cxx(self):
        (self.folder / "throw.cc").write_text(
            "int main() { int n = 0; for (int i = 0; i < 7; i++) try { throw i; } catch (int) { n++; } return n != 7; }")
        self.compile("c++", "-O2", "throw.cc", "-o", "throw")
        text = subprocess.run(["ldd", self.folder / "throw"], capture_output=True, text=True, check=True).stdout
        library = os.path.realpath(re.search(r"libstdc\+\+\S* => (\S+)", text)[1])
        counts, _ = self.record(f"usdt:{library}:libstdcxx:*", command=[self.folder / "throw"])
        self.assertEqual((counts["libstdcxx:throw"], counts["libstdcxx:catch"]), (7, 7))


if __name__ == "__main__":
    main()
