#!/usr/bin/env python3
# cmake-timeout: 120
"""`plumb doctor` says what is wrong with a machine, and whether programs can be traced on it: with /dev/shm missing,
full, small, read-only; with the user's directory open to others, a link, or somebody else's; with a damaged state file,
in use or not; with sessions that killed controllers left behind. Each case has a /dev/shm of its own."""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
NO_RSEQ = os.environ.get("PLUMB_RSEQ") == "none"
IS_ROOT = os.geteuid() == 0
# In a user namespace we are root, too: the directory is that of user 0 either way.
UNSHARE = ["unshare", "--mount"] if IS_ROOT else ["unshare", "--mount", "--map-root-user"]
SHM = "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
DIRECTORY = "/dev/shm/plumb-0"
failures = []


def in_namespace(script, **options):
    return subprocess.run([*UNSHARE, "sh", "-ec", script], capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, **options)


def doctor(setup):
    """The checks by name, and the exit status, after the shell commands of `setup`."""
    done = in_namespace(f"{setup}\nexec {shlex.quote(str(PLUMB))} doctor --json")
    assert done.stdout, f"{setup}: status {done.returncode}\n{done.stderr}"
    result = json.loads(done.stdout)
    assert result["can_trace"] == (done.returncode == 0), (setup, done.returncode)
    return {check["name"]: check for check in result["checks"]}, done.returncode


def expect(what, setup, name, status, exit_status, *words):
    checks, returned = doctor(setup)
    check = checks.get(name)
    if check is None:
        failures.append(f"{what}: no check {name} in {sorted(checks)}")
        return
    text = f"{check['found']} {check['advice']}"
    if check["status"] != status or returned != exit_status or not all(word in text for word in words):
        failures.append(f"{what}: expected {status}, exit status {exit_status}, {words}; got {returned}, {check}")
    if status != "ok" and not check["advice"]:
        failures.append(f"{what}: {check} does not say what to do")


def state_file(change):
    """Shell commands that leave a state file with `change` (Python, on the bytes b) made to it."""
    fill = f"b = bytearray(open('{DIRECTORY}/state', 'rb').read()); {change}; open('{DIRECTORY}/state', 'wb').write(b)"
    # `plumb record` makes the state file; what it traces does not matter.
    return (f"{SHM}\n{PLUMB} record -o /dev/shm/trace -- timeout 9 true >/dev/null 2>&1\n"
            f"test -s {DIRECTORY}/state\n{sys.executable} -c {shlex.quote(fill)}\n")


def check_default_buffers():
    expect("plain", SHM, "default-buffers", "ok", 0, "rings of")


def check_shared_memory():
    expect("plain", SHM, "shared-memory", "ok", 0, "tmpfs")
    expect("plain", SHM, "room", "ok", 0, "available")
    expect("plain", SHM, "user-directory", "ok", 0, "made when it is needed")
    expect("missing", "mount -t tmpfs tmpfs /dev", "shared-memory", "missing", 1, "No such file", "mount -t tmpfs")
    expect("read-only", "mount -t tmpfs -o ro tmpfs /dev/shm", "shared-memory", "missing", 1, "Read-only", "remount,rw")
    full = "mount -t tmpfs -o size=1m tmpfs /dev/shm; head -c 1m /dev/zero >/dev/shm/waste"
    expect("full", full, "shared-memory", "missing", 1, "No space left", "enlarge")
    expect("full", full, "room", "missing", 1, "0.0 MiB available")
    expect("without a limit", "mount -t tmpfs -o size=0 tmpfs /dev/shm", "room", "ok", 0, "without a limit")
    sizes = [doctor(f"mount -t tmpfs -o size={size} tmpfs /dev/shm")[0]["default-buffers"]["found"] for size in ("0", "64g")]
    if sizes[0] != sizes[1]:
        failures.append(f"rings without a limit, and with a high one: {sizes}")
    expect("small", "mount -t tmpfs -o size=9m tmpfs /dev/shm", "room", "limited", 0, "9.0 MiB", "--subbuf-size")


