"""For tests that record system calls with their strings: whether that is possible here, and how they are told by strace."""
import json
import os
import shutil
import subprocess
from pathlib import Path

from strace_calls import STRACE, VIEW, compare

PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
TRACEFS = Path("/sys/kernel/tracing")
TOLD = TRACEFS / "events/bpf_trace/bpf_trace_printk/enable"


def why_not():
    """Why system calls can not be recorded with their strings here; None if they can."""
    subprocess.run([PLUMB, "list", "--kernel", "-e", "bpf_trace:*"], capture_output=True, check=False)  # mounts tracefs
    if os.geteuid() != 0 or not TOLD.exists():
        return "needs root, tracefs, and BPF programs that print"
    doctor = subprocess.run([PLUMB, "doctor", "--json"], capture_output=True, text=True, check=False)
    found = next(check for check in json.loads(doctor.stdout)["checks"] if check["name"] == "file-names")
    return None if found["status"] == "ok" else found["found"]


class SyscallRecording:
    """Of a test case with a `folder`, where `trace` is to be."""

    def record(self, *arguments, command):
        done = subprocess.run([PLUMB, "record", "-q", "--json", "-o", self.trace, *arguments, "--", *command],
                              capture_output=True, text=True, timeout=120, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["events_lost"], 0)
        return done.stderr

    def view(self, *arguments):
        done = subprocess.run([PLUMB, "view", "--json", *arguments, self.trace], capture_output=True, text=True, timeout=120,
                              check=True)
        self.assertNotIn("lost", done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def assert_as_strace_tells(self, script, user=None):
        """Of each call of each thread. What was compared, counted."""
        work, log = (self.folder / f"{self.id().split('.')[-1]}.{what}" for what in ("work", "log"))
        work.mkdir()
        if user:
            shutil.chown(work, user)
        self.record("-k", "syscalls:*", "--kernel-buffer-size", "32M", command=[
            *STRACE, *(["-u", user] if user else []), "-o", log, "sh", "-c", f"cd {work}\n{script}"])
        with open(log) as lines:
            differences, compared = compare(lines, self.view(*VIEW))
        self.assertEqual(differences, [])
        return compared
