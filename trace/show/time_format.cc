#include "trace/show/time_format.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <utility>

namespace plumb {
namespace {

constexpr int64_t ns_per_s = 1'000'000'000;

struct Split {
    int64_t seconds;
    uint32_t ns;
};

Split split(int64_t time_ns) {
    int64_t seconds = time_ns / ns_per_s;
    int64_t ns = time_ns % ns_per_s;
    if (ns < 0) {
        --seconds;
        ns += ns_per_s;
    }
    return {seconds, static_cast<uint32_t>(ns)};
}

constexpr char digit_pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

/* .123456789 */
char* put_nanoseconds(char* at, uint32_t ns) {
    at[0] = '.';
    at[9] = static_cast<char>('0' + ns % 10);
    ns /= 10;
    for (int place = 7; place > 0; place -= 2) {
        std::memcpy(at + place, digit_pairs + 2 * (ns % 100), 2);
        ns /= 100;
    }
    return at + 10;
}

bool take(std::string_view& text, char c) {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
}

std::optional<int64_t> take_number(std::string_view& text) {
    uint32_t value = 0;
    const std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    return value;
}

/* ".5" as a part of `unit_ns`, exact to the nanosecond; 0 if there is none. */
std::optional<int64_t> take_fraction(std::string_view& text, int64_t unit_ns) {
    if (!take(text, '.')) return 0;
    int64_t sum = 0, weight = unit_ns;
    std::size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
        weight /= 10;
        sum += weight * (text[digits] - '0');
    }
    if (digits == 0) return std::nullopt;
    text.remove_prefix(digits);
    return sum;
}

constexpr std::pair<std::string_view, int64_t> span_units[] = {
    {"s", ns_per_s},      {"ms", 1'000'000},      {"us", 1'000},          {"ns", 1},
    {"m", 60 * ns_per_s}, {"min", 60 * ns_per_s}, {"h", 3600 * ns_per_s}, {"d", 86400 * ns_per_s}};

/* Nanoseconds of ".5" of a unit; exact where the unit has enough of them. */
std::optional<int64_t> take_part(std::string_view& text, int64_t unit_ns) {
    /* A minute has no decimal part that is a nanosecond each; a second has. */
    if (unit_ns <= ns_per_s) return take_fraction(text, unit_ns);
    const std::optional<int64_t> part = take_fraction(text, ns_per_s);
    if (!part) return std::nullopt;
    return *part * (unit_ns / ns_per_s);
}

/* 1.5s, 10000000000ns, 2d */
std::optional<int64_t> parse_span(std::string_view text) {
    const std::size_t number_end = text.find_first_not_of("0123456789.");
    const std::string_view unit = number_end == std::string_view::npos ? "s" : text.substr(number_end);
    text = text.substr(0, number_end);
    const auto* const known = std::find_if(std::begin(span_units), std::end(span_units),
                                           [&](const auto& each) { return each.first == unit; });
    uint64_t whole = 0;
    const std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (known == std::end(span_units) || parsed.ec != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    const std::optional<int64_t> part = take_part(text, known->second);
    int64_t sum = 0;
    if (!part || !text.empty() || __builtin_mul_overflow(whole, known->second, &sum) ||
        __builtin_add_overflow(sum, *part, &sum))
        return std::nullopt;
    return sum;
}

/* 12:34:56 or 12:34 */
bool take_clock(std::string_view& text, tm& parts, int64_t& fraction_ns) {
    const std::optional<int64_t> hour = take_number(text);
    if (!hour || *hour > 23 || !take(text, ':')) return false;
    const std::optional<int64_t> minute = take_number(text);
    if (!minute || *minute > 59) return false;
    parts.tm_hour = static_cast<int>(*hour);
    parts.tm_min = static_cast<int>(*minute);
    parts.tm_sec = 0;
    if (take(text, ':')) {
        const std::optional<int64_t> second = take_number(text);
        if (!second || *second > 60) return false;
        parts.tm_sec = static_cast<int>(*second);
        const std::optional<int64_t> fraction = take_fraction(text, ns_per_s);
        if (!fraction) return false;
        fraction_ns = *fraction;
    }
    return text.empty();
}

/* Those that nanoseconds since 1970 reach, and a bit less. */
bool is_known_year(int64_t year) {
    return year >= 1970 && year <= 2200;
}

bool take_date(std::string_view& text, tm& parts) {
    const std::optional<int64_t> year = take_number(text);
    if (!year || !is_known_year(*year) || !take(text, '-')) return false;
    const std::optional<int64_t> month = take_number(text);
    if (!month || *month < 1 || *month > 12 || !take(text, '-')) return false;
    const std::optional<int64_t> day = take_number(text);
    if (!day || *day < 1 || *day > 31) return false;
    parts.tm_year = static_cast<int>(*year - 1900);
    parts.tm_mon = static_cast<int>(*month - 1);
    parts.tm_mday = static_cast<int>(*day);
    return take(text, ' ') || take(text, 'T');
}

/* Not the 30th of a February, which is one of March to the C library. */
bool is_day(const tm& date) {
    tm noon{};
    noon.tm_year = date.tm_year;
    noon.tm_mon = date.tm_mon;
    noon.tm_mday = date.tm_mday;
    noon.tm_hour = 12;
    timegm(&noon);
    return noon.tm_mday == date.tm_mday;
}

} // namespace

void TimeFormat::new_second(int64_t second) {
    second_ = second;
    const time_t time = second;
    tm parts{};
    const tm* const known = style_ == TimeStyle::utc ? gmtime_r(&time, &parts) : localtime_r(&time, &parts);
    if (known == nullptr || parts.tm_year > 9999 - 1900 || parts.tm_year < -1900 ||
        strftime(clock_, sizeof clock_, "%Y-%m-%d %H:%M:%S", &parts) != 19)
        std::memcpy(clock_, "xxxx-xx-xx xx:xx:xx", 20);
}

void TimeFormat::put_time(OutputBuffer& out, int64_t time_ns) {
    if (style_ == TimeStyle::seconds) {
        put_difference(out, time_ns, start_ns_);
        return;
    }
    if (style_ == TimeStyle::monotonic) {
        put_span(out, time_ns, monotonic_zero_ns_, false);
        return;
    }
    const Split parts = split(time_ns);
    if (parts.seconds != second_) new_second(parts.seconds);
    char* const at = out.room(20);
    std::memcpy(at, clock_ + 11, 8);
    out.wrote(put_nanoseconds(at + 8, parts.ns));
}

void TimeFormat::put_date_and_time(OutputBuffer& out, int64_t time_ns) {
    if (style_ == TimeStyle::local || style_ == TimeStyle::utc) {
        const Split parts = split(time_ns);
        if (parts.seconds != second_) new_second(parts.seconds);
        out.put(std::string_view(clock_, 11));
    }
    put_time(out, time_ns);
}

void TimeFormat::put_difference(OutputBuffer& out, int64_t later_ns, int64_t earlier_ns) {
    put_span(out, later_ns, earlier_ns, true);
}

void TimeFormat::put_span(OutputBuffer& out, int64_t later_ns, int64_t earlier_ns, bool with_plus) {
    const bool backwards = later_ns < earlier_ns;
    const uint64_t ns = backwards ? static_cast<uint64_t>(earlier_ns) - static_cast<uint64_t>(later_ns)
                                  : static_cast<uint64_t>(later_ns) - static_cast<uint64_t>(earlier_ns);
    const uint64_t seconds = ns / static_cast<uint64_t>(ns_per_s);
    char* at = out.room(40);
    if (backwards || with_plus) *at++ = backwards ? '-' : '+';
    if (seconds == 0)
        *at++ = '0';
    else
        at = std::to_chars(at, at + 20, seconds).ptr;
    out.wrote(put_nanoseconds(at, static_cast<uint32_t>(ns - seconds * static_cast<uint64_t>(ns_per_s))));
}

Result<int64_t> TimeFormat::parse(std::string_view text) const {
    const Error wrong = Error("`{}` is not a point in time.", text)
                            .hint("Write 12:34:56.5, \"2026-01-31 12:34:56.5\", or +1.5s, +200ms, +5min, +1h "
                                  "or +2d from the start.");
    std::string_view rest = text;
    const bool from_start = take(rest, '+');
    if (from_start || (style_ == TimeStyle::monotonic && rest.find(':') == std::string_view::npos)) {
        const std::optional<int64_t> span = parse_span(rest);
        if (!span) return wrong;
        int64_t sum = 0;
        if (__builtin_add_overflow(from_start ? start_ns_ : monotonic_zero_ns_, *span, &sum)) return wrong;
        return sum;
    }
    const time_t start_s = split(start_ns_).seconds;
    const bool utc = style_ == TimeStyle::utc;
    tm parts{};
    if ((utc ? gmtime_r(&start_s, &parts) : localtime_r(&start_s, &parts)) == nullptr) return wrong;
    const bool has_date = rest.find('-') != std::string_view::npos;
    std::string_view start = rest;
    if (const auto year = has_date ? take_number(start) : std::nullopt;
        year && start.starts_with('-') && !is_known_year(*year))
        return Error("`{}` is out of range: a trace knows the years 1970 to 2200.", text);
    if (has_date && !take_date(rest, parts)) return wrong;
    if (has_date && !is_day(parts))
        return Error("`{}` is not a point in time: its month has no such day.", text);
    int64_t fraction_ns = 0;
    if (!take_clock(rest, parts, fraction_ns)) return wrong;
    parts.tm_isdst = -1;
    tm copy = parts;
    const auto to_ns = [&](tm& broken_down) {
        return (utc ? timegm(&broken_down) : mktime(&broken_down)) * ns_per_s + fraction_ns;
    };
    const int64_t time_ns = to_ns(copy);
    const bool long_before = static_cast<__int128>(start_ns_) - time_ns >= __int128{12 * 3600} * ns_per_s;
    if (has_date || !long_before) return time_ns;
    /* Half a day and more before the trace began: the day after is meant. */
    copy = parts;
    ++copy.tm_mday;
    return to_ns(copy);
}

} // namespace plumb
