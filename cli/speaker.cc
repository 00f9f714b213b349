#include "cli/speaker.h"

#include <fmt/format.h>

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>

namespace plumb {

struct Speaker::Queue {
    Queue(int its_fd, std::size_t bytes) : fd(its_fd), room_bytes(bytes) {}

    const int fd;
    const std::size_t room_bytes;
    std::mutex lock;
    std::condition_variable has_changed;
    std::string waiting;
    std::uint64_t left_out = 0; /* since something was taken */
    bool has_thread = false;
    bool is_speaking = false;
    int error_number = 0;
    std::atomic<std::uint64_t> said_bytes = 0;
};

Speaker::Speaker(int fd, std::size_t room_bytes) : queue_(std::make_shared<Queue>(fd, room_bytes)) {}

int Speaker::write_all(Queue& queue, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(queue.fd, text.data(), text.size());
        if (written > 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
            queue.said_bytes += static_cast<std::uint64_t>(written);
        } else if (written < 0 && errno == EAGAIN) {
            /* Somebody made the terminal or pipe non-blocking, for all who share it. */
            pollfd room{queue.fd, POLLOUT, 0};
            ::poll(&room, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            return written == 0 ? EIO : errno;
        }
    }
    return 0;
}

/* Behind what waits, and before what comes. */
void Speaker::note_what_was_left_out(Queue& queue) {
    if (queue.left_out != 0)
        queue.waiting +=
            fmt::format("plumb: here {} that nobody read {} left out.\n",
                        queue.left_out == 1 ? "a message" : fmt::format("{} messages", queue.left_out),
                        queue.left_out == 1 ? "is" : "are");
    queue.left_out = 0;
}

void Speaker::speak(Queue& queue) {
    std::unique_lock<std::mutex> guard(queue.lock);
    for (;;) {
        queue.has_changed.wait(guard, [&queue] { return !queue.waiting.empty(); });
        try {
            note_what_was_left_out(queue);
        } catch (const std::bad_alloc&) { /* that is said behind what comes next */
        }
        std::string text;
        text.swap(queue.waiting);
        queue.is_speaking = true;
        guard.unlock();
        const int error_number = write_all(queue, text);
        guard.lock();
        queue.is_speaking = false;
        if (error_number != 0) queue.error_number = error_number;
        queue.has_changed.notify_all();
    }
}

bool Speaker::say(std::string_view text, bool has_room) {
    Queue& queue = *queue_;
    const std::lock_guard<std::mutex> guard(queue.lock);
    if (!queue.has_thread) {
        try {
            std::thread([shared = queue_] { speak(*shared); }).detach();
            queue.has_thread = true;
        } catch (const std::exception&) { /* no thread, or no memory for one */
            if (const int error_number = write_all(queue, text); error_number != 0)
                queue.error_number = error_number;
            return true;
        }
    }
    if (!has_room && !queue.waiting.empty() && queue.waiting.size() + text.size() > queue.room_bytes) {
        queue.left_out++;
        return false;
    }
    try {
        note_what_was_left_out(queue);
        queue.waiting += text;
    } catch (const std::bad_alloc&) {
        queue.left_out++;
        return false;
    }
    queue.has_changed.notify_all();
    return true;
}

bool Speaker::has_said_all() const {
    const std::lock_guard<std::mutex> guard(queue_->lock);
    return queue_->waiting.empty() && !queue_->is_speaking;
}

bool Speaker::finish(std::uint64_t patience_ns, const std::function<bool()>& is_enough) {
    constexpr auto slice = std::chrono::milliseconds(50);
    const std::chrono::nanoseconds patience(patience_ns);
    Queue& queue = *queue_;
    std::uint64_t said_bytes = queue.said_bytes;
    auto moved = std::chrono::steady_clock::now();
    std::unique_lock<std::mutex> guard(queue.lock);
    while (!queue.has_changed.wait_for(guard, slice,
                                       [&queue] { return queue.waiting.empty() && !queue.is_speaking; })) {
        guard.unlock();
        const auto now = std::chrono::steady_clock::now();
        if (queue.said_bytes != said_bytes) moved = now;
        said_bytes = queue.said_bytes;
        if (now - moved >= patience || (is_enough && is_enough())) return false;
        guard.lock();
    }
    return true;
}

int Speaker::error_number() const {
    const std::lock_guard<std::mutex> guard(queue_->lock);
    return queue_->error_number;
}

} // namespace plumb
