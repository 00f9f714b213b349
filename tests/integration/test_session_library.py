#!/usr/bin/env python3
# cmake-once
"""Sessions of plumb-consumerd from a program, by <plumb/session.h> and libplumb-control: what it asks for is recorded exactly, what is
asked wrongly has the numbers that the header promises."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from sessions import PLUMB, SessionTest  # noqa: E402

# `program BURST PAUSE_US`: from SIGUSR1 on numbers its events until SIGTERM, and says how many there were.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (u64, number))
PLUMB_EVENT(shop, noise, (u64, number))
static volatile sig_atomic_t begun, over;
static void begin(int number) { (void)number; begun = 1; }
static void end(int number) { (void)number; over = 1; }
int main(int count, char** words) {
    (void)count;
    const unsigned long burst = strtoul(words[1], NULL, 10), pause_us = strtoul(words[2], NULL, 10);
    unsigned long number = 0;
    signal(SIGUSR1, begin);
    signal(SIGTERM, end);
    puts("begun");
    fflush(stdout);
    while (!over) {
        for (unsigned long i = 0; i < burst && begun; i++) {
            plumb_trace(shop, order, number);
            plumb_trace(shop, noise, number);
            number++;
        }
        usleep((unsigned)pause_us);
    }
    printf("%lu\n", number);
    return 0;
}
"""
# What <plumb/session.h> has, step by step; answers go to standard output.
IN_C = r"""
#include <plumb/session.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define DO(call) do { const int failed = (call); if (failed) { printf("%s: %d %s\n", #call, failed, plumb_control_error(control)); \
    return 1; } printf("%s\n", plumb_control_answer(control)); fflush(stdout); } while (0)
int main(int count, char** words) {
    (void)count;
    struct plumb_control* control = plumb_control_open();
    struct plumb_session_options options = {.output = words[1], .mode = "block", .context = "cpu", .subbuf_bytes = 65536};
    struct plumb_session_rule rules[] = {{.event = "shop:*", .filter = "number % 2 == 0"}, {.event = "!shop:noise"}};
    if (plumb_session_start(control, "in-c") != -ENOENT || !strstr(plumb_control_error(control), "There is no session in-c"))
        return 2;
    DO(plumb_session_create(control, "in-c", &options));
    if (plumb_session_create(control, "in-c", &options) != -EEXIST) return 3;
    DO(plumb_session_enable(control, "in-c", rules, 2));
    DO(plumb_session_start(control, "in-c"));
    const char* actions[] = {"rotate", "run /bin/true 'a b'"};
    struct plumb_session_trigger trigger = {.name = "soon", .cause = "event shop:never if number > 7", .actions = actions,
                                            .action_count = 2, .at_most = 1};
    DO(plumb_session_add_trigger(control, "in-c", &trigger));
    trigger.cause = "event";
    if (plumb_session_add_trigger(control, "in-c", &trigger) != -EINVAL) return 5;
    DO(plumb_session_triggers(control, "in-c"));
    if (!strstr(plumb_control_answer(control), "shop:never")) return 6;
    DO(plumb_session_remove_trigger(control, "in-c", "soon"));
    if (plumb_session_remove_trigger(control, "in-c", "soon") != -ENOENT) return 7;
    getchar();
    DO(plumb_session_rotate(control, "in-c"));
    DO(plumb_session_disable(control, "in-c", &rules[1], 1));
    DO(plumb_session_status(control, "in-c"));
    DO(plumb_session_status(control, NULL));
    DO(plumb_session_stop(control, "in-c"));
    DO(plumb_session_save(control, "in-c"));
    if (plumb_session_load(control, "nonsense") >= 0) return 4;
    DO(plumb_session_destroy(control, "in-c"));
    char gone[] = "/tmp/plumb-gone-XXXXXX";
    options.output = "here";
    if (!mkdtemp(gone) || chdir(gone) != 0 || rmdir(gone) != 0 || plumb_session_create(control, "in-c", &options) != -ENOENT ||
        !strstr(plumb_control_error(control), "is meant from the current directory on"))
        return 8;
    plumb_control_close(control);
    return 0;
}
"""


class SessionLibrary(SessionTest):
    PROGRAM = PROGRAM

    def test_in_c(self):
        """The same from a program: a controller that lets go of nothing when it ends."""
        libraries = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "consumerd"
        source = self.folder / "controller.c"
        source.write_text(IN_C)
        controller = self.folder / "controller"
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", source,
                        f"-L{libraries}", "-lplumb-control", f"-Wl,-rpath,{libraries}", "-o", controller], check=True)
        program = self.start_program(20, 1000)
        trace = self.folder / "in-c"
        with subprocess.Popen([controller, trace], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PLUMB_CONSUMERD": str(PLUMB.parent / "plumb-consumerd")}) as process:
            said = [json.loads(process.stdout.readline()) for _ in range(6)]
            self.assertEqual((said[1]["rules_added"], said[2]["followed"]), (2, 1))
            self.assertEqual([each["name"] for each in said[4]["triggers"]], ["soon"])
            program.send_signal(signal.SIGUSR1)
            time.sleep(0.3)
            [written] = self.end_program(program)
            rest, _ = process.communicate("\n", timeout=60)
        self.assertEqual(process.returncode, 0, rest)
        answers = [json.loads(line) for line in rest.splitlines()]
        self.assertEqual(answers[3]["sessions"][0]["name"], "in-c")
        self.assertEqual(answers[5]["description"]["context"], "cpu")
        self.assertEqual(answers[5]["description"]["rules"], [{"event": "shop:*", "filter": "number % 2 == 0"}])
        read = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((read.returncode, read.stderr), (0, ""))
        orders = sorted(int(number) for number in re.findall(r"shop:order: .*number = (\d+) \}", read.stdout))
        self.assertEqual(orders, list(range(0, written, 2)))
        self.assertNotIn("shop:noise: ", read.stdout)


if __name__ == "__main__":
    unittest.main()
