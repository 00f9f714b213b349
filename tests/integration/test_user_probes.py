#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""Probes in programs (`plumb record -k uprobe:FILE:SYMBOL`): the function that a person means is the one that is probed, by
whatever name it is known, and every call is counted: compared with what the program itself counted."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
TRACEFS = Path("/sys/kernel/tracing")

# Two libraries have functions of the same names, one of them static.
LIBRARY = """
static __attribute__((noinline)) int hidden(int n) { __asm__ volatile(""); return n * 2; }
__attribute__((noinline)) int twin(int n) { __asm__ volatile(""); return n * 3; }
int enter_NAME(int n) { return hidden(n) + twin(n); }
"""
PROGRAM = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
namespace shop {
struct Cart {
    __attribute__((noinline)) int add(int count);
    __attribute__((noinline)) int add(const char* name, int count);
    int total = 0;
};
int Cart::add(int count) { asm volatile(""); return total += count; }
int Cart::add(const char* name, int count) { asm volatile("" : : "r"(name)); return total -= count; }
}
extern "C" {
int enter_a(int);
int enter_b(int);
__attribute__((noinline)) int json_parse(int n) { asm volatile(""); return n + 1; }
__attribute__((noinline)) int json_print(int n) { asm volatile(""); return n + 2; }
__attribute__((noinline))
int a_function_whose_name_is_longer_than_the_sixty_three_letters_that_tracefs_takes_1(int n) { asm volatile(""); return n; }
__attribute__((noinline))
int a_function_whose_name_is_longer_than_the_sixty_three_letters_that_tracefs_takes_2(int n) { asm volatile(""); return n; }
}
int main(int count, char** arguments) {
    const int copies = count > 1 ? atoi(arguments[1]) : 0;
    shop::Cart cart;
    int n = 0;
    char copy[64];
    for (int i = 0; i < 7; i++) n += cart.add(i);
    for (int i = 0; i < 3; i++) n += cart.add("x", i);
    for (int i = 0; i < 5; i++) n += enter_a(i);
    for (int i = 0; i < 4; i++) n += enter_b(i);
    for (int i = 0; i < 11; i++) n += json_parse(i);
    n += json_print(1);
    for (int i = 0; i < 2; i++) n += a_function_whose_name_is_longer_than_the_sixty_three_letters_that_tracefs_takes_1(i);
    n += a_function_whose_name_is_longer_than_the_sixty_three_letters_that_tracefs_takes_2(n);
    for (volatile int i = 0; i < copies; i++) n += *static_cast<char*>(memcpy(copy, arguments[0], (size_t)(i % 8)));
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    const timespec past = {1, 0};
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 6; i++) pthread_cond_timedwait(&condition, &mutex, &past);
    if (count > 2) sleep((unsigned)atoi(arguments[2]));
    return n == 123456;
}
"""


def left_by(recorder, folder):
    """Instances of this recorder, and probes in programs of this test: others may be at work beside it."""
    return ([one.name for one in (TRACEFS / "instances").iterdir() if one.name.startswith(f"plumb_r{recorder}_")],
            [line for line in (TRACEFS / "dynamic_events").read_text().splitlines() if str(folder) in line])


class UserProbesTest(unittest.TestCase):
    """Compiles what is probed once; each test has a trace of its own."""
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-probes-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name in "ab":
            (cls.folder / f"{name}.c").write_text(LIBRARY.replace("NAME", name))
            cls.compile("cc", "-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic", f"{name}.c", "-o", f"lib{name}.so")
        (cls.folder / "app.cc").write_text(PROGRAM)
        cls.compile("c++", "-O2", "-fno-builtin", "app.cc", "-L.", "-la", "-lb", f"-Wl,-rpath,{cls.folder}", "-pthread",
                    "-o", "app")
        shutil.copy(cls.folder / "app", cls.folder / "stripped")
        cls.compile("strip", "stripped")
        cls.app = cls.folder / "app"

    @classmethod
    def compile(cls, *command):
        subprocess.run(command, cwd=cls.folder, check=True)

    def setUp(self):
        self.trace = self.folder / self.id().split(".")[-1]

    def record(self, *patterns, command=None, status=0):
        """What the summary counts, and what was said."""
        shutil.rmtree(self.trace, ignore_errors=True)
        options = [word for pattern in patterns for word in ("-k", pattern)]
        with subprocess.Popen([PLUMB, "record", "-q", "--json", "-o", self.trace, *options, "--", *(command or [self.app])],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as recorder:
            output, said = recorder.communicate(timeout=120)
        self.assertEqual(recorder.returncode, status, said)
        self.assertEqual(left_by(recorder.pid, self.folder), ([], []))
        if status != 0:
            return {}, said
        summary = json.loads(output)
        self.assertEqual((summary["events_lost"], summary["problems"]), (0, []))
        self.notes = summary["notes"]
        return summary["events_by_name"], said

    def lines(self):
        """What babeltrace2 prints of the last trace, without the statedump."""
        done = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=100, check=True)
        self.assertEqual(done.stderr, "")
        return [line for line in done.stdout.splitlines() if "statedump" not in line]


class Functions(UserProbesTest):
    def test_the_same_symbol_of_two_files_is_probed_in_both(self):
        counts, _ = self.record(f"uprobe:{self.folder}/liba.so:twin", f"uprobe:{self.folder}/libb.so:twin",
                                f"uprobe:{self.folder}/liba.so:hidden", f"uprobe:{self.folder}/liba.so:hidden")
        self.assertEqual(counts, {"uprobe_liba.so:twin": 5, "uprobe_libb.so:twin": 4, "uprobe_hidden": 5})
        self.assertEqual(sum("uprobe_liba.so:twin" in line for line in self.lines()), 5)

    def test_functions_of_cxx_go_by_their_own_names(self):
        for pattern in ("shop::Cart::add", "shop::Cart::a*", "_ZN4shop4Cart3add*"):
            counts, _ = self.record(f"uprobe:{self.app}:{pattern}")
            self.assertEqual(counts, {"uprobe_shop::Cart::add(int)": 7, "uprobe_shop::Cart::add(char const*, int)": 3},
                             pattern)
        counts, _ = self.record(f"uprobe:{self.app}:shop::Cart::add(int)", f"uretprobe:{self.folder}/liba.so:twin")
        self.assertEqual(counts, {"uprobe_shop::Cart::add(int)": 7, "uretprobe_twin": 5})

    def test_patterns_and_long_names(self):
        counts, _ = self.record(f"uprobe:{self.app}:json_*", f"uprobe:{self.app}:a_function_whose_name_is_longer*")
        long = "uprobe_a_function_whose_name_is_longer_than_the_sixty_three_letters_that_tracefs_takes_"
        self.assertEqual(counts, {"uprobe_json_parse": 11, "uprobe_json_print": 1, long + "1": 2, long + "2": 1})

    def test_addresses_and_offsets(self):
        text = subprocess.run(["nm", self.app], capture_output=True, text=True, check=True).stdout
        (address,) = [line.split()[0] for line in text.splitlines() if line.endswith(" json_parse")]
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address=0x{address}", self.app],
                                 capture_output=True, text=True, check=True).stdout.splitlines()
        begin = next(number for number, line in enumerate(listing) if "<json_parse>:" in line)
        offset = int(listing[begin + 2].split(":")[0], 16) - int(address, 16)
        counts, _ = self.record(f"uprobe:{self.app}:json_parse+{offset:#x}", f"uprobe:{self.app}:0x{address.lstrip('0')}")
        self.assertEqual(counts, {f"uprobe_json_parse+{offset:#x}": 11, "uprobe_json_parse": 11})
        counts, _ = self.record(f"uprobe:{self.folder}/stripped:0x{address.lstrip('0')}", command=[self.folder / "stripped"])
        self.assertEqual(counts, {f"uprobe_0x{address.lstrip('0')}": 11})

    def test_of_several_versions_the_default_one_is_probed(self):
        library = self.c_library()
        counts, _ = self.record(f"uprobe:{library}:pthread_cond_timedwait")
        self.assertEqual(counts, {"uprobe_pthread_cond_timedwait": 6})
        old = [line.split()[-1] for line in
               subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.splitlines()
               if " pthread_cond_timedwait@GLIBC" in line]
        if old:
            counts, _ = self.record(f"uprobe:{library}:{old[0]}", f"uprobe:{self.app}:json_print")
            self.assertEqual(counts, {"uprobe_json_print": 1})

    def test_of_a_function_with_several_implementations_the_one_that_runs_is_probed(self):
        # Others that are called before main() use it, too: what counts is the difference.
        counted = [self.record(f"uprobe:{self.c_library()}:memcpy", command=[self.app, str(copies)])[0]["uprobe_memcpy"]
                   for copies in (100, 1100)]
        self.assertEqual(counted[1] - counted[0], 1000)

    def test_a_function_that_begins_with_a_vector_instruction_does_what_it_did(self):
        if not re.search(r"\bavx\b", Path("/proc/cpuinfo").read_text()):
            self.skipTest("this processor has no AVX")
        (self.folder / "vector.c").write_text("""
            #include <stdio.h>
            __attribute__((naked, noinline)) void ones(unsigned char* to) {
                __asm__("vpcmpeqb %xmm0,%xmm0,%xmm0\\n vmovdqu %xmm0,(%rdi)\\n ret");
            }
            __attribute__((naked, noinline)) void zeros(unsigned char* to) {
                __asm__("vpxor %xmm0,%xmm0,%xmm0\\n vmovdqu %xmm0,(%rdi)\\n ret");
            }
            int main(void) {
                unsigned char some[17] = {1, 2, 3};
                ones(some);
                printf("%d %d\\n", some[0], some[15]);
                zeros(some);
                printf("%d %d\\n", some[0], some[15]);
                return 0;
            }
            """)
        self.compile("cc", "-O1", "-fcf-protection=none", "vector.c", "-o", "vector")
        printed = self.folder / "printed"
        counts, _ = self.record(f"uprobe:{self.folder}/vector:[oz]*s(to=%di)", f"uretprobe:{self.folder}/vector:ones",
                                command=["sh", "-c", f"exec {self.folder}/vector >{printed}"])
        self.assertEqual(counts, {"uprobe_ones": 1, "uprobe_zeros": 1, "uretprobe_ones": 1})
        self.assertEqual(printed.read_text(), "255 255\n0 0\n")

    def c_library(self):
        words = subprocess.run(["ldd", self.app], capture_output=True, text=True, check=True).stdout.split()
        return os.path.realpath(next(word for word in words if word.startswith("/") and "libc.so" in word))

    def test_what_is_not_there_is_named_with_what_is_like_it(self):
        stripped = self.folder / "stripped"
        for name in ("app#1", "app 1"):
            shutil.copy(self.app, self.folder / name)
            _, said = self.record(f"uprobe:{self.folder / name}:json_parse", status=1)
            self.assertIn('has spaces or "#" in it', said)
        for pattern, words in ((f"{self.app}:shop::Card::add", ["no function shop::Card::add", "It has shop::Cart::add"]),
                               (f"{self.app}:json_pars", ["It has json_parse"]),
                               (f"{self.app}:nothing_*", ["no function nothing_*"]),
                               (f"{self.app}:0x7000000000", ["0x7000000000 is no address"]),
                               (f"{stripped}:json_parse", ["no function json_parse"]),
                               (f"{self.c_library()}:memcpy@NONE_1", ["memcpy of the version NONE_1", "GLIBC_2.14"]),
                               (f"{self.c_library()}:gettimeofd*", ["There is nothing of the file to be probed"]),
                               (f"{self.c_library()}:*", ["more than 1000 are not probed"]),
                               (f"{self.folder}/app.cc:main", ["not an executable or shared object"])):
            _, said = self.record(f"uprobe:{pattern}", status=1)
            for each in words:
                self.assertIn(each, said)
        _, said = self.record(f"uretprobe:{self.folder}/liba.so:twin+0x1", status=1)
        self.assertIn("no function begins at twin+0x1", said)

    def test_what_a_killed_recorder_left_has_the_same_names(self):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--snapshot", "-o", self.trace,
                                     "-k", f"uprobe:{self.app}:shop::Cart::*", "-k", f"uprobe:{self.folder}/liba.so:twin",
                                     "-k", f"uprobe:{self.folder}/libb.so:twin", "--", "sh", "-c",
                                     f"{self.app}; echo done; exec sleep 60"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stdout.close)
        self.addCleanup(subprocess.run, [PLUMB, "extract", "--remove"], capture_output=True, check=False)
        self.assertEqual(recorder.stdout.readline(), "done\n")
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        recorder.kill()
        recorder.wait()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        done = subprocess.run([PLUMB, "extract", "-o", self.folder / "rest"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = json.loads((self.folder / "rest/summary.json").read_text())["events_by_name"]
        self.assertEqual(counts, {"uprobe_shop::Cart::add(int)": 7, "uprobe_shop::Cart::add(char const*, int)": 3,
                                  "uprobe_liba.so:twin": 5, "uprobe_libb.so:twin": 4})
        self.assertEqual(left_by(recorder.pid, self.folder), ([], []))


class Arguments(UserProbesTest):
    """What the probed functions were given, and what they returned, as the program prints it."""
    SOURCE = """
