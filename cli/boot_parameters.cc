#include "cli/boot_parameters.h"

#include "base/output_buffer.h"
#include "cli/record_options.h"
#include "cli/shared_options.h"
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

Result<std::string> start_parameters(const BootOptions& options) {
    const auto wanted = recording_of(options);
    if (!wanted) return wanted.error();
    if (wanted->kernel_events.empty())
        return Error("--kernel-start means nothing without events of the kernel.")
            .hint("plumb boot enable --kernel-start -- -a -k 'sched:*'");
    std::vector<KernelSelector> selectors;
    for (const std::string& pattern : wanted->kernel_events) {
        auto selector = KernelSelector::parse(pattern);
        if (!selector) return selector.error();
        selectors.push_back(std::move(*selector));
    }
    const auto mode = parse_clock(wanted->clock);
    if (!mode) return mode.error();
    const auto calibration = ClockCalibration::start(*mode);
    if (!calibration) return calibration.error();
    std::uint64_t bytes = usual_buffer_bytes;
    if (wanted->kernel_buffer_size) {
        const auto given = parse_size(*wanted->kernel_buffer_size);
        if (!given) return given.error();
        bytes = *given;
    }
    const auto root = tracefs_root();
    if (!root) return root.error();
    return kernel_start_parameters(*root, selectors, calibration->mode(), bytes);
}

} // namespace

/* By all the options that it has: to who knows some of them alone, `-ak 'sched:*'` is an unknown word, and no pattern. */
Result<RecordOptions> recording_of(const BootOptions& options) {
    RecordOptions recording;
    CLI::App app;
    app.set_help_flag();
    add_record_options(app, recording);
    try {
        app.parse(std::vector<std::string>(options.record.rbegin(), options.record.rend()));
    } catch (const CLI::ParseError& wrong) {
        return Error("The options of the recording: {}.", without_controls(wrong.what()));
    }
    return recording;
}

Result<std::string> boot_parameters(const BootOptions& options, const std::string& plumb_init) {
    const std::string init = fmt::format("init={}", plumb_init);
    if (!options.kernel_start) return init;
    const auto of_start = start_parameters(options);
    if (!of_start) return of_start.error();
    return init + " " + *of_start;
}

} // namespace plumb
