#include "consumerd/channel/writer_numbers.h"

#include "base/process_names.h"
#include "consumerd/clock/clock_calibration.h"

#include <memory>

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
        /* Who was this when the table was read may have ended since, and another be it now. */
        return sight.kind == Sight::seen && own_name_of(sight.process_id) == name ? sight.process_id : 0;
    }

    ProcessTable table_;
    RestingLook reading_, listing_;
};

} // namespace

WriterNumbers WriterNumbers::of_live(const plumb_channel_header* header) {
    const auto recent = std::make_shared<RecentTable>();
    return {header,
            [recent](uint32_t space, uint32_t own_id) {
                return space == 0 ? 0 : recent->find({space, own_id});
            },
            look_for_thread};
}

WriterNumbers WriterNumbers::of_dead(const plumb_channel_header* header) {
    return {header, [](uint32_t, uint32_t) { return 0u; }, [](uint32_t, uint32_t, uint32_t) { return 0u; }};
}

uint32_t WriterNumbers::space_of(uint32_t tagged) const {
    const uint32_t tag = PLUMB_TAG(tagged);
    if (tag == 0 || tag >= PLUMB_NAMESPACES) return 0;
    return __atomic_load_n(&header_->namespaces[tag], __ATOMIC_RELAXED);
}

uint32_t WriterNumbers::process(uint32_t tagged, bool again) {
    if (PLUMB_TAG(tagged) == 0) return tagged;
    make_room(processes_);
    const auto [place, is_new] = processes_.try_emplace(tagged, tagged);
    if (is_new || again)
        if (const uint32_t found = find_process_(space_of(tagged), PLUMB_UNTAGGED(tagged)); found != 0)
            place->second = found;
    return place->second;
}

uint32_t WriterNumbers::thread(uint32_t tagged_process, uint32_t tagged_thread, bool again) {
    if (PLUMB_TAG(tagged_thread) == 0) return tagged_thread;
    make_room(threads_);
    const auto [place, is_new] = threads_.try_emplace(tagged_thread, tagged_thread);
    if (!is_new && !again) return place->second;
    const uint32_t of = process(tagged_process);
    if (tagged_thread == tagged_process) return place->second = of;
    if (PLUMB_TAG(of) == 0)
        if (const uint32_t found =
                find_thread_(of, PLUMB_UNTAGGED(tagged_process), PLUMB_UNTAGGED(tagged_thread));
            found != 0)
            place->second = found;
    return place->second;
}

uint32_t WriterNumbers::known_thread(uint32_t tagged) const {
    const auto known = threads_.find(tagged);
    return known == threads_.end() ? 0 : known->second;
}

} // namespace plumb
