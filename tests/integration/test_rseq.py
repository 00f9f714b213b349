#!/usr/bin/env python3
# cmake-once
"""Where the C library registers no restartable sequences, the runtime does: thread by thread, until each ends, whenever it
began to write, in programs of glibc and of musl; and it gives way to somebody else in the program who does. What says
whether it worked is where the records are: threads without sequences write to the extra rings."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
NO_LIBC = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
THREADS, EVENTS = 400, 50


class Rseq(traced_program.TracedProgramTest):
    # Joined and detached threads, some of which write their last events from the last destructors that there are. With
    # "other", somebody has an area of his own before us.
    PROGRAM = """
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    PLUMB_EVENT(crowd, step, (u32, thread), (u32, count))
    PLUMB_EVENT(crowd, last, (u32, thread))
    #ifndef SYS_rseq
    #define SYS_rseq 334
    #endif
    static pthread_key_t key;
    static sem_t ended;
    static __thread uint32_t number, round_count;
    static __thread struct { uint32_t words[8]; } other __attribute__((aligned(32)));

    static void at_end(void* value) {
        if (++round_count < 4) pthread_setspecific(key, value);
        plumb_trace(crowd, last, number);
        if (round_count == 4) sem_post(&ended);
    }
    static void* step(void* argument) {
        number = (uint32_t)(uintptr_t)argument;
        pthread_setspecific(key, &number);
        for (uint32_t i = 0; i < EVENTS; i++) plumb_trace(crowd, step, number, i);
        return NULL;
    }
    int main(int count, char** arguments) {
        if (count > 1 && strcmp(arguments[1], "other") == 0 &&
            syscall(SYS_rseq, &other, sizeof(other), 0, 0x53053053) != 0) return 3;
        pthread_key_create(&key, at_end);
        sem_init(&ended, 0, 0);
        for (uintptr_t i = 0; i < THREADS; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, step, (void*)i) != 0) return 2;
            if (i % 2 == 0)
                pthread_join(thread, NULL);
            else
                pthread_detach(thread);
        }
        for (int i = 0; i < THREADS; i++) sem_wait(&ended);
        number = THREADS;
        step((void*)(uintptr_t)THREADS);
        usleep(1000); /* the last detached ones */
        return 0;
    }
    """.replace("EVENTS", str(EVENTS)).replace("THREADS", str(THREADS))

    # Threads that write nothing but in destructors, from the given round on. In the last one, somebody else's area tells
    # whether one of ours is still registered, in a thread whose memory the C library is about to unmap.
    LATE = """
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    PLUMB_EVENT(crowd, late, (u32, thread), (u32, round))
    #ifndef SYS_rseq
    #define SYS_rseq 334
    #endif
    static pthread_key_t key;
    static sem_t ended;
    static int first_round, registered;
    static __thread uint32_t round_count;
    static __thread struct { uint32_t words[8]; } other __attribute__((aligned(32)));

    static void at_end(void* value) {
        if (++round_count >= first_round) plumb_trace(crowd, late, (uint32_t)(uintptr_t)value, round_count);
        if (round_count < 4) {
            pthread_setspecific(key, value);
            return;
        }
        if (syscall(SYS_rseq, &other, sizeof(other), 0, 0x53053053) != 0)
            __atomic_fetch_add(&registered, 1, __ATOMIC_SEQ_CST);
        else
            syscall(SYS_rseq, &other, sizeof(other), 1, 0x53053053);
        sem_post(&ended);
    }
    static void* end(void* argument) {
        pthread_setspecific(key, argument);
        return NULL;
    }
    int main(int count, char** arguments) {
        first_round = count > 1 ? atoi(arguments[1]) : 1;
        pthread_key_create(&key, at_end);
        sem_init(&ended, 0, 0);
        for (uintptr_t i = 1; i <= THREADS; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, end, (void*)i) != 0) return 2;
            pthread_detach(thread);
            sem_wait(&ended);
        }
        usleep(1000); /* the last one */
        return registered == 0 ? 0 : 4;
    }
    """.replace("THREADS", str(THREADS))

    def record(self, program, variables, *arguments):
        """The share of bytes that went to extra rings. All events are there, and only once."""
        done = subprocess.run([PLUMB, "record", "-q", "--mode", "block", "--block-timeout", "60s", "-o", self.trace, "--",
                               program, *arguments], env=dict(os.environ, **variables), capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        steps, ends = [], []
        for event in babeltrace.events(self.trace):
            if event.name == "crowd:step":
                steps.append((event.fields["thread"], event.fields["count"]))
            elif event.name == "crowd:last":
                ends.append(event.fields["thread"])
        self.assertEqual(sorted(steps), [(thread, i) for thread in range(THREADS + 1) for i in range(EVENTS)])
        self.assertEqual(sorted(ends), sorted(list(range(THREADS)) * 4))
        sizes = {path.name: path.stat().st_size for path in pathlib.Path(self.trace).rglob("*")
                 if path.name.startswith(("ring_", "extra_ring_"))}
        self.assertTrue(sizes)
        return sum(size for name, size in sizes.items() if name.startswith("extra")) / sum(sizes.values())

    def test_glibc_with_its_own_switched_off(self):
        # The last destructors' events are written after the area was given back.
        self.assertLess(self.record(self.program, NO_LIBC), 0.2)

    def test_musl(self):
        if shutil.which("musl-gcc") is None:
            self.skipTest("musl-gcc is not installed")
        for link in ("-static", "-no-pie"):
            program = traced_program.compile_traced(self.PROGRAM, self.folder / f"musl{link}", link, compiler="musl-gcc")
            shutil.rmtree(self.trace, ignore_errors=True)
            self.assertLess(self.record(program, {}), 0.2)

    def check_late(self, program, variables):
        for first in (1, 2, 3):
            shutil.rmtree(self.trace, ignore_errors=True)
            done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "--", program, str(first)],
                                  env=dict(os.environ, **variables), capture_output=True, text=True, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, 0, f"from round {first} on: {done.stderr}")
            found = [(event.fields["thread"], event.fields["round"]) for event in babeltrace.events(self.trace)
                     if event.name == "crowd:late"]
            self.assertEqual(sorted(found), [(thread, i) for thread in range(1, THREADS + 1) for i in range(first, 5)])

    def test_first_event_in_a_destructor(self):
        late = traced_program.compile_traced(self.LATE, self.folder / "late")
        self.check_late(late, NO_LIBC)

    def test_first_event_in_a_destructor_of_musl(self):
        if shutil.which("musl-gcc") is None:
            self.skipTest("musl-gcc is not installed")
        for link in ("-static", "-no-pie"):
            late = traced_program.compile_traced(self.LATE, self.folder / f"late{link}", link, compiler="musl-gcc")
            self.check_late(late, {})

    def test_another_user_in_the_program_is_left_alone(self):
        # Its thread is the first one; the others have areas of ours until it has written.
        self.record(self.program, NO_LIBC, "other")

    def test_it_can_be_switched_off(self):
        self.assertGreater(self.record(self.program, {"PLUMB_RSEQ": "none"}), 0.9)
        shutil.rmtree(self.trace)
        self.assertGreater(self.record(self.program, dict(NO_LIBC, PLUMB_RSEQ="libc")), 0.9)


if __name__ == "__main__":
    unittest.main()
