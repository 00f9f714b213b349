// Keeps a session on for the benchmarks, until its standard input ends: a flight recorder, so that nothing
// but the program that traces is at work; or, with --discard, rings that nobody reads, and that are soon full; or, with
// --count, tables that count, by fields of these names, each of which may be empty.
//
//   bench_session [--discard] SUBBUF_BYTES SUBBUF_COUNT PATTERN...     a PATTERN may be 'PATTERN if CONDITION'
//   bench_session --count KEY SUM HIST PATTERN...
//
// Prints one line when the session is on, and one at its end: bytes written and what was lost, so that a
// figure of events that never arrived is not believed; and how long each took, with how many processes acknowledged it.
#include "consumerd/control/session.h"
#include "consumerd/channel/count_reader.h"
#include "consumerd/clock/clock_calibration.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string>

using namespace plumb;

namespace {

int fail(const Error& error) {
    std::fprintf(stderr, "bench_session: %s\n", error.message().c_str());
    return 1;
}

std::string taken(uint64_t begun_ns, const Report& report) {
    return fmt::format(R"("ms": {:.1f}, "acknowledged": {}, "unreachable": {})",
                       static_cast<double>(monotonic_now_ns() - begun_ns) / 1e6, report.acknowledged.size(),
                       report.unreachable.size());
}

void print_counts(const Channel& channel, const std::string& end) {
    ReaderOptions options;
    options.made_as = channel.made_as();
    auto reader = CountReader::open(channel.bytes(), channel.config().counts->encode(), options);
    uint64_t counted = 0;
    for (const CountsOfEvent& event : reader->read())
        counted += event.count;
    std::printf("{\"bytes_written\": %llu, \"lost\": %llu, %s}\n", static_cast<unsigned long long>(counted),
                static_cast<unsigned long long>(reader->not_counted()), end.c_str());
}

void print_totals(const Channel& channel, const std::string& end) {
    if (channel.config().counts) return print_counts(channel, end);
    const auto* controls =
        reinterpret_cast<const plumb_ring_control*>(channel.bytes().data() + channel.layout().control_offset);
    const uint32_t rings = channel.layout().ring_count + channel.layout().extra_ring_count;
    uint64_t written = 0, lost = 0;
    for (uint32_t ring = 0; ring < rings; ring++) {
        written += controls[ring].write_pos;
        for (const uint64_t count : controls[ring].lost)
            lost += count;
    }
    std::printf("{\"bytes_written\": %llu, \"lost\": %llu, %s}\n", static_cast<unsigned long long>(written),
                static_cast<unsigned long long>(lost), end.c_str());
}

} // namespace

int main(int argc, char** argv) {
    const bool discards = argc > 1 && std::strcmp(argv[1], "--discard") == 0;
    if (discards) argv++, argc--;
    const bool is_global = argc > 1 && std::strcmp(argv[1], "--global") == 0;
    if (is_global) argv++, argc--;
    uint32_t context = 0;
    if (argc > 2 && std::strcmp(argv[1], "--context") == 0) {
        context = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 0));
        argv += 2, argc -= 2;
    }
    const bool counts = argc > 5 && std::strcmp(argv[1], "--count") == 0;
    if (argc < 4) {
        std::fprintf(stderr, "usage: bench_session [--discard] [--global] [--context BITS] SUBBUF_BYTES "
                             "SUBBUF_COUNT PATTERN...\n"
                             "       bench_session --count KEY SUM HIST PATTERN...\n");
        return 2;
    }
    ChannelConfig config;
    if (counts) {
        auto counting = counting_channel({argv[2], argv[3], argv[4]});
        if (!counting) return fail(counting.error());
        config = *counting;
    } else {
        config.mode = discards ? PLUMB_MODE_DISCARD : PLUMB_MODE_OVERWRITE;
        config.subbuf_bytes = static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10));
        config.subbuf_count = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
    }
    config.session_name = "bench";
    config.is_global = is_global;
    config.context = context; /* PLUMB_CONTEXT_* */
    std::vector<Rule> rules;
    for (int i = counts ? 5 : 3; i < argc; i++) {
        const std::string words = argv[i];
        const std::size_t at = words.find(" if ");
        Rule rule{words.substr(0, at)};
        if (at != std::string::npos) rule.condition = words.substr(at + std::strlen(" if "));
        rules.push_back(std::move(rule));
    }

    auto session = Session::create(config);
    if (!session) return fail(session.error());
    uint64_t begun_ns = monotonic_now_ns();
    auto enabled = session->enable(rules);
    if (!enabled) return fail(enabled.error());
    std::printf("{\"on\": true, %s}\n", taken(begun_ns, *enabled).c_str());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    begun_ns = monotonic_now_ns();
    auto ended = session->end();
    if (!ended) return fail(ended.error());
    print_totals(session->channel(), taken(begun_ns, *ended));
    if (auto removed = session->channel().unlink(); !removed) return fail(removed.error());
    return 0;
}
