#!/usr/bin/env python3
# cmake-once
"""Locks have names: those in .bss, where most PTHREAD_MUTEX_INITIALIZER locks are, and those of libraries that a
program loads later and that know nothing of tracing. Places in programs without symbols have some, too."""
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, PROBE, leave_out_if_sanitized  # noqa: E402

# One thread holds the lock until another waits for it.
USE = r"""
#include <pthread.h>
#include <unistd.h>
static char filler[%(filler)d]; /* so that .bss has pages of its own */
static pthread_mutex_t %(name)s = PTHREAD_MUTEX_INITIALIZER;
static void *wait_for_it(void *unused) {
    (void)unused;
    pthread_mutex_lock(&%(name)s);
    filler[0]++;
    pthread_mutex_unlock(&%(name)s);
    return 0;
}
void use_%(name)s(void) {
    pthread_t other;
    pthread_mutex_lock(&%(name)s);
    pthread_create(&other, 0, wait_for_it, 0);
    usleep(50000);
    pthread_mutex_unlock(&%(name)s);
    pthread_join(other, 0);
}
"""
MAIN = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
/* As symbolizers and JIT compilers do: below the plug-in's image without a gap, and wherever the kernel likes. */
static int read_as_data(const char *path, void (*use)(void)) {
    struct stat file;
    Dl_info image;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &file) != 0 || !dladdr((void *)use, &image)) return 0;
    size_t bytes = (file.st_size + 4095) / 4096 * 4096;
    char *below = (char *)image.dli_fbase - bytes;
    return mmap(below, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) == below &&
           mmap(0, bytes, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
}
static void *use_again_and_again(void *unused) {
    for (int i = 0; i < 200; i++)
        use_program_lock();
    _exit(0);
    return unused;
}
int main(int count, char **arguments) {
    if (count == 1) { /* the first thread ends */
        pthread_t other;
        pthread_create(&other, 0, use_again_and_again, 0);
        pthread_exit(0);
    }
    use_program_lock();
    void *plugin = dlopen(arguments[1], RTLD_NOW);
    void (*use)(void) = plugin ? (void (*)(void))dlsym(plugin, "use_plugin_lock") : 0;
    if (use == 0) return 1;
    if (getenv("READ_AS_DATA") && !read_as_data(arguments[1], use)) return 1;
    use();
    if (count > 2) {
        sleep(2);
        _exit(0);
    }
    return 0;
}
"""

CPP = r"""
#include <chrono>
#include <mutex>
#include <thread>
namespace shop {
struct Cart {
    static std::mutex mutex;
    static void __attribute__((noinline)) add(int) {
        std::lock_guard<std::mutex> guard(mutex);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
};
std::mutex Cart::mutex;
}
int main() {
    std::thread other([] { for (int i = 0; i < 5; i++) shop::Cart::add(i); });
    for (int i = 0; i < 5; i++) shop::Cart::add(i);
    other.join();
}
"""


class LockNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="plumb-lock-names-")
        cls.directory = pathlib.Path(cls.scratch.name)
        compiler = os.environ.get("CC", "cc")
        (cls.directory / "plugin.c").write_text(USE % {"name": "plugin_lock", "filler": 200000})
        (cls.directory / "program.c").write_text(USE % {"name": "program_lock", "filler": 200000} + MAIN)
        subprocess.run([compiler, "-g", "-shared", "-fPIC", "-pthread", "plugin.c", "-o", "plugin.so"],
                       cwd=cls.directory, check=True)
        subprocess.run([compiler, "-g", "-D_GNU_SOURCE", "-pthread", "program.c", "-o", "program", "-ldl"], cwd=cls.directory, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def names(self, trace, *arguments, **environment):
        trace = self.directory / trace
        subprocess.run([PLUMB, "record", "--preload", "pthread", "-o", trace, "--", self.directory / "program",
                        self.directory / "plugin.so", *arguments], check=True, capture_output=True, timeout=60,
                       env={**os.environ, **environment})
        return self.names_in(trace)

    @staticmethod
    def names_in(trace):
        rows = subprocess.run([PLUMB, "contention", "-n", "0", "--json", trace], check=True, capture_output=True,
                              text=True).stdout.splitlines()
        return {json.loads(row)["name"] for row in rows}

    def test_at_an_ordinary_end_the_program_says_what_it_loaded(self):
        names = self.names("ordinary")
        self.assertIn("program_lock", names)
        self.assertIn("plugin_lock", names)

    def test_names_of_cpp_are_shown_as_people_write_them(self):
        (self.directory / "cart.cc").write_text(CPP)
        subprocess.run([os.environ.get("CXX", "c++"), "-g", "-O1", "-pthread", "cart.cc", "-o", "cart", "-rdynamic"],
                       cwd=self.directory, check=True)
        trace = self.directory / "cart-trace"
        subprocess.run([PLUMB, "record", "--preload", "pthread", "-o", trace, "--", self.directory / "cart"], check=True,
                       capture_output=True, timeout=60)
        self.assertIn("shop::Cart::mutex", self.names_in(trace))
        shown = subprocess.run([PLUMB, "contention", trace], check=True, capture_output=True, text=True).stdout
        self.assertRegex(shown, r"shop::Cart::mutex, waited for in shop::Cart::add\(int\)\+0x")

    def test_the_recorder_finds_what_a_running_program_loaded(self):
        self.assertIn("plugin_lock", self.names("sudden", "_exit"))

    def test_a_library_is_where_it_was_loaded_and_not_where_its_file_is_read(self):
        self.assertIn("plugin_lock", self.names("ordinary-data", READ_AS_DATA="1"), "told by the program")
        self.assertIn("plugin_lock", self.names("sudden-data", "_exit", READ_AS_DATA="1"), "found by the recorder")

    def test_a_program_whose_first_thread_has_ended_says_what_it_loaded(self):
        trace = self.directory / "left"
        with subprocess.Popen([self.directory / "program"], env=dict(os.environ, LD_PRELOAD=str(PROBE))) as program:
            status = pathlib.Path(f"/proc/{program.pid}/stat")
            while ") Z " not in status.read_text():
                time.sleep(0.01)
            subprocess.run([PLUMB, "record", "-o", trace, "-p", str(program.pid), "--duration", "0.5s"], check=True,
                           capture_output=True, timeout=60)
            program.kill()
        self.assertIn("program_lock", self.names_in(trace))


class DebugFiles(http.server.BaseHTTPRequestHandler):
    """As a debuginfod answers: /buildid/ID/debuginfo."""
    files = {}

    def do_GET(self):
        parts = self.path.split("/")
        content = self.files.get(parts[2]) if parts[1:2] == ["buildid"] and parts[3:4] == ["debuginfo"] else None
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


class StrippedProgram(unittest.TestCase):
    """What a file that has lost its symbols still tells, and who else knows them."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plumb-stripped-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        (self.directory / "program.c").write_text(USE % {"name": "lock", "filler": 20000} +
                                                  "int main(void) { use_lock(); return 0; }")
        self.run_here(os.environ.get("CC", "cc"), "-g", "-O1", "-pthread", "-Wl,--build-id", "program.c", "-o", "whole")
        self.run_here("strip", "whole", "-o", "program")
        self.trace = self.directory / "trace"
        subprocess.run([PLUMB, "record", "--preload", "pthread", "-o", self.trace, "--", self.directory / "program"],
                       check=True, capture_output=True, timeout=60)

    def run_here(self, *command):
        return subprocess.run(command, cwd=self.directory, check=True, capture_output=True, text=True, timeout=60).stdout

    def waits(self, **environment):
        """The name of the lock that was waited for, and of the place where."""
        rows = subprocess.run([PLUMB, "contention", "-n", "0", "--json", self.trace], check=True, capture_output=True,
                              text=True, timeout=60, env={**os.environ, **environment}).stdout.splitlines()
        found = [(row["name"], row["waited_for_in"]) for row in map(json.loads, rows) if row["contended"] > 0]
        self.assertEqual(len(found), 1, rows)
        return found[0]

    def test_a_call_site_is_named_by_where_its_function_begins(self):
        functions = {name: int(address, 16) for address, _, name in
                     (line.split() for line in self.run_here("nm", "whole").splitlines() if len(line.split()) == 3)}
        name, place = self.waits(DEBUGINFOD_URLS="")
        self.assertRegex(name, r"^program\+0x[0-9a-f]+$")
        found = re.fullmatch(r"program:fn_([0-9a-f]+)\+0x([0-9a-f]+)", place)
        self.assertTrue(found, place)
        self.assertEqual(int(found[1], 16), functions["wait_for_it"])
        self.assertLess(int(found[2], 16), 0x40)

    def test_installed_debug_files_are_found_by_their_build_id(self):
        """In a /usr/lib/debug of its own: that of the machine is left alone."""
        there = pathlib.Path("/usr/lib/debug")
        if os.geteuid() != 0 or not there.is_dir():
            self.skipTest("takes root, and a /usr/lib/debug")
        build_id = re.search(r"Build ID: ([0-9a-f]+)", self.run_here("readelf", "-n", "program"))[1]
        self.run_here("objcopy", "--only-keep-debug", "whole", "whole.debug")
        script = ("mount -t tmpfs tmpfs /usr/lib/debug && mkdir -p /usr/lib/debug/.build-id/$0 && "
                  "cp whole.debug /usr/lib/debug/.build-id/$0/$1.debug && exec \"$2\" contention -n 0 --json \"$3\"")
        rows = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, build_id[:2], build_id[2:], PLUMB,
                               self.trace], cwd=self.directory, check=True, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "DEBUGINFOD_URLS": ""}).stdout.splitlines()
        found = [(row["name"], row["waited_for_in"]) for row in map(json.loads, rows) if row["contended"] > 0]
        self.assertEqual(len(found), 1, rows)
        self.assertEqual(found[0][0], "lock")
        self.assertRegex(found[0][1], r"^wait_for_it\+0x[0-9a-f]+$")

    def test_a_server_of_debug_files_is_asked_where_the_user_has_named_one(self):
        if not list(pathlib.Path("/usr/lib").glob("**/libdebuginfod.so.1")):
            self.skipTest("libdebuginfod is not installed")
        build_id = re.search(r"Build ID: ([0-9a-f]+)", self.run_here("readelf", "-n", "program"))[1]
        self.run_here("objcopy", "--only-keep-debug", "whole", "whole.debug")
        DebugFiles.files = {build_id: (self.directory / "whole.debug").read_bytes()}
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), DebugFiles) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                name, place = self.waits(DEBUGINFOD_URLS=f"http://127.0.0.1:{server.server_port}",
                                         DEBUGINFOD_CACHE_PATH=str(self.directory / "cache"), no_proxy="127.0.0.1")
            finally:
                server.shutdown()
        self.assertEqual(name, "lock")
        self.assertRegex(place, r"^wait_for_it\+0x[0-9a-f]+$")


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
