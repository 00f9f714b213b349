#include "consumerd/clock/clock_calibration.h"

#include "base/file.h"
#include "base/time_namespace.h"
#include "consumerd/clock/clock_calls.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <string_view>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <x86intrin.h>
#define PLUMB_HAS_TSC 1
#else
#define PLUMB_HAS_TSC 0
#endif

namespace plumb {
namespace {

using Wide = __int128;
constexpr uint64_t ns_per_second = 1'000'000'000;
/* Shorter than this, reading errors of some 10 ns would spoil what the kernel calibrated. */
constexpr uint64_t least_baseline_ns = 20'000'000;
/* Without that, whatever is longer than the first look is better than it. */
constexpr uint64_t brief_baseline_ns = 5'000'000;
/* What drift and the kernel's own error may make of a rate that was told by it, and of one from the first look. */
constexpr uint64_t told_error_divisor = 1000, brief_error_divisor = 20;
/* The kernel slews no more than this at once; no machine sleeps for so short a time. */
constexpr uint64_t slew_max_ns = 500'000'000;
constexpr size_t pairs_kept = 4096;
constexpr int readings = 32;

uint64_t read_tsc() {
#if PLUMB_HAS_TSC
    _mm_lfence(); /* not before what came earlier */
    const uint64_t cycles = __rdtsc();
    _mm_lfence(); /* not after what comes later */
    return cycles;
#else
    return 0;
#endif
}

/* Both clocks at the same time: the narrowest of many sandwiches. The window is in cycles. */
ClockPair read_pair(plumb_clock_mode mode) {
    ClockPair best{0, 0, ~uint64_t{0}};
    for (int i = 0; i < readings; i++) {
        const uint64_t before = read_clock(mode);
        const uint64_t monotonic_ns = machine_time_ns(CLOCK_MONOTONIC);
        const uint64_t window = read_clock(mode) - before;
        if (window < best.half_window_ns) best = {before + window / 2, monotonic_ns, window};
    }
    best.half_window_ns = (best.half_window_ns + 1) / 2;
    return best;
}

/* The kernel's own conversion of cycles, from the page that every perf event shows to user space. */
std::optional<ClockRate> rate_from_kernel() {
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_DUMMY;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    const FileDescriptor event(
        static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!event.is_open()) return {};
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* mapped = mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, event.get(), 0);
    if (mapped == MAP_FAILED) return {};
    const auto* page = static_cast<const perf_event_mmap_page*>(mapped);
    std::optional<ClockRate> rate;
    if (page->cap_user_time && page->time_mult != 0 && page->time_shift < 63)
        rate = ClockRate{page->time_mult, page->time_shift};
    munmap(mapped, page_bytes);
    return rate;
}

std::optional<ClockRate> rate_from_cpuid() {
#if PLUMB_HAS_TSC
    unsigned denominator = 0, numerator = 0, crystal_hz = 0, rest = 0;
    if (__get_cpuid(0x15, &denominator, &numerator, &crystal_hz, &rest) && denominator && numerator &&
        crystal_hz)
        return ClockRate::from_ratio(ns_per_second * denominator, uint64_t{crystal_hz} * numerator);
    unsigned base_mhz = 0, max_mhz = 0, bus_mhz = 0;
    if (__get_cpuid(0x16, &base_mhz, &max_mhz, &bus_mhz, &rest) && (base_mhz & 0xffff))
        return ClockRate::from_ratio(1000, base_mhz & 0xffff);
    /* What a hypervisor says, in kHz. */
    constexpr unsigned first_leaf = 0x40000000, timing_leaf = 0x40000010, hypervisor_bit = 1u << 31;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & hypervisor_bit)) return {};
    __cpuid(first_leaf, a, b, c, d);
    if (a < timing_leaf || a > first_leaf + 0xffff) return {};
    __cpuid(timing_leaf, a, b, c, d);
    if (a != 0) return ClockRate::from_ratio(1'000'000, a);
#endif
    return {};
}

ClockRate rate_measured_briefly() {
    const ClockPair first = read_pair(PLUMB_CLOCK_TSC);
    const timespec pause{0, static_cast<long>(brief_baseline_ns)};
    nanosleep(&pause, nullptr);
    const ClockPair second = read_pair(PLUMB_CLOCK_TSC);
    return ClockRate::from_ratio(second.monotonic_ns - first.monotonic_ns, second.cycles - first.cycles)
        .value_or(ClockRate{1, 0});
}

