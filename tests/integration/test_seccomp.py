#!/usr/bin/env python3
# cmake-timeout: 300
"""Programs whose seccomp filter ends them for a system call that tracing makes are left alone, and named."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import guarded_program  # noqa: E402
import traced_program  # noqa: E402
from guarded_program import ALL_CALLS, CALLS, EVENTS, PLUMB, TRAPPED_CALLS  # noqa: E402


class Seccomp(guarded_program.GuardedProgramTest):
    def test_one_that_has_a_filter_is_left_alone_and_named(self):
        program = self.start()
        self.ask(program, self.filter_of(CALLS))
        recorder = self.record(program)
        errors = recorder.communicate(timeout=60)[1]
        self.assertIn("has a seccomp filter", errors)
        self.assertIn("seccomp", self.summary()["unreachable"][0]["reason"])
        self.ask(program, "trace")
        self.end(program)

    def test_one_whose_filter_nobody_heard_of_is_seen_in_time(self):
        """By its own instruction. It is found in /proc, every two seconds or so."""
        for mode in ("discard", "block"):
            with self.subTest(mode=mode):
                self.trace = self.folder / f"while-{mode}"
                program = self.start()
                recorder = self.record(program, "--mode", mode, seconds="6")
                started = time.monotonic()
                while time.monotonic() - started < 1:
                    self.ask(program, "trace")
                    time.sleep(0.02)
                self.ask(program, self.filter_of(CALLS, how="raw"))
                time.sleep(2.5)  # the recorder looks now and then
                self.assertIsNone(recorder.poll())
                for command in ("trace", "thread", "fork", "trace"):
                    self.ask(program, command)
                recorder.communicate(timeout=60)
                self.ask(program, "trace")
                self.assertGreater(self.summary()["events"], 0)
                self.end(program)

    def test_one_whose_filter_was_seen_stays_alone_when_another_is_refused(self):
        """It took back for itself what the recorder had said, and made calls again."""
        program = self.start()
        recorder = self.begin(program)
        self.ask(program, self.filter_of([call for call in CALLS if call != "prctl"], how="raw"))
        time.sleep(2.5)  # the recorder looks now and then
        for command in ("refused", "trace", "thread", "fork"):
            self.ask(program, command)
        self.assertIn("has a seccomp filter", self.finish(recorder))
        self.end(program)

    def test_one_that_is_recorded_is_so_at_once(self):
        """Nothing is lost of threads that were known, what is lost is counted, and none of our calls is made, to its end."""
        for how in ("prctl", "syscall", "tsync"):
            with self.subTest(how=how):
                self.trace = self.folder / how
                program = self.start()
                recorder = self.begin(program)
                self.ask(program, "trace")
                self.ask(program, self.filter_of(CALLS, how=how))
                for command in ("trace", "thread", "fork", "trace"):
                    self.ask(program, command)
                said = self.finish(recorder)
                self.assertIn("it was recorded, and could not be told that the recording has ended: it has a seccomp filter", said)
                self.assertRegex(said, r"held \(.*; --seccomp records them, if the filter allows")
                self.ask(program, "fork")
                self.assertEqual(self.summary()["events"], 3 * EVENTS)
                self.assertEqual(self.summary()["events_lost_by_cause"], {"held": EVENTS})  # of the new thread
                self.end(program)

    def test_one_that_nobody_records_forks_and_ends_as_it_would(self):
        for how, calls in (("prctl", ALL_CALLS), ("syscall", ALL_CALLS), ("tsync", CALLS)):
            with self.subTest(how=how):
                program = self.start()
                self.ask(program, self.filter_of(calls, how=how))
                for command in ("trace", "thread", *(["fork"] if calls is CALLS else [])):
                    self.ask(program, command)
                self.end(program)

    def test_one_in_the_middle_of_tracing_is_let_out_first(self):
        """All threads get the filter at once, wherever they are: waiting for room, taking a ring ..."""
        for mode in ("block", "discard"):
            for times in range(3):
                with self.subTest(mode=mode, times=times):
                    self.trace = self.folder / f"storm-{mode}-{times}"
                    program = self.start()
                    recorder = self.record(program, "--mode", mode, "--block-timeout", "20s", seconds="1.5",
                                           buffers=("--subbuf-size", "4K", "--subbuf-count", "2"))
                    self.ask(program, "storm")
                    time.sleep(1)
                    self.ask(program, self.filter_of(ALL_CALLS, how="tsync"))
                    time.sleep(0.1)
                    recorder.communicate(timeout=60)
                    self.ask(program, "calm")
                    self.end(program)

    def test_a_child_that_filters_itself_changes_nothing_for_its_parent(self):
        program = self.start()
        recorder = self.begin(program)
        self.ask(program, self.filter_of(CALLS, how="child"))
        self.ask(program, "trace")
        self.ask(program, "fork")
        self.assertNotIn("seccomp", self.finish(recorder))
        self.assertEqual(self.summary()["events"], 4 * EVENTS)
        self.end(program)

    def test_one_that_starts_programs_is_recorded_on(self):
        """By vfork(), behind which each thread looks anew who it is; in such a program it may not, and need not."""
        command = self.folder / "starts"
        traced_program.compile_traced(self.STARTS_PROGRAMS, command)
        done = subprocess.run([PLUMB, "record", "--json", "-q", "--subbuf-size", "1M", "-o", self.trace, "--", command],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual((summary["events"], summary["events_lost"]), (2001, 0))

    STARTS_PROGRAMS = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    PLUMB_EVENT(starts, tick, (u32, number))
    #define KILL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
    int main(void) {
        plumb_trace(starts, tick, 0);
        struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            KILL(SYS_gettid), KILL(SYS_getpid), KILL(SYS_prctl), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
        for (int i = 0; i < 1000; i++) plumb_trace(starts, tick, 1);
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char*)0);
            _exit(4);
        }
        int status = 0;
        waitpid(child, &status, 0);
        for (int i = 0; i < 1000; i++) plumb_trace(starts, tick, 2);
        _exit(status != 0);
    }
    """

    def test_filters_that_the_kernel_refuses_change_nothing(self):
        program = self.start()
        self.ask(program, "refused")
        recorder = self.begin(program)
        self.ask(program, "refused")
        for command in ("trace", "thread", "fork"):
            self.ask(program, command)
        self.assertNotIn("seccomp", self.finish(recorder))
        self.assertEqual(self.summary()["events"], 3 * EVENTS)
        self.assertEqual(self.summary()["not_described"], {})
        self.end(program)

    def test_one_whose_filter_only_refuses_can_be_insisted_on(self):
        for how in ("prctl", "raw"):
            with self.subTest(how=how):
                self.trace = self.folder / f"insisted-{how}"
                program = self.start()
                self.ask(program, self.filter_of(["process_vm_readv"], -1, how=how))
                recorder = self.record(program, "--seccomp", seconds="2")
                while recorder.poll() is None:
                    self.ask(program, "trace")
                    time.sleep(0.05)
                errors = recorder.communicate(timeout=60)[1]
                self.assertEqual(recorder.returncode, 0, errors)
                self.assertGreater(self.summary()["events"], 0)
                self.ask(program, "fork")
                self.end(program)

    def test_one_that_may_not_return_from_the_handler_is_said_to_have_ended(self):
        program = self.start()
        self.ask(program, self.filter_of(["rt_sigreturn"], how="raw-all"))
        recorder = self.record(program, "--seccomp", seconds="1")
        errors = recorder.communicate(timeout=60)[1]
        self.assertIn(f"process {program.pid} had a seccomp filter", errors)
        self.assertIn("rt_sigreturn", errors)
        self.assertEqual(program.wait(timeout=20), -signal.SIGSYS)

    def test_who_traces_all_the_time_holds_no_filter_up(self):
        """Without restartable sequences every event asks for leave to make calls, and is refused it at once."""
        took = []
        for number in range(5):
            self.trace = self.folder / f"storm-{number}"
            program = self.start(environment={"PLUMB_RSEQ": "none"})
            recorder = self.begin(program, "--mode", "overwrite")
            self.ask(program, "storm")
            asked = self.filter_of(["process_vm_readv"])
            began = time.monotonic()
            self.ask(program, asked)
            took.append(time.monotonic() - began)
            self.ask(program, "calm")
            self.finish(recorder)
            self.end(program)
        self.assertLess(sorted(took)[2], 0.08, took)

    def test_one_that_answers_its_traps_itself_goes_on_and_is_recorded_exactly(self):
        """As brokers of sandboxes do. On the stack of the thread, on a small one of its own, on one with room."""
        for how in ("plain", "24000", "100000", "unheard"):
            with self.subTest(how=how):
                self.trace = self.folder / f"answered-{how}"
                program = self.start("first-hears")
                # Without this call nothing keeps the kernel from using a small stack from its top twice.
                calls = [call for call in TRAPPED_CALLS if how != "24000" or call != "sigaltstack"]
                self.ask(program, self.filter_of(calls, how=how, command="answer"))
                recorder = self.begin(program, "--seccomp", "--mode", "block", "--block-timeout", "60s",
                                      buffers=("--subbuf-size", "8K", "--subbuf-count", "64"))
                self.ask(program, "count")
                for command in ("trace", "thread", "fork", "trace"):
                    self.ask(program, command)
                self.say(program, "told")
                told, others = (int(word) for word in program.stdout.readline().split())
                self.assertEqual(program.stdout.readline(), "done\n")
                self.finish(recorder)
                self.assertEqual(others, 0)
                self.assertEqual(self.summary()["events"], 4 * EVENTS + told)
                self.ask(program, "fork")
                self.end(program)