def check_tracefs():
    """Not mounted, it is not missed: the first recording of the kernel mounts it."""
    if IS_ROOT and "tracefs" in pathlib.Path("/proc/filesystems").read_text() and pathlib.Path("/sys/kernel/tracing").is_dir():
        hidden = f"{SHM}\nfor each in tracing debug; do mount -t tmpfs -o ro tmpfs /sys/kernel/$each 2>/dev/null || :; done"
        expect("not mounted", hidden, "tracefs", "ok", 0, "not mounted yet", "plumb record -k")


def check_busy_tracefs():
    """Somebody switches probes off: what a reader waits for is a pipe here, which nobody writes to for a while."""
    if not pathlib.Path("/sys/kernel/tracing").is_dir():
        return
    busy = (f"{SHM}\nmount -t tmpfs tmpfs /sys/kernel/tracing\ncd /sys/kernel/tracing\nmkdir events instances\n"
            "mkfifo trace_clock\n")
    expect("busy", busy, "tracefs", "limited", 0, "busy", "Try again")
    # It is free when cleaning up, and looking for five seconds, would have given up.
    free = "(sleep 7; timeout 9 sh -c 'echo mono >trace_clock') &\n"
    done = in_namespace(f"{busy}{free}{PLUMB} record -k sched:sched_switch -o /dev/shm/trace -- true || :\nwait")
    if "Waiting for it" not in done.stderr or "does not answer" in done.stderr:
        failures.append(f"a recorder while tracefs is busy: {done.stderr}")


def check_advice():
    """Smaller sub-buffers help a channel that finds no room, and not a state file."""
    full = "mount -t tmpfs -o size=%s tmpfs /dev/shm"
    for size, offers_smaller in (("64k", False), ("1m", True)):
        done = in_namespace(f"{full % size}\n! {PLUMB} record -o /dev/shm/trace -- true")
        if "Too little shared memory" not in done.stderr or ("--subbuf-size" in done.stderr) != offers_smaller:
            failures.append(f"advice with {size}: {done.stderr}")


def check_room_for_one_of_several():
    """Who begins together with others does not give up since all of them take what is there."""
    several = (f"mount -t tmpfs -o size=480m tmpfs /dev/shm\nfor i in 1 2 3 4 5 6 7 8; do {PLUMB} record -q -e a:b --duration 500ms "
               "--subbuf-size 4M --subbuf-count 16 -o /mnt/$i & done\nwait")
    done = in_namespace("mount -t tmpfs tmpfs /mnt\n" + several)
    if done.stderr.count("Too little shared memory") == 8:
        failures.append(f"none of several recorders: {done.stderr}")


def check_directory():
    expect("open to others", f"{SHM}; mkdir {DIRECTORY}; chmod 755 {DIRECTORY}", "user-directory", "missing", 1, "0755",
           "chmod 700")
    expect("a link", f"{SHM}; mkdir -m 700 /dev/shm/x; ln -s x {DIRECTORY}", "user-directory", "missing", 1, "not a link")
    expect("a file", f"{SHM}; touch {DIRECTORY}", "user-directory", "missing", 1, "a directory")
    if IS_ROOT:
        expect("another user's", f"{SHM}; mkdir -m 700 {DIRECTORY}; chown 1234 {DIRECTORY}", "user-directory", "missing",
               1, "belongs to user 1234")


def check_state():
    expect("sound", state_file("pass"), "state-file", "ok", 0, "0 processes")
    expect("damaged", state_file("b[0] ^= 1"), "state-file", "limited", 0, "damaged", "replaces")
    expect("newer", state_file("b[8] += 1"), "state-file", "limited", 0, "version 5.", "understands version 4",
           "replaces")
    expect("short", state_file("del b[-1]"), "state-file", "limited", 0, "damaged")
    state = f"{DIRECTORY}/state"
    holes = f"size=$(stat -c %s {state}); truncate -s 4096 {state}; truncate -s $size {state}"
    expect("with holes", state_file("pass") + holes, "state-file", "limited", 0, "has holes", "replaces")
    holder = ("import mmap, time; f = open('%s/state', 'r+b'); m = mmap.mmap(f.fileno(), 0); "
              "open('/dev/shm/mapped', 'w'); time.sleep(50)" % DIRECTORY)
    in_use = (state_file("b[0] ^= 1") + f"{sys.executable} -c {shlex.quote(holder)} >/dev/null 2>&1 & holder=$!\n"
              "trap 'kill $holder' EXIT\nwhile ! test -e /dev/shm/mapped; do sleep 0.05; done\n"
              f"{PLUMB} doctor --json || status=$?\nexit $status")
    done = in_namespace(in_use)
    check = {one["name"]: one for one in json.loads(done.stdout)["checks"]}["state-file"]
    if check["status"] != "missing" or done.returncode != 1 or "in use" not in check["advice"]:
        failures.append(f"damaged and in use: {done.returncode}, {check}")


