#!/usr/bin/env python3
# cmake-once
"""Words that can not be meant are refused, before anything is made, with what is wanted: an empty variable of a script, a
letter in a number, a glob that matches nothing, `--` with no command."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]) / "cli" / "plumb"


class Refused(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plumb-options-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def refused(self, why, *arguments, user=None):
        done = subprocess.run([PLUMB, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=self.folder,
                              user=user)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertIn(why, done.stderr, arguments)
        self.assertEqual(os.listdir(self.folder), [], arguments)

    def test_empty_words(self):
        for option in ("--log-level", "--subbuf-size", "-o", "--name", "--kernel-pages"):
            self.refused("it is empty", "record", option, "", "--", "true")
        self.refused('"" is not a number of sub-buffers', "record", "--subbuf-count", "", "--", "true")
        self.refused("it is empty", "view", "--since", "", ".")
        self.refused("it is empty", "extract", "-o", "")

    def test_globs_that_match_nothing(self):
        for glob in ("", "[", "[!]", "a\\"):
            self.refused("can not be an executable", "record", "--exe", glob, "--duration", "1ms")
        for glob in ("[[:alpha:]]*", "[a\\]]"):  # fnmatch() of the C library knows them, the traced program does not
            self.refused("can not be an executable", "record", "--exe", glob, "--duration", "1ms")
            self.refused("can not be the name of an event", "record", "-e", f"shop:{glob}", "--", "true")
        self.refused('"shop:a\\nb" can not be the name of an event: it has a \'\\n\'', "record", "-e", "shop:a\nb", "--", "true")
        self.refused("it has a '\\x01'", "record", "-e", "a\x01b", "--", "true")
        for arguments in (("view", "-e", "[", "."), ("view", "-e", "[[:alpha:]]", "."), ("view", "--comm", "[", "."), ("list", "-e", "["), ("list", "-e", "!")):
            self.refused("can not be a pattern", *arguments)
        self.refused("more than one colon", "record", "-e", "a:b:c", "--", "true")

    def test_numbers(self):
        self.refused('--pid: "abc" is not a process id', "record", "-p", "abc")
        self.refused('--pid: "" is not a process id', "view", "--pid", "", ".")
        self.refused('--tid: "x" is not a thread id', "view", "--tid", "x", ".")
        for number in ("0", "-1", "many"):
            self.refused(f'--limit: "{number}" is not a number of events', "view", "-n", number, ".")
        self.refused('"abc" is not a process id', "snapshot", "abc")

    def test_nothing_that_controls_the_terminal_is_said(self):
        wild = "\033[31mX"
        for arguments in (("view", "--tid", wild, "."), ("record", "--mode", wild, "--", "true"), ("record", f"--no{wild}"),
                          ("record", "-p", wild), ("record", "-e", wild, "--", "true"), ("snapshot", wild)):
            done = subprocess.run([PLUMB, *arguments], capture_output=True, timeout=60, check=False, cwd=self.folder)
            self.assertIn(b"31mX", done.stderr, arguments)
            self.assertNotIn(b"\033", done.stderr, arguments)

    def test_sizes(self):
        for count in ("0", "1", "3", "4294967295"):
            self.refused(f"{count} sub-buffers are not possible", "record", "--subbuf-count", count, "--", "true")
        self.refused("a sub-buffer holds something", "record", "--subbuf-size", "0", "--", "true")
        self.refused("of 3 bytes is not possible", "record", "--subbuf-size", "3", "--", "true")
        self.refused("a buffer holds something", "record", "-k", "sched", "--kernel-buffer-size", "0", "--", "true")
        self.refused("nothing can be recorded in no time", "record", "--duration", "0", "--", "true")

    def test_flags_take_no_value(self):
        self.refused("--rotate takes no value", "record", "--rotate=10s", "--", "true")
        self.refused("--json takes no value", "view", "--json=0", ".")

    def test_options_that_there_are_not(self):
        """They are no commands: one that is called so would be run with what follows as its arguments."""
        for option in ("--nosuch", "-x", "--event-s", "-0"):
            for rest in (["--", "true"], ["true"], []):
                self.refused(option, "record", "-o", "trace", option, *rest)
        for command in ("view", "list", "doctor", "extract", "contention", "snapshot"):
            self.refused("--nosuch", command, "--nosuch", *([self.folder] if command in ("view", "contention") else []))
            self.refused("plumb: ", command, "--nosuch")

    def test_options_of_other_tracers(self):
        """Refused as all that there are not, and what they are called here is said."""
        for meant, *words in (("expected: -u\nPrograms' events are meant anyway: leave it out.\nRun with --help", "enable", "web", "-u", "shop:*"),
                              ("The session stands first", "enable", "--session=web", "shop:*"),
                              ("`plumb create SESSION -k PATTERN`", "enable", "web", "-k", "sched_switch"),
                              ("It is called --log-level here.", "record", "--loglevel=INFO", "--", "true"),
                              ("`--context callstack`.", "record", "-g", "--", "true"),
                              ("It is called --all here.", "destroy", "-a"),
                              ("`plumb view --json` has each field by its name.", "view", "--fields=trace", ".")):
            self.refused(meant, *words)
        self.refused("There is no command `add-context`. `plumb create SESSION --context LIST`", "add-context", "-u", "-t", "vpid")

    def test_commands_that_are_not_there(self):
        self.refused("plumb: There is no command `recrod`; one of a name like it is `record`. `plumb --help` lists them.\n",
                     "recrod", "-o", "trace", "--", "true")
        self.refused("plumb: There is no command `nosuch`. `plumb --help` lists them.\n", "nosuch")
        self.refused("plumb: There is no command `help`. `plumb COMMAND --help` explains one.", "help")
        self.refused("plumb: There is no command `enable-event`. `plumb enable SESSION PATTERN`", "enable-event")
        self.refused("several patterns have an option each", "record", "-e", "a:*,b:*", "--", "true")
        self.refused("It is in no folder of PATH.\n", "record", "--", "nosuchprogram")
        self.refused("/etc: Permission denied. It is a folder: name the program in it.\n", "record", "--", "/etc")
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w", encoding="utf-8") as file:
                file.write("#!/nosuch/interpreter -x\n")
            self.refused("It may not be executed: `chmod +x", "record", "--", script)
            os.chmod(script, 0o755)
            self.refused("who is to read it is not: /nosuch/interpreter -x", "record", "--", script)
        self.refused("64K is the smallest", "record", "-k", "sched", "--kernel-buffer-size", "1", "--", "true")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_directory_that_may_not_be_made(self):
        """That is not one that exists already."""
        os.chmod(self.folder, 0o755)
        for directory in (["-o", f"{self.folder}/trace"], []):
            self.refused("Permission denied", "record", *directory, "--", "true", user=65534)

    def test_no_command(self):
        self.refused("there is no command behind --", "record", "-o", "trace", "--")
        self.refused("the command's name is empty", "record", "-o", "trace", "--", "")

    def test_names(self):
        done = subprocess.run([PLUMB, "record", "--name", "n" * 64, "--", "true"], capture_output=True, text=True, timeout=60,
                              check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "plumb: --name: it has 64 bytes, where 63 are possible\nRun with --help for more information.\n")
        self.refused('There is no user "nobody-of-that-name"', "extract", "--user", "nobody-of-that-name")
        done = subprocess.run([PLUMB, "record", "--preload", "foo", "--", "true"], capture_output=True, text=True, timeout=60,
                              check=False, cwd=self.folder)
        self.assertIn('There is no probe "foo"', done.stderr)


if __name__ == "__main__":
    unittest.main()
