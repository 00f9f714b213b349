// Acts around shared objects that come and go.
#include "tests/stress/storm/acts.h"

#include <csetjmp>
#include <csignal>
#include <ctime>
#include <dlfcn.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace plumb::storm {

namespace {

class Plugin {
public:
    explicit Plugin(uint32_t which)
        : object_(dlopen(path_of(which % 2 == 0 ? "libstorm_plugin_a.so" : "libstorm_plugin_b.so").c_str(),
                         RTLD_NOW)) {
        if (object_ == nullptr) return;
        set_plugin(reinterpret_cast<PluginTrace>(dlsym(object_, "trace_in_plugin")));
    }
    ~Plugin() {
        set_plugin(nullptr);
        if (object_ != nullptr) dlclose(object_);
    }
    Plugin(const Plugin&) = delete;
    Plugin& operator=(const Plugin&) = delete;
    bool is_there() const { return object_ != nullptr; }

private:
    void* object_;
};

bool load_and_unload(uint32_t rounds, Random& random) {
    for (uint32_t i = 0; i < rounds; i++) {
        const Plugin plugin(random.below(2));
        if (!plugin.is_there()) return complain("dlopen: %s", dlerror());
        for (int n = 0; n < 20; n++)
            step();
    }
    return true;
}

bool plugins(Random& random) {
    volatile bool is_over = false;
    std::thread beside([&is_over] {
        begin_writers();
        while (!is_over)
            step_for(1);
    });
    const bool held = load_and_unload(30 + random.below(40), random);
    is_over = true;
    beside.join();
    return held;
}

// What the parent registered, the child takes back, and the other way round.
bool plugins_and_forks(Random& random) {
    for (int i = 0; i < 8; i++) {
        bool held = true;
        pid_t child = 0;
        {
            const Plugin plugin(0);
            const bool without_handlers = random.below(2) == 0;
            child = without_handlers
                        ? static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0))
                        : fork();
            if (child == 0) {
                begin_writers();
                step();
            } else {
                step();
            }
        }
        if (child == 0) {
            if (!load_and_unload(3, random)) _exit(1);
            step();
            _exit(0);
        }
        held = load_and_unload(2, random);
        const int status = wait_for_child(child);
        if (status != 0)
            return complain("a child with plug-ins ended with status %#x", static_cast<unsigned>(status));
        if (!held) return false;
    }
    return true;
}

sigjmp_buf back;
volatile sig_atomic_t may_jump;

void jump_out(int) {
    if (may_jump == 0 || !is_in_step()) return;
    may_jump = 0;
    siglongjmp(back, 1);
}

// A jump leaves an event in a plug-in, which is then unloaded.
bool jumps_out_of_plugins(Random& random) {
    struct sigaction action = {};
    action.sa_handler = jump_out;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    const timespec every = {0, static_cast<long>(150 + random.below(300)) * 1000};
    const itimerspec times = {every, every};
    timer_settime(timer, 0, &times, nullptr);
    for (volatile uint32_t i = 0; i < 20;) {
        i = i + 1;
        const Plugin plugin(i);
        if (!plugin.is_there()) return complain("dlopen: %s", dlerror());
        if (sigsetjmp(back, 1) == 0) {
            const uint64_t end = now_ns() + 2'000'000;
            may_jump = 1;
            while (now_ns() < end) {
                step();
                spin_ns(1500);
            }
            may_jump = 0;
        } else {
            begin_writers();
            for (int n = 0; n < 20; n++)
                step();
        }
    }
    timer_delete(timer);
    step_for(3);
    return true;
}

constexpr Act acts[] = {
    {"plugins", plugins},
    {"plugins_and_forks", plugins_and_forks},
    {"jumps_out_of_plugins", jumps_out_of_plugins},
};

} // namespace

std::span<const Act> object_acts() {
    return acts;
}

} // namespace plumb::storm
