#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""System calls of compilers, builds, git and databases: in a recording, what strace tells of the same calls of the same
threads, with file names, numbers, names of flags, what they returned and errors. On kernels of Debian: kernel_tracefs."""
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
import syscall_workloads as workloads  # noqa: E402
from syscall_recording import SyscallRecording, why_not  # noqa: E402


@unittest.skipUnless(shutil.which("strace"), "strace is not installed")
class Workloads(SyscallRecording, unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.trace = self.folder / "trace"

    def assert_compared(self, compared, **least):
        """That the workload was what it is taken for: so many calls, by name."""
        for name, count in least.items():
            self.assertGreaterEqual(compared[name], count, compared)

    def test_compiler(self):
        compared = self.assert_as_strace_tells(workloads.COMPILER)
        self.assert_compared(compared, vfork=10, execve=12, openat=300, wait4=12, unlink=5)
        self.assertGreaterEqual(compared["strings", "openat"], 300)

    def test_compiler_of_cpp_and_a_program_of_two_threads(self):
        compared = self.assert_as_strace_tells(workloads.CPP_COMPILER)
        self.assert_compared(compared, vfork=4, pipe2=1, clone3=1, openat=500)

    def test_build_of_several_files(self):
        compared = self.assert_as_strace_tells(workloads.BUILD)
        self.assert_compared(compared, vfork=10, execve=15, rt_sigaction=50)

    def test_git(self):
        compared = self.assert_as_strace_tells(workloads.GIT)
        self.assert_compared(compared, rename=10, link=1, openat=500, pread64=1)

    @unittest.skipUnless(shutil.which("sqlite3"), "sqlite3 is not installed")
    def test_database_of_one_file(self):
        compared = self.assert_as_strace_tells(workloads.DATABASE)
        self.assert_compared(compared, fcntl=50, fdatasync=10, pwrite64=20, pread64=10, unlink=3, ftruncate=1)

    @unittest.skipUnless(shutil.which("postgres") and shutil.which("initdb"), "no database server is installed")
    def test_database_of_a_server(self):
        compared = self.assert_as_strace_tells(workloads.DATABASE_SERVER, user="nobody")
        self.assert_compared(compared, shmget=2, shmctl=2, fsync=10, kill=1, epoll_ctl=2)
        self.assertGreaterEqual(compared["shmctl", "cmd"], 2)


if __name__ == "__main__":
    if reason := why_not():
        print(f"cannot run: {reason}")
        sys.exit(77)
    unittest.main()