uint64_t frequency_of(uint32_t mult, uint32_t shift) {
    const Wide scaled = static_cast<Wide>(ns_per_second) << shift;
    return static_cast<uint64_t>((scaled + mult / 2) / mult);
}

uint64_t magnitude(int64_t ns) {
    return ns < 0 ? uint64_t{0} - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
}

bool has_flag(std::string_view cpuinfo, std::string_view flag) {
    const size_t line = cpuinfo.find("\nflags");
    if (line == std::string_view::npos) return false;
    const std::string_view flags = cpuinfo.substr(line + 1, cpuinfo.find('\n', line + 1) - line - 1);
    const size_t at = flags.find(flag);
    return at != std::string_view::npos &&
           (at + flag.size() == flags.size() || flags[at + flag.size()] == ' ') && flags[at - 1] == ' ';
}

} // namespace

int64_t realtime_offset_ns() {
    uint64_t narrowest = ~uint64_t{0};
    int64_t offset_ns = 0;
    for (int i = 0; i < readings; i++) {
        const uint64_t before = machine_time_ns(CLOCK_MONOTONIC);
        const uint64_t realtime_ns = machine_time_ns(CLOCK_REALTIME);
        const uint64_t window = machine_time_ns(CLOCK_MONOTONIC) - before;
        if (window >= narrowest) continue;
        narrowest = window;
        offset_ns = static_cast<int64_t>(realtime_ns - (before + window / 2));
    }
    return offset_ns;
}

uint64_t read_clock(plumb_clock_mode mode) {
    switch (mode) {
    case PLUMB_CLOCK_TSC:
        return read_tsc();
    case PLUMB_CLOCK_MONOTONIC:
        return machine_time_ns(CLOCK_MONOTONIC);
    case PLUMB_CLOCK_BOOTTIME:
        return machine_time_ns(CLOCK_BOOTTIME);
    case PLUMB_CLOCK_REALTIME:
        return machine_time_ns(CLOCK_REALTIME);
    case PLUMB_CLOCK_NONE:
        break;
    }
    return 0;
}

uint64_t clock_to_monotonic_ns(const plumb_clock_page& page, uint64_t cycles) {
    const Wide distance = static_cast<int64_t>(cycles - page.base_cycles);
    const uint32_t shift = std::min(page.shift, 63u); /* the page may be damaged */
    return page.base_monotonic_ns + static_cast<uint64_t>((distance * page.mult) >> shift);
}

int64_t clock_to_wall_ns(const plumb_clock_page& page, uint64_t cycles) {
    return static_cast<int64_t>(clock_to_monotonic_ns(page, cycles) +
                                static_cast<uint64_t>(page.realtime_offset_ns));
}

static Result<std::string> read_cpuinfo() {
    return read_small_file("/proc/cpuinfo", size_t{64} << 20);
}

bool tsc_is_usable(std::string* why_not) {
    std::string reason;
    const auto source =
        read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource").value_or("");
    const auto cpuinfo = read_cpuinfo();
    if (!PLUMB_HAS_TSC)
        reason = "this processor has none that is known";
    else if (!cpuinfo)
        reason = "/proc/cpuinfo can not be read: " + errno_text(cpuinfo.error().number());
    else if (!has_flag(*cpuinfo, "constant_tsc") || !has_flag(*cpuinfo, "nonstop_tsc"))
        reason =
            "it changes its rate or stops in power states (no constant_tsc, nonstop_tsc in /proc/cpuinfo)";
    else if (source != "tsc\n" && source != "tsc")
        reason = source.empty() ? "which clock the kernel itself keeps time by can not be read"
                                : fmt::format("the kernel itself keeps time by \"{}\"",
                                              source.substr(0, source.find('\n')));
    if (why_not != nullptr) *why_not = reason;
    return reason.empty();
}

const char* rate_source_name(RateSource source) {
    switch (source) {
    case RateSource::not_needed:
        return "nanoseconds";
    case RateSource::kernel:
        return "kernel";
    case RateSource::cpuid:
        return "cpuid";
    case RateSource::measured_briefly:
        return "measured";
    }
    return "unknown";
}

std::optional<ClockRate> ClockRate::from_ratio(uint64_t ns, uint64_t cycles) {
    if (ns == 0 || cycles == 0) return {};
    for (uint32_t shift = 62;; shift--) {
        const Wide mult = ((static_cast<Wide>(ns) << shift) + cycles / 2) / cycles;
        if (mult <= UINT32_MAX) {
            if (mult == 0) return {};
            return ClockRate{static_cast<uint32_t>(mult), shift};
        }
        if (shift == 0) return {};
    }
}