class EndsInHandler(traced_program.TracedProgramTest):
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(ends, step, (u64, number))
static void end(int number) { (void)number; exit(3); }
static long raw(long number, long first, long second, void* third) {
    __asm__ volatile("syscall" : "+a"(number) : "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return number;
}
int main(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1), /* the runtime's, when it asks for the rules */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, code};
    signal(SIGSYS, end);
    plumb_trace(ends, step, 1);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 4;
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
"""

    def test_it_does_not_wait_for_the_update_that_it_is_in(self):
        """The handler ends the program, and with it the runtime, on top of an update."""
        with subprocess.Popen([self.program], stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            self.assertEqual(program.stdout.readline(), "ready\n")
            with subprocess.Popen([PLUMB, "record", "-q", "--seccomp", "-o", self.trace, "-p", str(program.pid), "--duration", "1s"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                self.assertEqual(program.wait(timeout=6), 3)


class LargeEvents(traced_program.TracedProgramTest):
    """Events that outgrow the stack's buffer, behind a filter that ends the program for mapping another."""
    # COUNT BYTES JUMPS: so many events of so many bytes, behind so many that a handler jumps out of.
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
PLUMB_EVENT(held, small, (u64, number))
PLUMB_EVENT(held, large, (u64, number), (sequence, u8, bytes))
PLUMB_EVENT(held, text, (string, text))
#define KILL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
static sigjmp_buf place;
static void jump(int number) { (void)number; siglongjmp(place, 1); }
int main(int argc, char** argv) {
    static unsigned char bytes[65536];
    (void)argc;
    char* const pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 'a', 4096);
    mprotect(pages + 4096, 4096, PROT_NONE);
    signal(SIGSEGV, jump);
    plumb_trace(held, small, 0);
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL(SYS_mmap), KILL(SYS_madvise), KILL(SYS_gettid), KILL(SYS_futex), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 3;
    for (volatile int i = 0; i < atoi(argv[3]); i++)
        if (sigsetjmp(place, 1) == 0) plumb_trace(held, text, pages + 1000); /* has no end */
    for (int i = 0; i < atoi(argv[1]); i++)
        plumb_trace(held, large, (unsigned long)i, bytes, (unsigned long)atoi(argv[2]));
    return 0;
}
"""
    COUNT = 12

    def record(self, size, *options, jumps=0, subbufs="1M"):
        """How many were recorded, what was lost, what else is told of them, and all that was said."""
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([PLUMB, "record", "--subbuf-size", subbufs, *options, "-o", self.trace, "--", self.program,
                               str(self.COUNT), str(size), str(jumps)],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.trace / "summary.json").read_text())
        return (summary["events_by_name"].get("held:large", 0), summary["events_lost_by_cause"], summary["notes"], done.stderr)

    def test_are_recorded_whole(self):
        for size in (230, 400, 5000, 60000):
            for options in ([], ["--context", "vpid"], ["--context", "callstack"]):
                with self.subTest(size=size, options=options):
                    self.assertEqual(self.record(size, *options)[:3], (self.COUNT, {}, {}))

    def test_are_cut_where_sub_buffers_are_small(self):
        self.assertEqual(self.record(2000, "--subbuf-count", "16", subbufs="4K")[:3], (self.COUNT, {}, {"cut": self.COUNT}))

    def test_are_lost_as_held_or_cut_when_all_buffers_are_taken(self):
        """And so are those to be jumped out of: what fits the stack is before the fault."""
        recorded, lost, notes, said = self.record(400, "--context", "vpid", jumps=260)
        self.assertEqual((recorded, set(lost), notes), (0, {"held"}, {}))
        self.assertGreaterEqual(lost["held"], self.COUNT)
        self.assertRegex(said, r"held \(of a program with a seccomp filter: .*large ones")
        recorded, lost, notes, said = self.record(400, jumps=260)
        self.assertEqual((recorded, lost, set(notes)), (self.COUNT, {}, {"cut"}))
        self.assertGreaterEqual(notes["cut"], self.COUNT)
        self.assertRegex(said, r"cut \(.*no buffer.*seccomp filter")


class Preloaded(unittest.TestCase):
    """The probe's libplumb has to stand in front of the C library, or it does not hear of the filter."""
    say, ask, filter_of = guarded_program.GuardedProgramTest.say, guarded_program.GuardedProgramTest.ask, guarded_program.GuardedProgramTest.filter_of
    PROGRAM = guarded_program.GuardedProgramTest.PROGRAM.replace("#include <plumb/tracepoint.h>", "").replace(
        "PLUMB_EVENT(guarded, trap, (u64, number))", "").replace("PLUMB_EVENT(guarded, tick, (u64, count))", """
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    #define plumb_trace(provider, event, value) ((void)(value), pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex))
    #define plumb_enabled(provider, event) 1
    """)

    def test_a_program_that_installs_a_filter_lives_on(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, folder)
        self.trace, command = folder / "trace", folder / "program"
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", command, "-lpthread"], input=self.PROGRAM, text=True, check=True)
        for how in ("prctl", "syscall"):
            with self.subTest(how=how):
                program = subprocess.Popen([PLUMB, "record", "--force", "--preload", "pthread", "--subbuf-size", "4K", "-o", self.trace,
                                            "--", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True)
                self.addCleanup(program.wait)
                self.addCleanup(program.kill)
                for stream in (program.stdin, program.stdout, program.stderr):
                    self.addCleanup(stream.close)
                self.assertEqual(program.stdout.readline(), "done\n")
                self.ask(program, "trace")
                self.ask(program, self.filter_of(CALLS, how=how))
                for each in ("trace", "thread", "fork", "trace"):
                    self.ask(program, each)
                self.say(program, "exit")
                errors = program.communicate(timeout=60)[1]
                self.assertEqual(program.returncode, 0, errors)
                summary = json.loads((self.trace / "summary.json").read_text())
                self.assertGreater(summary["events"], 0)
                self.assertGreaterEqual(summary["events"] + summary["events_lost"], 2 * EVENTS)  # such rings fill up


if __name__ == "__main__":
    unittest.main()