#include <stdio.h>
struct order { int id; const char* name; };
__attribute__((noinline)) int take(const char* name, int count, struct order* order) {
    __asm__ volatile("" : : "r"(name), "r"(order) : "memory");
    return count * 3 + order->id;
}
int main(void) {
    const char* const names[] = {"tea", "x", "a name with spaces"};
    for (int i = -2; i < 10; i++) {
        struct order order = {i * i, names[(i + 3) % 3]};
        const int result = take(names[(i + 2) % 3], i, &order);
        printf("%s|%d|%d|%s|%d\\n", names[(i + 2) % 3], i, order.id, order.name, result);
    }
    return 0;
}
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "taker.c").write_text(cls.SOURCE)
        cls.compile("cc", "-O2", "taker.c", "-o", "taker")
        cls.taker = cls.folder / "taker"
        cls.quiet = ["sh", "-c", f"exec {cls.taker} >/dev/null"]

    def test_are_those_that_the_program_saw(self):
        arguments = "name=+0(%di):string, count=%si:s32, id=+0(%rdx):s32 +0(+8(%dx)):string"
        counts, _ = self.record(f"uprobe:{self.taker}:take({arguments})", f"uretprobe:{self.taker}:take($retval:s32)",
                                command=self.quiet)
        self.assertEqual(counts, {"uprobe_take": 12, "uretprobe_take": 12})
        printed = [line.split("|") for line in subprocess.run([self.taker], capture_output=True, text=True,
                                                              check=True).stdout.splitlines()]
        lines = self.lines()
        calls = [re.search(r'name = "(.*)", count = (-?\d+), id = (\d+), arg4 = "(.*)" \}', line) for line in lines
                 if "uprobe_take" in line and "uretprobe" not in line]
        self.assertEqual([list(call.groups()) for call in calls], [line[:4] for line in printed])
        self.assertEqual([re.search(r"arg1 = (-?\d+) \}", line)[1] for line in lines if "uretprobe_take" in line],
                         [line[4] for line in printed])

    def test_arrays_have_elements_and_what_is_not_in_memory_is_said(self):
        (self.folder / "arrays.c").write_text("""
struct values { unsigned words[4]; short halves[3]; } values = {{1, 2, 0xffffffffu, 4}, {-1, 2, -3}};
__attribute__((noinline)) void take(struct values *values, const char *text) { __asm__ volatile("" : : "r"(values), "r"(text)); }
int main(void) { take(&values, ""); take(&values, (const char *)8); take(&values, "x"); return 0; }
""")
        self.compile("cc", "-O1", "arrays.c", "-o", "arrays")
        arguments = "words=+0(%di):u32[4], halves=+16(%di):s16[3], longs=+0(%di):u64[2], s=+0(%si):string"
        self.record(f"uprobe:{self.folder}/arrays:take({arguments})", command=[self.folder / "arrays"])
        calls = [re.search(r"words = (.*), halves = (.*), longs = (.*), s = (.*) \}", line).groups()
                 for line in self.lines() if "uprobe_take" in line]
        values = [re.sub(r"\[\d+\] = ", "", text) for text in calls[0][:3]]
        self.assertEqual([[int(number, 0) for number in re.findall(r"-?\w+", text)] for text in values],
                         [[1, 2, 0xffffffff, 4], [-1, 2, -3], [0x200000001, 0x4ffffffff]])
        self.assertEqual([call[3] for call in calls], ['""', '"(fault)"', '"x"'])

    def test_calls_with_long_texts_are_told_of(self):
        (self.folder / "long.c").write_text("""
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void take(const char *a, const char *b) { __asm__ volatile("" : : "r"(a), "r"(b)); }
int main(int count, char **lengths) {
    static char a[5000], b[5000];
    for (int i = 1; i + 1 < count; i += 2) {
        const int of_a = atoi(lengths[i]), of_b = atoi(lengths[i + 1]);
        a[of_a] = b[of_b] = 0;
        take(memset(a, 'a', of_a), memset(b, 'b', of_b));
    }
    return 0;
}
""")
        self.compile("cc", "-O1", "long.c", "-o", "long")
        # Above 4,096 bytes of all arguments together, the kernel would warn in its log.
        pairs = [(100, 0), (3500, 0), (4000, 0), (4070, 0), (4080, 0), (2000, 2000), (2000, 2070), (1, 4070)]
        arguments = "a=+0(%di):string, b=+0(%si):string"
        counts, said = self.record(f"uprobe:{self.folder}/long:take({arguments})",
                                   command=[self.folder / "long", *(str(each) for pair in pairs for each in pair)])
        self.assertEqual((counts, said), ({"uprobe_take": 4}, ""))
        self.assertEqual(self.notes, {"calls of probes with texts were not recorded: of other processes, or with more than 4,000 "
                                      "characters": 4})
        found = [re.search(r'a = "(a*)", b = "(b*)" \}', line).groups() for line in self.lines() if "uprobe_take" in line]
        self.assertEqual([(len(a), len(b)) for a, b in found], [pair for pair in pairs if sum(pair) <= 4000])
        self.record(f"uprobe:{self.folder}/long:take({arguments})", command=[self.folder / "long", "4000", "0", "5", "5"])
        self.assertEqual(self.notes, {})

    def test_texts_are_refused_where_a_warning_of_the_kernel_ends_the_machine(self):
        on = self.folder / "on"
        on.write_text("1\n")
        place = f"uprobe:{self.taker}:take"
        for arguments, status in (("name=+0(%di):string", 1), ("count=%si", 0)):
            done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount --bind {on} /proc/sys/kernel/panic_on_warn && exec \"$@\"", "sh",
                                   PLUMB, "record", "-q", "--force", "-o", self.trace, "-k", f"{place}({arguments})", "--", "true"],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual("set to end at a warning" in done.stderr, status == 1, done.stderr)

    def test_filters_know_them(self):
        place = f"uprobe:{self.taker}:take(count=%si:s32)"
        counts, _ = self.record(f"{place} if count >= 5", command=self.quiet)
        self.assertEqual(counts, {"uprobe_take": 5})
        counts, _ = self.record(f"{place} if count >= 5", f"{place} if count < 0", command=self.quiet)
        self.assertEqual(counts, {"uprobe_take": 7})
        counts, _ = self.record(f"{place} if count >= 5", place, command=self.quiet)
        self.assertEqual(counts, {"uprobe_take": 12})
        counts, _ = self.record(place, f"{place} if count >= 5", command=self.quiet)
        self.assertEqual(counts, {"uprobe_take": 12})

    def test_what_is_wrong_with_them_is_pointed_at(self):
        for arguments, words in (("n=%di:nonsense", ["Unknown type", "n=%di:nonsense\n        ^"]),
                                 ("m=%di, n=%nothing", ["Invalid register name", "n=%nothing\n    ^"]),
                                 ("n=%di, n=%si", ["two arguments are called n"]),
                                 ("n=", ["n has no value"]), ("9=%di", ['"9" is no name']),
                                 ("%di,,%si", ["missing beside a comma"]),
                                 ("s=+0(%di):string[2]", ["s is an array of texts", "an argument of its own"])):
            status = 1 if arguments.startswith(("n=%di:", "m=")) else 2
            _, said = self.record(f"uprobe:{self.taker}:take({arguments})", command=["true"], status=status)
            for each in words:
                self.assertIn(each, said)

    def test_uretprobes_do_not_end_programs_that_walk_their_stack(self):
        (self.folder / "thrower.cc").write_text("""
            extern "C" __attribute__((noinline)) int thrower(int n) { if (n % 2) throw n; return n; }
            int main() {
                int n = 0;
                for (int i = 0; i < 10; i++) try { n += thrower(i); } catch (int) { n++; }
                return n != 25;
            }
            """)
        self.compile("c++", "-O2", "thrower.cc", "-o", "thrower")
        _, said = self.record(f"uretprobe:{self.folder}/thrower:thrower", command=["true"], status=1)
        self.assertIn("C++", said)
        self.assertIn("uretprobe!:", said)
        counts, _ = self.record(f"uretprobe!:{self.app}:json_parse", f"uprobe:{self.folder}/thrower:thrower",
                                command=["sh", "-c", f"{self.app} && {self.folder}/thrower"])
        self.assertEqual(counts, {"uretprobe_json_parse": 11, "uprobe_thrower": 10})

    def test_uretprobes_do_not_end_programs_that_switch_stacks(self):
        (self.folder / "turns.c").write_text("""
            #include <ucontext.h>
            static ucontext_t one, other;
            static char stack[65536];
            __attribute__((noinline)) int turn(int n) {
                if (n == 1) swapcontext(&other, &one);
                __asm__ volatile("" : "+r"(n) : : "memory");
                return n;
            }
            static void others(void) { turn(1); }
            int main() {
                getcontext(&other);
                other.uc_stack.ss_sp = stack;
                other.uc_stack.ss_size = sizeof(stack);
                other.uc_link = &one;
                makecontext(&other, others, 0);
                swapcontext(&one, &other);
                turn(2);
                swapcontext(&one, &other);
                return 0;
            }
            """)
        self.compile("cc", "-O2", "turns.c", "-o", "turns")
        self.compile("cc", "-O2", "-static", "turns.c", "-o", "static_turns")
        for name in ("turns", "static_turns"):
            file = self.folder / name
            _, said = self.record(f"uretprobe:{file}:turn", command=[file], status=1)
            self.assertIn("context", said)
            self.assertIn("uretprobe!:", said)
            counts, said = self.record(f"uprobe:{file}:turn", command=[file])
            self.assertEqual((counts, said), ({"uprobe_turn": 2}, ""))

    def test_that_a_uretprobe_may_have_ended_the_program_is_said(self):
        (self.folder / "above.c").write_text("""
            #include <pthread.h>
            #include <signal.h>
            #include <sys/mman.h>
            __attribute__((noinline)) int deep(int n) {
                if (n == 1) raise(SIGUSR1);
                __asm__ volatile("" : "+r"(n) : : "memory");
                return n;
            }
            static void handler(int signal) { deep(signal + 100); }
            static void* thread(void* stack) {
                const stack_t its = {.ss_sp = stack, .ss_size = 1 << 18};
                sigaltstack(&its, 0);
                deep(1);
                return 0;
            }
            int main() {
                void* stack = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
                pthread_t its;
                sigaction(SIGUSR1, &action, 0);
                pthread_create(&its, 0, thread, stack);
                return pthread_join(its, 0);
            }
            """)
        self.compile("cc", "-O2", "-pthread", "above.c", "-o", "above")
        above = self.folder / "above"
        command = ["sh", "-c", f"{above}; exit $?"]
        _, said = self.record(f"uretprobe:{above}:deep", command=command, status=128 + signal.SIGILL)
        self.assertIn("A uretprobe does that", said)


