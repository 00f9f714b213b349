/* Whose events a kernel session has: the kernel takes the machine's numbers of threads, and hands them on to those that they
 * start. */
#include "consumerd/kernel/kernel_session.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/kernel/tracing_instances.h"

#include <unistd.h>

#include <cerrno>
#include <sstream>

namespace plumb {
namespace {

/* The kernel's PID_MAX_LIMIT: no thread ever has this number. */
constexpr std::uint32_t nobodys_number = 4'194'304;

template <typename Numbers>
std::string separated_by_spaces(const Numbers& numbers) {
    return fmt::format("{}", fmt::join(numbers, " "));
}

} // namespace

Result<std::unique_ptr<TracefsReader>> KernelSession::open_reader(const std::string& purpose) const {
    const auto clock = read_small_file(path("trace_clock")); /* "local global [mono]" */
    if (!clock) return clock.error();
    const std::size_t begin = clock->find('['), end = clock->find(']');
    if (begin == std::string::npos || end == std::string::npos || end < begin)
        return Error("{} does not say which clock is used.", path("trace_clock"));
    TracefsReader::Place place;
    place.root = root_;
    place.name = tracing_instance_name() + "_" + purpose;
    place.clock = clock->substr(begin + 1, end - begin - 1);
    place.clock_mode = place.clock == "x86-tsc" ? PLUMB_CLOCK_TSC
                       : place.clock == "boot"  ? PLUMB_CLOCK_BOOTTIME
                                                : PLUMB_CLOCK_MONOTONIC;
    place.page_format = page_format_;
    place.page_bytes = page_bytes_;
    return TracefsReader::open(std::move(place));
}

Status KernelSession::translate_numbers() {
    auto reader = open_reader("numbers");
    if (!reader) return reader.error();
    auto numbers = GlobalNumbers::make(std::move(*reader));
    if (!numbers) return numbers.error();
    numbers_ = std::move(*numbers);
    return ok();
}

/* Of the threads of a process that are not in `known` yet. One that has ended since has none. */
Result<std::vector<std::uint32_t>> KernelSession::machine_numbers(std::uint32_t process_id,
                                                                  std::set<std::uint32_t>& known) const {
    std::vector<std::uint32_t> found;
    for (const std::uint32_t thread_id : thread_ids(process_id)) {
        if (!known.insert(thread_id).second) continue;
        if (!numbers_) {
            found.push_back(thread_id);
            continue;
        }
        const auto number = numbers_->of(process_id, thread_id);
        if (number) found.push_back(*number);
        if (!number && number.error().number() != ENOENT) return number.error();
    }
    return found;
}

Result<std::set<std::uint32_t>> KernelSession::listed(const char* list) const {
    const auto text = read_small_file(path(list), std::size_t{64} << 20);
    if (!text) return text.error();
    std::istringstream words(*text); /* or "no pid" */
    std::set<std::uint32_t> numbers;
    for (std::uint32_t number = 0; words >> number;)
        numbers.insert(number);
    return numbers;
}

Status KernelSession::limit_to(const std::vector<std::uint32_t>& process_ids) {
    if (Status set = write_tracefs(path("options/event-fork"), "1"); !set) return set;
    /* An empty list would be everybody's, and who is named may have ended. */
    if (Status set = write_tracefs(path("set_event_pid"), std::to_string(nobodys_number), true); !set)
        return set;
    return add(process_ids);
}

/* Threads that are in the list hand that on to those that they start; those that were started before, by one that was not
 * in it yet, are found by looking again. */
Status KernelSession::add(const std::vector<std::uint32_t>& process_ids) {
    constexpr int thread_looks_max = 100;
    std::set<std::uint32_t> known;
    for (int looks = 0; looks < thread_looks_max; looks++) {
        std::vector<std::uint32_t> missing;
        const auto in_list = listed("set_event_pid");
        if (!in_list) return in_list.error();
        for (const std::uint32_t process_id : process_ids) {
            const auto found = machine_numbers(process_id, known);
            if (!found) return found.error();
            for (const std::uint32_t number : *found)
                if (!in_list->contains(number)) missing.push_back(number);
        }
        if (missing.empty()) return ok();
        if (Status set = write_tracefs(path("set_event_pid"), separated_by_spaces(missing), true); !set)
            return set;
    }
    return ok();
}

Result<std::set<std::uint32_t>> KernelSession::named_here(const char* list) const {
    auto numbers = listed(list);
    if (!numbers || !numbers_) return numbers;
    std::set<std::uint32_t> here;
    for (const std::uint32_t number : *numbers)
        here.insert(numbers_->here_now(number));
    return here;
}

Result<std::set<std::uint32_t>> KernelSession::listed_threads() const {
    auto threads = named_here("set_event_pid");
    if (threads) threads->erase(nobodys_number);
    return threads;
}

Result<std::set<std::uint32_t>> KernelSession::hidden_threads() const {
    return named_here("set_event_notrace_pid");
}

Result<std::set<std::uint32_t>>
KernelSession::machine_numbers_of(const std::vector<std::uint32_t>& thread_ids) const {
    if (!numbers_) return std::set<std::uint32_t>(thread_ids.begin(), thread_ids.end());
    std::set<std::uint32_t> numbers;
    for (const std::uint32_t thread_id : thread_ids) {
        const auto number = numbers_->of(thread_id, thread_id);
        if (number) numbers.insert(*number);
        if (!number && number.error().number() != ENOENT) return number.error();
    }
    return numbers;
}

Status KernelSession::hide(const std::vector<std::uint32_t>& thread_ids) {
    const auto numbers = machine_numbers_of(thread_ids);
    if (!numbers) return numbers.error();
    if (numbers->empty()) return ok();
    return write_tracefs(path("set_event_notrace_pid"), separated_by_spaces(*numbers), true);
}

/* Nothing can be taken out of the list: it is written anew. */
Status KernelSession::show(const std::vector<std::uint32_t>& thread_ids) {
    const auto numbers = machine_numbers_of(thread_ids);
    if (!numbers) return numbers.error();
    auto hidden = listed("set_event_notrace_pid");
    if (!hidden) return hidden.error();
    if (std::erase_if(*hidden, [&](std::uint32_t number) { return numbers->contains(number); }) == 0)
        return ok();
    return write_tracefs(path("set_event_notrace_pid"), separated_by_spaces(*hidden));
}

Status KernelSession::leave_out_self() {
    std::set<std::uint32_t> known;
    const auto own = machine_numbers(static_cast<std::uint32_t>(getpid()), known);
    if (!own) return own.error();
    return write_tracefs(path("set_event_notrace_pid"), separated_by_spaces(*own));
}

} // namespace plumb
