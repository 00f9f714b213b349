// How fast pages of the kernel's ring buffer become records: what a recorder's CPU does besides system calls.
//
//   bench_translate DIR LAPS     DIR: as `plumb record --kernel-pages DIR` leaves it, of this kernel
//
// Prints the best lap as JSON: nanoseconds for each event, and beside it for copying the same pages (the floor under
// anything that looks at each byte once).
#include "base/file.h"
#include "best_lap.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/kernel/translator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace plumb;
using plumb::bench::best_ns;

namespace {

constexpr size_t page_bytes = 4096;

std::vector<std::byte> read_pages(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<std::byte> pages(bytes.size());
    std::memcpy(pages.data(), bytes.data(), bytes.size());
    return pages;
}

std::vector<KernelEvent> all_events(const std::string& root) {
    std::vector<KernelEvent> events;
    static FormatParser parser;
    const auto names = list_tracefs_events(root);
    for (const TracefsEvent& each : names ? *names : std::vector<TracefsEvent>{}) {
        const auto format = read_small_file(root + "/events/" + each.system + "/" + each.name + "/format");
        auto event = format ? parser.parse(each.system, *format) : Result<KernelEvent>(format.error());
        if (event) events.push_back(std::move(*event));
    }
    return events;
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: bench_translate DIR LAPS\n");
        return 2;
    }
    const auto root = tracefs_root();
    if (!root) {
        std::fprintf(stderr, "bench_translate: %s\n", root.error().message().c_str());
        return 1;
    }
    const std::vector<KernelEvent> events = all_events(*root);
    std::vector<std::vector<std::byte>> cpus;
    for (int cpu = 0; cpu < 4096; cpu++)
        if (auto pages = read_pages(std::string(argv[1]) + "/cpu" + std::to_string(cpu)); !pages.empty())
            cpus.push_back(std::move(pages));
    const int laps = std::atoi(argv[2]);
    uint64_t seen = 0, left_out = 0, written = 0, bytes = 0;
    const double translated_ns = best_ns(laps, [&] {
        Translator translator(events);
        written = bytes = 0;
        for (const std::vector<std::byte>& pages : cpus) {
            TranslatedRecords records;
            for (size_t at = 0; at + page_bytes <= pages.size(); at += page_bytes) {
                const std::span<const std::byte> bytes_of_page = std::span(pages).subspan(at, page_bytes);
                RawPage page(bytes_of_page, {});
                (void)translator.translate(page, records);
                if (records.bytes() < (size_t{256} << 10)) continue; /* as the drain does */
                written += records.bytes();
                records.clear();
            }
            written += records.bytes();
            bytes += pages.size();
        }
        seen = translator.seen_events();
        left_out = translator.unknown_events() + translator.damaged_events();
    });
    std::vector<std::byte> sink(size_t{256} << 10);
    const double copied_ns = best_ns(laps, [&] {
        for (const std::vector<std::byte>& pages : cpus)
            for (size_t at = 0; at < pages.size(); at += page_bytes) {
                std::memcpy(sink.data() + at % sink.size(), pages.data() + at, page_bytes);
                __asm__ volatile("" : : "r"(sink.data()) : "memory");
            }
    });
    const double count = static_cast<double>(std::max<uint64_t>(seen, 1));
    std::printf("{\"events\": %llu, \"left_out\": %llu, \"page_bytes\": %llu, \"record_bytes\": %llu, "
                "\"ns_per_event\": %.2f, \"copy_ns_per_event\": %.2f}\n",
                static_cast<unsigned long long>(seen), static_cast<unsigned long long>(left_out),
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(written),
                translated_ns / count, copied_ns / count);
    return 0;
}
