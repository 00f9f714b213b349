#!/usr/bin/env python3
# cmake-once
"""`plumb list` shows what runs, which events are on and in which sessions, names dead sessions, and reads files without
running them."""
import json
import os
import pathlib
import signal
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
SUBJECT = BUILD / "tests/fixtures/subject"
STATIC = BUILD / "tests/fixtures/subject_static"
NO_ACCESS = 77


def plumb(*arguments, status=0):
    result = subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == status, f"{arguments}: status {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout, result.stderr


def start(program, *arguments, copied_to=None):
    """A subject, and the line that it says when it is ready."""
    path = program
    if copied_to:
        path = shutil.copy(program, copied_to)
    process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("ready")
    return process


def wait_for(what, condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come")


def listed(*arguments):
    return json.loads(plumb("list", "--json", *arguments)[0])


def process_of(result, pid):
    found = [process for process in result["processes"] if process["pid"] == pid]
    assert len(found) == 1, f"{pid} is {len(found)} times in {result['processes']}"
    return found[0]


def sessions_by_event(result, pid):
    return {event["event"]: event["sessions"] for listed_object in process_of(result, pid)["objects"]
            for event in listed_object["events"]}


def check_files():
    for program in filter(pathlib.Path.exists, (SUBJECT, STATIC)):  # no static one with sanitizers
        out, err = plumb("list", "-v", program)
        assert err == "", err
        assert "subject:tick     debug_line" in out and "subject:warning  warning" in out, out
        assert "count: u64" in out and "text: string" in out and "subject_events.h:" in out, out
    out, _ = plumb("list", "-e", "subject:w*", SUBJECT)
    assert "subject:warning" in out and "tick" not in out, out
    out, _ = plumb("list", "-e", "!subject:w*", SUBJECT)
    assert "subject:tick" in out and "warning" not in out, out
    files = json.loads(plumb("list", "--json", SUBJECT, "/bin/ls")[0])["files"]
    assert [len(file["events"]) for file in files] == [2, 0] and files[0]["links_plumb"], files
    assert files[0]["events"][0]["fields"] == [{"name": "count", "type": "u64"}], files[0]
    _, err = plumb("list", "/bin/ls")
    assert "has no tracepoints of its own. Those of the libraries" in err, err
    _, err = plumb("list", "-e", "nosuch:*", SUBJECT)
    assert "has no such tracepoints; it has subject:tick, subject:warning." in err, err
    _, err = plumb("list", str(os.getpid()), status=1)
    assert "`plumb list` without a file shows what runs." in err, err
    _, err = plumb("list", "/etc/passwd", status=1)
    assert "/etc/passwd" in err and "ELF" in err, err


def check_running(folder):
    subject = start(SUBJECT, "trace")
    odd_name = "re\\na\nmed"
    other = start(SUBJECT, "read", copied_to=folder / odd_name)
    (folder / odd_name).unlink()
    record = subprocess.Popen([PLUMB, "record", "-q", "-o", folder / "trace", "--name", "first", "-e", "subject:tick",
                               "-p", str(subject.pid)])
    try:
        wait_for("session", lambda: listed()["sessions"])
        wait_for("rule", lambda: sessions_by_event(listed(), subject.pid)["subject:tick"] == ["first"])
        result = listed()
        assert sessions_by_event(result, subject.pid) == {"subject:tick": ["first"], "subject:warning": []}
        # A file that was removed after it was started is still read.
        assert sessions_by_event(result, other.pid) == {"subject:tick": [], "subject:warning": []}
        assert process_of(result, subject.pid)["executable"] == str(SUBJECT)
        assert process_of(result, subject.pid)["name"] == "subject"
        # /proc writes it with escapes.
        assert process_of(result, other.pid)["name"] == odd_name
        assert result["sessions"] == [{"name": "first", "pid": record.pid, "alive": True, "kept": False,
                                       "patterns": ["subject:tick"]}], result["sessions"]
        out, _ = plumb("list")
        assert f"{subject.pid}  subject  {SUBJECT}" in out and "on in first" in out, out
        assert "count: u64" not in out and "count: u64" in plumb("list", "-v")[0]
        assert str(subject.pid) not in plumb("list", "-e", "nothing:*")[0]

        record.send_signal(signal.SIGKILL)
        record.wait()
        out, _ = plumb("list")
        assert "first" in out and "left behind" in out, out
        assert not listed()["sessions"][0]["alive"]
        subprocess.run([PLUMB, "record", "-q", "-o", folder / "again", "--", "timeout", "9", "true"], check=True)
        assert listed()["sessions"] == [], listed()["sessions"]
    finally:
        for process in (record, subject, other):
            process.kill()
            process.wait()
    wait_for("end of the processes", lambda: not [process for process in listed()["processes"]
                                                  if process["pid"] in (subject.pid, other.pid)])


def main():
    if "PLUMB_TEST_PRIVATE" not in os.environ:
        # A /dev/shm of our own: the sessions and programs of others are none of ours.
        command = ["unshare", "-m", *([] if os.geteuid() == 0 else ["-r"]), "--", "sh", "-c",
                   "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"", "sh", sys.executable, __file__]
        if subprocess.run([*command[:-2], "true"], check=False, capture_output=True).returncode != 0:
            print("no mount namespaces here")
            return NO_ACCESS
        return subprocess.run(command, env={**os.environ, "PLUMB_TEST_PRIVATE": "1"}, check=False).returncode
    out, _ = plumb("list")
    assert "No running program" in out, out
    assert listed() == {"processes": [], "sessions": [], "left": []}
    check_files()
    with tempfile.TemporaryDirectory(prefix="plumb-list-") as name:
        check_running(pathlib.Path(name))
    print("lists running programs, sessions and files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
