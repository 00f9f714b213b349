#!/usr/bin/env python3
# cmake-once
"""Python's log records become events: each with its level, fields in any script, and none while it is off."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import BUILD, PLUMB, leave_out_if_sanitized  # noqa: E402

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
MODULE = BUILD / "probes/python/python"
BEGIN = "import logging, sys, threading\nimport plumb_logging\nroot = logging.getLogger()\nroot.setLevel(1)\n" \
        "root.addHandler(plumb_logging.Handler())\nlog = logging.getLogger('shop.orders')\n"
# That of Python 3.13, on any.
HANDLES_LOCKED = """
import logging
def handle(self, record):
    passed = self.filter(record)
    if passed:
        with self.lock:
            self.emit(record)
    return passed
logging.Handler.handle = handle
"""


def other_pythons():
    """From 3.8 on. What is called so may say that it is not chosen."""
    there = filter(None, (shutil.which(f"python3.{minor}") for minor in range(8, 40)))
    return [python for python in there if subprocess.run([python, "-c", "import ctypes"], capture_output=True, check=False).returncode == 0]


class PythonLogging(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, PYTHONPATH=str(MODULE))

    python = sys.executable

    def run_python(self, program, *options, begin=BEGIN, environment=None):
        script = self.folder / "app.py"
        script.write_text(begin + program)
        return subprocess.run([*options, self.python, script], env=environment or self.environment, capture_output=True, text=True,
                              timeout=200, check=False)

    def record(self, program, *options, begin=BEGIN, warns=False):
        trace = self.folder / "trace"
        done = self.run_python(program, PLUMB, "record", "-q", "--force", "-o", trace, *(options or ("-e", "python:*")), "--",
                               begin=begin)
        self.assertEqual((done.returncode, done.stderr if not warns else ""), (0, ""))
        shown = subprocess.run([PLUMB, "view", "--json", trace], capture_output=True, text=True, timeout=100, check=True)
        self.said = done.stdout
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def named(self, events):
        return [(event["event"], event["fields"]["level"], event["fields"]["message"]) for event in events]

    def test_each_level_is_an_event(self):
        events = self.record("for level in (60, 50, 45, 40, 30, 25, 20, 10, 5):\n    log.log(level, 'at %d', level)\n")
        self.assertEqual(self.named(events), [
            (f"python:{name}", level, f"at {level}") for name, level in
            (("critical", 60), ("critical", 50), ("error", 45), ("error", 40), ("warning", 30), ("info", 25), ("info", 20),
             ("debug", 10), ("debug", 5))])

    def test_each_python_has_a_logging_of_its_own(self):
        program = "root.handlers[0].addFilter(lambda record: record.levelno != 20)\n" \
                  "for level in (40, 20, 10):\n    log.log(level, '%d', level)\nprint('went on')\n"
        expected = [("python:error", 40, "40"), ("python:debug", 10, "10")]
        for self.python, begin in [(sys.executable, HANDLES_LOCKED + BEGIN), *((python, BEGIN) for python in other_pythons())]:
            with self.subTest(self.python):
                self.assertEqual(self.named(self.record(program, begin=begin)), expected)
                self.assertEqual(self.said, "went on\n")

    def test_levels_that_are_none(self):
        program = "for level in (2**40, float('inf'), 30.5):\n    root.handle(logging.makeLogRecord({'levelno': level, 'msg': 'x'}))\n"
        levels = [(2**31 - 1, "critical"), (2**31 - 1, "critical"), (30, "warning")]
        self.assertEqual(self.named(self.record(program)), [(f"python:{name}", level, "x") for level, name in levels])
        self.assertEqual(len(self.record(program, "-e", "python:critical")), 2)

    def test_fields(self):
        events = self.record("def order():\n    log.warning('%s: %s', 'Größe', '小さい 🙂 \\ud800')\n"
                             "thread = threading.Thread(target=order, name='Köchin')\nthread.start(); thread.join()\n")
        fields = events[0]["fields"]
        self.assertEqual(fields["message"], "Größe: 小さい 🙂 \\ud800")
        self.assertEqual((fields["logger"], fields["thread"], fields["function"]), ("shop.orders", "Köchin", "order"))
        self.assertEqual((fields["file"], fields["line"]), (str(self.folder / "app.py"), BEGIN.count("\n") + 2))

    def test_exceptions_and_formatters(self):
        events = self.record("try:\n    {}['key']\nexcept KeyError:\n    log.exception('lost')\n"
                             "root.handlers[0].setFormatter(logging.Formatter('<%(message)s>'))\nlog.info('x')\n")
        self.assertTrue(events[0]["fields"]["message"].startswith("lost\nTraceback"), events[0])
        self.assertTrue(events[0]["fields"]["message"].endswith("KeyError: 'key'"), events[0])
        self.assertEqual(events[1]["fields"]["message"], "<x>")

    def test_a_long_message_leaves_the_others_whole(self):
        (event,) = self.record("def work():\n    log.info('m' * 70000)\nthread = threading.Thread(target=work, name='worker-1')\n"
                               "thread.start(); thread.join()\n", "-e", "python:*", "--subbuf-size", "1M", warns=True)
        fields = event["fields"]
        others = ("shop.orders", "worker-1", str(self.folder / "app.py"), "work")
        self.assertEqual(tuple(fields[name] for name in ("logger", "thread", "file", "function")), others)
        self.assertEqual(fields["message"], "m" * (65528 - 16 - 5 * 2 - 2 * 4 - len("".join(others))))

    def test_levels_are_chosen(self):
        program = "for level in (50, 40, 30, 20, 10):\n    log.log(level, '%d', level)\n"
        self.assertEqual([level for _, level, _ in self.named(self.record(program, "-e", "python:*", "--log-level", "warning"))],
                         [50, 40, 30])
        self.assertEqual([level for _, level, _ in self.named(self.record(program, "-e", "python:info"))], [20])

    def test_what_is_off_is_not_formatted(self):
        program = "class Told:\n    def __str__(self):\n        print('asked')\n        return 'told'\n" \
                  "log.debug('%s', Told())\nlog.error('%s', Told())\n" \
                  "print(plumb_logging.is_on(logging.DEBUG), plumb_logging.is_on(logging.ERROR))\n"
        events = self.record(program, "-e", "python:error")
        self.assertEqual(self.named(events), [("python:error", 40, "told")])
        self.assertEqual(self.said, "asked\nFalse True\n")
        done = self.run_python(program)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("False False\n", "", 0))

    def test_many_threads_and_children(self):
        count = 5000
        events = self.record(f"""
