// The events of a kiosk, and a template that traces: everything in a header, as C++ code likes it.
#pragma once

#include <cstdint>
#include <plumb/marker.h>
#include <plumb/tracepoint.h>
#include <string>
#include <string_view>
#include <vector>

enum class Payment : std::uint8_t { cash, card, voucher = 9 };

PLUMB_EVENT(kiosk, sold, (string, customer), (string, article), (text, note),
            (enum, u8, payment, (Payment::cash, "cash"), (Payment::card, "card"),
             (Payment::voucher, "voucher")),
            (f64, price), (f32, tax), (bool, receipt), (ptr, counter));

PLUMB_EVENT(kiosk, counted, (i8, a), (u8, b), (i16, c), (u16, d), (i32, e), (u32, f), (i64, g), (u64, h),
            (x8, i), (x16, j), (x32, k), (x64, l), (int, m), (unsigned, n), (long, o), (size_t, p));

PLUMB_EVENT(kiosk, shelf, (array, u32, prices, 3), (sequence, i64, stock));

PLUMB_EVENT(kiosk, pushed, (u64, size), (size_t, element_bytes));

// A stack whose every instance, for whatever type, traces the same event.
template <typename Item>
class Stack {
public:
    void push(Item item) {
        items_.push_back(std::move(item));
        plumb_trace(kiosk, pushed, items_.size(), sizeof(Item));
    }
    std::size_t size() const { return items_.size(); }

private:
    std::vector<Item> items_;
};

// In library.cc, a shared library with tracepoints of its own.
void trace_in_library(std::uint64_t round, bool print);

// In the header, so that it is compiled into the executable and into the library.
void print_line(const char* format, ...) __attribute__((format(printf, 1, 2)));

inline void trace_counts(std::uint64_t round, bool print) {
    const auto low = static_cast<std::int64_t>(round) - 3;
    plumb_trace(kiosk, counted, -1, 255, -2, 65535, -3, 4294967295u, low, round, 1, 2, 3, 4, -5, 6u, -7L,
                sizeof(round));
    if (print)
        print_line(
            "{\"event\": \"kiosk:counted\", \"fields\": {\"a\": -1, \"b\": 255, \"c\": -2, \"d\": 65535, "
            "\"e\": -3, \"f\": 4294967295, \"g\": %lld, \"h\": %llu, \"i\": 1, \"j\": 2, \"k\": 3, "
            "\"l\": 4, \"m\": -5, \"n\": 6, \"o\": -7, \"p\": 8}}",
            static_cast<long long>(low), static_cast<unsigned long long>(round));
}