class Filters(UserProbesTest):
    def setUp(self):
        super().setUp()
        self.touch = ["sh", "-c", f"for n in 1 2 3; do : > {self.folder}/file$n; done; : < {self.folder}/file1"]

    def test_hold_for_those_events_that_have_their_fields(self):
        counts, said = self.record("syscalls:openat if flags & 0x40", command=self.touch)
        self.assertEqual(counts["syscall_entry_openat"], 3)
        self.assertGreater(counts["syscall_exit_openat"], 3)
        self.assertIn("recorded without the filter", said)
        self.assertIn("syscalls:sys_exit_openat.", said)

    def test_any_of_several_patterns_is_enough(self):
        counts, said = self.record("syscalls:sys_enter_openat if flags & 0x40", "syscalls:sys_enter_openat if flags & 0x40",
                                   "syscalls:sys_enter_openat if flags == 0", command=self.touch)
        self.assertEqual((counts, said), ({"syscall_entry_openat": 4}, ""))

    def test_match_no_probe_of_another_recorder(self):
        command = [PLUMB, "record", "-q", "-o", f"{self.trace}-other", "-k", f"uprobe:{self.app}:json_parse", "--",
                   "sh", "-c", f"echo begun; read go; {self.app}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as other:
            self.assertEqual(other.stdout.readline(), "begun\n")
            done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-k", "*:*json_parse*", "--", "true"],
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("has no event *:*json_parse*", done.stderr)
            _, said = other.communicate("go\n", timeout=60)
        self.assertEqual((other.returncode, said), (0, ""))

    def test_what_is_left_out_may_be_one_of_ours(self):
        # Whoever adopts the instance of a killed recorder knows by the filter that nobody asked for the event.
        seen = self.folder / "filter"
        self.record("task:*", "!task:task_rename", command=[
            "sh", "-c", f"cat {TRACEFS}/instances/plumb_r$PPID*/events/task/task_rename/filter >{seen}"])
        self.assertEqual(seen.read_text(), "common_pid >= 0\n")

    def test_that_none_has_the_fields_of_are_errors(self):
        _, said = self.record("syscalls:openat if nonsense == 1", command=["true"], status=1)
        self.assertIn("None of the events that syscalls:openat matches", said)
        self.assertIn("dfd, filename, flags, mode", said)
        _, said = self.record("syscalls:openat if flags &", command=["true"], status=1)
        self.assertIn("does not take the filter of syscalls:sys_enter_openat", said)


def main():
    """Runs the tests of the script that was started, if they can run."""
    if os.geteuid() != 0:
        print("skipped: events of the kernel need root")
        sys.exit(77)
    subprocess.run([PLUMB, "list", "--kernel", "-e", "sched:none"], capture_output=True, check=False)  # mounts tracefs
    if not os.access(TRACEFS / "instances", os.W_OK) or not (TRACEFS / "uprobe_events").exists():
        print("skipped: there is no tracefs with uprobes that may be used here")
        sys.exit(77)
    unittest.main()


if __name__ == "__main__":
    main()