import os
def many(who):
    for i in range({count}):
        log.info('%s %d', who, i)
threads = [threading.Thread(target=many, args=(f't{{i}}',)) for i in range(4)]
child = os.fork()
if child == 0:
    many('child')
    os._exit(0)
for thread in threads: thread.start()
for thread in threads: thread.join()
os.waitpid(child, 0)
""", "-e", "python:*", "--mode", "block")
        for who in ("t0", "t1", "t2", "t3", "child"):
            self.assertEqual([event["fields"]["message"] for event in events if event["fields"]["message"].startswith(who + " ")],
                             [f"{who} {i}" for i in range(count)])
        self.assertEqual(len(events), 5 * count)

    def test_what_can_not_be_logged_is_told_as_logging_does(self):
        done = self.run_python("log.error('%d', 'no number')\nprint('goes on')\n", PLUMB, "record", "-q", "-o", self.folder / "bad", "-e",
                               "python:*", "--")
        self.assertEqual((done.returncode, done.stdout), (0, "goes on\n"))
        self.assertIn("--- Logging error ---", done.stderr)
        self.check_lost(self.folder / "bad", 1)

    def check_lost(self, trace, count):
        self.assertEqual(json.loads((trace / "summary.json").read_text())["events_lost"], count)

    def test_what_can_not_be_logged_is_counted_also_where_nothing_is_told(self):
        program = "logging.raiseExceptions = False\n" \
                  "class Bad:\n    def __str__(self):\n        raise KeyError('bad')\n" \
                  "class Deep:\n    def __str__(self):\n        return str(self)\n" \
                  "for level in (50, 40, 30, 20, 10):\n    log.log(level, '%s', Bad())\nlog.error('%d', 'no number')\n" \
                  "try:\n    log.error('%s', Deep())\nexcept RecursionError:\n    if sys.version_info >= (3, 10):\n        raise\n" \
                  "print('as without us')\nlog.error('said')\n"
        events = self.record(program, warns=True)
        self.assertEqual(self.named(events), [("python:error", 40, "said")])
        self.assertEqual(self.said, "as without us\n")
        self.check_lost(self.folder / "trace", 7)
        self.record(program, "-e", "python:critical", warns=True)
        self.check_lost(self.folder / "trace", 1)

    def test_who_goes_too_deep_hears_of_that_alone(self):
        """At each depth at which the stack may be full: in the formatting, in our own code, or in what counts the loss."""
        program = "sys.setrecursionlimit(300)\ncaught = 0\n" \
                  "def hop(steps, depth):\n    return hop(steps - 1, depth) if steps else down(depth)\n" \
                  "def down(depth):\n    log.info('at %d', depth)\n    hop(14, depth + 1)\n" \
                  "def start(steps):\n    return start(steps - 1) if steps else down(0)\n" \
                  "for steps in range(30):\n    try:\n        start(steps)\n    except RecursionError:\n        caught += 1\n" \
                  "sys.setrecursionlimit(1000)\nlog.info('over')\nprint(caught)\n"
        events = self.record(program, warns=True)
        self.assertEqual(self.said, "30\n")
        self.assertEqual(events[-1]["fields"]["message"], "over")

    def test_a_stack_that_is_too_full_is_counted_and_heard_of_by_nobody(self):
        """Up to the depth at which a record is nothing that is off; also where it is the program's last one, and with a message that can not be
        made. Before Python 3.10 it is heard of (_HAS_TO_UNWIND)."""
        program = "logging.raiseExceptions = False\nroot.handlers[0].addFilter(lambda record: sum(x for x in (1, 2)))\n" \
                  "log.info('begun')\nsys.setrecursionlimit(300)\nmade = 1\n" \
                  "def down(depth):\n    if depth:\n        down(depth - 1)\n    else:\n        log.info(*{})\n" \
                  "for depth in range(200, 300):\n    try:\n        down(depth)\n        made += 1\n    except RecursionError:\n" \
                  "        break\nprint(made)\n"
        pythons = [python for python in (sys.executable, *other_pythons())
                   if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"], check=False).returncode == 0]
        for self.python in pythons:
            for words in ("('at the bottom',)", "('%d', 'no number')"):
                with self.subTest(self.python, words=words):
                    events = self.record(program.format(words), warns=True)
                    self.assertEqual(self.run_python(program.format(words)).stdout, self.said)
                    self.check_lost(self.folder / "trace", int(self.said) - len(events))

    def test_a_record_is_lost_once(self):
        """Also where what tells of it fills the stack, or throws."""
        program = """
