/*
 * Which threads were there, and how they were named, when a chunk or a snapshot began: found in /proc, and by what the events of the one
 * before told.
 *
 * Who is looked for behind the beginning of a chunk may have ended by then, or have another name already: of those the chunk
 * says once more what was known at its beginning.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_THREADS_FOUND_H
#define PLUMB_CONSUMERD_DRAIN_THREADS_FOUND_H

#include "consumerd/kernel/kernel_statedump.h"

#include <cstdint>
#include <map>
#include <vector>

namespace plumb {

class ThreadsFound {
public:
    /* What is told before that time was there already. */
    void find_from(uint64_t time) { find_from_ = time; }
    void find(const KernelStatedump& dump);
    void find(const std::vector<NamedThread>& told);

    /* Of what a chunk tells, in the order of time: some of it is behind its end, which is not known yet, and the next one needs it, too. */
    void remember(const std::vector<NamedThread>& told);

    /* What a chunk that begins `since` tells beside `dump`, in the order of time. `taken` was told until that was made, behind all that is
     * remembered. */
    std::vector<NamedThread> begin_chunk(uint64_t since, const KernelStatedump& dump,
                                         const std::vector<NamedThread>& taken);

    std::vector<NamedThread> take();

private:
    void find_lately_told(uint64_t until);
    std::vector<NamedThread> named_at(uint64_t since, const KernelStatedump& dump,
                                      const std::vector<NamedThread>& behind);

    std::map<uint32_t, NamedThread> found_;
    std::vector<NamedThread> lately_told_; /* not yet in found_, in the order of time */
    uint64_t find_from_ = 0;
};

} // namespace plumb

#endif
