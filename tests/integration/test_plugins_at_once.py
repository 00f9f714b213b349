#!/usr/bin/env python3
# cmake-timeout: 120
# cmake-once
"""Two threads that load their first plug-ins with tracepoints at the same moment: musl runs the constructors of both at once. The
process has one runtime all the same, with one slot."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
STARTS = 20  # of each, with the first thread held in its first system call for the runtime

PLUGIN = """
#include <plumb/tracepoint.h>
PLUMB_EVENT(NAME, tick, (u64, n))
void tick(void) { plumb_trace(NAME, tick, 1); }
"""
PROGRAM = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static pthread_barrier_t together;
static void *load(void *plugin) {
    pthread_barrier_wait(&together);
    if (dlopen(plugin, RTLD_NOW) == NULL) fprintf(stderr, "%s\\n", dlerror());
    return NULL;
}
int main(int count, char **arguments) {
    pthread_t threads[2];
    char line[4096];
    int mapped = 0;
    if (count != 3) return 2;
    pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, load, arguments[i + 1]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) mapped += strstr(line, "/dev/shm/plumb-") != NULL;
    return 10 + mapped;
}
"""


class PluginsAtOnce(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-plugins-"))
        self.addCleanup(shutil.rmtree, self.folder)
        # A musl program looks for the library by the name that it was linked with.
        for each in (BUILD / "libtrace").glob("libplumb.so*"):
            (self.folder / each.name).symlink_to(each)

    def build(self, compiler):
        options = ["-O1", "-D_GNU_SOURCE", f"-I{SOURCE}/include", f"-L{self.folder}", f"-Wl,-rpath,{self.folder}"]
        (self.folder / "program.c").write_text(PROGRAM)
        subprocess.run([compiler, *options, "program.c", "-Wl,--no-as-needed", "-lplumb", "-pthread", "-ldl", "-o", "program"],
                       cwd=self.folder, check=True)
        for name in ("a", "b"):
            (self.folder / f"{name}.c").write_text(PLUGIN.replace("NAME", f"plugin_{name}"))
            subprocess.run([compiler, *options, "-shared", "-fPIC", f"{name}.c",
                            BUILD / "tp-async/CMakeFiles/tp-async-lib.dir/tp-async-lib.cc.o", "-lplumb", "-o", f"{name}.so"],
                           cwd=self.folder, check=True)

    def check(self, compiler):
        self.build(compiler)
        statuses = Counter()
        for start in range(STARTS):
            held = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=membarrier", "-e", "inject=membarrier:delay_enter=20000"]
            command = [*(held if start % 2 else []), self.folder / "program", "./a.so", "./b.so"]
            done = subprocess.run(command, cwd=self.folder, timeout=60, capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            statuses[done.returncode] += 1
        self.assertEqual(statuses, {11: STARTS})

    def test_of_the_gnu_library(self):
        self.check("cc")

    def test_of_musl(self):
        if shutil.which("musl-gcc") is None:
            self.skipTest("musl-gcc is not installed")
        self.check("musl-gcc")


if __name__ == "__main__":
    unittest.main()
