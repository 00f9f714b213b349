#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""One recording of every event that the machine's kernel has, decoded twice, by Plumb and by trace-cmd: the same events
in the same order, with the same times, threads and values of all fields.

Both decode the same pages: Plumb as it records, trace-cmd from the copy that --kernel-pages keeps."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from pretty import Label, Reader  # noqa: E402

WORK = """
echo $$ > command
ls -R /usr/share/doc > /dev/null
sync
python3 -c '
import mmap, os, signal, socket, threading
server = socket.create_server(("127.0.0.1", 0))
thread = threading.Thread(target=lambda: [server.accept()[0].sendall(b"x" * 5000) for i in range(50)])
thread.start()
for i in range(50): socket.create_connection(server.getsockname()).recv(99999)
thread.join()
for i in range(5):
    if os.fork() == 0: os.kill(os.getpid(), signal.SIGTERM)
    os.wait()
memory = mmap.mmap(-1, 1 << 22)
memory[::4096] = b"x" * 1024
'
"""
LINE = re.compile(r"^.*-(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}): (\w+):\s+(.*)$")
OURS = re.compile(r"^\[(\d+)\] \S+ (\w+): \{ cpu_id = (\d+) \}, \{ tid = (\d+) \}(?:, (\{.*))?$")
SYMBOL = re.compile(r"^([A-Za-z_.][\w.]*)(?:\+(0x[0-9a-f]+))?$")
# What Plumb calls otherwise: as LTTng does.
RENAMED = {"tid": "pid", "prev_tid": "prev_pid", "next_tid": "next_pid", "parent_tid": "parent_pid",
           "child_tid": "child_pid", "old_tid": "old_pid", "rwbs_text": "rwbs"}


def kernel_symbols():
    symbols = collections.defaultdict(set)
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, _, name, *_ = line.split()
        symbols[name].add(int(address, 16))
    return symbols


SYMBOLS = kernel_symbols()


# ... and events.
LTTNG_NAMES = [("syscall_entry_", "sys_enter_"), ("syscall_exit_", "sys_exit_"), ("irq_softirq_", "softirq_"),
               ("timer_hrtimer_", "hrtimer_"), ("timer_itimer_", "itimer_"), ("kmem_kmalloc", "kmalloc"), ("kmem_kfree", "kfree"),
               ("kmem_mm_page_", "mm_page_"), ("power_cpu_", "cpu_"), ("net_if_", "netif_"), ("skb_kfree", "kfree_skb"),
               ("skb_consume", "consume_skb"), ("compaction_", "mm_compaction_"), ("printk_console", "console"),
               ("x86_irq_vectors_", ""), ("x86_exceptions_", "")]


def raw_name(name):
    for theirs, kernels in LTTNG_NAMES:
        if name.startswith(theirs):
            return kernels + name.removeprefix(theirs)
    return name


def io_flags(text):
    """LTTng's number for the letters of a block request."""
    match = re.fullmatch("(F(?=[WDRNZF]))?(DE|Z.|[WDRNF]?)([FASMU]*)", text)
    bits = {"W": 0, "D": 1, "R": 2, "DE": (1, 7), "F": 8}.get(match[2], ())
    bits = {bits} if isinstance(bits, int) else set(bits)
    bits |= {{"F": 9, "A": 3, "S": 5, "M": 6, "U": None}[letter] for letter in match[3]} | ({10} if match[1] else set())
    return sum(1 << bit for bit in bits - {None})


def same_number(number, text):
    """trace-cmd -R shows some in hexadecimal or octal without saying so, some as a symbol, and widens or cuts some."""
    text = text.strip().replace("(nil)", "0")
    symbol = SYMBOL.match(text)
    if symbol and symbol[1] in SYMBOLS:
        if symbol[2] is None:  # the function that it lies in
            return any(0 <= number % 2**64 - address < 2**16 for address in SYMBOLS[symbol[1]])
        return number % 2**64 in {address + int(symbol[2], 16) for address in SYMBOLS[symbol[1]]}
    for base in (0, 10, 16, 8):
        try:
            theirs = int(text, base)
        except ValueError:
            continue
        if any((number - theirs) % 2**bits == 0 and -2**bits < theirs < 2**bits for bits in (8, 16, 32, 64)):
            return True
    return False


def same_array(ours, text):
    if not text.startswith("ARRAY["):  # shown as a string, which ends at the first zero
        return bytes(number % 256 for number in ours).split(b"\0")[0] == text.encode(errors="surrogateescape")
    theirs = bytes(int(byte, 16) for byte in re.findall(r"[0-9a-f]{2}", text.removeprefix("ARRAY[")))
    if len(ours) == 0 or len(theirs) % len(ours) != 0:
        return False
    size = len(theirs) // len(ours)
    return theirs == b"".join((number % 2**(8 * size)).to_bytes(size, "little") for number in ours)


def same(ours, text):
    if isinstance(ours, Label) and ours.label == text:
        return True  # the address of a constant string
    if isinstance(ours, Label):
        ours = ours.value
    if isinstance(ours, list):
        return same_array(ours, text)
    if isinstance(ours, str):
        return ours == text
    return same_number(ours, text)


def is_low_half(event, ours, text):
    """A call's int: trace-cmd shows all 64 bits of its register, and what a program leaves above the int is by chance."""
    return (event.startswith("sys_enter_") and isinstance(ours, int) and -2**31 <= ours < 2**32
            and re.fullmatch("0x[0-9a-f]{9,16}", text) is not None and (ours - int(text, 16)) % 2**32 == 0)


