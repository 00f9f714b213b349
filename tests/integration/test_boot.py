#!/usr/bin/env python3
# cmake-once
"""plumb boot, without a boot: what it writes into a system, and that nothing of it is left. (A real boot: tests/kernel/test_boot.py.)"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
SETTINGS, GRUB = "etc/plumb/boot", "etc/default/grub.d/plumb.cfg"


# Without a file of `plumb boot enable`.
WORDS = r"""
#include <stdarg.h>
#include <stdio.h>
#include "plumb-init.h"
void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}
int main(void) {
    static struct settings settings;
    struct asked asked;
    read_command_line(&asked);
    if (!read_settings(&settings, &asked)) return 1;
    for (int i = 8; i < settings.word_count; i++) puts(settings.words[i]);
    return 0;
}
"""


def content(root):
    """Every file and directory with its mode and what is in it."""
    return {str(path.relative_to(root)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in sorted(root.rglob("*"))}


class Boot(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        (self.root / "sbin").mkdir()
        (self.root / "sbin/other").write_text("#!/bin/sh\n")
        (self.root / "sbin/other").chmod(0o755)
        (self.root / "etc").mkdir()
        self.installed = self.root / str(BUILD / "probes/init/plumb-init")[1:]
        self.installed.parent.mkdir(parents=True)
        self.installed.touch(mode=0o755)

    def plumb(self, what, *arguments, status=0):
        done = subprocess.run([PLUMB, "boot", what, "--root", self.root, *arguments], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_the_system_is_as_it_was_behind_it(self):
        (self.root / "etc").rmdir()
        for there in (), ("etc",), ("etc/default",), ("etc/default/grub.d", "etc/plumb"):
            for directory in there:
                (self.root / directory).mkdir(parents=True)
            before = content(self.root)
            with self.subTest(there):
                self.assertIn(f"init={BUILD}/probes/init/plumb-init", self.plumb("enable"))
                self.assertNotEqual(content(self.root), before)
                self.assertIn("Next boot: recorded", self.plumb("status"))
                self.assertIn("take this off", self.plumb("disable"))
                self.assertEqual(content(self.root), before)
                self.assertIn("Next boot: not recorded", self.plumb("status"))

    def make_initramfs_tools(self):
        for name in ("usr/share/initramfs-tools/hook-functions", "lib/modules/6.1.0/updates/dkms/plumb.ko.xz"):
            (self.root / name).parent.mkdir(parents=True)
            (self.root / name).touch()

    def test_an_initramfs_has_a_hook_and_scripts_and_loses_them(self):
        self.make_initramfs_tools()
        tools = self.root / "etc/initramfs-tools"
        for there in (), ("hooks", "scripts/init-top"), ("scripts/nfs-bottom",):
            for directory in there:
                (tools / directory).mkdir(parents=True)
            before = content(self.root)
            with self.subTest(there):
                self.assertIn("Now run update-initramfs -u", self.plumb("enable", "--module", "--initramfs"))
                scripts = {str(path.relative_to(tools)): path for path in tools.rglob("plumb")}
                self.assertEqual(sorted(scripts), ["hooks/plumb", "scripts/init-top/plumb", "scripts/local-bottom/plumb",
                                                   "scripts/nfs-bottom/plumb"])
                for path in scripts.values():
                    self.assertEqual(path.stat().st_mode & 0o777, 0o755)
                    self.assertEqual(subprocess.run(["sh", path, "prereqs"], capture_output=True, text=True, check=True).stdout, "")
                self.assertIn("manual_add_modules plumb\n", scripts["hooks/plumb"].read_text())
                self.assertIn("module=yes", (self.root / SETTINGS).read_text().splitlines())
                self.assertIn("Next boot: recorded from the initramfs on", self.plumb("status"))
                self.assertIn("Now run update-initramfs -u", self.plumb("disable"))
                self.assertEqual(content(self.root), before)

    def test_what_they_need_has_to_be_there(self):
        before = content(self.root)
        self.assertIn("There is no initramfs-tools", self.plumb("enable", "--initramfs", status=1))
        self.assertIn("There is no plumb.ko for any kernel", self.plumb("enable", "--module", status=1))
        self.assertIn("go with `plumb boot enable`", self.plumb("disable", "--module", status=2))
        self.assertEqual(content(self.root), before)

    def test_files_of_others_are_left_alone(self):
        self.make_initramfs_tools()
        for name in ("etc/initramfs-tools/hooks/plumb", GRUB):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("precious\n")
            before = content(self.root)
            with self.subTest(name):
                self.assertIn("not of Plumb", self.plumb("enable", "--initramfs", status=1))
                self.assertEqual(content(self.root), before)

    def test_a_recording_of_the_boot_is_none_without_one(self):
        trace = self.root / "trace"
        for options, said, status in (((), "No recording of this boot is under way", 1), (("-k", "sched:*"), "--boot takes", 2),
                                      (("--", "true"), "has no command", 2), (("--duration", "x"), "", 1)):
            done = subprocess.run([PLUMB, "record", "--boot", "-o", trace, *options], capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertFalse(trace.exists())

    def test_rules_of_the_kernels_command_line_are_taken_whole_and_all_of_them(self):
        harness = self.root / "words"
        harness.with_suffix(".c").write_text(WORDS)
        init = SOURCE / "probes/init"
        subprocess.run(["gcc", "-std=gnu11", f"-I{init}", harness.with_suffix(".c"), init / "settings.c", "-o", harness], check=True)
        patterns = [word for number in range(400) for word in ("-k", f"a:b{number}")]
        for line, words in (
                ('quiet plumb.rules="-a -k sched:*" ro', ["-a", "-k", "sched:*"]),
                ("plumb.rules=\"-a -k 'sched:sched_switch if prev_pid == 1'\"", ["-a", "-k", "sched:sched_switch if prev_pid == 1"]),
                ('plumb.rules="-a -k irq" ro plumb.rules="-k sched"', ["-a", "-k", "irq", "-k", "sched"]),
                ('"plumb.rules=' + " ".join(patterns) + '"', patterns)):
            self.assertEqual(self.words(harness, line), words)

    def words(self, harness, line):
        """What plumb-init adds to the usual words of a recording on a machine that was booted with that line."""
        (self.root / "line").write_text(line + "\n")
        script = f"mount --bind {self.root}/line /proc/cmdline && exec {harness}"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
        if "unshare:" in done.stderr or "mount:" in done.stderr:
            self.skipTest("nothing may be mounted here")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_a_system_without_it_is_left_as_it_is(self):
        self.installed.unlink()
        before = content(self.root)
        self.assertIn("Install Plumb there first", self.plumb("enable", status=1))
        self.assertEqual(content(self.root), before)

    def test_what_others_put_there_stays(self):
        self.plumb("enable")
        (self.root / "etc/plumb/mine").write_text("precious")
        self.plumb("disable")
        self.assertEqual((self.root / "etc/plumb/mine").read_text(), "precious")
        self.assertFalse((self.root / "etc/default").exists())

    def test_settings_are_those_that_were_asked_for(self):
        self.plumb("enable", "--init", "/sbin/other", "--preload", "pthread", "--", "-k", "sched:*", "-e", "!a b:c")
        lines = (self.root / SETTINGS).read_text().splitlines()
        self.assertIn("init=/sbin/other", lines)
        self.assertTrue(any(line.startswith("preload=") and "libplumb-pthread.so" in line for line in lines), lines)
        words = [line.removeprefix("record=") for line in lines if line.startswith("record=")]
        self.assertEqual(words, [str(PLUMB), "record", "-q", "--force", "-o", "/run/plumb-boot/trace", "--exe", "*", "-k", "sched:*",
                                 "-e", "!a b:c"])
        said = subprocess.run(["sh", "-c", f'GRUB_CMDLINE_LINUX_DEFAULT="quiet x=1"; . {self.root}/{GRUB}; '
                               'echo "$GRUB_CMDLINE_LINUX_DEFAULT"'], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, f"quiet x=1 init={BUILD}/probes/init/plumb-init\n")

    def test_the_kernels_start_has_all_that_the_recording_has(self):
        if not Path("/sys/kernel/tracing/events/sched").is_dir():
            self.skipTest("only root sees which events the kernel has")
        for words in (("-ak", "sched:*", "-k", "irq:*"), ("-a", "--kernel=sched:*", "-kirq:*"), ("-qak", "sched:*", "-k", "irq:*")):
            with self.subTest(words):
                said = self.plumb("enable", "--kernel-start", "--", *words)
                self.assertIn("trace_event=", said)
                for system in ("sched:", "irq:"):
                    self.assertIn(system, said.partition("trace_event=")[2].split()[0])
                self.plumb("disable")
        self.assertIn("means nothing without events of the kernel", self.plumb("enable", "--kernel-start", "--", "-a", status=1))

    def test_what_can_not_be_is_refused(self):
        before = content(self.root)
        self.assertIn("It is not enabled", self.plumb("disable", status=1))
        self.assertIn("/sbin/gone can not be an init: it is no program there", self.plumb("enable", "--init", "/sbin/gone", status=1))
        self.assertIn("stands in front", self.plumb("enable", "--init", f"{BUILD}/probes/init/plumb-init", status=1))
        self.assertIn("no probe", self.plumb("enable", "--preload", "nothing", status=1))
        self.assertIn("no newline", self.plumb("enable", "--", "-e", "a\nrecord=b", status=1))
        for words in (["-o", "x"], ["-qox"], ["--output=x"], ["--", "true"]):
            self.assertIn("has no command", self.plumb("enable", "--", *words, status=1))
        for words in (["true"], ["--nosuch"], ["--kernel-start", "more"]):
            self.assertIn("The options of the recording: ", self.plumb("enable", "--", *words, status=1))
        self.assertIn("too many", self.plumb("enable", "--", *["-q"] * 200, status=1))
        self.assertIn("go with `plumb boot enable`", self.plumb("status", "--init", "/sbin/other", status=2))
        self.assertEqual(content(self.root), before)
        self.plumb("enable")
        again = content(self.root)
        self.assertIn("enabled already", self.plumb("enable", status=1))
        self.assertEqual(content(self.root), again)

    def test_a_file_that_names_other_files_removes_none(self):
        victim = self.root.parent / f"{self.root.name}.victim"
        victim.write_text("precious")
        self.addCleanup(victim.unlink)
        self.plumb("enable")
        with (self.root / SETTINGS).open("a") as settings:
            settings.write(f"made={victim}\nmade=../{victim.name}\nmade=sbin\nmade=sbin/other\n")
        self.plumb("disable")
        self.assertEqual(victim.read_text(), "precious")
        self.assertTrue((self.root / "sbin/other").exists())

    def test_taking_it_back_goes_on_where_it_was_interrupted(self):
        self.make_initramfs_tools()
        scripts = [f"etc/initramfs-tools/{name}/plumb" for name in ("hooks", "scripts/init-top", "scripts/local-bottom", "scripts/nfs-bottom")]
        before = content(self.root)
        for gone in (GRUB,), (GRUB, *scripts), (GRUB, *scripts[:2]), (GRUB, SETTINGS), (GRUB, SETTINGS, *scripts[:3]), (GRUB, SETTINGS, *scripts[1:]):
            with self.subTest(gone):
                self.plumb("enable", "--initramfs")
                for name in gone:
                    (self.root / name).unlink()
                self.assertIn("run update-initramfs", self.plumb("disable"))
                self.assertFalse(any((self.root / name).exists() for name in (GRUB, SETTINGS, *scripts)))
                self.assertIn("It is not enabled", self.plumb("disable", status=1))
                if SETTINGS not in gone:
                    self.assertEqual(content(self.root), before)

    def test_what_is_not_its_own_keeps_nothing_else_there(self):
        self.make_initramfs_tools()
        self.plumb("enable", "--initramfs")
        (self.root / GRUB).write_text("# somebody's own\n")
        said = self.plumb("disable", status=1)
        self.assertIn("is still there: it is not as Plumb has written it", said)
        self.assertIn("take this off the kernel's command line", said)
        self.assertIn("run update-initramfs", said)
        self.assertFalse((self.root / "etc/initramfs-tools/hooks/plumb").exists())
        self.assertTrue((self.root / SETTINGS).exists(), "it can be done again")
        (self.root / GRUB).unlink()
        self.plumb("disable")
        (self.root / "etc/initramfs-tools/hooks").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/initramfs-tools/hooks/plumb").write_text("of a package")
        self.plumb("enable")
        self.plumb("disable")
        self.assertEqual((self.root / "etc/initramfs-tools/hooks/plumb").read_text(), "of a package")

    def test_it_is_taken_back_without_its_settings(self):
        self.plumb("enable")
        (self.root / SETTINGS).unlink()
        self.plumb("disable")
        self.assertFalse((self.root / GRUB).exists())

    def test_what_fails_leaves_nothing(self):
        (self.root / GRUB).mkdir(parents=True)
        before = content(self.root)
        self.plumb("enable", status=1)
        self.assertEqual(content(self.root), before)

    def test_links_do_not_lead_out_of_another_system(self):
        (self.root / "etc").rmdir()
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        (self.root / "etc").symlink_to(elsewhere)
        self.assertIn("is a link", self.plumb("enable", status=1))
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_the_kernels_command_line_takes_plain_paths(self):
        for init in ("/sbin/a b", "/sbin/$(touch x)", "/sbin/x\nrecord=evil", "/sbin/../sbin/other"):
            self.assertIn("can not be an init", self.plumb("enable", "--init", init, status=1))
        place = self.root / "a b"
        (place / "bin").mkdir(parents=True)
        (place / "lib/plumb").mkdir(parents=True)
        for source, name in (PLUMB, "bin/plumb"), (BUILD / "probes/init/plumb-init", "lib/plumb/plumb-init"):
            (place / name).write_bytes(source.read_bytes())
            (place / name).chmod(0o755)
        done = subprocess.run([place / "bin/plumb", "boot", "enable", "--root", self.root], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("can not stand on the kernel's command line", done.stderr)
        self.assertIn("has no command", self.plumb("enable", "--", "-o", "/x", status=1))

    def test_it_is_for_process_1_alone(self):
        done = subprocess.run([BUILD / "probes/init/plumb-init"], capture_output=True, text=True, timeout=10, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("plumb boot --help", done.stderr)


if __name__ == "__main__":
    if not (BUILD / "probes/init/plumb-init").exists():
        print("plumb-init is not built with a sanitizer")
        sys.exit(77)
    unittest.main()
