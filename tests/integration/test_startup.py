#!/usr/bin/env python3
# cmake-timeout: 120
"""What linking costs is what docs/startup.md says: the system calls that a linked program does more than the same
program without are in its table, none of them makes a thread, a socket or a file elsewhere, and in the usual case each
comes as often as the listing shows. And with /dev/shm missing, full, small, read-only, or the user's directory not
ours, programs run as if nothing were linked or preloaded."""
import collections
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PROBE = BUILD / "probes/pthread/libplumb-pthread.so"
NO_RSEQ = os.environ.get("PLUMB_RSEQ") == "none"
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
SHM = "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"

PROGRAM = """
#include <dlfcn.h>
#ifdef TRACED
#include <plumb/tracepoint.h>
PLUMB_EVENT(startup, begun, (u32, argument_count))
#define TRACE(count) plumb_trace(startup, begun, (count))
#else
#define TRACE(count) ((void)(count))
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char** arguments) {
    TRACE((unsigned)count);
    if (count > 1 && strcmp(arguments[1], "dlerror") == 0) return dlerror() != NULL;
    if (count > 1 && strcmp(arguments[1], "speak") == 0) {
        puts("to output");
        fputs("to error\\n", stderr);
        return 42;
    }
    return 0;
}
"""

# Takes all places of a state file, but as many as it is told, for a process that has ended.
FILL = """
#include <plumb/abi/state.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** arguments) {
    struct stat space;
    const pid_t ended = fork();
    if (ended == 0) _exit(0);
    if (count < 3 || waitpid(ended, NULL, 0) != ended || stat("/proc/self/ns/pid", &space)) return 1;
    const int file = open(arguments[1], O_RDWR);
    char* state = mmap(NULL, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct plumb_process* places = (struct plumb_process*)(state + PLUMB_STATE_PROCESSES_OFFSET);
    if (state == MAP_FAILED) return 2;
    for (int i = 0; i < (int)PLUMB_MAX_PROCESSES - atoi(arguments[2]); i++)
        places[i].claim = PLUMB_CLAIM(space.st_ino, ended, 0);
    return 0;
}
"""


