#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""What plumb view is asked to leave out: by fields, by what the scheduler does with a thread, by how long a call took; and what
it says where nothing is left."""
import collections
import pathlib
import random
import struct
import tempfile
import unittest

import test_view
from test_view import events, plumb, view


def setUpModule():
    test_view.setUpModule()


def tearDownModule():
    test_view.tearDownModule()


# Events as the kernel's are described, by LTTng or by Plumb: made here, since no kernel has to be traced for them.
KERNEL_METADATA = """/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = monotonic; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := stamp;
stream { id = 0; packet.context := struct { u64 content_size; u64 packet_size; };
         event.header := struct { u32 id; stamp timestamp; }; event.context := struct { u32 tid; }; };
event { name = "sched_switch"; id = 0; stream_id = 0; fields := struct { u32 prev_tid; u32 next_tid; }; };
event { name = "sched_wakeup"; id = 1; stream_id = 0; fields := struct { u32 tid; }; };
event { name = "syscall_entry_read"; id = 2; stream_id = 0; fields := struct { u32 fd; }; };
event { name = "syscall_exit_read"; id = 3; stream_id = 0; fields := struct { i64 ret; }; };
event { name = "irq"; id = 4; stream_id = 0; fields := struct { u32 tid; }; };
event { name = "syscall_entry_write"; id = 5; stream_id = 0; fields := struct { u32 fd; }; };
event { name = "syscall_entry_pipe"; id = 6; stream_id = 0; fields := struct { u32 fd; }; };
event { name = "syscall_exit_pipe"; id = 7; stream_id = 0; fields := struct { i64 ret; }; };
event { name = "syscall_entry_rt_sigreturn"; id = 8; stream_id = 0; fields := struct { u32 fd; }; };
event { name = "syscall_exit_rt_sigreturn"; id = 9; stream_id = 0; fields := struct { i64 ret; }; };
"""
SWITCH, WAKEUP, ENTRY, EXIT, IRQ, ENTRY_ALONE, OTHER_ENTRY, OTHER_EXIT, SIGRETURN = range(9)


def make_kernel_trace(directory, *events_, has_threads=True):
    """`events_`: (number, nanoseconds, thread, field, ...)"""
    body = b""
    for number, time_ns, thread, *fields in events_:
        body += struct.pack("<IQI", number, time_ns, thread)[:None if has_threads else -4]
        body += struct.pack("<q" if number in (EXIT, OTHER_EXIT) else f"<{len(fields)}I", *fields)
    bits = 8 * (24 + len(body))
    directory.mkdir()
    context = "event.context := struct { u32 tid; };"
    (directory / "metadata").write_text(KERNEL_METADATA if has_threads else KERNEL_METADATA.replace(context, ""))
    (directory / "stream").write_bytes(struct.pack("<IIQQ", 0xC1FC1FC1, 0, bits, bits) + body)


class OfTheKernel(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.trace = pathlib.Path(directory.name) / "trace"

    def test_what_the_scheduler_does_with_a_thread(self):
        make_kernel_trace(self.trace, (SWITCH, 1, 7, 7, 8), (SWITCH, 2, 8, 8, 9), (WAKEUP, 3, 1, 7), (SWITCH, 4, 9, 9, 7),
                          (IRQ, 5, 9, 7), (ENTRY, 6, 7, 0), (WAKEUP, 7, 1, 9))
        self.assertEqual([event["timestamp_ns"] for event in events("--tid", "7", self.trace)], [1, 3, 4, 6])

    def test_calls_that_took_long(self):
        second = 10**9
        make_kernel_trace(self.trace, (ENTRY, 0, 7, 0), (EXIT, second, 7, 1), (ENTRY, second, 8, 1), (IRQ, second, 9, 9),
                          (EXIT, second + 1000, 8, -11), (ENTRY, second, 9, 2), (ENTRY, 3 * second - 1, 5, 4),
                          (IRQ, 3 * second, 1, 1))
        def lines(*arguments):
            return [line.split(" read: ")[-1].split(" syscall_entry_")[-1] for line in view("--pairs", *arguments, self.trace)]
        self.assertEqual(len(lines()), 6)
        slow = lines("--min-duration", "1ms")
        self.assertEqual([line.split(" after ")[-1][-12:] for line in slow], ["1.000000000", "<unfinished>"], slow)
        self.assertEqual(len(lines("--min-duration", "1us")), 3)
        self.assertEqual([line[-12:] for line in lines("--tid", "9", "--min-duration", "1ms")], ["<unfinished>"])
        self.assertEqual(lines("--tid", "5", "--min-duration", "1ms"), [])
        self.assertIn("--min-duration", plumb("view", "--pairs", "--summary", "--min-duration", "1ms", self.trace, status=2).stderr)
        self.assertIn("--min-duration", plumb("view", "--min-duration", "1ms", self.trace, status=2).stderr)
        self.assertIn("is not a time", plumb("view", "--pairs", "--min-duration", "x", self.trace, status=1).stderr)

    def test_a_limit_counts_calls(self):
        make_kernel_trace(self.trace, (ENTRY, 0, 7, 0), (ENTRY, 1, 8, 1), (EXIT, 2, 8, 1), (ENTRY, 10, 8, 1),
                          (EXIT, 14, 8, 1), (EXIT, 10**9, 7, 1), (ENTRY, 10**9 + 1, 5, 0), (ENTRY, 10**9 + 2, 6, 0))
        def durations(*arguments):
            return [line.rsplit(" ", 1)[-1] for line in view("--pairs", *arguments, self.trace)]
        short, middle, long, unfinished = "0.000000001", "0.000000004", "1.000000000", "<unfinished>"
        self.assertEqual(durations(), [short, middle, long, unfinished, unfinished])
        for limit in range(1, 6):
            self.assertEqual(durations("-n", limit), durations()[:limit])
        self.assertEqual(durations("-n", "1", "--min-duration", "1ms"), [long])
        self.assertEqual(durations("--until", "+5ns"), [short, unfinished])
        for limit in range(1, 5): # the exits are passed over
            self.assertEqual(len(view("--pairs", "-e", "syscall_entry_*", "-n", limit, self.trace)), limit)
        self.assertIn("no system call is known to have taken 2s or longer",
                      plumb("view", "--pairs", "--min-duration", "2s", self.trace).stderr)

    def test_calls_that_went_on_are_not_unfinished(self):
        """Only entries were recorded: who is told that a call did not return looks for a program that hangs."""
        make_kernel_trace(self.trace, (ENTRY_ALONE, 0, 7, 1), (IRQ, 1, 7, 7), (ENTRY_ALONE, 2, 7, 2), (ENTRY, 3, 7, 3),
                          (ENTRY_ALONE, 4, 8, 4))
        lines = view("--pairs", self.trace)
        self.assertEqual([line.split(") ")[1].split(":")[0] for line in lines],
                         ["syscall_entry_write", "irq", "syscall_entry_write", "syscall_entry_write", "syscall_entry_read"])
        self.assertEqual(["<" in line for line in lines], [False] * 4 + [True], lines)
        plain = view(self.trace)
        self.assertEqual([line.split(") ")[1] for line in lines[:4]], [line.split(") ")[1] for line in plain[:3] + plain[4:]])
        self.assertEqual(len(view("--pairs", "--min-duration", "1ns", self.trace)), 1)

    def test_calls_whose_exit_is_not_there(self):
        make_kernel_trace(self.trace, (ENTRY, 0, 7, 1), (ENTRY, 1, 7, 2), (EXIT, 2, 7, 0), (ENTRY, 3, 7, 3),
                          (OTHER_EXIT, 5, 7, 0), (ENTRY, 5, 7, 4), (ENTRY_ALONE, 6, 7, 4), (OTHER_ENTRY, 6, 7, 4),
                          (IRQ, 9, 1, 1))
        def ends(*arguments):
            return [line.split("}, ")[-1].split("} ")[-1] for line in view("--pairs", *arguments, self.trace)]
        lost = "<exit not seen>"
        self.assertEqual(ends(), [lost, "after 0.000000001", lost, "{ ret = 0 }", lost, "{ fd = 4 }", "{ tid = 1 }", "<unfinished>"])
        self.assertEqual(ends("--min-duration", "1ns"), ["after 0.000000001", "<unfinished>"])

    def test_a_call_that_never_returns_has_lost_no_exit(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            make_kernel_trace(trace, (SIGRETURN, 100, 7, 0), (ENTRY, 200, 7, 3), (EXIT, 300, 7, 1), (SIGRETURN, 400, 7, 0))
            pairs = plumb("view", "--pairs", trace).stdout
            self.assertEqual(len(pairs.splitlines()), 3, pairs)
            self.assertNotRegex(pairs, "not seen|unfinished")
            self.assertNotIn("sigreturn", plumb("view", "--pairs", "--min-duration", "50ns", trace).stdout)

    def test_since_within_a_packet_that_its_tracer_did_not_finish(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            make_kernel_trace(trace, *((IRQ, 100 * i, 7, i) for i in range(1, 5)))
            whole = (trace / "metadata").read_text()
            (trace / "metadata").write_text(whole.replace("packet.context := struct {",
                                                          "packet.context := struct { stamp timestamp_begin; stamp timestamp_end;"))
            stream = (trace / "stream").read_bytes()
            bits = 8 * (len(stream) + 16)
            (trace / "stream").write_bytes(stream[:8] + struct.pack("<QQQQ", 100, 0, bits, bits) + stream[24:])
            self.assertEqual(len(plumb("view", trace).stdout.splitlines()), 4)
            self.assertEqual(len(plumb("view", "--since", "+150ns", trace).stdout.splitlines()), 2)

    def test_calls_whose_exit_is_left_out(self):
        make_kernel_trace(self.trace, (ENTRY, 0, 7, 1), (EXIT, 2, 7, 0), (ENTRY, 4, 7, 2), (EXIT, 9, 7, 0), (ENTRY, 10, 7, 3))
        for left_out in (("-e", "syscall_entry_*"), ("--where", "fd > 0")):
            self.assertEqual([line.rsplit("{ ")[-1] for line in view("--pairs", *left_out, self.trace)],
                             ["fd = 1 }", "fd = 2 }", "fd = 3 } <unfinished>"])
            self.assertEqual([line.rsplit("{ ")[-1] for line in view("--pairs", "--min-duration", "5ns", *left_out, self.trace)],
                             ["fd = 2 }"])

    def test_calls_of_nobody_are_not_joined(self):
        """As of LTTng's traces without the context `tid`: what returns may be another thread's call."""
        make_kernel_trace(self.trace, (ENTRY, 0, 0, 3), (ENTRY, 1, 0, 33), (EXIT, 2, 0, 5), (EXIT, 9, 0, 7),
                          has_threads=False)
        done = plumb("view", "--pairs", self.trace)
        self.assertEqual([line.split(": {")[0].split(" ")[-1] for line in done.stdout.splitlines()],
                         ["syscall_entry_read", "syscall_entry_read", "syscall_exit_read", "syscall_exit_read"])
        self.assertIn("4 events of system calls do not say which thread they are of", done.stderr)
        self.assertEqual(plumb("view", self.trace).stderr, "")


class Where(unittest.TestCase):
    """Conditions over fields."""
    def ids(self, condition, *arguments):
        return [event["fields"].get("id") for event in events("--where", condition, *arguments, test_view.shop)]

    def test_types_of_fields(self):
        everything = events("-e", "shop:order", test_view.shop)
        def left(keeps):
            return [event["fields"]["id"] for event in everything if keeps(event["fields"], event)]
        for condition, keeps in (
                ("id == 18446744073709551615", lambda f, e: f["id"] == 2**64 - 1),
                ("i64 == -9223372036854775808", lambda f, e: f["i64"] == -2**63),
                ("i64 + 1 < i64 - -2 && i8 < 0", lambda f, e: f["i8"] < 0),
                ("flags & 0xff == 0x40", lambda f, e: f["flags"] & 0xff == 0x40),
                ("flags >> 30 == 0b11 || u8 << 1 > 508", lambda f, e: f["flags"] >> 30 == 3 or f["u8"] * 2 > 508),
                ("price > 1.5e15 && !paid", lambda f, e: f["price"] > 1.5e15 and not f["paid"]),
                ("ratio * 4 % 100 == 0", lambda f, e: f["ratio"] * 4 % 100 == 0),
                ('customer == "bob" && comm == "left"', lambda f, e: f["customer"] == "bob" and e["comm"] == "left"),
                ('customer ~ "*\\"quotes\\"*"', lambda f, e: '"quotes"' in f["customer"]),
                ("customer ~ 'with \"*'", lambda f, e: f["customer"].startswith('with "')),
                ('customer !~ "b?b" && customer != ""', lambda f, e: f["customer"] not in ("bob", "")),
                ('customer == "gr\\xc3\\xbcn" || customer == "line\\nbreak\\t\\x01"',
                 lambda f, e: f["customer"] in ("gr\u00fcn", "line\nbreak\t\x01")),
                ('status == "sent"', lambda f, e: f["status"]["value"] == 1),
                ("status == 2", lambda f, e: f["status"]["value"] == 2),
                ('way ~ "b*" || way > 1000', lambda f, e: f["way"]["value"] in (-1, 2000000000)),
                ("ports[0] == ports[3] || ports[2] != 65535", lambda f, e: f["ports"][0] == f["ports"][3]),
                ("sizes[1] == 4294967295", lambda f, e: len(f["sizes"]) > 1),
                ("signs[1] > 0", lambda f, e: len(f["signs"]) > 1),
                ("cpu >= 0 && pid <= tid && 7 > id", lambda f, e: e["pid"] <= e["tid"] and f["id"] < 7)):
            with self.subTest(condition):
                self.assertEqual(self.ids(condition), left(keeps))

    def test_what_an_event_lacks_is_neither_so_nor_not_so(self):
        every, nothing = len(events(test_view.shop)), len(events("-e", "shop:nothing", test_view.shop))
        self.assertEqual(len(self.ids("id >= 0")), every - nothing)
        self.assertEqual(len(self.ids("!(id >= 0)")), 0)
        self.assertEqual(len(self.ids('id >= 0 || event == "shop:nothing"')), every)
        self.assertEqual(len(self.ids("1 / (id - id) == 1")), 0)

    def test_fields_that_are_not_shown_are_none(self):
        """`path` and `uid` are of the events that tell of processes."""
        for condition in ('path ~ "*"', "uid >= 0"):
            self.assertIn("no event of the trace has a field",
                          plumb("view", "--where", condition, test_view.shop, status=1).stderr)
            for shown in (["--statedump"], ["-e", "plumb_statedump:*"]):
                self.assertTrue(events("--where", condition, *shown, test_view.shop))

    def test_names_of_bits(self):
        """What several bits are called is one text; a number of which no bit has a name is no text."""
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            numbers = (1, 3, 2, 0x40, 0, 0x43)
            make_kernel_trace(trace, *((WAKEUP, time_ns, 1, number) for time_ns, number in enumerate(numbers)))
            metadata = (trace / "metadata").read_text()
            wakeup = 'name = "sched_wakeup"; id = 1; stream_id = 0; fields := struct { u32 tid; };'
            labels = ('typealias enum : integer { size = 32; align = 8; signed = false; } { "S" = 1, "D" = 2 } := '
                      'plumb_flags_of_state;')
            self.assertIn(wakeup, metadata)
            (trace / "metadata").write_text(metadata.replace(
                wakeup, f'name = "sched_wakeup"; id = 1; stream_id = 0; {labels} fields := struct {{ u32 state; }};'))
            for condition, wanted in (('state == "S"', [1]), ('state == "S|D"', [3]), ('state ~ "*D*"', [3, 2, 0x43]),
                                      ('state != "S"', [3, 2, 0x40, 0, 0x43]), ('state == "S|D|0x40"', [0x43]),
                                      ("state & 1", [1, 3, 0x43]), ('state == "S" || state == "D"', [1, 2])):
                found = [event["timestamp_ns"] for event in events("--where", condition, trace)]
                self.assertEqual([numbers[at] for at in found], wanted, condition)

    def test_mistakes_are_pointed_at(self):
        for condition, column, what in (
                ("flgs & 1", 0, "no event of the trace has a field flgs, but some have flags"),
                ("id == 1 && customer > 5", 20, "customer is a text, and 5 is a number: they can not be compared"),
                ("id ~ 'x'", 0, "id is a number, and a text is wanted"), ("customer ~ '['", 11, "this is not a pattern"),
                ("id + customer == 1", 5, "customer is a text, and a number is wanted"),
                ("price & 1", 6, "only integers have bits"),
                ("ports == 1", 0, "ports has elements: name one, ports[0]"), ("(id == 1", 0, "is not closed"),
                ("id == 1 &&", 10, "something is missing"), ("id == 1 == 1", 8, "do not follow each other"),
                ("id = 1", 3, "no operation"), ("id == 'x", 6, "no end"),
                ("id == 99999999999999999999", 6, "more than 64 bits"),
                ("customer", 0, "compare it with something"), ("id == 10ms", 8, "no unit"), ("ports[x] == 1", 5, "[0]"),
                ("(" * 500 + "id", 200, "nested too deeply"), ("id" + " + 1" * 5000, None, "too long")):
            with self.subTest(condition[:40]):
                said = plumb("view", "--where", condition, test_view.shop, status=1).stderr
                self.assertIn(what, said)
                if column is not None:
                    self.assertTrue(said.endswith(f"\n    {condition}\n    {' ' * column}^\n"), said)

    STRENGTHS = {"||": 1, "&&": 2, "==": 3, "<": 3, ">=": 3, "!=": 3, "|": 4, "^": 5, "&": 6, "<<": 7, ">>": 7, "+": 8, "-": 8,
                 "*": 9}
    MEANINGS = {"||": lambda a, b: int(bool(a) or bool(b)), "&&": lambda a, b: int(bool(a) and bool(b)),
                "==": lambda a, b: int(a == b), "<": lambda a, b: int(a < b), ">=": lambda a, b: int(a >= b),
                "!=": lambda a, b: int(a != b), "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&": lambda a, b: a & b,
                "<<": lambda a, b: a << b if 0 <= b <= 63 else None, ">>": lambda a, b: a >> b if 0 <= b <= 63 else None,
                "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
                "!": lambda a: int(not a), "~": lambda a: ~a, "u": lambda a: -a}

    def shown(self, tree):
        """With no more parentheses than it takes."""
        if isinstance(tree, str):
            return tree
        sign, *operands = tree
        if len(operands) == 1:
            inner = self.shown(operands[0])
            return ("-" if sign == "u" else sign) + (f"({inner})" if isinstance(operands[0], tuple) else inner)
        texts, strength = [], self.STRENGTHS[sign]
        for place, operand in enumerate(operands):
            text = self.shown(operand)
            weak = isinstance(operand, tuple) and len(operand) == 3 and (
                self.STRENGTHS[operand[0]] < strength + (place == 1 or strength == 3))
            texts.append(f"({text})" if weak else text)
        return f"{texts[0]} {sign} {texts[1]}"

    def value(self, tree, fields):
        """None where it has none."""
        if isinstance(tree, str):
            return fields[tree] if tree in fields else int(tree, 0)
        sign, *operands = tree
        values = [self.value(operand, fields) for operand in operands]
        if sign in ("||", "&&"):
            deciding = sign == "||"
            if any(value is not None and bool(value) == deciding for value in values):
                return int(deciding)
        if None in values:
            return None
        value = self.MEANINGS[sign](*values)
        return None if value is None or not -2**127 <= value < 2**127 else value

    def test_as_another_evaluator_has_it(self):
        chance = random.Random(7)
        def tree(depth):
            if depth == 0 or chance.random() < 0.15:
                return chance.choice(("prev_tid", "next_tid", str(chance.randrange(70)), "0xff"))
            sign = chance.choice(list(self.MEANINGS))
            return (sign, *(tree(depth - 1) for _ in range(2 if sign in self.STRENGTHS else 1)))
        with tempfile.TemporaryDirectory() as directory:
            trace = pathlib.Path(directory) / "trace"
            switches = [(SWITCH, at, 1, chance.choice((0, 1, 7, 2**32 - 1, chance.randrange(2**32))), chance.randrange(70))
                        for at in range(60)]
            make_kernel_trace(trace, *switches)
            kinds = collections.Counter()
            for _ in range(300):
                made = tree(5)
                wanted = [at for _, at, _, prev_tid, next_tid in switches
                          if self.value(made, {"prev_tid": prev_tid, "next_tid": next_tid})]
                found = [event["timestamp_ns"] for event in events("--where", self.shown(made), trace)]
                self.assertEqual(found, wanted, self.shown(made))
                kinds[len(wanted) in (0, len(switches))] += 1
            self.assertGreater(kinds[False], 50)  # which tell the events apart


class Nothing(unittest.TestCase):
    """What matches nothing is told, with what there is."""
    def said(self, *arguments):
        done = plumb("view", *arguments, test_view.shop)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_numbers_and_names(self):
        tids = {event["tid"] for event in events(test_view.shop)}
        for option, what in (("--tid", "thread"), ("--pid", "process")):
            said = self.said(option, "1")
            self.assertIn(f"no event is of {what} 1; the trace has", said)
            self.assertTrue(any(f"{tid} (left)" in said for tid in tids) or what == "process", said)
        self.assertRegex(self.said("--comm", "nosuch"),
                         r"no event is of a thread called nosuch; the trace has (left, right|right, left)\.")

    def test_names_in_contexts(self):
        """As LTTng's context `procname` has them; they may hold ends of lines."""
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            make_kernel_trace(trace, (IRQ, 1, 7, 0x610A62), (IRQ, 2, 8, 0x636363))
            metadata = (trace / "metadata").read_text()
            named = "event.context := struct { u32 tid; integer { size = 8; encoding = UTF8; } procname[4]; };"
            (trace / "metadata").write_text(metadata.replace("event.context := struct { u32 tid; };", named).replace(
                'name = "irq"; id = 4; stream_id = 0; fields := struct { u32 tid; };',
                'name = "irq"; id = 4; stream_id = 0; fields := struct { };'))
            said = plumb("view", "--comm", "nosuch", trace).stderr
            self.assertIn("the trace has b\\na, ccc.\n", said)
            self.assertIn("7 (b\\na), 8 (ccc)", plumb("view", "--tid", "1", trace).stderr)
            summary = plumb("view", "--summary", trace).stdout
            self.assertRegex(summary, r"1 +0 +7  b\\na\n")
            self.assertRegex(summary, r"1 +0 +8  ccc\n")
        self.assertIn("name of the trace's folder is empty", plumb("view", "", status=1).stderr)

    def test_times(self):
        for time_given in ("+1h", "+5min", "+2d", "+10000000000ns"):
            self.assertRegex(self.said("--since", time_given), r"the last event is of [-\d]+ [\d:.]+, before --since")
        self.assertIn("the first event is of", self.said("--until", "2001-01-01 00:00"))
        self.assertRegex(self.said("--utc", "--since", "+1s", "--until", "+0.5s"), "before --since|--since is after --until")

    def test_together(self):
        first = events("-n", "1", test_view.shop)[0]
        other = next(event["tid"] for event in events(test_view.shop) if event["tid"] != first["tid"])
        self.assertIn("no event is left by all that was asked for; the trace has shop:order, shop:nothing",
                      self.said("--tid", other, "--comm", first["comm"]))
        self.assertIn("no event that matches nosuch:*", self.said("-e", "nosuch:*"))
        self.assertEqual(plumb("view", "--summary", "-e", "shop:nothing", test_view.shop).stderr, "")


if __name__ == "__main__":
    unittest.main()
