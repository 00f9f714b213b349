/* Whose events a kernel session has: the kernel takes the machine's numbers of threads, and hands them on to those that they
 * start. */
#include "consumerd/kernel/kernel_session.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/kernel/tracing_instances.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <sstream>

namespace plumb {
namespace {

/* The kernel's PID_MAX_LIMIT: no thread ever has this number. */
constexpr std::uint32_t nobodys_number = 4'194'304;

/* A thread that lives as long will not end in the next moment. */
constexpr std::uint64_t young_ns = 50'000'000;
constexpr long pause_ns = 10'000'000;
/* Until those that are young are settled, or have ended; and once it is known that this is no use. */
constexpr std::uint64_t patience_ns = 300'000'000, later_patience_ns = 50'000'000;
/* Looks in a row that miss nobody, where threads end all the time. */
constexpr int certain_enough = 3;

void pause_for_threads() {
    const timespec pause = {0, pause_ns};
    ::nanosleep(&pause, nullptr);
}

std::set<std::uint32_t> threads_of(const std::vector<std::uint32_t>& process_ids,
                                   std::uint64_t least_age_ns) {
    std::set<std::uint32_t> found;
    for (const std::uint32_t process_id : process_ids)
        for (const LivingThread& thread : found_threads(process_id).living)
            if (thread.age_ns >= least_age_ns) found.insert(thread.id);
    return found;
}

template <typename Numbers>
std::string separated_by_spaces(const Numbers& numbers) {
    return fmt::format("{}", fmt::join(numbers, " "));
}

} // namespace

Result<std::unique_ptr<TracefsReader>> KernelSession::open_reader(const std::string& purpose,
                                                                  TracefsReader::Room room) const {
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
    place.room = room;
    return TracefsReader::open(std::move(place));
}

Status KernelSession::translate_numbers() {
    auto reader = open_reader("numbers", TracefsReader::Room::for_bursts);
    if (!reader) return reader.error();
    auto numbers = GlobalNumbers::make(std::move(*reader));
    if (!numbers) return numbers.error();
    numbers_ = std::move(*numbers);
    return ok();
}

/* Of the threads of a process that are not in `known` yet. One that has ended since has none; of one that is too young nothing is
 * known yet. Of either it is left open whether it is in the list, and hands that on. */
Result<KernelSession::Numbers> KernelSession::machine_numbers(std::uint32_t process_id,
                                                              std::set<std::uint32_t>& known,
                                                              std::uint64_t least_age_ns) const {
    Numbers found;
    const FoundThreads threads = found_threads(process_id);
    found.misses_some = !threads.ended.empty() || !threads.is_whole;
    found.goes_on = threads.goes_on;
    for (const std::uint32_t thread_id : threads.ended)
        if (!known.contains(thread_id)) found.open.push_back(thread_id);
    for (const LivingThread& thread : threads.living) {
        if (thread.age_ns < least_age_ns) {
            if (!known.contains(thread.id)) found.open.push_back(thread.id);
            continue;
        }
        if (!known.insert(thread.id).second) continue;
        if (!numbers_) {
            found.all.push_back(thread.id);
            continue;
        }
        const auto number = numbers_->of(process_id, thread.id);
        if (!number && number.error().number() != ENOENT) return number.error();
        if (number)
            found.all.push_back(*number);
        else
            found.open.push_back(thread.id);
        found.misses_some |= !number;
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
    constexpr int ended_looks_max = 20;
    bool has_all = true, has_ended = true;
    for (int looks = 0; looks < ended_looks_max && has_ended; looks++) {
        if (looks != 0)
            if (Status left = leave_off_ended(process_ids); !left) return left;
        const auto added = add_settled(process_ids, looks == 0 ? patience_ns : later_patience_ns);
        if (!added) return added.error();
        has_all = *added;
        const auto ended = ended_in_list(process_ids);
        if (!ended) return ended.error();
        has_ended = !ended->empty();
    }
    if (!has_all)
        notes_.push_back(fmt::format("Threads of {} begin and end too fast to be followed: some, and what "
                                     "those start, may be missing.",
                                     separated_by_spaces(process_ids)));
    if (has_ended)
        notes_.push_back(
            fmt::format("Threads of {} begin and end too fast to be told apart: another process that "
                        "gets the number of one may be recorded, too.",
                        separated_by_spaces(process_ids)));
    return ok();
}

/* Before anything is recorded. Threads that have just begun are not written: mostly they were started by one that is in the list,
 * and are in it by that; or they end in a moment. Whether certainly all are in it. */
Result<bool> KernelSession::add_settled(const std::vector<std::uint32_t>& process_ids,
                                        std::uint64_t patience_ns) {
    std::set<std::uint32_t> known;
    int certain = 0;
    for (std::uint64_t waited_ns = 0; waited_ns < patience_ns; waited_ns += pause_ns) {
        const auto look = add(process_ids, known, young_ns);
        if (!look) return look.error();
        certain = look->open == 0 ? certain + look->certain : 0;
        if (certain >= certain_enough) return true;
        if (look->open != 0) pause_for_threads();
    }
    return add_all(process_ids);
}

/* With event-fork, the kernel takes a number out of the lists when it frees a thread that has ended. One that had ended before
 * it was written would stay, and whoever gets that number next would be recorded, and what he starts. */
Result<std::set<std::uint32_t>>
KernelSession::ended_in_list(const std::vector<std::uint32_t>& process_ids) const {
    /* Who is on his way out is taken out in a moment. */
    constexpr int looks = 5;
    std::set<std::uint32_t> ended;
    for (int look = 0; look < looks; look++) {
        if (look != 0) pause_for_threads();
        const auto living = threads_of(process_ids, 0);
        const auto in_list = listed("set_event_pid"); /* who ended since is not in there any more */
        if (!in_list) return in_list;
        if (look == 0) ended = *in_list;
        std::erase_if(ended, [&](std::uint32_t number) {
            return number == nobodys_number || !in_list->contains(number) ||
                   is_of(number, living, process_ids);
        });
        if (ended.empty()) break;
    }
    return ended;
}

/* `threads`: of the processes. What they have started is theirs, too. */
bool KernelSession::is_of(std::uint32_t number, const std::set<std::uint32_t>& threads,
                          const std::vector<std::uint32_t>& process_ids) const {
    const std::uint32_t here = numbers_ ? numbers_->here_now(number) : number;
    return threads.contains(here) ||
           std::any_of(process_ids.begin(), process_ids.end(),
                       [&](std::uint32_t process_id) { return descends_from(here, process_id); });
}

/* Nothing can be taken out of the list: it is written anew, before anything is recorded. */
Status KernelSession::leave_off_ended(const std::vector<std::uint32_t>& process_ids) {
    auto kept = listed("set_event_pid");
    if (!kept) return kept.error();
    const auto settled = threads_of(process_ids, young_ns); /* others may end while this is written */
    std::erase_if(*kept, [&](std::uint32_t number) { return !is_of(number, settled, process_ids); });
    kept->insert(nobodys_number);
    return write_tracefs(path("set_event_pid"), separated_by_spaces(*kept));
}

Status KernelSession::add(const std::vector<std::uint32_t>& process_ids) {
    const auto added = add_all(process_ids);
    return added ? ok() : added.error();
}

/* Threads that are in the list hand that on to those that they start; those that were started before, by one that was not
 * in it yet, are found by looking again. Whether certainly all are in it. */
Result<bool> KernelSession::add_all(const std::vector<std::uint32_t>& process_ids) {
    constexpr int thread_looks_max = 100;
    std::set<std::uint32_t> known;
    int certain = 0;
    for (int looks = 0; looks < thread_looks_max; looks++) {
        const auto look = add(process_ids, known, 0);
        if (!look) return look.error();
        certain = look->open == 0 ? certain + look->certain : 0;
        if (certain >= certain_enough) return true;
    }
    return false;
}

/* The list is read behind the threads: who was started meanwhile by one that is in it is in it, too, and the number of one that
 * has ended stays there for a moment. */
Result<KernelSession::Look> KernelSession::add(const std::vector<std::uint32_t>& process_ids,
                                               std::set<std::uint32_t>& known, std::uint64_t least_age_ns) {
    Numbers found;
    int certain = certain_enough;
    for (const std::uint32_t process_id : process_ids) {
        const auto of_process = machine_numbers(process_id, known, least_age_ns);
        if (!of_process) return of_process.error();
        found.all.insert(found.all.end(), of_process->all.begin(), of_process->all.end());
        found.open.insert(found.open.end(), of_process->open.begin(), of_process->open.end());
        if (of_process->misses_some) certain = std::min(certain, of_process->goes_on ? 1 : 0);
    }
    const auto in_list = listed("set_event_pid");
    if (!in_list) return in_list.error();
    std::erase_if(found.all, [&](std::uint32_t number) { return in_list->contains(number); });
    const std::set<std::uint32_t> here =
        found.open.empty() ? std::set<std::uint32_t>() : called_here(*in_list);
    std::erase_if(found.open, [&](std::uint32_t thread_id) { return here.contains(thread_id); });
    if (!found.all.empty())
        if (Status set = write_tracefs(path("set_event_pid"), separated_by_spaces(found.all), true); !set)
            return set.error();
    /* Somebody who goes on, and is in the list, has whoever he starts in it. Where only such are shown as have ended, nothing is
     * known of the one that the last of them has started. */
    return Look{found.all.size() + found.open.size(), certain};
}

Result<std::set<std::uint32_t>> KernelSession::named_here(const char* list) const {
    const auto numbers = listed(list);
    return numbers ? called_here(*numbers) : numbers;
}

std::set<std::uint32_t> KernelSession::called_here(const std::set<std::uint32_t>& numbers) const {
    if (!numbers_) return numbers;
    std::set<std::uint32_t> here;
    for (const std::uint32_t number : numbers)
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
    const auto own = machine_numbers(static_cast<std::uint32_t>(getpid()), known, 0);
    if (!own) return own.error();
    return write_tracefs(path("set_event_notrace_pid"), separated_by_spaces(own->all));
}

Status KernelSession::leave_out_too(const std::vector<std::uint32_t>& process_ids) {
    std::vector<std::uint32_t> threads;
    for (const std::uint32_t process_id : process_ids)
        for (const std::uint32_t thread_id : thread_ids(process_id))
            threads.push_back(thread_id);
    return hide(threads);
}

/* Who is in the list hands that on; threads that were made meanwhile, by one that did not yet, are found by looking again. */
Status KernelSession::leave_out_later_threads() {
    constexpr int looks_max = 100;
    if (Status set = write_tracefs(path("options/event-fork"), "1"); !set) return set;
    settings_.know("trace_options");
    std::set<std::uint32_t> known;
    for (int looks = 0; looks < looks_max; looks++) {
        auto own = machine_numbers(static_cast<std::uint32_t>(getpid()), known, 0);
        if (!own) return own.error();
        if (own->all.empty()) break;
        const auto hidden = listed("set_event_notrace_pid");
        if (!hidden) return hidden.error();
        std::erase_if(own->all, [&](std::uint32_t number) { return hidden->contains(number); });
        if (own->all.empty()) continue;
        if (Status set = write_tracefs(path("set_event_notrace_pid"), separated_by_spaces(own->all), true);
            !set)
            return set;
    }
    return ok();
}

} // namespace plumb
