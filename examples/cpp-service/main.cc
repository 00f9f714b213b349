// A small service in C++: std::string_view and std::string as string fields, an enum class, a template with a
// tracepoint inside, and a marker.
//
//   cpp-service [--count N] [--interval-ms MS] [--print]
#include "kiosk.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

void sell(std::uint64_t round, bool print) {
    // A view into the middle of a longer string: it has no NUL of its own.
    const std::string_view articles = "newspaper,stamps,tea";
    const std::string_view article = articles.substr(10, 6);
    const std::string customer = "customer " + std::to_string(round);
    const std::string note(round % 300, 'n');
    constexpr std::array payments{Payment::cash, Payment::card, Payment::voucher};
    const Payment payment = payments[round % payments.size()];
    const double price = 0.1 * static_cast<double>(round);
    const float tax = static_cast<float>(round) / 16.0f;
    plumb_trace(kiosk, sold, customer, article, note.data(), note.size(), payment, price, tax, round % 2 == 1,
                &articles);
    if (print)
        print_line("{\"event\": \"kiosk:sold\", \"fields\": {\"customer\": \"%s\", \"article\": \"stamps\", "
                   "\"note\": \"%s\", \"payment\": %d, \"price\": %.17g, \"tax\": %.17g, \"receipt\": %d, "
                   "\"counter\": %llu}}",
                   customer.c_str(), note.c_str(), static_cast<int>(payment), price, static_cast<double>(tax),
                   round % 2 == 1,
                   static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(&articles)));
}

void stack(std::uint64_t round, bool print) {
    const std::uint32_t prices[3] = {1, 4294967295u, static_cast<std::uint32_t>(round)};
    const std::vector<std::int64_t> stock(round % 4, -static_cast<std::int64_t>(round));
    plumb_trace(kiosk, shelf, prices, stock.data(), stock.size());
    if (print) {
        std::string list;
        for (const std::int64_t count : stock)
            list += (list.empty() ? "" : ", ") + std::to_string(count);
        print_line(
            "{\"event\": \"kiosk:shelf\", \"fields\": {\"prices\": [1, 4294967295, %llu], \"stock\": [%s]}}",
            static_cast<unsigned long long>(round), list.c_str());
    }

    Stack<int> numbers;
    Stack<double> amounts;
    numbers.push(1);
    amounts.push(2.0);
    if (print) {
        print_line("{\"event\": \"kiosk:pushed\", \"fields\": {\"size\": 1, \"element_bytes\": 4}}");
        print_line("{\"event\": \"kiosk:pushed\", \"fields\": {\"size\": 1, \"element_bytes\": 8}}");
    }
    plumb_mark(kiosk, closed, "round %d shop %s", static_cast<int>(round), "corner");
    if (print)
        print_line("{\"event\": \"kiosk:closed\", \"fields\": {\"round\": %d, \"shop\": \"corner\"}}",
                   static_cast<int>(round));
}

} // namespace

int main(int argument_count, char** arguments) {
    std::uint64_t count = 10;
    std::chrono::milliseconds interval{0};
    bool print = false;
    for (int i = 1; i < argument_count; i++) {
        const std::string_view argument = arguments[i];
        if (argument == "--print") {
            print = true;
        } else if (argument == "--count" && i + 1 < argument_count) {
            count = std::strtoull(arguments[++i], nullptr, 10);
        } else if (argument == "--interval-ms" && i + 1 < argument_count) {
            interval = std::chrono::milliseconds(std::strtol(arguments[++i], nullptr, 10));
        } else {
            print_line("usage: cpp-service [--count N] [--interval-ms MS] [--print]");
            return 2;
        }
    }
    for (std::uint64_t round = 0; round < count; round++) {
        sell(round, print);
        trace_counts(round, print);
        stack(round, print);
        trace_in_library(round, print);
        std::this_thread::sleep_for(interval);
    }
}
