"""What tests of the kernel's events need of the machine."""
import os
import subprocess
import sys

TRACEFS = "/sys/kernel/tracing"


def leave_out_without_kernel_events(plumb):
    """Ends the test as skipped where it may not record them, and says why. Mounts tracefs where it is not."""
    if os.geteuid() != 0:
        print("skipped: events of the kernel need root")
        sys.exit(77)
    subprocess.run([plumb, "list", "--kernel", "-e", "sched:none"], capture_output=True, check=False)  # mounts tracefs
    if not os.access(f"{TRACEFS}/instances", os.W_OK):
        print("skipped: there is no tracefs that may be used here")
        sys.exit(77)
