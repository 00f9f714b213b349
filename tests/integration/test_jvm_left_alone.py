#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""JVMs that attaching would end, and programs for which it would be a signal of their own: they are left as they are, and the reason is told."""
import os
import pathlib
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import CLASSES, InFolder, java  # noqa: E402
from recorded_jvm import setUpModule, tearDownModule  # noqa: E402, F401

# Ends whoever makes that call.
FILTERED = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
                                 {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)atoi(words[1])},
                                 {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
                                 {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {4, code};
    if (count < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    execvp(words[2], words + 2);
    return 2;
}
"""
# Has the library of the JVM, and a use of its own for SIGQUIT.
EMBEDDING = r"""
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int came;
static void count(int number) { (void)number; came++; }
int main(int words, char **word) {
    if (words < 2 || !dlopen(word[1], RTLD_NOW)) return 2;
    signal(SIGQUIT, count);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    printf("%d came\n", came);
    return 0;
}
"""


class LeftAlone(InFolder):
    def compile(self, source):
        program = self.folder / "program"
        subprocess.run(["cc", "-x", "c", "-", "-o", program, "-ldl"], input=source, text=True, check=True)
        return program

    def begin(self, *command, **more):
        server = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  **more)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        return server

    def check_left_alone(self, server, why, said="rounds true\n"):
        status, _, errors = self.attach(server, 0.1)
        self.assertEqual(status, 1, errors)
        self.assertRegex(errors, why)
        self.finish(server, said)

    def test_a_filter(self):
        bind, membarrier = 49, 324
        program = self.compile(FILTERED)
        for call in (bind, membarrier):
            self.check_left_alone(self.begin(program, call, *java("Serves")), "has a seccomp filter.*`--seccomp`")

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_no_room_for_a_thread(self):
        os.chmod(CLASSES, 0o755)
        nobodys = 47_110  # no one else's threads count
        limit = "ulimit -u 20; exec \"$@\""
        words = ("-XX:ParallelGCThreads=1", "-XX:CICompilerCount=2", "-XX:-UseDynamicNumberOfCompilerThreads", "-XX:+UseSerialGC")
        server = self.begin("setpriv", "--reuid", nobodys, "--regid", nobodys, "--clear-groups", "bash", "-c", limit, "limited",
                            *java("Serves", options=words))
        self.check_left_alone(server, r"may begin \d more threads? \(RLIMIT_NPROC of its user \(20\)\)")

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_another_users_socket(self):
        server = self.serve("Serves")
        path = f"/tmp/.java_pid{server.pid}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trap:
            trap.bind(path)
            self.addCleanup(os.unlink, path)
            os.chown(path, 47_110, 47_110)
            trap.listen()
            trap.settimeout(0.1)
            self.check_left_alone(server, "user 47110's, and the JVM of process .* is user 0's.*Remove it")
            with self.assertRaises(TimeoutError):
                trap.accept()

    def test_a_library_without_a_jvm(self):
        home = pathlib.Path(os.path.realpath(subprocess.run(["which", "java"], capture_output=True, text=True, check=True).stdout.strip()))
        server = self.begin(self.compile(EMBEDDING), home.parent.parent / "lib/server/libjvm.so")
        self.check_left_alone(server, "no JVM in it yet", "0 came\n")


if __name__ == "__main__":
    unittest.main()