class TraceCmd(unittest.TestCase):
    maxDiff = 10000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plumb-trace-cmd-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.different = {}  # (event, field): the first

    def run_quietly(self, *command, **options):
        return subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, errors="surrogateescape", check=True,
                              **options).stdout

    def record(self):
        # The pages have addresses where the trace would have file names.
        summary = json.loads(self.run_quietly(PLUMB, "record", "-q", "--json", "-o", "trace", "-a", "-k", "*:*", "--no-file-names",
                                              "--kernel-pages", "pages", "--kernel-buffer-size", "64M", "--", "sh", "-c", WORK))
        self.assertEqual((summary["events_lost"], summary["notes"], summary["problems"]), (0, {}, []))
        return summary

    def of_trace_cmd(self):
        """{cpu: [(time, event, thread id, text of its fields)]}"""
        pages = sorted(Path(self.folder, "pages").iterdir(), key=lambda path: int(path.name[3:]))
        self.run_quietly("trace-cmd", "restore", "-c", "-o", "head.dat")
        self.run_quietly("trace-cmd", "restore", "-i", "head.dat", "-o", "trace.dat", *pages)
        cpus = collections.defaultdict(list)
        for line in self.run_quietly("trace-cmd", "report", "-R", "-t", "trace.dat").splitlines():
            match = LINE.match(line)
            if match:
                cpus[int(match[2])].append((int(match[3] + match[4]), match[5], int(match[1]), match[6]))
        return cpus

    def of_plumb(self):
        """The same, with the fields by name."""
        cpus = collections.defaultdict(list)
        for line in self.run_quietly("babeltrace2", "--clock-cycles", "--no-delta", "trace").splitlines():
            match = OURS.match(line)
            self.assertIsNotNone(match, line)
            if match[2].startswith(("lttng_statedump_", "plumb_statedump_")):
                continue
            fields = Reader(match[5]).value() if match[5] and match[5] != "{ }" else {}
            fields = {name: value for name, value in fields.items() if not re.match(r"_\w+_length$", name)}
            cpus[int(match[3])].append((int(match[1]), raw_name(match[2]), int(match[4]), fields))
        return cpus

    def without_calls_before_exec(self, theirs, ours):
        """What the recorder's child calls before it is the command is in the pages, and not in our trace."""
        def is_call(event):
            return event[1].startswith("sys_")
        command = int(Path(self.folder, "command").read_text())
        first = min(event[0] for events in ours.values() for event in events if event[2] == command and is_call(event))
        return {cpu: [event for event in events if not (event[2] == command and is_call(event) and event[0] < first)]
                for cpu, events in theirs.items()}

    def surroundings(self, ours, theirs, at):
        def lines(events):
            return "\n".join(f"  {event}" for event in events[max(at - 4, 0):at + 6])
        return f"event {at}; the command is {Path(self.folder, 'command').read_text()}ours:\n{lines(ours)}\ntheirs:\n{lines(theirs)}"

    def compare_fields(self, event, fields, text):
        if "rwbs" in fields:  # a number, as LTTng has it, and the text
            fields = dict(fields)
            self.assertEqual(fields.pop("rwbs"), io_flags(fields["rwbs_text"]), text)
        if event == "sched_process_fork":  # the kernel's has only the threads
            fields = {name: value for name, value in fields.items() if name not in ("parent_pid", "child_pid")}
        text = re.sub(r"^__syscall_nr=\S+ ?", "", text)
        names = [name if name + "=" in text else RENAMED.get(name, name) for name in fields]
        match = re.fullmatch(" ".join(f"{re.escape(name)}=(.*)" for name in names), text.rstrip(" "), re.DOTALL)
        self.assertIsNotNone(match, f"{event}: {names} in {text!r}")
        for (name, ours), theirs in zip(fields.items(), match.groups()):
            if not same(ours, theirs) and not is_low_half(event, ours, theirs):
                self.different.setdefault((event, name), f"{ours!r} here, {theirs!r} there: {text}")

    @unittest.skipUnless(shutil.which("trace-cmd"), "trace-cmd is not installed")
    def test_every_event_is_what_trace_cmd_reads(self):
        summary = self.record()
        ours = self.of_plumb()
        theirs = self.without_calls_before_exec(self.of_trace_cmd(), ours)
        self.assertEqual(sum(map(len, ours.values())), summary["events"])
        # Each page begins anew: trace-cmd shows them by time, and two events of one time in either order.
        kinds, values = set(), 0
        for cpu in sorted(ours.keys() | theirs.keys()):
            for at, ((time, name, thread, fields), (*head, text)) in enumerate(zip(ours[cpu], theirs[cpu])):
                self.assertEqual([time, name, thread], head, self.surroundings(ours[cpu], theirs[cpu], at))
                self.compare_fields(name, fields, text)
                kinds.add(name)
                values += len(fields)
            self.assertEqual(len(ours[cpu]), len(theirs[cpu]))
        self.assertEqual(self.different, {}, "\n".join(f"{key}: {value}" for key, value in self.different.items()))
        self.assertGreater(len(kinds), 100)
        print(f"{summary['events']:,} events of {len(kinds)} kinds, {values:,} values, the same in both")


if __name__ == "__main__":
    unittest.main()
