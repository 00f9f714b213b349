#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
# cmake-of: probes/lttng
"""Programs with LTTng-UST's tracepoints that run on stacks of their own, and change them in the middle of a tracepoint; and such whose
threads begin where none of ours expects it: what each event says is what was traced, once."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import PLUMB, PROGRAMS, LttngProgramTest, leave_out_if_not_built  # noqa: E402


class Stepped(LttngProgramTest):
    def check_program(self, length, program, *words):
        count = int(self.record(PROGRAMS / program, *words))
        numbers = []
        with subprocess.Popen([PLUMB, "view", "--json", self.trace], stdout=subprocess.PIPE, text=True) as view:
            for line in view.stdout:
                event = json.loads(line)
                if event["event"] != "changed_stack:step":
                    continue
                fields = event["fields"]
                number = fields["number"]
                numbers.append(number)
                self.assertEqual((fields["text"], fields["same"], fields["again"]), (str(number), number, str(number)))
                self.assertEqual(fields["bytes"], [number & 255] * (length // (number % 3 + 1)), number)
        self.assertEqual(view.returncode, 0)
        self.assertEqual(sorted(numbers), list(range(count)))


class ChangedStack(Stepped):
    def check(self, mode, length):
        self.check_program(length, "lttng_changed_stack", mode, length)

    def test_let_each_other_run(self):
        for length in (10, 1500, 3000):
            self.check("crossing", length)

    def test_call_what_traces_on_another_stack(self):
        for length in (10, 1500, 3000):
            self.check("nested", length)

    def test_go_on_in_another_thread(self):
        for length in (10, 1500):
            self.check("moving", length)

    def test_are_changed_by_a_handler(self):
        self.check("preempted", 40)


class Forked(Stepped):
    def test_threads_that_were_begun_in_a_child_before_our_own_handler_ran(self):
        for length in (10, 300, 9000):
            self.check_program(length, "lttng_pooled", 3, 500 if length < 9000 else 50, length)


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main()
