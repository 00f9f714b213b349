#include "cli/boot_parameters.h"

#include "cli/record_options.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/kernel_start.h"
#include "consumerd/kernel/tracefs.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plumb {
namespace {

/* Every CPU has one from the first moment on. */
constexpr std::uint64_t usual_buffer_bytes = std::uint64_t{4} << 20;

struct Wanted {
    std::vector<std::string> patterns;
    std::string clock;
    std::string buffer_size;
};

/* Of the options of a recording, whose other ones are left as they are: they have been tried. */
Result<Wanted> read_words(const std::vector<std::string>& words) {
    Wanted wanted;
    CLI::App app;
    app.allow_extras();
    app.add_option("-k,--kernel", wanted.patterns)->allow_extra_args(false);
    app.add_option("--clock", wanted.clock);
    app.add_option("--kernel-buffer-size", wanted.buffer_size);
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& wrong) {
        return Error("The options of the recording: {}.", wrong.what());
    }
    if (wanted.patterns.empty())
        return Error("--kernel-start means nothing without events of the kernel.")
            .hint("plumb boot enable --kernel-start -- -a -k 'sched:*'");
    return wanted;
}

Result<std::string> start_parameters(const BootOptions& options) {
    const auto wanted = read_words(options.record);
    if (!wanted) return wanted.error();
    std::vector<KernelSelector> selectors;
    for (const std::string& pattern : wanted->patterns) {
        auto selector = KernelSelector::parse(pattern);
        if (!selector) return selector.error();
        selectors.push_back(std::move(*selector));
    }
    const auto mode = parse_clock(wanted->clock);
    if (!mode) return mode.error();
    const auto calibration = ClockCalibration::start(*mode);
    if (!calibration) return calibration.error();
    std::uint64_t bytes = usual_buffer_bytes;
    if (!wanted->buffer_size.empty()) {
        const auto given = parse_size(wanted->buffer_size);
        if (!given) return given.error();
        bytes = *given;
    }
    const auto root = tracefs_root();
    if (!root) return root.error();
    return kernel_start_parameters(*root, selectors, calibration->mode(), bytes);
}

} // namespace

Result<std::string> boot_parameters(const BootOptions& options, const std::string& plumb_init) {
    const std::string init = fmt::format("init={}", plumb_init);
    if (!options.kernel_start) return init;
    const auto of_start = start_parameters(options);
    if (!of_start) return of_start.error();
    return init + " " + *of_start;
}

} // namespace plumb
