#include "consumerd/channel/writer_numbers.h"

#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"

#include <plumb/clock.h>

#include <algorithm>
#include <bitset>
#include <memory>
#include <mutex>

namespace plumb {

namespace {

/* A storm of short processes must not make us read all of /proc for each, nor list it: who is missed keeps his own number. */
class RecentTable {
public:
    uint32_t find(OwnName name) {
        const uint64_t began_ns = monotonic_now_ns();
        if (reading_.is_due(began_ns)) {
            table_ = ProcessTable::read();
            const uint64_t ended_ns = monotonic_now_ns();
            reading_.looked(began_ns, ended_ns);
            listing_.looked(ended_ns, ended_ns);
        }
        if (const uint32_t found = find_in_table(name); found != 0) return found;
        const uint64_t listed_ns = monotonic_now_ns();
        if (!listing_.is_due(listed_ns)) return 0;
        table_.look_for_newcomers();
        listing_.looked(listed_ns, monotonic_now_ns());
        return find_in_table(name);
    }

private:
    uint32_t find_in_table(OwnName name) {
        const Sight sight = table_.look_for(name, [](uint32_t) { return false; });
        return sight.kind == Sight::seen ? sight.process_id : 0;
    }

    ProcessTable table_;
    RestingLook reading_, listing_;
};

/* The latest there is, where the clock is not known yet. */
uint64_t boottime_of(const plumb_channel_header& header, uint64_t time) {
    plumb_clock_page page;
    plumb_clock_read_page(&header.clock, &page);
    if (page.mult == 0) return UINT64_MAX;
    return clock_to_monotonic_ns(page, time) + (boottime_now_ns() - monotonic_now_ns());
}

/* One for each namespace, in all channels that this process reads: those of two containers call their first one alike. By the
 * namespace's number, so that most of them are the same for who reads on behind us. */
uint32_t tag_of_namespace(uint32_t space) {
    constexpr uint32_t first = PLUMB_NAMESPACES + 1;
    constexpr uint32_t count = (INT32_MAX >> PLUMB_TAG_SHIFT) + 1 - first; /* some readers have signs */
    static std::mutex lock;
    static std::unordered_map<uint32_t, uint32_t> tags; /* by namespace */
    static std::bitset<count> taken;
    uint32_t at = space % count;
    const std::lock_guard<std::mutex> hold(lock);
    const auto known = tags.find(space);
    if (known != tags.end()) return known->second;
    if (tags.size() == count) return first + at;
    while (taken[at])
        at = (at + 1) % count;
    taken[at] = true;
    return tags[space] = first + at;
}

} // namespace

WriterNumbers WriterNumbers::of_live(const plumb_channel_header* header) {
    const auto recent = std::make_shared<RecentTable>();
    return {header,
            [header, recent](uint32_t space, uint32_t own_id, uint64_t time) {
                const uint32_t found = space == 0 ? 0 : recent->find({space, own_id});
                return found != 0 && is_same_process(found, boottime_of(*header, time)) ? found : 0;
            },
            look_for_thread,
            [header](uint32_t process_id, uint64_t time) {
                return is_same_process(process_id, boottime_of(*header, time));
            }};
}

WriterNumbers WriterNumbers::of_dead(const plumb_channel_header* header) {
    return {header, [](uint32_t, uint32_t, uint64_t) { return 0u; },
            [](uint32_t, uint32_t, uint32_t) { return 0u; }, [](uint32_t, uint64_t) { return false; }};
}

uint32_t WriterNumbers::space_of(uint32_t tagged) const {
    const uint32_t tag = PLUMB_TAG(tagged);
    if (tag == 0 || tag >= PLUMB_NAMESPACES) return 0;
    return __atomic_load_n(&header_->namespaces[tag], __ATOMIC_RELAXED);
}

uint32_t WriterNumbers::unseen(uint32_t tagged) const {
    const uint32_t space = space_of(tagged);
    return space == 0 ? tagged : tag_of_namespace(space) << PLUMB_TAG_SHIFT | PLUMB_UNTAGGED(tagged);
}

uint32_t WriterNumbers::Bearers::at(uint64_t time) const {
    const auto next = std::upper_bound(bearers_.begin(), bearers_.end(), time,
                                       [](uint64_t at, const Bearer& bearer) { return at < bearer.since; });
    return (next == bearers_.begin() ? *next : *(next - 1)).number;
}

uint32_t WriterNumbers::Bearers::add(Bearer bearer) {
    if (!bearers_.empty()) bearer.since = std::max(bearer.since, bearers_.back().since);
    if (bearers_.empty() || bearers_.back().number != bearer.number) bearers_.push_back(bearer);
    if (bearers_.size() > bearers_max) bearers_.erase(bearers_.begin());
    return bearer.number;
}

uint32_t WriterNumbers::number_of(uint32_t tagged, uint64_t time, const Bearers& before) const {
    const uint32_t space = space_of(tagged), own_id = PLUMB_UNTAGGED(tagged);
    const uint32_t found = find_process_(space, own_id, time);
    if (before.empty()) return found != 0 ? found : unseen(tagged);
    const auto [since, last] = before.last();
    const bool was_seen = PLUMB_TAG(last) == 0;
    if (found == 0) return was_seen && is_still_(last, since) ? last : unseen(tagged);
    return !was_seen && find_process_(space, own_id, since) == found ? last : found;
}

uint32_t WriterNumbers::process(uint32_t tagged, uint64_t time, bool again) {
    if (PLUMB_TAG(tagged) == 0) return tagged;
    make_room(processes_);
    Bearers& bearers = processes_[tagged];
    if (!bearers.empty() && !again) return bearers.at(time);
    return bearers.add({time, number_of(tagged, time, bearers)});
}

uint32_t WriterNumbers::thread(uint32_t tagged_process, uint32_t tagged_thread, uint64_t time, bool again) {
    if (PLUMB_TAG(tagged_thread) == 0) return tagged_thread;
    make_room(threads_);
    Bearers& bearers = threads_[tagged_thread];
    if (!bearers.empty() && !again) return bearers.at(time);
    const uint32_t of = process(tagged_process, time);
    if (tagged_thread == tagged_process) return bearers.add({time, of});
    const uint32_t found =
        PLUMB_TAG(of) != 0 ? 0
                           : find_thread_(of, PLUMB_UNTAGGED(tagged_process), PLUMB_UNTAGGED(tagged_thread));
    return bearers.add({time, found != 0 ? found : unseen(tagged_thread)});
}

uint32_t WriterNumbers::known_thread(uint32_t tagged, uint64_t time) const {
    const auto known = threads_.find(tagged);
    return known == threads_.end() || known->second.empty() ? 0 : known->second.at(time);
}

} // namespace plumb
