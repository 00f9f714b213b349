#!/usr/bin/env python3
"""The pthread probe while a program is loaded: what is preloaded behind it stays in use, and constructors that run before its own
find locks that work."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from pthread_recording import BUILD, PROBE, Recorded, preload_off, run  # noqa: E402
from recorded_program import leave_out_if_sanitized  # noqa: E402


class Wrappers(unittest.TestCase):
    """What is preloaded behind the probe stays in use, however it is linked."""

    WRAPPER = r"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdio.h>
        static long count;
        static int counted(pthread_mutex_t* mutex) {
            static int (*next)(pthread_mutex_t*);
            if (!next) *(void**)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
            __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
            return next(mutex);
        }
        #ifdef CHOSEN
        static void* choose(void) { return (void*)counted; }
        int pthread_mutex_lock(pthread_mutex_t* mutex) __attribute__((ifunc("choose")));
        #else
        int pthread_mutex_lock(pthread_mutex_t* mutex) { return counted(mutex); }
        #endif
        __attribute__((destructor)) static void end(void) { printf("locked %ld\n", count); }"""
    PROGRAM = """
        #include <pthread.h>
        int main(void) {
            pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
            for (int i = 0; i < 50; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
            return 0;
        }"""

    def test_however_they_are_linked(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-wrapper-"))
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["gcc", "-x", "c", "-", "-o", folder / "main"], input=self.PROGRAM, text=True, check=True)
        (folder / "versions").write_text("WRAPPER_1 { pthread_mutex_lock; };")
        for options in ([], ["-Wl,--hash-style=sysv"], ["-Wl,--hash-style=gnu"], ["-DCHOSEN"],
                        [f"-Wl,--version-script={folder}/versions"]):
            subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "wrapper.so", *options],
                           input=self.WRAPPER, text=True, check=True)
            self.assertEqual(preload_off([folder / "main"], also=[folder / "wrapper.so"])[:2], (0, "locked 50\n"), options)


class Constructors(unittest.TestCase):
    """The loader begins with the libraries of a program and ends with what was preloaded into it: what their constructors lock
    is not traced, and nothing is asked there that the program is not prepared for."""

    LIBRARY = """
        #include <dlfcn.h>
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <pthread.h>
        #include <stddef.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER;
        #define FATAL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
        static void filter(void) {
            struct sock_filter lines[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                          FATAL(SYS_getpid), FATAL(SYS_gettid), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
            struct sock_fprog program = {sizeof(lines) / sizeof(*lines), lines};
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        }
        __attribute__((constructor)) static void begin(void) {
            FIRST;
            for (int i = 0; i < 100; i++) {
                pthread_mutex_lock(&early);
                pthread_mutex_unlock(&early);
            }
            THEN;
        }
        int used(void) { (void)filter; return 7; }"""

    def check(self, first, then="(void)0"):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-early-"))
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["gcc", "-shared", "-fPIC", f"-DFIRST={first}", f"-DTHEN={then}", "-x", "c", "-", "-o", folder / "libearly.so"],
                       input=self.LIBRARY, text=True, check=True)
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", folder / "libearly.so", "-o", folder / "main"],
                       input="int used(void); int main(void) { return used(); }", text=True, check=True)
        for preloaded in ([], [BUILD / "libtrace/libplumb.so.0", PROBE]):
            self.assertEqual(run([folder / "main"], preloaded, timeout=30)[0], 7, preloaded)
        with Recorded([folder / "main"]) as recorded:
            self.assertEqual(recorded.status, 7, recorded.errors)

    def test_first_of_all_is_a_mutex(self):
        self.check("(void)0")

    def test_behind_a_filter_of_its_own(self):
        self.check("filter()")

    def test_behind_an_error_that_nobody_has_asked_for_yet(self):
        """dlerror() tells of the last failure of any dl function, and then forgets it."""
        self.check('dlopen("/nosuch.so", RTLD_LAZY)', then="if (strlen(dlerror()) < 5) abort()")

    def test_under_an_allocator_that_begins_with_a_lock(self):
        """Its first steps are under pthread_once(), within which nobody may allocate."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-once-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "main.cc").write_text("""
            #include <pthread.h>
            #include <cstddef>
            #include <iostream>
            static pthread_once_t once = PTHREAD_ONCE_INIT;
            static pthread_mutex_t mutex;
            static void begin() { pthread_mutex_init(&mutex, nullptr); }
            alignas(16) static char memory[1 << 24];
            static size_t used;
            extern "C" void* malloc(size_t bytes) {
                pthread_once(&once, begin);
                pthread_mutex_lock(&mutex);
                char* const given = memory + used + 16;
                used += (bytes + 31) / 16 * 16;
                pthread_mutex_unlock(&mutex);
                *reinterpret_cast<size_t*>(given - 16) = bytes;
                return given;
            }
            extern "C" void free(void*) {}
            extern "C" void* calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
            extern "C" void* realloc(void* old, size_t bytes) {
                char* const given = static_cast<char*>(malloc(bytes));
                const size_t had = old ? *reinterpret_cast<size_t*>(static_cast<char*>(old) - 16) : 0;
                for (size_t i = 0; i < had && i < bytes; i++) given[i] = static_cast<char*>(old)[i];
                return given;
            }
            int main() { std::cout << "well" << std::endl; return 7; }""")
        subprocess.run(["g++", "-O1", "-fno-builtin", folder / "main.cc", "-o", folder / "main"], check=True)
        for preloaded in ([], [PROBE]):
            self.assertEqual(run([folder / "main"], preloaded, timeout=30)[:2], (7, "well\n"), preloaded)
        with Recorded([folder / "main"]) as recorded:
            self.assertEqual(recorded.status, 7, recorded.errors)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