class Deep(plumb_logging.Handler):
    def handleError(self, record):
        self.handleError(record)
class Throws(plumb_logging.Handler):
    def handleError(self, record):
        raise KeyError('told')
for kind in (Deep, Throws):
    root.handlers[:] = [kind()]
    try:
        log.error('%d', 'no number')
    except (RecursionError, KeyError):
        pass
"""
        for self.python in (sys.executable, *other_pythons()):
            with self.subTest(self.python):
                self.assertEqual(self.record(program, warns=True), [])
                self.check_lost(self.folder / "trace", 2)

    def test_the_record_stays_as_it_is(self):
        """Other handlers of the program find in it what they would find without us: a formatter that keeps secrets out of tracebacks is asked,
        and what writes all that the record has writes no more of it."""
        program = """
class Masked(logging.Formatter):
    def formatException(self, problem):
        return 'masked'
class All(logging.Handler):
    def emit(self, record):
        print(sorted(record.__dict__), record.exc_text)
class Own(logging.LogRecord):
    __slots__ = ('place',)
    def getMessage(self):
        return f'{self.msg} {self.place}'
masked = logging.StreamHandler(sys.stdout)
masked.setFormatter(Masked('%(message)s'))
root.addHandler(All())
root.addHandler(masked)
for formatter in (None, logging.Formatter('%(asctime)s %(message)s')):
    root.handlers[0].setFormatter(formatter)
    try:
        raise ValueError('password')
    except ValueError:
        log.exception('failed')