class Startup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-startup-"))
        (cls.folder / "program.c").write_text(PROGRAM)
        (cls.folder / "fill.c").write_text(FILL)
        subprocess.run(["cc", f"-I{SOURCE}/include", cls.folder / "fill.c", "-o", cls.folder / "fill"], check=True)
        for name, options in (("bare", []),
                              ("traced", ["-DTRACED", f"-I{SOURCE}/include",
                                          str(BUILD / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o"),
                                          f"-L{BUILD}/libtrace", f"-Wl,-rpath,{BUILD}/libtrace", "-lplumb"])):
            subprocess.run(["cc", "-O2", str(cls.folder / "program.c"), *options, "-o", str(cls.folder / name)],
                           check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def in_namespace(self, script):
        return subprocess.run([*UNSHARE, "sh", "-ec", script], capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)

    def calls(self, program, first_use=False):
        """The lines of strace from the program's own start on, with a /dev/shm of its own."""
        log = self.folder / f"{program}.log"
        before = "" if first_use else f"{self.folder}/traced\n"
        done = self.in_namespace(f"{SHM}\n{before}strace -f -o {log} {self.folder}/{program}")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split(None, 1)[1] for line in log.read_text().splitlines()]
        # Up to here it is the dynamic linker, whose calls for one more library are any library's.
        starts = [i for i, line in enumerate(lines) if line.startswith("munmap(")]
        return [line for line in lines[starts[-1] + 1:] if re.match(r"\w+\(", line)]

    def difference(self, first_use=False):
        names = [collections.Counter(re.match(r"(\w+)\(", line)[1] for line in self.calls(program, first_use))
                 for program in ("traced", "bare")]
        return names[0] - names[1]

    def documented(self):
        text = (SOURCE / "docs/startup.md").read_text()
        table = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        listing = re.search(r"```\n(getpid.*?)```", text, re.DOTALL)[1]
        return (set(re.findall(r"`(\w+)", " ".join(table))),
                collections.Counter(re.findall(r"^(\w+)\(", listing, re.MULTILINE)))

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_the_system_calls_are_the_documented_ones(self):
        table, listing = self.documented()
        expected = listing.copy()
        if NO_RSEQ:
            del expected["membarrier"]
        self.assertEqual(self.difference(), expected)
        for name in self.difference(first_use=True):
            self.assertIn(name, table)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_who_lives_is_asked_only_where_all_places_are_taken(self):
        log = self.folder / "places.log"
        for free in (1, 0):
            with self.subTest(free=free):
                done = self.in_namespace(f"{SHM}\n{self.folder}/traced\n{self.folder}/fill /dev/shm/plumb-*/state {free}\n"
                                         f"strace -f -o {log} {self.folder}/traced")
                self.assertEqual(done.returncode, 0, done.stderr)
                asked = re.findall(r"\bkill\(", log.read_text())
                self.assertEqual(len(asked), 1 - free)

    def test_no_error_of_the_dynamic_linker_is_left(self):
        """With the C library in front of the runtime there are no functions behind the runtime's own."""
        done = self.in_namespace(f"{SHM}\nLD_PRELOAD=libc.so.6 exec {self.folder}/traced dlerror")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_few_pages_are_touched(self):
        """Each takes a fault: three of the state file, three of what the runtime writes, and what the library itself brings.
        Where the kernel puts things at random, one fewer or more is read with others: so both are put where they always are."""
        script = ("import os, sys\n"
                  "def faults(program):\n"
                  "    return min(os.wait4(os.posix_spawn(program, [program], {}), 0)[2].ru_minflt for _ in range(20))\n"
                  "print(faults(sys.argv[1]) - faults(sys.argv[2]))")
        done = self.in_namespace(f"{SHM}\n{self.folder}/traced\n"
                                 f"setarch -R {sys.executable} -c {shlex.quote(script)} {self.folder}/traced {self.folder}/bare")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(int(done.stdout), 16)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_files_are_made_in_the_users_directory_only(self):
        for line in self.calls("traced", first_use=True):
            if re.match(r"(mkdir|open|link|unlink|rename|creat|symlink|mknod)", line) and ("O_CREAT" in line
                                                                                        or "open" not in line):
                self.assertTrue(re.match(r'mkdirat\(AT_FDCWD, "/dev/shm/plumb-\d+", 0700\)', line) or
                                re.match(r'linkat\(AT_FDCWD, "/proc/thread-self/fd/\d+", \d+, "state",', line), line)

    def test_files_are_their_owners_whatever_the_umask(self):
        """Else whom the first program belongs to is locked out of all recordings."""
        for umask in ("0777", "0477", "0277"):
            done = self.in_namespace(f"{SHM}\n(umask {umask}; exec {self.folder}/traced)\n"
                                     "stat -c %a /dev/shm/plumb-0 /dev/shm/plumb-0/state")
            self.assertEqual((done.stdout, done.stderr), ("700\n600\n", ""), umask)

    def test_no_file_is_made_that_may_not_be_as_large(self):
        """The kernel would end the program by SIGXFSZ, in a constructor."""
        for way in (f"{self.folder}/traced speak", f"env LD_PRELOAD={shlex.quote(str(PROBE))} {self.folder}/bare speak"):
            done = self.in_namespace(f"{SHM}\nulimit -f 523\nexec {way}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (42, "to output\n", "to error\n"))

    def test_programs_run_whatever_shared_memory_is_like(self):
        directory = "/dev/shm/plumb-0"
        cases = {
            "sound": SHM,
            "missing": "mount -t tmpfs tmpfs /dev",
            "not a directory": "mount -t tmpfs tmpfs /dev; touch /dev/shm",
            "read-only": "mount -t tmpfs -o ro tmpfs /dev/shm",
            "full": "mount -t tmpfs -o size=1m tmpfs /dev/shm; head -c 1m /dev/zero >/dev/shm/waste",
            "too small": "mount -t tmpfs -o size=64k tmpfs /dev/shm",
            "no inodes": "mount -t tmpfs -o nr_inodes=2 tmpfs /dev/shm; touch /dev/shm/x",
            "another's": f"{SHM}; mkdir -m 700 {directory}; chown 1234 {directory}",
            "open to others": f"{SHM}; mkdir {directory}; chmod 777 {directory}",
            "a link": f"{SHM}; mkdir -m 700 /dev/shm/x; ln -s x {directory}",
            "a link to itself": f"{SHM}; ln -s plumb-0 {directory}",
            "state is a directory": f"{SHM}; mkdir -m 700 {directory} {directory}/state",
            "state is a FIFO": f"{SHM}; mkdir -m 700 {directory}; mkfifo -m 600 {directory}/state",
            "state is empty": f"{SHM}; mkdir -m 700 {directory}; umask 077; touch {directory}/state",
            "state has holes": f"{SHM}; mkdir -m 700 {directory}; umask 077; truncate -s 536576 {directory}/state",
            "state is noise": f"{SHM}; mkdir -m 700 {directory}; umask 077; head -c 536576 /dev/urandom >{directory}/state",
        }
        ways = {"linked": f"{self.folder}/traced speak",
                "preloaded": f"LD_PRELOAD={shlex.quote(str(PROBE))} {self.folder}/bare speak",
                "linked and preloaded": f"LD_PRELOAD={shlex.quote(str(PROBE))} {self.folder}/traced speak"}
        for case, setup in cases.items():
            for way, command in ways.items():
                with self.subTest(case=case, way=way):
                    done = self.in_namespace(f"({setup}) 2>/dev/null || true\nexec env {command}")
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (42, "to output\n", "to error\n"))


if __name__ == "__main__":
    if subprocess.run([*UNSHARE, "true"], check=False).returncode != 0:
        print("skipped: no mount namespaces here")
        sys.exit(77)
    unittest.main()