ClockCalibration::ClockCalibration(plumb_clock_mode mode) {
    page_.mode = mode;
    page_.mult = 1;
    page_.frequency_hz = ns_per_second;
    read_ = [mode] { return read_pair(mode); };
}

ClockCalibration ClockCalibration::of_counter(ClockRate rate, RateSource source,
                                              std::function<ClockPair()> read) {
    ClockCalibration calibration(PLUMB_CLOCK_TSC);
    calibration.rate_source_ = source;
    calibration.read_ = std::move(read);
    calibration.set_rate(rate);
    calibration.take_base();
    return calibration;
}

Result<ClockCalibration> ClockCalibration::start(plumb_clock_mode wanted) {
    std::string why_not;
    plumb_clock_mode mode = wanted;
    if (wanted == PLUMB_CLOCK_NONE) mode = tsc_is_usable() ? PLUMB_CLOCK_TSC : PLUMB_CLOCK_MONOTONIC;
    if (wanted == PLUMB_CLOCK_TSC && !tsc_is_usable(&why_not)) {
        if (!read_cpuinfo()) /* it may be, and have been chosen for that */
            return Error("Whether the cycle counter can be this session's clock is not known: {}.", why_not);
        return Error("The cycle counter cannot be this session's clock: {}.", why_not)
            .hint("Choose --clock=mono, or leave the choice to plumb.");
    }
    if (!own_time_offsets() && (mode == PLUMB_CLOCK_MONOTONIC || mode == PLUMB_CLOCK_BOOTTIME))
        return Error("This session's clock may be shifted by a time namespace, and how far can not be found "
                     "out here.")
            .hint("It is in /proc/self/ns/time and /proc/self/timens_offsets; --clock=tsc and real are not "
                  "shifted.");
    ClockCalibration calibration(mode);
    if (mode == PLUMB_CLOCK_TSC) calibration.take_rate();
    if (!clock_takes_calls(mode)) calibration.page_.flags = PLUMB_CLOCK_WITHOUT_KERNEL;
    if (!clock_takes_calls(PLUMB_CLOCK_MONOTONIC))
        calibration.page_.flags |= PLUMB_CLOCK_MONOTONIC_WITHOUT_KERNEL;
    calibration.take_base();
    return calibration;
}

void ClockCalibration::take_rate() {
    ClockRate rate{};
    if (const auto kernel = rate_from_kernel()) {
        rate = *kernel;
        rate_source_ = RateSource::kernel;
    } else if (const auto stated = rate_from_cpuid()) {
        rate = *stated;
        rate_source_ = RateSource::cpuid;
    } else {
        rate = rate_measured_briefly();
        rate_source_ = RateSource::measured_briefly;
    }
    set_rate(rate);
}

void ClockCalibration::set_rate(ClockRate rate) {
    page_.mult = rate.mult;
    page_.shift = rate.shift;
    page_.frequency_hz = frequency_of(rate.mult, rate.shift);
}

ClockPair ClockCalibration::read() const {
    ClockPair pair = read_();
    if (mode() == PLUMB_CLOCK_MONOTONIC) pair = {pair.monotonic_ns, pair.monotonic_ns, 0};
    if (mode() == PLUMB_CLOCK_TSC)
        pair.half_window_ns =
            static_cast<uint64_t>((static_cast<Wide>(pair.half_window_ns) * page_.mult) >> page_.shift);
    return pair;
}

void ClockCalibration::take_base() {
    const ClockPair base = read();
    page_.base_cycles = base.cycles;
    page_.base_monotonic_ns = base.monotonic_ns;
    page_.uncertainty_ns = base.half_window_ns;
    page_.realtime_offset_ns = realtime_offset_ns();
    if (mode() ==
        PLUMB_CLOCK_REALTIME) /* the records are wall-clock time already: let it come out as it is */
        page_.realtime_offset_ns = static_cast<int64_t>(base.cycles - base.monotonic_ns);
    pairs_.push_back(base);
}

void ClockCalibration::keep(const ClockPair& pair) {
    if (pairs_.size() >= pairs_kept) { /* thin them out, the first stays */
        size_t kept = 1;
        for (size_t i = 2; i < pairs_.size(); i += 2)
            pairs_[kept++] = pairs_[i];
        pairs_.resize(kept);
    }
    pairs_.push_back(pair);
}

