/*
 * Keeps the kernel's raw pages as they came, one file for each CPU, beside the trace that is made of them: what
 * `trace-cmd restore` makes a trace.dat of. Both tools then show the same recording.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_PAGE_COPY_H
#define PLUMB_CONSUMERD_KERNEL_PAGE_COPY_H

#include "base/file.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace plumb {

class PageCopy {
public:
    /* Keeps nothing. */
    PageCopy() = default;
    /* `directory`/cpu0 ... The directory is made if it is missing; files that are there are an error. */
    static Result<PageCopy> create(const std::string& directory, const std::vector<std::uint32_t>& cpus);

    /* Pages of one CPU, in their order. After an error nothing more is kept of any. */
    Status add(std::uint32_t cpu, std::span<const std::byte> pages);

    /* Nothing more comes. */
    Status close();

private:
    std::string directory_;
    std::map<std::uint32_t, FileDescriptor> files_;
};

} // namespace plumb

#endif
