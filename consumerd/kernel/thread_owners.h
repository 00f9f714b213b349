/*
 * Whose threads they are, of which events of the kernel tell that they began or were renamed.
 *
 * Notes come CPU by CPU, so one that is older may still come behind a younger one; they are held back until that is
 * over, and taken in the order of time. An event tells who made a thread, not of which process it is: that is the
 * process of its maker, as it was known at that time.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_THREAD_OWNERS_H
#define PLUMB_CONSUMERD_KERNEL_THREAD_OWNERS_H

#include "consumerd/kernel/kernel_statedump.h"
#include "consumerd/kernel/translator.h"

#include <cstdint>
#include <map>
#include <vector>

namespace plumb {

class ThreadOwners {
public:
    /* What was there at `time`. No name is given as of an earlier time from then on. */
    void know(std::map<uint32_t, uint32_t> process_of_thread, uint64_t time);

    void add(std::vector<ThreadNote> notes);

    /* What became of the notes up to `until`, in the order of time; they are held no longer. */
    std::vector<NamedThread> take(uint64_t until);

private:
    std::map<uint32_t, uint32_t> process_of_thread_;
    std::vector<ThreadNote> held_;
    uint64_t known_at_ = 0;
};

} // namespace plumb

#endif
