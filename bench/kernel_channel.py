#!/usr/bin/env python3
"""What an event of the kernel costs by plumb.ko, beside the kernel's own tracepoint into its own buffer: in one guest, by
turns, as a ratio. Nobody reads meanwhile: the recorder is stopped, and the oldest events give way. The guest is emulated, so the
nanoseconds are the emulator's, and only the ratio says something.

    bench/kernel_channel.py VERSION [--build DIR]      VERSION: of tools/kernels.txt; DIR: build/dev
"""
import statistics

from guest_bench import arguments, measured

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
    options = arguments(__doc__)
    found = measured(options, LOOP.replace("CALLS", str(CALLS)), SCRIPT.replace("ROUNDS", str(ROUNDS)), ("off", "tracefs", "module"), ROUNDS)
    median = {name: statistics.median(values) for name, values in found.items()}
    each = {name: (median[name] - median["off"]) / 2 for name in ("tracefs", "module")}
    print(f"a call without events: {median['off']:.0f} ns; an event by tracefs: {each['tracefs']:.0f} ns, by plumb.ko: "
          f"{each['module']:.0f} ns, {each['module'] / each['tracefs']:.2f} of it "
          f"(medians of {ROUNDS} rounds of {CALLS:,} calls, Linux {options.version}, emulated)")


if __name__ == "__main__":
    main()
