#!/usr/bin/env python3
# cmake-once
"""Stacks through objects that come to the place of others, or come again; and in children that begin as somebody's first process, or with
several recordings: each frame is walked, and named, by what is there."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from named_stacks import GLUE, HEAD, WithNames  # noqa: E402
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402
from traced_program import compile_traced  # noqa: E402

# o PATH: opens, g: calls, c: closes
HOST = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    char command, path[1000];
    void* library = 0;
    while (scanf(" %c", &command) == 1) {
        if (command == 'o' && (scanf("%999s", path) != 1 || !(library = dlopen(path, RTLD_NOW)))) return puts(dlerror()) < 0;
        if (command == 'g') ((void (*)(void))dlsym(library, "go"))();
        if (command == 'c') dlclose(library);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
PLUGIN = """
#include <plumb/tracepoint.h>
PLUMB_EVENT(then, hit, (string, place))
__attribute__((noinline)) void inner(volatile char* room) { (void)room; plumb_trace(then, hit, NAME); __asm__ volatile(""); }
__attribute__((noinline)) void outer(void) { volatile char room[SIZE]; room[0] = 0; inner(room); __asm__ volatile(""); }
void go(void) { outer(); __asm__ volatile(""); }
"""
IN_NAMESPACE = HEAD.replace("<dlfcn.h>", "<sched.h>") + """
__attribute__((noinline)) void inner(const char* place) { plumb_trace(then, hit, place); __asm__ volatile(""); }
int main(void) {
    inner("parent");
    if (unshare(CLONE_NEWPID)) return 77;
    if (fork() == 0) {
        inner("child");
        if (fork() == 0) {
            inner("grandchild");
            _exit(0);
        }
        wait(0);
        _exit(0);
    }
    wait(0);
    return 0;
}
"""
# push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret
MADE = HEAD + """
#include <plumb/made_code.h>
#include <string.h>
#include <sys/mman.h>
static const char* who;
__attribute__((noinline)) void called(void) { plumb_trace(then, hit, who); __asm__ volatile(""); }
static enum plumb_step step(struct plumb_stack_walk* walk) {
    uint64_t words[2];
    if (!walk->read(walk, walk->frame, words, sizeof(words))) return PLUMB_STEP_UNREADABLE;
    walk->put(walk, "made_function", 13, 0);
    walk->stack = walk->frame + 16;
    walk->frame = words[0];
    walk->instruction = words[1];
    return PLUMB_STEP_THERE;
}
static struct plumb_made_code code = {.step = step};
int main(void) {
    static const unsigned char bytes[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void* const at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, bytes, sizeof(bytes));
    code.begin = (uint64_t)at;
    code.end = code.begin + 4096;
    plumb_walk_made_code(&code);
    void (*const made)(void (*)(void)) = (void (*)(void (*)(void)))at;
    if (fork() == 0) {
        who = "child";
        made(called);
        _exit(0);
    }
    wait(0); /* whose own telling would name the child's, too */
    return 0;
}
"""


class NamesAgain(WithNames):
    def plugin(self, name, size=1024):
        (self.folder / "plugin.c").write_text(PLUGIN)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-DSIZE={size}", f'-DNAME="{name}"', self.folder / "plugin.c", *map(str, GLUE), "-o",
                        self.folder / f"{name}.so"], check=True)
        return self.folder / f"{name}.so"

    def host(self):
        (self.folder / "host.c").write_text(HOST)
        subprocess.run(["cc", "-O1", self.folder / "host.c", "-o", self.folder / "host", "-ldl"], check=True)
        return self.folder / "host"

    def check(self, *places):
        stacks = self.stacks()
        self.assertEqual([place for place, _ in stacks], list(places))
        for _, names in stacks:
            self.assertEqual(names[names.index("inner"):][:4], ["inner", "outer", "go", "main"])

    def test_two_plugins_that_differ_in_the_size_of_a_frame(self):
        """All their headers are the same, and the loader gives the second one all that the first one had."""
        one, two = self.plugin("one"), self.plugin("two", 2048)
        done = subprocess.run([PLUMB, "record", "-q", "--context", "callstack", "-o", self.trace, "--", self.host()], check=True, text=True,
                              input=f"o {one} g g c o {two} g g c o {one} g c", capture_output=True, timeout=60)
        self.assertEqual(done.stdout.count("done"), 11)
        self.check("one", "one", "two", "two", "one")

    def test_a_plugin_that_comes_again_for_another_recording(self):
        one, stays = self.plugin("one"), self.plugin("stays")
        host = subprocess.Popen([self.host()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(host.stdout.close)

        def command(text):
            host.stdin.write(text + "\n")
            host.stdin.flush()
            self.assertEqual(host.stdout.readline(), "done\n")

        def channels():
            return set(re.findall("/channel-.*", pathlib.Path(f"/proc/{host.pid}/maps").read_text()))

        def begin(trace):
            before = channels()
            recorder = subprocess.Popen([PLUMB, "record", "-q", "--context", "callstack", "-p", str(host.pid), "-o", trace])
            while not (channels() - before and (trace / "ust").exists()):
                self.assertIsNone(recorder.poll())
            time.sleep(0.5)  # it has heard that the program has followed
            return recorder

        command(f"o {stays}")  # with it the program has the runtime for good
        recorder = begin(self.folder / "before")
        for text in (f"o {one}", "g", "c"):
            command(text)
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(timeout=60), 0)
        recorder = begin(self.trace)
        for text in (f"o {one}", "g"):
            command(text)
        host.stdin.close()  # before the recorder looks for itself
        self.assertEqual((host.wait(timeout=60), recorder.wait(timeout=60)), (0, 0))
        self.check("one")

    def test_of_the_first_process_of_a_namespace(self):
        if os.geteuid() != 0:
            self.skipTest("a namespace needs root")
        program = compile_traced(IN_NAMESPACE, self.folder / "namespace")
        self.record(program)
        stacks = self.stacks()
        self.assertEqual(sorted(place for place, _ in stacks), ["child", "grandchild", "parent"])
        for place, names in stacks:
            self.assertEqual(names[names.index("inner") if "inner" in names else 0:][:2], ["inner", "main"], (place, names))

    def test_made_code_of_a_child_in_two_recordings(self):
        """Which has all its recordings from its parent, at once."""
        program = compile_traced(MADE, self.folder / "made")
        other = self.folder / "other"
        subprocess.run([PLUMB, "record", "-q", "--context", "callstack", "-e", "then:*", "-o", other, "--", PLUMB, "record", "-q", "--context",
                        "callstack", "-e", "then:*", "-o", self.trace, "--", program], check=True, timeout=60)
        for self.trace in (other, self.trace):
            with self.subTest(self.trace.name):
                stacks = self.stacks()
                self.assertEqual([place for place, _ in stacks], ["child"])
                for place, names in stacks:
                    self.assertEqual([name.split(":")[0] for name in names[names.index("called"):][:3]],
                                     ["called", "made_function", "main"], (place, names))


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
