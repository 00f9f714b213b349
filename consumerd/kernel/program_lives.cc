#include "consumerd/kernel/program_lives.h"

#include <algorithm>

namespace plumb {
namespace {

/* Records from before these have been read long since. */
constexpr std::size_t programs_max = 8;
/* Two tracing instances note one moment one after the other (thread_lives.cc); what is noted of an exec() by another one
 * a little earlier is the new program's then, and mostly is. */
constexpr std::uint64_t same_moment = 100'000;

} // namespace

void ProgramLives::add(std::uint32_t thread, Life life) {
    std::vector<Life>& lives = lives_[thread];
    if (lives.size() == programs_max) lives.erase(lives.begin());
    lives.push_back(life);
}

void ProgramLives::began(std::uint64_t time, std::uint32_t by, std::uint32_t thread) {
    const Program program = find(by, time);
    if (program != Program::not_known || lives_.count(thread) != 0) add(thread, {time, program});
}

void ProgramLives::runs(std::uint64_t time, std::uint32_t thread, Program program) {
    add(thread, {time, program});
}

void ProgramLives::ended(std::uint64_t time, std::uint32_t thread) {
    if (const auto found = lives_.find(thread); found != lives_.end()) found->second.back().until = time;
}

void ProgramLives::found(std::uint32_t thread) {
    if (lives_.count(thread) == 0) add(thread, {0, Program::recorded});
}

ProgramLives::Program ProgramLives::find(std::uint32_t thread, std::uint64_t time) const {
    const auto found = lives_.find(thread);
    if (found == lives_.end()) return Program::not_known;
    const auto life = std::find_if(found->second.rbegin(), found->second.rend(),
                                   [=](const Life& each) { return each.from <= time + same_moment; });
    return life == found->second.rend() ? Program::not_known : life->program;
}

void ProgramLives::forget_others(std::uint64_t now) {
    std::erase_if(lives_, [this](const auto& each) {
        const Life& last = each.second.back();
        if (last.until != 0) return last.until < forgotten_at_;
        return last.program != Program::recorded && last.from < forgotten_at_;
    });
    forgotten_at_ = now;
}

} // namespace plumb
