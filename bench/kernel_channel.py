#!/usr/bin/env python3
"""What an event of the kernel costs by plumb.ko, beside the kernel's own tracepoint into its own buffer: in one guest, by
turns, as a ratio. Nobody reads meanwhile: the recorder is stopped, and the oldest events give way. The guest is emulated, so the
nanoseconds are the emulator's, and only the ratio says something.

    bench/kernel_channel.py VERSION [--build DIR]      VERSION: of tools/kernels.txt; DIR: build/dev
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
CALLS, ROUNDS = 200_000, 7
# Two events for each call: its entry and its exit.
LOOP = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec begin, end;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(1, &one);
    sched_setaffinity(0, sizeof(one), &one);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++) syscall(SYS_getppid);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / CALLS);
    return 0;
}
"""
SCRIPT = """
insmod /plumb.ko
mount -t tracefs tracefs /sys/kernel/tracing
instance=/sys/kernel/tracing/instances/bench
mkdir $instance
echo x86-tsc >$instance/trace_clock
echo 8192 >$instance/buffer_size_kb
loop >/dev/null
i=0
while [ $i -lt ROUNDS ]; do
    echo "off $(loop)"
    echo 1 >$instance/events/raw_syscalls/enable
    echo "tracefs $(loop)"
    echo 0 >$instance/events/raw_syscalls/enable
    plumb record -q --force --kernel-by module --mode overwrite --kernel-buffer-size 8M -k raw_syscalls -o /tmp/trace & recorder=$!
    sleep 1.5
    kill -STOP $recorder
    echo "module $(loop)"
    kill -CONT $recorder
    kill -INT $recorder
    wait $recorder
    i=$((i + 1))
done
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--build", type=Path, default=SOURCE / "build/dev")
    options = parser.parse_args()
    os.environ["PLUMB_SOURCE_DIR"], os.environ["PLUMB_BUILD_DIR"] = str(SOURCE), str(options.build)
    sys.path.insert(0, str(SOURCE / "tests/kernel"))
    from guest import Guest
    from guest_module import COUNTER, build_module

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        module, status, said = build_module(options.version, folder)
        if status != 0:
            sys.exit(said)
        (folder / "loop.c").write_text(LOOP)
        subprocess.run(["gcc", "-O2", f"-DCALLS={CALLS}", folder / "loop.c", "-o", folder / "loop"], check=True)
        guest = Guest(options.version, COUNTER)
        guest.archive.add("/plumb.ko", module.read_bytes(), 0o100644)
        guest.add(options.build / "cli/plumb", "/bin/plumb")
        guest.add(folder / "loop", "/bin/loop")
        guest.step("bench", SCRIPT.replace("ROUNDS", str(ROUNDS)))
        result = guest.boot(folder)["bench"]
    found = {name: [float(value) for value in re.findall(rf"^{name} ([\d.]+)$", result.out, re.M)] for name in ("off", "tracefs", "module")}
    if any(len(values) != ROUNDS for values in found.values()):
        sys.exit(result.out + result.error)
    median = {name: statistics.median(values) for name, values in found.items()}
    each = {name: (median[name] - median["off"]) / 2 for name in ("tracefs", "module")}
    print(f"a call without events: {median['off']:.0f} ns; an event by tracefs: {each['tracefs']:.0f} ns, by plumb.ko: "
          f"{each['module']:.0f} ns, {each['module'] / each['tracefs']:.2f} of it "
          f"(medians of {ROUNDS} rounds of {CALLS:,} calls, Linux {options.version}, emulated)")


if __name__ == "__main__":
    main()
