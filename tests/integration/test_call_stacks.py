#!/usr/bin/env python3
"""Call stacks in records are what libunwind and gdb say of the same places: of -O2 C++ through three shared libraries, out of a
signal handler on a stack of its own that interrupts anything, and through procedure linkage tables. What can not be walked ends, and
says so. PLUMB_STACK_PLACES=1000 asks gdb for so many (each stops the program)."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402
from stacked_program import compile_stacked, events_of, stacks_by_gdb  # noqa: E402
from traced_program import compile_traced  # noqa: E402

GDB_PLACES = int(os.environ.get("PLUMB_STACK_PLACES", "40"))


def stack_of(event):
    """Without what a tracepoint has between the place and its record."""
    context = event["event_context"]
    frames = list(zip(context["callstack_user"], event["callstack"]))
    while frames and frames[0][1].startswith("plumb_trace_"):
        frames.pop(0)
    return [address for address, _ in frames]


class CallStacksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.program = compile_stacked(cls.folder)

    def record(self, *command, context="callstack", options=()):
        trace = self.folder / self.id().split(".")[-1]
        done = subprocess.run([PLUMB, "record", "-q", "--force", "--context", context, *options, "-o", trace, "--",
                               *map(str, command)], capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return events_of(PLUMB, trace)

    def test_they_are_what_libunwind_says_in_the_same_place(self):
        events = self.record(self.program, 3000, 50, options=("--subbuf-count", "64"))
        compared = in_handlers = ended = 0
        for event in events:
            peer = event["fields"]["peer"]
            if not peer:
                print("libunwind is not installed: nothing was compared")
                return
            is_in_handler = event["fields"]["number"] > 1000000
            # A restartable sequence that a signal interrupts has jumped to where it begins anew: there are no tables of that.
            ends = ("whole", "unknown_code") if is_in_handler else ("whole",)
            end, stack = event["event_context"]["callstack_user_end"]["label"], stack_of(event)
            self.assertIn(end, ends, event)
            # libunwind guesses there, and sometimes goes on.
            self.assertEqual(stack[1:], peer[1:] if end == "whole" else peer[1:len(stack)], event)
            compared += 1
            in_handlers += is_in_handler
            ended += end != "whole"
        self.assertGreaterEqual(compared, 3000)
        self.assertLess(ended, 30 + in_handlers * 0.7)  # most of them while a page of the ring was made
        print(f"{compared} stacks compared, {in_handlers} in handlers, {ended} ended early")

    def test_they_are_what_gdb_says(self):
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        trace = self.folder / "gdb"
        by_gdb = {}
        record = [PLUMB, "record", "-q", "--force", "--context", "callstack", "--exe", self.program, "-o", trace]
        with subprocess.Popen(record, stderr=subprocess.PIPE, text=True) as recorder:
            try:
                by_gdb = stacks_by_gdb(self.folder, [self.program, GDB_PLACES, 20000, 7])
            finally:
                recorder.terminate()
                recorder.wait(60)
        compared = in_handlers = 0
        for event in events_of(PLUMB, trace):
            number = event["fields"]["number"]
            self.assertEqual(stack_of(event)[1:], by_gdb[number], event)
            compared += 1
            in_handlers += number > 1000000
        self.assertGreaterEqual(compared, GDB_PLACES)
        print(f"{compared} stacks compared with gdb's, {in_handlers} in handlers")

    def test_names_are_shown(self):
        events = self.record(self.program, 1, 0)
        names = [name.split("+0x")[0] for name in events[0]["callstack"]]
        self.assertIn("traced_place", names)
        self.assertEqual(names[names.index("main"):][-1], "_start")
        self.assertLess(names.index("inner"), names.index("middle"))
        text = subprocess.run([PLUMB, "view", self.folder / "test_names_are_shown"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, r"callstack_user = \[ .*traced_place\+0x[0-9a-f]+, inner\+0x[0-9a-f]+, .*, _start\+0x[0-9a-f]+ \]")

    def test_they_are_as_deep_as_is_asked_for(self):
        whole = [stack_of(event) for event in self.record(self.program, 50, 0)]
        events = self.record(self.program, 50, 0, context="callstack:3")
        self.assertEqual(len(events), len(whole))
        for event in events:
            self.assertEqual(len(event["event_context"]["callstack_user"]), 3)
            self.assertEqual(event["event_context"]["callstack_user_end"]["label"], "deeper")

    def test_without_frame_pointers_and_without_tables(self):
        """A function whose object says nothing of its frames ends the stack, which says that it is not whole."""
        source = r"""
        #include <plumb/tracepoint.h>
        PLUMB_EVENT(frames, in, (u32, n))
        __attribute__((noinline)) void traced(int n) { plumb_trace(frames, in, n); __asm__ volatile(""); }
        """
        untold = self.folder / "untold.c"
        untold.write_text("void traced(int n); __attribute__((noinline)) void untold(int n) { traced(n); __asm__ volatile(\"\"); }")
        subprocess.run(["cc", "-O2", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer", "-c", untold, "-o",
                        self.folder / "untold.o"], check=True)
        main = source + r"""
        #include <string.h>
        #include <sys/mman.h>
        void untold(int n);
        int main(void) {
            /* sub $8, %rsp; mov $1, %edi; mov $traced, %rax; call *%rax; add $8, %rsp; ret */
            unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xbf, 1, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0,
                                    0x48, 0x83, 0xc4, 8, 0xc3};
            void (*function)(int) = traced;
            memcpy(code + 11, &function, 8);
            unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(made, code, sizeof(code));
            traced(0);
            ((void (*)(void))made)();
            untold(2);
            return 0;
        }
        """
        program = compile_traced(main, self.folder / "frames", "-fomit-frame-pointer", self.folder / "untold.o")
        events = self.record(program)
        ends = [event["event_context"]["callstack_user_end"]["label"] for event in events]
        self.assertEqual(ends, ["whole", "unknown_code", "unknown_code"])
        self.assertEqual(events[1]["callstack"][-1], hex(events[1]["event_context"]["callstack_user"][-1]))
        self.assertIn("untold", events[2]["callstack"][-1])

    def test_made_code_is_walked_by_who_made_it(self):
        """Its frames stand by name: two functions that were made into one, a step that leads nowhere, a handler that has interrupted it."""
        program = compile_traced(r"""
        #include <plumb/made_code.h>
        #include <plumb/tracepoint.h>
        #include <signal.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        PLUMB_EVENT(frames, in, (u32, n))
        __attribute__((noinline)) void traced(int n) { plumb_trace(frames, in, n); __asm__ volatile(""); }
        static int mode;
        static enum plumb_step step(struct plumb_stack_walk *walk) {
            uint64_t back;
            char nowhere;
            if (walk->read(walk, 16, &nowhere, 1)) return PLUMB_STEP_UNKNOWN;
            if (!walk->read(walk, walk->stack + 8, &back, 8)) return PLUMB_STEP_UNREADABLE;
            if (mode == 1) return PLUMB_STEP_THERE;
            walk->put(walk, "made.inlined", 12, 3);
            walk->put(walk, "made.größe", 12, 70000);
            if (mode == 2) return PLUMB_STEP_UNREADABLE;
            walk->instruction = back;
            walk->stack += 16;
            return PLUMB_STEP_THERE;
        }
        static void handle(int number) { traced(number); }
        int main(void) {
            /* sub $8, %rsp; mov $1, %edi; mov $traced, %rax; call *%rax; add $8, %rsp; ret */
            unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xbf, 1, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0,
                                    0x48, 0x83, 0xc4, 8, 0xc3, 0xcc, 0xc3};
            void (*function)(int) = traced;
            memcpy(code + 11, &function, 8);
            unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(made, code, sizeof(code));
            static struct plumb_made_code known;
            known.begin = (uint64_t)made, known.end = known.begin + 4096, known.step = step;
            plumb_walk_made_code(&known);
            for (mode = 0; mode < 3; mode++) ((void (*)(void))made)();
            mode = 0;
            signal(SIGTRAP, handle);
            ((void (*)(void))(made + sizeof(code) - 2))();
            return 0;
        }
        """, self.folder / "made")
        through, nowhere, unreadable, interrupted = self.record(program)

        def seen(event):
            return [frame.split("+0x")[0] for frame in event["callstack"]], event["event_context"]["callstack_user_end"]["label"]

        names, end = seen(through)
        self.assertEqual((names[names.index("traced") + 1:][:3], end), (["made.inlined:3", "made.größe", "main"], "whole"))
        names, end = seen(nowhere)
        self.assertEqual((names[-1][:2], names[-2], end), ("0x", "traced", "unknown_code"))
        names, end = seen(unreadable)
        self.assertEqual((names[names.index("traced") + 1:], end), (["made.inlined:3", "made.größe"], "unreadable"))
        names, end = seen(interrupted)
        self.assertEqual((names[-1][:2], end), ("0x", "unknown_code"))
        self.assertNotIn("made.inlined:3", names)
        depth = len(through["callstack"])
        for wanted in range(1, depth + 1):
            cut = self.record(program, context=f"callstack:{wanted}")[0]
            self.assertEqual((cut["callstack"], cut["event_context"]["callstack_user_end"]["label"]),
                             (through["callstack"][:wanted], "whole" if wanted == depth else "deeper"))

    def test_where_the_text_ends_before_the_tables(self):
        """The C library tells the end of the text for that of an executable with gaps between its segments."""
        source = r"""
        #include <plumb/tracepoint.h>
        PLUMB_EVENT(frames, in, (u32, n))
        __attribute__((noinline)) int deep(int n) {
            if (n == 0) { plumb_trace(frames, in, n); return 0; }
            const int sum = deep(n - 1);
            __asm__ volatile("");
            return sum + 1;
        }
        int main(void) { return deep(5) == 5 ? 0 : 1; }
        """
        for name, options in (("static_pie", ("-static-pie",)), ("static", ("-static", "-Wl,--eh-frame-hdr")),
                              ("large_pages", ("-Wl,-z,max-page-size=0x200000",))):
            with self.subTest(name):
                program = compile_traced(source, self.folder / name, *options)
                (event,) = self.record(program)
                self.assertEqual(event["event_context"]["callstack_user_end"]["label"], "whole", event)
                names = [frame.split("+")[0] for frame in event["callstack"]]
                self.assertEqual(names.count("deep"), 6, names)
                self.assertIn("main", names)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
