#!/usr/bin/env python3
"""A plug-in with libplumb.a in it brings the runtime into the process, and is unloaded: what the runtime has told the C library and
the kernel (a signal handler, fork handlers, a destructor of threads) is still there."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
import traced_program  # noqa: E402

BUILD = traced_program.BUILD
PLUMB = BUILD / "cli" / "plumb"


class StaticPlugin(unittest.TestCase):
    # Commands, a line each; each is answered: load, trace (in a thread that ends with `unload`), unload, fork, exit.
    PROGRAM = r"""
    #include <dlfcn.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static void (*trace)(unsigned);
    static int traced, end;
    static void* run(void* unused) {
        trace(1);
        __atomic_store_n(&traced, 1, __ATOMIC_SEQ_CST);
        while (!__atomic_load_n(&end, __ATOMIC_SEQ_CST)) usleep(1000);
        return unused;
    }
    int main(int count, char** arguments) {
        char line[100];
        void* plugin = NULL;
        pthread_t thread;
        while (count > 1 && fgets(line, sizeof line, stdin)) {
            if (!strcmp(line, "load\n")) {
                plugin = dlopen(arguments[1], RTLD_NOW);
                if (!plugin) return puts(dlerror()), 2;
                trace = (void (*)(unsigned))dlsym(plugin, "trace");
            } else if (!strcmp(line, "trace\n")) {
                pthread_create(&thread, NULL, run, NULL);
                while (!__atomic_load_n(&traced, __ATOMIC_SEQ_CST)) usleep(1000);
            } else if (!strcmp(line, "unload\n")) {
                dlclose(plugin);
                end = 1;
                pthread_join(thread, NULL);
                raise(SIGURG);
            } else if (!strcmp(line, "fork\n")) {
                int status = 1;
                pid_t child = fork();
                if (child == 0) _exit(0);
                if (waitpid(child, &status, 0) != child || status) return 3;
            } else {
                return 0;
            }
            puts("done");
            fflush(stdout);
        }
        return 4;
    }
    """
    PLUGIN = """
    #include <plumb/tracepoint.h>
    #include <unistd.h>
    PLUMB_EVENT(plugin, called, (u32, number))
    void trace(unsigned number) {
        while (!plumb_enabled(plugin, called)) usleep(1000);
        plumb_trace(plugin, called, number);
    }
    """

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.plugin = cls.folder / "plugin.so"
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-x", "c", "-", f"-I{traced_program.SOURCE}/include", "-x", "none",
                        BUILD / "tp-async/CMakeFiles/tp-async-lib.dir/tp-async-lib.cc.o", BUILD / "libtrace/libplumb.a",
                        "-o", cls.plugin], input=cls.PLUGIN, text=True, check=True)
        # Without tracepoints of its own: the plug-in brings all.
        source = cls.folder / "host.c"
        source.write_text(cls.PROGRAM)
        cls.host = cls.folder / "host"
        subprocess.run(["cc", "-O2", source, "-lpthread", "-ldl", "-o", cls.host], check=True)

    def ask(self, program, command):
        program.stdin.write(command + "\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "done\n", f"{command}: it ended with {program.poll()}")

    def test_its_runtime_stays(self):
        for tunables in ("", "glibc.pthread.rseq=0"):
            with self.subTest(tunables=tunables):
                trace = str(self.folder / f"trace-{bool(tunables)}")
                program = subprocess.Popen([self.host, self.plugin], env=dict(os.environ, GLIBC_TUNABLES=tunables),
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                self.addCleanup(program.wait)
                self.addCleanup(program.kill)
                self.addCleanup(program.stdin.close)
                self.addCleanup(program.stdout.close)
                self.ask(program, "load")
                recorder = subprocess.Popen([PLUMB, "record", "-p", str(program.pid), "-o", trace],
                                            stderr=subprocess.DEVNULL)
                self.addCleanup(recorder.kill)
                self.ask(program, "trace")
                self.ask(program, "unload")
                recorder.send_signal(signal.SIGINT)  # and the program gets an update signal
                self.assertIn(recorder.wait(timeout=60), (0, -signal.SIGINT))
                self.ask(program, "fork")
                program.stdin.write("exit\n")
                program.stdin.flush()
                self.assertEqual(program.wait(timeout=30), 0)
                self.assertIn("plugin:called", [event.name for event in babeltrace.events(trace)])

    def test_a_program_that_asks_once_hears_with_a_plug_in_that_listens(self):
        """Both with libplumb.so: the program has its place, without a signal, before the plug-in brings the handler."""
        shared = [BUILD / "libtrace/libplumb.so", f"-Wl,-rpath,{BUILD}/libtrace"]
        header = f"-I{traced_program.SOURCE}/include"
        plugin, host = self.folder / "listens.so", self.folder / "asks_once"
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-x", "c", "-", header, "-x", "none",
                        BUILD / "tp-async/CMakeFiles/tp-async-lib.dir/tp-async-lib.cc.o", *shared, "-o", plugin],
                       input=self.PLUGIN, text=True, check=True)
        subprocess.run(["cc", "-O2", header, "-x", "c", "-", "-x", "none", BUILD / "tp-sync/CMakeFiles/tp-sync.dir/tp-sync.cc.o",
                        *shared, "-lpthread", "-ldl", "-o", host], text=True, check=True,
                       input="#include <plumb/tracepoint.h>\nPLUMB_EVENT(host, loads)\n" +
                       self.PROGRAM.replace("plugin = dlopen", "plumb_trace(host, loads); plugin = dlopen"))
        program = subprocess.Popen([host, plugin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.stdout.close)
        limit = threading.Timer(30, program.kill)  # without the signal it never hears, and waits
        limit.start()
        self.addCleanup(limit.cancel)
        self.ask(program, "load")
        trace = str(self.folder / "trace-once")
        recorder = subprocess.Popen([PLUMB, "record", "-p", str(program.pid), "-o", trace], stderr=subprocess.DEVNULL)
        self.addCleanup(recorder.kill)
        self.ask(program, "trace")
        recorder.send_signal(signal.SIGINT)
        self.assertIn(recorder.wait(timeout=60), (0, -signal.SIGINT))
        self.assertIn("plugin:called", [event.name for event in babeltrace.events(trace)])


if __name__ == "__main__":
    unittest.main()
