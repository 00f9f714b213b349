#ifndef PLUMB_CLI_END_NOTED_H
#define PLUMB_CLI_END_NOTED_H

#include <array>
#include <csignal>
#include <cstddef>

namespace plumb {

/* While it lives, the first signal that asks the program to end is only noted: what is half done has to be undone. */
class EndNoted {
public:
    EndNoted() {
        struct sigaction note {};
        note.sa_handler = [](int number) { noted = number; };
        note.sa_flags = SA_RESTART | SA_RESETHAND; /* the second one ends it */
        for (std::size_t i = 0; i < signals.size(); i++) {
            ::sigaction(signals[i], nullptr, &before_[i]);
            if (before_[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &note, nullptr);
        }
    }
    ~EndNoted() {
        for (std::size_t i = 0; i < signals.size(); i++)
            ::sigaction(signals[i], &before_[i], nullptr);
    }
    EndNoted(const EndNoted&) = delete;
    EndNoted& operator=(const EndNoted&) = delete;
    /* The signal; 0: none. */
    static int number() { return noted; }

private:
    static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
    static inline volatile std::sig_atomic_t noted = 0;
    std::array<struct sigaction, signals.size()> before_{};
};

} // namespace plumb

#endif
