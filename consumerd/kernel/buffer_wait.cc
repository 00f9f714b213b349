#include "consumerd/kernel/buffer_wait.h"

#include <algorithm>
#include <ctime>

namespace plumb {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

bool has_none(const pollfd& file) {
    return file.fd >= 0 && (file.revents & POLLERR) != 0;
}

/* Whether anybody is to be left out, and nobody can be read. */
bool is_for_want_of_buffers(std::vector<pollfd>& watched, std::uint64_t timeout_ns) {
    const timespec timeout{static_cast<time_t>(timeout_ns / second_ns),
                           static_cast<long>(timeout_ns % second_ns)};
    if (ppoll(watched.data(), watched.size(), &timeout, nullptr) <= 0) return false;
    return std::all_of(watched.begin(), watched.end(),
                       [](const pollfd& each) { return each.revents == 0 || has_none(each); });
}

} // namespace

void wait_for_buffers(std::vector<pollfd>& watched, std::uint64_t timeout_ns) {
    if (!is_for_want_of_buffers(watched, timeout_ns)) return;
    /* poll() passes over negative numbers. */
    for (pollfd& each : watched)
        if (has_none(each)) each.fd = ~each.fd;
    (void)is_for_want_of_buffers(watched, std::min(timeout_ns, second_ns));
    for (pollfd& each : watched)
        if (each.fd < 0) each.fd = ~each.fd;
}

} // namespace plumb
