/*
 * What the trace calls processes and threads of other process-id namespaces.
 *
 * A channel has the numbers by which writers know themselves, tagged with their namespace. Whom we see has a number of
 * ours, and gets that. Whom we do not see, or no more, keeps his own with a tag of its namespace: beyond what any process id can be,
 * so it is nobody else's, in other channels neither. A thread is looked for once, when its entry or its first record is read, so that it has one name
 * throughout. From the time of a later entry on, the number is another one's: the kernel uses those of namespaces again at
 * once, so containers that follow one another have equal numbers.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_WRITER_NUMBERS_H
#define PLUMB_CONSUMERD_CHANNEL_WRITER_NUMBERS_H

#include <plumb/abi/channel.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace plumb {

/* Leaves alone for a while what takes time to look at: of one thread no more than a tenth goes there. What was not used is saved
 * up, for some who come together. */
class RestingLook {
public:
    bool is_due(uint64_t now_ns) {
        if (now_ns > known_until_ns_) {
            const auto earned_ns = static_cast<int64_t>((now_ns - known_until_ns_) / share);
            credit_ns_ = std::min(credit_max_ns, credit_ns_ + earned_ns);
            known_until_ns_ = now_ns;
        }
        return credit_ns_ > 0;
    }
    void looked(uint64_t began_ns, uint64_t ended_ns) {
        credit_ns_ -= static_cast<int64_t>(std::max(look_min_ns, ended_ns - began_ns));
        known_until_ns_ = std::max(known_until_ns_, ended_ns);
    }

private:
    static constexpr uint64_t share = 10;
    static constexpr uint64_t look_min_ns = 1'000'000;
    static constexpr int64_t credit_max_ns = 50'000'000;
    int64_t credit_ns_ = credit_max_ns;
    uint64_t known_until_ns_ = 0;
};

class WriterNumbers {
public:
    /* So many are remembered, of processes and of threads; then these are looked for anew as they are told of. */
    static constexpr size_t remembered_max = size_t{1} << 18;
    /* What we call the process that calls itself own_id in the namespace, and did so at that time; 0: it is not seen. */
    using FindProcess = std::function<uint32_t(uint32_t space, uint32_t own_id, uint64_t time)>;
    /* What we call a thread of the process that we call process_id; 0: it is not seen. */
    using FindThread =
        std::function<uint32_t(uint32_t process_id, uint32_t own_process_id, uint32_t own_thread_id)>;
    /* Whether the process that we call so is there, and was at that time. */
    using IsStill = std::function<bool(uint32_t process_id, uint64_t time)>;
    WriterNumbers(const plumb_channel_header* header, FindProcess find_process, FindThread find_thread,
                  IsStill is_still)
        : header_(header),
          find_process_(std::move(find_process)),
          find_thread_(std::move(find_thread)),
          is_still_(std::move(is_still)) {}
    /* By /proc. */
    static WriterNumbers of_live(const plumb_channel_header* header);
    /* Of a channel that was left behind, or comes from elsewhere: its numbers mean nobody here. */
    static WriterNumbers of_dead(const plumb_channel_header* header);

    /* At `time`, of the channel's clock. `again`: an entry of that time speaks of it, so from then on the number may be
     * another one's than before. Entries are given in their order. */
    uint32_t process(uint32_t tagged, uint64_t time, bool again = false);
    uint32_t thread(uint32_t tagged_process, uint32_t tagged_thread, uint64_t time, bool again = false);
    /* 0: not looked for yet. */
    uint32_t known_thread(uint32_t tagged, uint64_t time) const;
    /* 0: not known. */
    uint32_t space_of(uint32_t tagged) const;

private:
    uint32_t unseen(uint32_t tagged) const;
    const plumb_channel_header* header_;
    FindProcess find_process_;
    FindThread find_thread_;
    IsStill is_still_;
    struct Bearer {
        uint64_t since;
        uint32_t number;
    };
    /* Who bore a tagged number, one after the other. */
    class Bearers {
    public:
        bool empty() const { return bearers_.empty(); }
        const Bearer& last() const { return bearers_.back(); }
        /* The first one, if it was earlier. */
        uint32_t at(uint64_t time) const;
        uint32_t add(Bearer bearer);

    private:
        /* Records wait for no longer than it takes to read the rings. */
        static constexpr size_t bearers_max = 64;
        std::vector<Bearer> bearers_;
    };
    /* Who is told of again, as behind exec(), and is the same process, keeps its number. */
    uint32_t number_of(uint32_t tagged, uint64_t time, const Bearers& before) const;
    using Numbers = std::unordered_map<uint32_t, Bearers>; /* by tagged number */
    static void make_room(Numbers& numbers) {
        if (numbers.size() >= remembered_max) numbers.clear();
    }
    Numbers processes_, threads_;
};

} // namespace plumb

#endif
