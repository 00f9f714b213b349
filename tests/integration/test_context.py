#!/usr/bin/env python3
"""What records have besides their events' fields (plumb record --context) is what the program says of itself, also in children,
threads, programs that it becomes, and beside sessions that want none; babeltrace2 reads the same; and what may not be asked for is
not known, and nothing more."""
import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
from guarded_program import ALL_CALLS, EVENTS, GuardedProgramTest  # noqa: E402
from traced_program import BUILD, TracedProgramTest  # noqa: E402

PLUMB = BUILD / "cli" / "plumb"


def shown(trace, *options):
    text = subprocess.run([PLUMB, "view", "--json", *options, trace], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


class ContextTest(TracedProgramTest):
    # Each event says itself what its context is to be.
    PROGRAM = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    PLUMB_EVENT(told, self, (u32, n), (u32, pid), (u32, tid), (string, name), (u32, uid))
    PLUMB_EVENT(told, large, (u32, n), (text, content))
    PLUMB_EVENT(told, nothing)
    __attribute__((noinline)) static void tell(unsigned n) {
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        plumb_trace(told, self, n, getpid(), syscall(SYS_gettid), name, getuid());
    }
    static void* in_thread(void* unused) {
        prctl(PR_SET_NAME, "a thread");
        tell(2);
        return unused;
    }
    __attribute__((noinline)) static int deep(unsigned left, unsigned n) {
        if (left == 0) { plumb_trace(told, large, n, "", 0); return 1; }
        const int sum = deep(left - 1, n);
        __asm__ volatile("");
        return sum + 1;
    }
    int main(int count, char** arguments) {
        static char content[60000];
        memset(content, 'x', sizeof(content));
        if (count > 1 && !strcmp(arguments[1], "many")) {
            for (int i = 0; i < atoi(arguments[2]); i++) tell(i);
            return 0;
        }
        tell(1);
        if (count > 1 && !strcmp(arguments[1], "again")) return 0;
        plumb_trace(told, nothing);
        pthread_t thread;
        pthread_create(&thread, 0, in_thread, 0);
        pthread_join(thread, 0);
        if (fork() == 0) {
            tell(3);
            if (getuid() == 0 && setuid(65534) == 0) tell(4);
            _exit(0);
        }
        wait(0);
        if (vfork() == 0) { tell(5); _exit(0); }
        wait(0);
        deep(200, 6);
        plumb_trace(told, large, 7, content, 5000);
        plumb_trace(told, large, 8, content, 60000);
        if (fork() == 0) execl("/proc/self/exe", "again", "again", NULL);
        wait(0);
        return 0;
    }
    """

    def record(self, context, *options, arguments=(), summary=False):
        done = subprocess.run([PLUMB, "record", *(["--json"] if summary else ["-q"]), "--force", *(["--context", context] if context else []),
                               *options, "-o", self.trace, "--", self.program, *map(str, arguments)],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout) if summary else None

    def test_is_what_the_program_says(self):
        for options in ((), ("--plain",), ("--mode", "block"), ("--mode", "overwrite"), ("--snapshot",), ("--clock", "mono")):
            self.record("vpid,vtid,procname,cpu,uid,euid,gid,egid", *options)
            events = shown(self.trace)
            told = {event["fields"]["n"]: event for event in events if event["event"] == "told:self"}
            for n, event in sorted(told.items()):
                fields, context = event["fields"], event["event_context"]
                self.assertEqual(event["tid"], fields["tid"])
                self.assertEqual(context, {"vpid": fields["pid"], "procname": fields["name"], "cpu_id": context["cpu_id"],
                                           "vuid": fields["uid"], "veuid": fields["uid"], "vgid": os.getgid(), "vegid": os.getgid()},
                                 f"{options} {n}")
                self.assertLess(context["cpu_id"], os.cpu_count())
            self.assertEqual(set(told), {1, 2, 3, 5} | ({4} if os.getuid() == 0 else set()), options)
            self.assertEqual(sum(event["event"] == "told:self" and event["fields"]["n"] == 1 for event in events), 2, options)

    def test_is_the_same_for_babeltrace(self):
        for options in ((), ("--plain",)):
            self.record("vpid,procname,callstack", *options)
            by_babeltrace = [event for event in babeltrace.events(self.trace) if event.name == "told:self"]
            ours = [event for event in shown(self.trace) if event["event"] == "told:self"]
            self.assertEqual(len(by_babeltrace), len(ours))
            for theirs, our in zip(by_babeltrace, ours):
                self.assertEqual(theirs.fields["vpid"], our["event_context"]["vpid"])
                self.assertEqual(theirs.fields["procname"], our["event_context"]["procname"])
                self.assertEqual(theirs.fields["_callstack_user_length"], len(our["event_context"]["callstack_user"]))
            text = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, check=True).stdout
            addresses = re.findall(r"callstack_user = \[ (.*?) \]", text)
            self.assertEqual([[int(address, 16) for address in re.findall("0x[0-9A-Fa-f]+", each)] for each in addresses],
                             [event["event_context"]["callstack_user"] for event in shown(self.trace)])

    def test_knows_namespaces_and_cgroup(self):
        self.record("namespaces,cgroup", arguments=("again",))
        context = shown(self.trace)[0]["event_context"]
        for kind in ("pid", "user", "mnt", "net", "ipc", "uts", "cgroup", "time"):
            self.assertEqual(context[f"{kind}_ns"], os.stat(f"/proc/self/ns/{kind}").st_ino)
        lines = [line.split("::", 1)[1] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
        place = Path("/sys/fs/cgroup" + lines[0]) if lines else Path("/nowhere")
        self.assertEqual(context["cgroup"], place.stat().st_ino if place.exists() else 0)

    def test_stacks_make_room_for_fields_and_records_are_cut(self):
        summary = self.record("callstack:512,vpid", "--subbuf-size", "4K", "--subbuf-count", "64", summary=True)
        large = {event["fields"]["n"]: event for event in shown(self.trace, "-e", "told:large")}
        deep = large[6]["event_context"]
        self.assertEqual(deep["callstack_user_end"]["label"], "cut")
        self.assertGreater(len(deep["callstack_user"]), 90)
        self.assertEqual(large[7]["event_context"]["callstack_user"], [])
        self.assertGreater(len(large[7]["fields"]["content"]), 900)
        self.assertEqual(set(large[8]["fields"]["content"]), {"x"})
        self.assertEqual(summary["events_lost"], 0)
        self.record("callstack:512,vpid", "--subbuf-size", "1M")
        large = {event["fields"]["n"]: event for event in shown(self.trace, "-e", "told:large")}
        self.assertEqual(large[6]["event_context"]["callstack_user_end"]["label"], "whole")
        self.assertEqual(len(large[6]["fields"]["content"]), 0)
        self.assertEqual([len(large[n]["fields"]["content"]) for n in (7, 8)], [5000, 60000])
        self.assertEqual(large[8]["event_context"]["callstack_user_end"]["label"], "whole")

    def test_goes_with_conditions(self):
        self.record("vpid,callstack:4", "--filter", "n % 3 == 0", "-e", "told:self", arguments=("many", 3000))
        events = shown(self.trace)
        self.assertEqual([event["fields"]["n"] for event in events], list(range(0, 3000, 3)))
        self.assertEqual({event["event_context"]["vpid"] for event in events}, {events[0]["pid"]})

    def test_is_of_one_session_alone(self):
        other = self.trace.with_name("other")
        with subprocess.Popen([PLUMB, "record", "-q", "--force", "--context", "vpid,callstack", "--exe", self.program, "-o", other],
                              stderr=subprocess.PIPE, text=True) as recorder:
            try:
                time.sleep(1)
                self.record(None, arguments=("many", 5000))
            finally:
                recorder.terminate()
                self.assertEqual(recorder.wait(60), 0, recorder.stderr.read())
        with_context, without = shown(other), shown(self.trace)
        self.assertEqual(len(with_context), 5000)
        self.assertEqual([event["fields"] for event in with_context], [event["fields"] for event in without])
        self.assertNotIn("event_context", without[0])
        self.assertEqual(with_context[0]["event_context"]["callstack_user_end"]["label"], "whole")

    def test_can_be_asked_for_in_view(self):
        self.record("vpid,procname")
        self.assertEqual({event["fields"]["n"] for event in shown(self.trace, "--where", 'procname == "a thread"')}, {2})

    def test_words_that_are_none(self):
        def complaint(*options):
            done = subprocess.run([PLUMB, "record", *options, "--", "true"], capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        self.assertIn('There is no context "perf:cycles".', complaint("--context", "vpid,perf:cycles"))
        self.assertIn("a depth is a number of frames from 1 to 512", complaint("--context", "callstack:513"))
        self.assertIn("a depth is a number of frames from 1 to 512", complaint("--context", "callstack:x"))
        self.assertIn("Only callstack has a depth", complaint("--context", "vpid:3"))


class NamespacesOfChildrenTest(TracedProgramTest):
    # Who calls unshare() stays in its process and time namespaces; its children are in others.
    PROGRAM = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <sched.h>
    #include <stdio.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    PLUMB_EVENT(told, where, (u32, generation), (u32, net), (u32, uts), (u32, ipc))
    static unsigned inode(const char* kind) {
        char path[64];
        struct stat info;
        snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
        return stat(path, &info) == 0 ? (unsigned)info.st_ino : 0;
    }
    static void tell(unsigned generation) {
        plumb_trace(told, where, generation, inode("net"), inode("uts"), inode("ipc"));
    }
    int main(void) {
        tell(0);
        for (unsigned i = 1; i < 4; i++) {
            if (unshare(CLONE_NEWUTS | CLONE_NEWNET | (i == 2 ? CLONE_NEWIPC : 0)) != 0) return 77;
            const pid_t child = i != 3 ? fork() : (pid_t)syscall(SYS_clone, 17, 0, 0, 0, 0); /* of which nobody is told */
            if (child == 0) {
                tell(i);
                _exit(0);
            }
            wait(0);
        }
        return 0;
    }
    """

    @unittest.skipUnless(os.getuid() == 0, "unshare() is root's")
    def test_are_those_that_they_begin_in(self):
        done = subprocess.run([PLUMB, "record", "-q", "--context", "namespaces", "-o", self.trace, "--", self.program],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 77:
            self.skipTest("no namespaces can be made here")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = shown(self.trace)
        self.assertEqual([event["fields"]["generation"] for event in events], [0, 1, 2, 3])
        for event in events:
            for kind in ("net", "uts", "ipc"):
                self.assertEqual(event["event_context"][f"{kind}_ns"], event["fields"][kind], (kind, event))
            if event is not events[0]:  # of the children's own, one may have the number of another one that is gone
                self.assertNotEqual(event["fields"]["uts"], events[0]["fields"]["uts"])


class GuardedContextTest(GuardedProgramTest):
    def test_what_may_not_be_asked_for_is_not_known(self):
        program = self.start()
        recorder = self.begin(program, "--context", "vpid,procname,uid,callstack", "--mode", "discard")
        self.ask(program, "trace")
        self.ask(program, self.filter_of(ALL_CALLS))
        self.ask(program, "trace")
        self.finish(recorder)
        self.end(program)
        events = shown(self.trace)
        self.assertEqual(len(events), 2 * EVENTS)
        before, behind = events[0]["event_context"], events[-1]["event_context"]
        self.assertEqual((before["procname"], before["vuid"]), ("program", os.getuid()))
        self.assertEqual((behind["procname"], behind["vuid"], behind["vpid"]), ("", 0xffffffff, program.pid))
        self.assertIn(behind["callstack_user_end"]["label"], ("whole", "unreadable", "unknown_code"))
        if behind["callstack_user_end"]["label"] != "unreadable":  # where its first frame goes on in another page
            self.assertGreater(len(behind["callstack_user"]), 0)


if __name__ == "__main__":
    unittest.main()