def check_left_behind():
    """A killed controller's session is shown with its name, and gone after the next recording."""
    with tempfile.TemporaryDirectory() as folder:
        script = (f"{SHM}\n{PLUMB} record -o {folder}/killed -- sleep 60 >/dev/null 2>&1 & controller=$!\n"
                  f"while ! ls {DIRECTORY} 2>/dev/null | grep -q channel; do sleep 0.05; done\nsleep 0.3\n"
                  f"kill -9 $controller; wait $controller || true\n"
                  f"{PLUMB} doctor --json >{folder}/before\n"
                  f"{PLUMB} record -o {folder}/next -- timeout 9 true >/dev/null 2>&1\n"
                  f"{PLUMB} doctor --json >{folder}/after\n"
                  f"ls {DIRECTORY}")
        done = in_namespace(script)
        assert done.returncode == 0, done.stderr
        sessions = []
        for name in ("before", "after"):
            checks = json.loads((pathlib.Path(folder) / name).read_text())["checks"]
            sessions.append({check["name"]: check for check in checks}["sessions"])
        if sessions[0]["status"] != "limited" or "left behind" not in sessions[0]["found"]:
            failures.append(f"killed controller: {sessions[0]}")
        if sessions[1]["status"] != "ok" or "channel" in done.stdout:
            failures.append(f"after the next recording: {sessions[1]}, {done.stdout}")


def check_names_of_sessions():
    """They are whatever somebody has written there: shown without what steers a terminal, and never as a line of their own."""
    name = "s\x1b]0;owned\x07\nrseq  MISSING"
    done = in_namespace(f"{SHM}\n{PLUMB} record -o /dev/shm/trace --name {shlex.quote(name)} -- sleep 2 >/dev/null 2>&1 &\n"
                        f"while ! ls {DIRECTORY} 2>/dev/null | grep -q channel; do sleep 0.05; done\nsleep 0.3\n{PLUMB} doctor; wait")
    if "\x1b" in done.stdout or "\x07" in done.stdout or r"active: s\x1b]0;owned\x07" not in done.stdout:
        failures.append(f"name of a session: {done.stdout!r}")
    if [line for line in done.stdout.splitlines() if line.startswith("rseq  MISSING")]:
        failures.append(f"name of a session: {done.stdout!r}")


def check_text():
    done = in_namespace(f"{SHM}; exec {PLUMB} doctor")
    assert done.returncode == 0, done
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    for line in lines[:-1]:
        if line.split()[1] not in ("ok", "limited", "missing"):
            failures.append(f"text: {line}")
    checks, _ = doctor(SHM)
    if checks["rseq"]["status"] != ("limited" if NO_RSEQ else "ok"):
        failures.append(f"rseq: {checks['rseq']}")
    if NO_RSEQ and "PLUMB_RSEQ" not in checks["rseq"]["advice"]:
        failures.append(f"rseq: {checks['rseq']}")


def check_small_stack():
    """Services run with small stacks, too."""
    for stack_kb in (64, 128):
        for command in ("doctor", "list", "record -q -o /dev/shm/trace -- timeout 9 true"):
            done = in_namespace(f"{SHM}; ulimit -s {stack_kb}; exec {PLUMB} {command}")
            if done.returncode != 0:
                failures.append(f"a stack of {stack_kb} KB, {command}: {done.returncode}, {done.stderr}")


def main():
    if in_namespace("true").returncode != 0:
        print("skipped: no mount namespaces here")
        return 77
    check_names_of_sessions()
    check_text()
    check_default_buffers()
    check_shared_memory()
    check_directory()
    check_tracefs()
    check_busy_tracefs()
    check_advice()
    check_room_for_one_of_several()
    check_state()
    check_left_behind()
    check_small_stack()
    for failure in failures:
        print(failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