record = Own('shop', 20, 'app.py', 1, 'slots', (), None)
record.place = 'too'
root.handle(record)
"""
        first, _, last = self.record(program)
        self.assertTrue(first["fields"]["message"].endswith("ValueError: password"), first)
        self.assertTrue(last["fields"]["message"].endswith(" slots too"), last)
        self.assertEqual(self.said, self.run_python(program).stdout)
        self.assertEqual(self.said.count("masked"), 2)

    def test_records_of_all_kinds_are_recorded_as_they_are(self):
        """Also where their classes refuse to be copied, or copy something else; no code of them runs for us that would not without."""
        program = """
import ctypes
class New(logging.LogRecord):
    __slots__ = ('tenant', 'nothing')
    def __new__(cls, name, *rest):
        self = super().__new__(cls)
        self.tenant = name
        return self
    def getMessage(self):
        return super().getMessage() + ' of ' + self.tenant
class Unpickled(logging.LogRecord):
    __slots__ = ('tenant',)
    def __reduce_ex__(self, protocol):
        raise TypeError('not to be pickled')
class Pickled(logging.LogRecord):
    __slots__ = ('tenant',)
    def __getstate__(self):
        return dict(self.__dict__, msg='(pickled)', args=None)
class Released(logging.LogRecord):
    def __del__(self):
        print('released')
class InC(ctypes.Structure, logging.LogRecord):
    _fields_ = [('number', ctypes.c_int)]
    def __init__(self, *words):
        logging.LogRecord.__init__(self, *words)
class Proxy:
    __slots__ = ('__wrapped__',)
    def __init__(self, *words):
        object.__setattr__(self, '__wrapped__', logging.LogRecord(*words))
    __class__ = property(lambda self: logging.LogRecord)
    __dict__ = property(lambda self: self.__wrapped__.__dict__)
    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)
    def __setattr__(self, name, value):
        setattr(self.__wrapped__, name, value)
    def __copy__(self):
        raise NotImplementedError('no copies')
class All(logging.Handler):
    def emit(self, record):
        print(sorted(record.__dict__), record.exc_text)
root.addHandler(All())
root.handlers[0].setFormatter(logging.Formatter('%(asctime)s %(message)s'))
for kind in (New, Unpickled, Pickled, Released, InC, Proxy):
    try:
        raise ValueError('password')
    except ValueError:
        root.handle(kind('shop', 20, 'app.py', 1, 'hello %s', (kind.__name__,), sys.exc_info()))
"""
        expected = ["New of shop", "Unpickled", "Pickled", "Released", "InC", "Proxy"]
        for self.python in (sys.executable, *other_pythons()):
            with self.subTest(self.python):
                messages = [event["fields"]["message"] for event in self.record(program)]
                self.assertEqual([message.split("\n")[0].partition(" hello ")[2] for message in messages], expected)
                self.assertTrue(all(message.endswith("ValueError: password") for message in messages), messages)
                self.assertEqual(self.said, self.run_python(program).stdout)

    def test_the_example_of_the_docs(self):
        page = (SOURCE / "docs/python.md").read_text()
        (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        trace = self.folder / "trace"
        (self.folder / "app.py").write_text(example)
        done = subprocess.run([PLUMB, "record", "-q", "-o", trace, "-e", "python:*", "--", sys.executable, self.folder / "app.py"],
                              env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, "WARNING:shop:only 3 left\n"))
        shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=100, check=True)
        (line,) = [line for line in shown.stdout.splitlines() if " python:" in line]
        for part in ("python:warning: ", 'logger = "shop"', 'message = "only 3 left"', "level = 30", 'thread = "MainThread"',
                     f'file = "{self.folder}/app.py"', "line = 7", 'function = "<module>"'):
            self.assertIn(part, line)

    def test_without_the_library_it_says_where_it_looked(self):
        shutil.copy(MODULE / "plumb_logging.py", self.folder)
        done = self.run_python("", begin="import plumb_logging\n", environment=dict(os.environ, PYTHONPATH=str(self.folder)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ImportError: plumb_logging: there is no ", done.stderr)
        self.assertIn("PLUMB_PROBE_DIR", done.stderr)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
