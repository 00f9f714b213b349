#!/usr/bin/env python3
# cmake-once
"""Programs that start during a recording find it through files that anything of the same user may damage: the recorder sees
that, says so, and does not call the trace complete."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
SHM = pathlib.Path(f"/dev/shm/plumb-{os.geteuid()}")


def overwrite(offset, data):
    with (SHM / "state").open("r+b") as file:
        file.seek(offset)
        file.write(data)


def remove_channel():
    for channel in SHM.glob("channel-*"):
        channel.unlink()


def move_directory():
    SHM.rename(SHM.with_name("elsewhere"))
    shutil.copytree(SHM.with_name("elsewhere"), SHM)


DAMAGES = {
    "none": (lambda: None, None),
    "state file removed": (lambda: (SHM / "state").unlink(), "removed or replaced"),
    "channel removed": (remove_channel, "removed or replaced"),
    "directory opened to others": (lambda: SHM.chmod(0o755), "may be entered by others"),
    "directory replaced": (move_directory, "removed or replaced"),
    "state file's magic": (lambda: overwrite(0, b"\0" * 8), "does not begin as a state file"),
    "state file's version": (lambda: overwrite(8, b"\xff\x7f"), "has version"),
    "state file's offsets": (lambda: overwrite(24, b"\0" * 8), "not where they belong"),
    "generation": (lambda: overwrite(64, b"\xff" * 7 + b"\x7f"), "generation"),
    "rules": (lambda: [overwrite(4096 + at * 67648 + 8, b"\0" * 4) for at in (0, 1)], "Rules of the session are not in"),
    "sessions": (lambda: overwrite(4096, b"\0" * 139264), ""),
}


class Entrance(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-entrance-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def record(self, damage):
        for path in (SHM, SHM.with_name("elsewhere")):
            shutil.rmtree(path, ignore_errors=True)
        trace = self.folder / "trace"
        shutil.rmtree(trace, ignore_errors=True)
        recorder = subprocess.Popen([PLUMB, "record", "--json", "-o", trace, "-e", "none:*"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while recorder.poll() is None and not list(trace.glob("ust/metadata")):
            time.sleep(0.02)
        time.sleep(0.2)
        damage()
        recorder.send_signal(signal.SIGINT)
        said, errors = recorder.communicate(timeout=60)
        return json.loads(said), errors

    def test_damage_is_seen(self):
        for name, (damage, expected) in DAMAGES.items():
            with self.subTest(name):
                summary, errors = self.record(damage)
                self.assertEqual(summary["complete"], expected is None, summary["problems"])
                if expected is not None:
                    text = "\n".join(summary["problems"])
                    self.assertIn("Programs that started since were not recorded", text)
                    self.assertIn(expected, text)
                    self.assertIn("Programs that start from now on are not recorded", errors)
                    self.assertNotIn("Nothing was lost", errors)


if __name__ == "__main__":
    unittest.main(verbosity=1)