int64_t ClockCalibration::deviation_of(const ClockPair& pair) const {
    return static_cast<int64_t>(clock_to_monotonic_ns(page_, pair.cycles) - pair.monotonic_ns);
}

/* Since the last pair: a long time before it would hide a short suspend. */
bool ClockCalibration::goes_on_with(const ClockPair& now) const {
    const ClockPair& last = pairs_.back();
    if (static_cast<int64_t>(now.cycles - last.cycles) < 0) return false;
    const bool is_brief = rate_source_ == RateSource::measured_briefly && baseline_ns_ == 0;
    const uint64_t error_ns =
        (now.monotonic_ns - last.monotonic_ns) / (is_brief ? brief_error_divisor : told_error_divisor);
    return magnitude(deviation_of(now) - deviation_of(last)) <= slew_max_ns + error_ns;
}

void ClockCalibration::refine() {
    if (mode() != PLUMB_CLOCK_TSC) return;
    const ClockPair now = read();
    if (apart_ns_ != 0 || !goes_on_with(now)) {
        if (magnitude(deviation_of(now)) > magnitude(apart_ns_)) apart_ns_ = deviation_of(now);
        return;
    }
    keep(now);
    const ClockPair& base = pairs_.front();
    const uint64_t elapsed_ns = now.monotonic_ns - base.monotonic_ns;
    if (elapsed_ns < (rate_source_ == RateSource::measured_briefly ? brief_baseline_ns : least_baseline_ns))
        return;
    const auto rate = ClockRate::from_ratio(elapsed_ns, now.cycles - base.cycles);
    if (!rate) return;
    set_rate(*rate);
    baseline_ns_ = elapsed_ns;
}

/* Readers of CTF go by a whole number of counts a second, and by whole nanoseconds. Clocks of nanoseconds have one line for
 * ever. */
void ClockCalibration::begin_line(uint64_t cycles) {
    constexpr uint64_t rounding_ns = 2;
    if (mode() != PLUMB_CLOCK_TSC || page_.frequency_hz == 0) return;
    deviation_before_ns_ = worst_deviation_ns();
    const Wide distance = static_cast<int64_t>(cycles - page_.base_cycles);
    page_.base_monotonic_ns +=
        static_cast<uint64_t>(distance * ns_per_second / page_.frequency_hz) + rounding_ns;
    page_.base_cycles = cycles;
    pairs_ = {{cycles, page_.base_monotonic_ns, page_.uncertainty_ns}};
    baseline_ns_ = 0;
}

void ClockCalibration::go_on_from(const plumb_clock_page& page, uint64_t cycles) {
    if (page.mode != page_.mode || page.frequency_hz == 0 || page.mult == 0 || page.shift > 62) return;
    const ClockPair now = pairs_.front();
    const auto apart = static_cast<int64_t>(clock_to_monotonic_ns(page, now.cycles) - now.monotonic_ns);
    const uint64_t since_ns = now.monotonic_ns - std::min(now.monotonic_ns, page.base_monotonic_ns);
    if (magnitude(apart) > slew_max_ns + since_ns / told_error_divisor) return;
    const uint32_t flags = page_.flags;
    page_ = page;
    page_.flags = flags;
    begin_line(cycles);
}

uint64_t ClockCalibration::worst_deviation_ns() const {
    uint64_t worst = std::max(magnitude(apart_ns_), deviation_before_ns_);
    for (const ClockPair& pair : pairs_)
        worst = std::max(worst, magnitude(deviation_of(pair)));
    return worst;
}

void ClockCalibration::publish(plumb_clock_page& shared) const {
    const uint32_t sequence = __atomic_load_n(&shared.sequence, __ATOMIC_RELAXED) | 1u;
    __atomic_store_n(&shared.sequence, sequence, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* the odd number before any field */
    __atomic_store_n(&shared.mode, page_.mode, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.mult, page_.mult, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.shift, page_.shift, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.base_cycles, page_.base_cycles, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.base_monotonic_ns, page_.base_monotonic_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.realtime_offset_ns, page_.realtime_offset_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.frequency_hz, page_.frequency_hz, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.uncertainty_ns, page_.uncertainty_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.flags, page_.flags, __ATOMIC_RELAXED);
    __atomic_store_n(&shared.sequence, sequence + 1, __ATOMIC_RELEASE);
}

} // namespace plumb
