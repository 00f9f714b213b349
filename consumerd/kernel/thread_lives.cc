#include "consumerd/kernel/thread_lives.h"

#include <algorithm>

namespace plumb {
namespace {

constexpr std::uint64_t clone_new_pid_flag = 0x20000000; /* CLONE_NEWPID */
/* Records of a number's lives before these have been read long since. */
constexpr std::size_t lives_max = 4;
/* Two tracing instances note one moment one after the other: about a millisecond, in nanoseconds or cycles, in which no number
 * is used again. */
constexpr std::uint64_t one_moment = 3'000'000;

} // namespace

ThreadLives::Life* ThreadLives::last(std::uint32_t thread) {
    const auto found = lives_.find(thread);
    return found == lives_.end() || found->second.empty() ? nullptr : &found->second.back();
}

void ThreadLives::know(std::uint32_t thread, Life& life, std::uint32_t number) {
    life.number = number;
    life.is_awaited = false;
    by_number_[number] = thread;
}

void ThreadLives::began(std::uint64_t time, std::uint32_t by, std::uint32_t thread,
                        std::uint64_t clone_flags) {
    const Life* const maker = last(by);
    const bool maker_numbers_as_we = maker != nullptr && maker->numbers_as_we;
    const bool is_inside =
        maker_numbers_as_we && !maker->has_moved && (clone_flags & clone_new_pid_flag) == 0;
    if (const Life* const before = last(thread); before != nullptr && before->number != 0)
        if (const auto it = by_number_.find(before->number); it != by_number_.end() && it->second == thread)
            by_number_.erase(it);
    std::vector<Life>& lives = lives_[thread];
    if (lives.size() == lives_max) lives.erase(lives.begin());
    lives.push_back({time, 0, maker_numbers_as_we, false, false, is_inside, false});
    begun_[by] = {time, thread};
}

void ThreadLives::returned(std::uint64_t time, std::uint32_t to, std::int64_t number) {
    const auto found = begun_.find(to);
    if (found == begun_.end() || number <= 0) return; /* it failed, or is what the child sees */
    const Begun begun = found->second;
    begun_.erase(found);
    Life* const life = last(begun.thread);
    const bool is_it = life != nullptr && life->from == begun.time && begun.time <= time;
    if (is_it && life->is_awaited) know(begun.thread, *life, static_cast<std::uint32_t>(number));
}

void ThreadLives::moved(std::uint32_t thread) {
    if (Life* const life = last(thread)) life->has_moved = true;
}

void ThreadLives::lost() {
    for (const auto& [by, begun] : begun_)
        if (Life* const life = last(begun.thread); life != nullptr && life->from == begun.time)
            life->is_awaited = false;
    begun_.clear();
}

void ThreadLives::is(std::uint32_t thread, std::uint32_t number, bool numbers_as_we, std::uint64_t now) {
    std::vector<Life>& lives = lives_[thread];
    if (lives.empty()) lives.emplace_back();
    if (lives.back().number != 0 && lives.back().number != number) { /* nobody told of its new life */
        if (lives.size() == lives_max) lives.erase(lives.begin());
        lives.push_back({now, 0, false, false, false, false, false});
    }
    Life& life = lives.back();
    know(thread, life, number);
    life.was_looked_for = true;
    life.numbers_as_we = numbers_as_we;
}

void ThreadLives::looked(std::uint64_t time) {
    for (auto& [thread, lives] : lives_)
        if (lives.back().from <= time) lives.back().was_looked_for = true;
}

void ThreadLives::await_no_longer(std::uint32_t thread) {
    if (Life* const life = last(thread)) life->is_given_up = true;
}

std::uint32_t ThreadLives::maker_in_call(std::uint32_t thread) const {
    const auto begun = std::find_if(begun_.begin(), begun_.end(),
                                    [=](const auto& each) { return each.second.thread == thread; });
    const auto maker = begun == begun_.end() ? lives_.end() : lives_.find(begun->first);
    return maker == lives_.end() ? 0 : maker->second.back().number;
}

ThreadLives::Answer ThreadLives::find(std::uint32_t thread, std::uint64_t time) const {
    const auto found = lives_.find(thread);
    if (found == lives_.end()) return {};
    const auto& lives = found->second;
    const auto life = std::find_if(lives.rbegin(), lives.rend(),
                                   [=](const Life& each) { return each.from <= time + one_moment; });
    if (life == lives.rend()) return {};
    if (life->number != 0) return {State::known, life->number};
    if (life != lives.rbegin()) return {}; /* it is over */
    if (life->is_awaited && !life->is_given_up) return {State::awaited, 0, life->was_looked_for};
    return {life->was_looked_for ? State::unseen : State::not_looked_for, 0, life->was_looked_for};
}

void ThreadLives::forget_unseen() {
    std::erase_if(lives_, [](const auto& each) {
        return std::all_of(each.second.begin(), each.second.end(), [](const Life& life) {
            return life.number == 0 && life.was_looked_for && !life.is_awaited;
        });
    });
}

} // namespace plumb
