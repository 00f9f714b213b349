#include "consumerd/kernel/kernel_choice.h"

namespace plumb {

Result<std::vector<KernelSelector>> parse_kernel_events(const std::vector<std::string>& texts) {
    std::vector<KernelSelector> selectors;
    for (const std::string& text : texts) {
        auto selector = KernelSelector::parse(text);
        if (!selector) return selector.error();
        selectors.push_back(std::move(*selector));
    }
    return selectors;
}

Status check_kernel_buffer(std::uint64_t bytes, const std::string& text) {
    constexpr std::uint64_t least_bytes = 4096;
    if (bytes >= least_bytes) return ok();
    return Error("--kernel-buffer-size {}: a buffer holds something, a page at least.", text)
        .hint("Give it with its unit, as 8M; 64K is the smallest that is made.");
}

std::vector<std::string> told_of_choice(const KernelSession& session) {
    std::vector<std::string> told = session.notes();
    if (const auto& problem = session.texts_problem())
        told.push_back("File names of system calls are not read, their addresses stand there instead: " +
                       problem->message());
    return told;
}

} // namespace plumb
