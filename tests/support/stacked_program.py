"""A C++ program of an executable and three shared libraries, whose stacks are of all kinds that compilers make: what it traces it
also has libunwind tell of, where that is installed, in a field of the event. And what gdb says of the same places."""
import json
import re
import subprocess
from pathlib import Path

from traced_program import BUILD, SOURCE

EVENTS = """
#include <plumb/tracepoint.h>
PLUMB_EVENT(stacks, place, (u64, number), (sequence, u64, peer))
PLUMB_EVENT(stacks, text, (u64, number), (text, content))
"""

# traced_place() is where debuggers stop.
INNER = r"""
#include "stacks.h"
#include <dlfcn.h>
extern "C" {
int (*peer_of_stacks)(void**, int);
void find_peer() {
    void* const library = dlopen("libunwind.so.8", RTLD_NOW);
    if (library) peer_of_stacks = (int (*)(void**, int))dlsym(library, "unw_backtrace");
}
__attribute__((noinline)) void traced_place(unsigned long number) {
    void* peer[128];
    const int count = peer_of_stacks ? peer_of_stacks(peer, 128) : 0;
    plumb_trace(stacks, place, number, (const uint64_t*)peer, count);
    __asm__ volatile("");
}
unsigned long next_number;
__attribute__((noinline)) int inner(int depth, unsigned choice) {
    if (depth <= 0) { traced_place(__atomic_add_fetch(&next_number, 1, __ATOMIC_RELAXED)); return 1; }
    volatile int sum = (int)choice;
    sum += inner(depth - 1, choice / 3);
    return sum;
}
}
"""

# Frames of which each function keeps something else: room taken at run time, room that is aligned, objects with destructors.
MIDDLE = r"""
#include <alloca.h>
#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>
extern "C" int inner(int depth, unsigned choice);
extern "C" int outer(int depth, unsigned choice);
namespace {
struct alignas(64) Wide { char bytes[128]; };
__attribute__((noinline)) int with_room(int depth, unsigned choice) {
    char* const room = (char*)alloca(16 + choice % 500);
    memset(room, (int)choice, 16 + choice % 500);
    return inner(depth, choice / 2) + room[choice % 16];
}
__attribute__((noinline)) int aligned(int depth, unsigned choice) {
    Wide wide;
    memset(&wide, (int)choice, sizeof(wide));
    __asm__ volatile("" : : "r"(&wide) : "memory");
    return inner(depth, choice / 2) + wide.bytes[choice % 64];
}
__attribute__((noinline)) int caught(int depth, unsigned choice) {
    const std::string text(choice % 40, 'x');
    try { if (inner(depth, choice / 2) == 0) throw std::runtime_error(text); return outer(depth - 1, choice / 5); }
    catch (const std::exception&) { return 0; }
}
struct Base { virtual int work(int depth, unsigned choice) = 0; virtual ~Base() = default; };
struct Derived : Base {
    int work(int depth, unsigned choice) override { const int x = inner(depth, choice); __asm__ volatile(""); return x + 1; }
};
}
extern "C" int middle(int depth, unsigned choice) {
    switch (choice % 6) {
    case 0: return with_room(depth, choice / 6) + 1;
    case 1: return aligned(depth, choice / 6) + 1;
    case 2: return caught(depth, choice / 6) + 1;
    case 3: { Derived derived; Base* base = &derived; __asm__ volatile("" : "+r"(base)); return base->work(depth, choice / 6); }
    case 4: {
        std::vector<int> numbers = {3, 1, 2};
        int traced = 0;
        std::sort(numbers.begin(), numbers.end(), [&](int a, int b) { if (!traced++) inner(depth, choice); return a < b; });
        return numbers[0];
    }
    default: { const std::function<int()> later = [=] { return inner(depth, choice / 7) + 2; }; return later(); }
    }
}
"""

OUTER = r"""
extern "C" int middle(int depth, unsigned choice);
extern "C" __attribute__((noinline)) int outer(int depth, unsigned choice) {
    if (depth <= 0) return 1;
    int sum = 0;
    for (unsigned i = 0; i < 1 + choice % 2; i++) sum += middle(depth - 1, choice / 2 + i);
    return sum;
}
"""

