#include "consumerd/control/unattached.h"

#include <fmt/format.h>

namespace plumb {

namespace {

std::uint32_t process_of(const plumb_unattached& word) {
    return PLUMB_CLAIM_PROCESS(word.claim);
}

} // namespace

std::string ended_reason(std::int32_t error) {
    return "it has ended, and while it ran " + not_attached_reason(error);
}

UnattachedWords::UnattachedWords(const StateFile& state, std::uint32_t index)
    : index_(index),
      ended_before_(state.unattached(index).count),
      late_before_(state.reached_late(index).count) {}

std::vector<Unreachable> UnattachedWords::of_ended(const StateFile& state) const {
    const plumb_unattached last = state.unattached(index_);
    const std::uint32_t count = last.count - ended_before_;
    if (count == 0) return {};
    const std::string more = count == 1 ? "" : fmt::format("; {} more like it have ended, too", count - 1);
    return {{process_of(last), ended_reason(last.error) + more}};
}

std::vector<Unreachable> UnattachedWords::of_reached_late(const StateFile& state) const {
    const plumb_unattached last = state.reached_late(index_);
    const std::uint32_t count = last.count - late_before_;
    if (count == 0) return {};
    const std::string more = count == 1 ? "" : fmt::format("; {} more were, too", count - 1);
    return {{process_of(last),
             "what it traced before is missing, since " + not_attached_reason(last.error) + more}};
}

} // namespace plumb
