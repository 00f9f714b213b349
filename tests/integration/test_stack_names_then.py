#!/usr/bin/env python3
# cmake-once
"""Functions of call stacks, and locks, are named by what was loaded when it happened: in the program before an exec(), in a child
that was forked before its parent loaded something else at the same place; and not by a file that is no longer the one that ran."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from named_stacks import GLUE, HEAD, WithNames  # noqa: E402
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402
from traced_program import BUILD, compile_traced  # noqa: E402

STAND_INS = BUILD / "probes/lttng/lttng"

# A daemon, whose parent has ended when it says first who it is.
DAEMON = HEAD + """
static void be_late(void) { usleep(300000); }
static void ask(void) { pthread_atfork(0, 0, be_late); }
__attribute__((section(".preinit_array"), used)) static void (*before_all)(void) = ask;
__attribute__((noinline)) void hit(const char* place) { plumb_trace(then, hit, place); __asm__ volatile(""); }
int main(void) {
    hit("parent");
    if (fork() != 0) _exit(0);
    hit("daemon");
    return 0;
}
"""
# Each function of one program stands where one of the other does, by another name.
PROGRAM = HEAD + """
__attribute__((noinline)) void %(name)s_inner(void) { plumb_trace(then, hit, "%(name)s"); __asm__ volatile(""); }
__attribute__((noinline)) void %(name)s_outer(void) { %(name)s_inner(); __asm__ volatile(""); }
int main(int count, char** arguments) {
    %(name)s_outer();
    if (count > 1) execv(arguments[1], arguments + 1);
    return count > 1;
}
"""
LIBRARY = """
void %(name)s_function(void (*call)(const char*)) { call("%(name)s"); __asm__ volatile(""); }
"""
# The child goes on in the first library where its parent has the second one.
FORKING = HEAD + """
__attribute__((noinline)) void hit(const char* place) { plumb_trace(then, hit, place); __asm__ volatile(""); }
typedef void function(void (*)(const char*));
int main(int count, char** arguments) {
    int loaded[2];
    char byte = 0;
    if (count < 3 || pipe(loaded)) return 2;
    void* library = dlopen(arguments[1], RTLD_NOW);
    function* first = (function*)dlsym(library, "first_function");
    first(hit);
    sleep(3); /* the recorder finds what it has loaded */
    if (fork() == 0) {
        if (read(loaded[0], &byte, 1) != 1) _exit(1);
        first(hit);
        _exit(0);
    }
    dlclose(library);
    void* other = dlopen(arguments[2], RTLD_NOW);
    function* second = (function*)dlsym(other, "second_function");
    if (second != first) return 3;
    sleep(3); /* this one, too: until then it would bear the name of the first one */
    second(hit);
    if (write(loaded[1], &byte, 1) != 1) return 2;
    wait(0);
    return 0;
}
"""

# One plug-in after the other, at the same place. `+` keeps one, and is loaded first.
LOADING = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int count, char** arguments) {
    for (int round = 0; round < 3; round++)
        for (int i = 1; i < count; i++) {
            const int stays = arguments[i][0] == '+';
            void* library = stays && round != 0 ? 0 : dlopen(arguments[i] + stays, RTLD_NOW | (stays ? RTLD_GLOBAL : 0));
            if (!library && (!stays || round == 0)) return puts(dlerror()) < 0;
            void (*go)(void) = library ? (void (*)(void))dlsym(library, "go") : 0;
            if (go) go();
            if (!stays) dlclose(library);
        }
    return 0;
}
"""
PLUGIN = """
%(head)s
__attribute__((noinline)) void %(name)s_function(void) { %(trace)s; __asm__ volatile(""); }
void go(void) { %(name)s_function(); __asm__ volatile(""); }
"""
LTTNG_HEADER = """
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER then
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./then.h"
#if !defined(THEN_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define THEN_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(then, hit, LTTNG_UST_TP_ARGS(const char*, place), LTTNG_UST_TP_FIELDS(lttng_ust_field_string(place, place)))
#endif
#include <lttng/tracepoint-event.h>
"""