# PLACES RATE: from so many places, and from a handler that interrupts whatever is there RATE microseconds behind the last one (0: never).
MAIN = r"""
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/time.h>
extern "C" int outer(int depth, unsigned choice);
extern "C" void traced_place(unsigned long number);
extern "C" void find_peer();
extern "C" unsigned long next_number;
static volatile sig_atomic_t is_busy;
static long rate;
/* Once: what a handler does may take longer than the time between two, and nothing else would go on. And not in step with
   what it interrupts. */
static void set_timer() {
    static unsigned turn;
    const itimerval timer = {{0, 0}, {0, rate == 0 ? 0 : rate / 2 + 1 + (long)(turn++ * 2654435761u % (unsigned long)rate)}};
    setitimer(ITIMER_REAL, &timer, nullptr);
}
static void on_timer(int) {
    if (is_busy) return;
    is_busy = 1;
    traced_place(1000000 + __atomic_add_fetch(&next_number, 1, __ATOMIC_RELAXED));
    is_busy = 0;
    set_timer();
}
static char other_stack[65536];
int main(int argc, char** argv) {
    find_peer();
    const unsigned long places = argc > 1 ? strtoul(argv[1], nullptr, 10) : 10;
    rate = argc > 2 ? atol(argv[2]) : 0;
    stack_t stack = {};
    stack.ss_sp = other_stack;
    stack.ss_size = sizeof(other_stack);
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_timer;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    set_timer();
    unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    int sum = 0;
    while (next_number < places) {
        seed = seed * 1103515245 + 12345;
        sum += outer(1 + seed / 65536 % 5, seed / 256 % 32768 * 977);
    }
    printf("%d\n", sum & 1);
}
"""


def compile_stacked(folder):
    """The program. Its libraries are bound when they are first called."""
    folder = Path(folder)
    (folder / "stacks.h").write_text(EVENTS)
    run_path = f"-Wl,-rpath,{folder}:{BUILD / 'libtrace'}"
    below = []
    for name, text in (("inner", INNER), ("middle", MIDDLE), ("outer", OUTER), ("main", MAIN)):
        source = folder / f"{name}.cc"
        source.write_text(text)
        objects = [BUILD / "tp-async/CMakeFiles/tp-async-lib.dir/tp-async-lib.cc.o", BUILD / "libtrace/libplumb.so"]
        is_library = name != "main"
        target = folder / (f"lib{name}.so" if is_library else "stacked")
        subprocess.run(["g++", "-O2", "-g", "-std=c++17", "-Wl,-z,lazy", *(["-shared", "-fPIC"] if is_library else []), source,
                        f"-I{SOURCE}/include", f"-I{folder}", *(objects if name == "inner" else []), *below, run_path,
                        "-Wl,--allow-shlib-undefined", "-ldl", "-o", target], check=True)
        below.append(target)
    return folder / "stacked"


def events_of(plumb, trace, *options):
    text = subprocess.run([plumb, "view", "--json", *options, trace], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


# Stops at each traced_place(), and writes a line: its number, and where each caller goes on.
GDB_SCRIPT = r"""
import gdb
gdb.execute("set pagination off")
gdb.execute("set breakpoint pending on")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("handle SIGALRM nostop noprint pass")
out = open(r"@OUT@", "w")
class Place(gdb.Breakpoint):
    def stop(self):
        frame = gdb.newest_frame()
        number = int(frame.read_var("number"))
        pcs = []
        frame = frame.older()
        while frame is not None:
            if frame.type() != gdb.INLINE_FRAME:
                pcs.append(frame.pc())
            frame = frame.older()
        out.write(f"{number} {' '.join(map(str, pcs))}\n")
        return False
Place("traced_place")
gdb.execute("run")
out.close()
"""


def stacks_by_gdb(folder, command):
    """number -> where each caller of traced_place() goes on, of a run of the command under gdb."""
    out, script = Path(folder) / "gdb.out", Path(folder) / "gdb_script.py"
    script.write_text(GDB_SCRIPT.replace("@OUT@", str(out)))
    done = subprocess.run(["gdb", "-nx", "-batch", "-x", script, "--args", *map(str, command)], capture_output=True, text=True,
                          timeout=900, check=False)
    lines = out.read_text().splitlines() if out.exists() else []
    assert lines, done.stdout + done.stderr
    return {int(number): [int(pc) for pc in re.findall(r"\d+", pcs)] for number, pcs in (line.split(" ", 1) for line in lines)}