class NamesThen(WithNames):
    def test_of_the_program_before_exec(self):
        for options in (("-no-pie",), ("-pie", "-fPIE")):
            with self.subTest(options=options):
                programs = [compile_traced(PROGRAM % {"name": name}, self.folder / name, *options) for name in ("apple", "bread")]
                self.record(*programs)
                stacks = self.stacks()
                self.assertEqual([place for place, _ in stacks], ["apple", "bread"])
                for place, names in stacks:
                    self.assertEqual(names[names.index(f"{place}_inner"):][:3], [f"{place}_inner", f"{place}_outer", "main"])
                folded = subprocess.run([PLUMB, "flame", "--folded", self.trace], capture_output=True, text=True, check=True).stdout
                self.assertIn("main;apple_outer;apple_inner 1", folded)
                self.assertIn("main;bread_outer;bread_inner 1", folded)

    def libraries(self, *options):
        for name in ("first", "second"):
            (self.folder / f"{name}.c").write_text(LIBRARY % {"name": name})
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", *options, self.folder / f"{name}.c", "-o", self.folder / f"{name}.so"],
                           check=True)
        return self.folder / "first.so", self.folder / "second.so"

    def test_of_a_child_that_was_forked_before_its_parent_loaded_another(self):
        program = compile_traced(FORKING, self.folder / "forking", "-ldl")
        self.record(program, *self.libraries())
        stacks = self.stacks()
        self.assertEqual([place for place, _ in stacks], ["first", "second", "first"])
        for place, names in stacks:
            self.assertEqual(names[names.index("hit"):][:3], ["hit", f"{place}_function", "main"])

    def test_of_a_daemon(self):
        program = compile_traced(DAEMON, self.folder / "daemon")
        self.record("sh", "-c", f"{program}; sleep 1")
        stacks = self.stacks()
        self.assertEqual([place for place, _ in stacks], ["parent", "daemon"])
        for _, names in stacks:
            self.assertEqual(names[names.index("hit"):][:2], ["hit", "main"])

    def test_not_of_a_file_that_was_replaced(self):
        program = compile_traced(PROGRAM % {"name": "apple"}, self.folder / "program", "-Wl,--build-id=none")
        self.record(program)
        self.assertIn("apple_inner", self.stacks()[0][1])
        self.assertEqual(self.errors, "")
        time.sleep(0.05)
        other = compile_traced(PROGRAM % {"name": "bread"}, self.folder / "other", "-Wl,--build-id=none")
        os.replace(other, program)
        names = self.stacks()[0][1]
        self.assertFalse({"apple_inner", "bread_inner", "main"} & set(names), names)
        self.assertIn("program", names)
        self.assertEqual(self.errors.count("gives no names: it has no build id, and "), 1, self.errors)
        self.assertIn(str(program), self.errors)


class OfPlugins(WithNames):
    """That come and go, so that each finds the addresses of the one before."""

    def program(self):
        (self.folder / "loading.c").write_text(LOADING)
        subprocess.run(["cc", "-O1", self.folder / "loading.c", "-o", self.folder / "loading", "-ldl"], check=True)
        return self.folder / "loading"

    def plugins(self, compiled, **source):
        for name in ("first", "second"):
            (self.folder / f"{name}.c").write_text(PLUGIN % {"name": name, **{key: text % {"name": name} for key, text in source.items()}})
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", self.folder / f"{name}.c", *map(str, compiled), "-o", self.folder / f"{name}.so"],
                           check=True)
        return self.folder / "first.so", self.folder / "second.so"

    def check_plugins(self):
        stacks = self.stacks()
        self.assertEqual([place for place, _ in stacks], ["first", "second"] * 3)
        for place, names in stacks:
            self.assertEqual(names[names.index(f"{place}_function"):][:3], [f"{place}_function", "go", "main"])

    def test_in_each_session_that_is_told_of_them(self):
        """The second one has nothing to do with the program until the first of them is loaded."""
        head = "#include <plumb/tracepoint.h>\nPLUMB_EVENT(%s, hit, (string, place))\n"
        (self.folder / "stays.c").write_text(head % "stays" + 'void go(void) { plumb_trace(stays, hit, ""); }')
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", self.folder / "stays.c", *map(str, GLUE), "-o", self.folder / "stays.so"],
                       check=True)
        plugins = self.plugins(GLUE, head=head % "then", trace='plumb_trace(then, hit, "%(name)s")')
        other = self.folder / "other"
        done = subprocess.run([PLUMB, "record", "-q", "--context", "callstack", "-e", "then:*", "-o", other, "--", PLUMB, "record", "-q",
                               "--context", "callstack", "-e", "then:*", "-e", "stays:*", "-o", self.trace, "--", self.program(),
                               f"+{self.folder}/stays.so", *plugins], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.trace, first = other, self.trace
        self.check_plugins()
        self.trace = first
        self.assertEqual(self.stacks().pop(0)[0], "")
        self.stacks, whole = lambda: whole[1:], self.stacks()
        self.check_plugins()

    def test_with_call_sites_of_lttngs_alone(self):
        """Their events are another library's."""
        if subprocess.run(["pkg-config", "--exists", "lttng-ust"], check=False).returncode != 0 or not STAND_INS.exists():
            self.skipTest("LTTng-UST's headers are not installed")
        (self.folder / "then.h").write_text(LTTNG_HEADER)
        (self.folder / "provider.c").write_text("#define LTTNG_UST_TRACEPOINT_CREATE_PROBES\n#include \"then.h\"\n")
        ust = [f"-I{self.folder}", "-llttng-ust", "-ldl"]
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", self.folder / "provider.c", *ust, "-o", self.folder / "provider.so"], check=True)
        plugins = self.plugins(ust, head="#define LTTNG_UST_TRACEPOINT_DEFINE\n#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE\n"
                                         '#include "then.h"', trace='lttng_ust_tracepoint(then, hit, "%(name)s")')
        done = subprocess.run([PLUMB, "record", "-q", "--preload", "lttng", "--context", "callstack", "-e", "then:*", "-o", self.trace, "--",
                               self.program(), f"+{self.folder}/provider.so", *plugins], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_plugins()


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
