#include "base/process_names.h"

#include "base/file.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace plumb {

namespace {

/* That of the machine: PROC_PID_INIT_INO of the kernel. Everybody is seen from there. */
constexpr std::uint32_t first_namespace = 0xeffffffc;

/* 0: may not be looked at. */
std::uint32_t namespace_of(const std::string& process) {
    struct stat info {};
    return ::stat(("/proc/" + process + "/ns/pid").c_str(), &info) == 0
               ? static_cast<std::uint32_t>(info.st_ino)
               : 0;
}

struct Numbers {
    std::uint32_t own = 0; /* the last one: in its own namespace */
    std::uint32_t count = 0;
};

/* From "NSpid:\t4711\t17", which begins in the namespace of /proc. An error with ENOENT or ESRCH: there is none. */
Result<Numbers> numbers_of(const std::string& process) {
    const Result<std::string> status = read_small_file("/proc/" + process + "/status");
    if (!status) return status.error();
    Numbers numbers;
    const std::size_t line = status->find("\nNSpid:");
    if (line == std::string::npos) return numbers;
    const char* at = status->c_str() + line + 7;
    while (*at == '\t' || *at == ' ') {
        char* end = nullptr;
        numbers.own = static_cast<std::uint32_t>(std::strtoul(at, &end, 10));
        if (end == at) break;
        at = end;
        numbers.count++;
    }
    return numbers;
}

bool is_nobody(const Error& error) {
    return error.number() == ENOENT || error.number() == ESRCH;
}

bool is_number(const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos;
}

/* Nobody is hidden from us: not by a namespace, not by the option hidepid of /proc. */
bool sees_everybody() {
    return own_namespace() == first_namespace && numbers_of("1").has_value();
}

} // namespace

/* Asked anew in a forked child, which may be in another one. */
std::uint32_t own_namespace() {
    static thread_local pid_t asked_by = 0;
    static thread_local std::uint32_t known = 0;
    if (asked_by != ::getpid()) {
        known = namespace_of("self");
        asked_by = ::getpid();
    }
    return known;
}

bool in_first_namespace() {
    return own_namespace() == first_namespace;
}

bool proc_has_our_numbers() {
    static thread_local pid_t asked_by = 0;
    static thread_local bool known = false;
    if (asked_by != ::getpid()) {
        const Result<Numbers> numbers = numbers_of("self");
        known = numbers && numbers->count == 1;
        asked_by = ::getpid();
    }
    return known;
}

bool proc_has_other_numbers() {
    static thread_local pid_t asked_by = 0;
    static thread_local bool known = false;
    if (asked_by != ::getpid()) {
        const Result<Numbers> numbers = numbers_of("self");
        if (!numbers) return false; /* asked again: there may be no descriptor now */
        known = numbers->count > 1;
        asked_by = ::getpid();
    }
    return known;
}

OwnName own_name_of(std::uint32_t process_id) {
    if (!proc_has_our_numbers()) return {own_namespace(), process_id};
    const std::string process = std::to_string(process_id);
    const Result<Numbers> numbers = numbers_of(process);
    if (!numbers || numbers->count < 2) return {own_namespace(), process_id};
    return {namespace_of(process), numbers->own};
}

ProcessTable ProcessTable::read() {
    ProcessTable table;
    table.look_for_newcomers();
    return table;
}

void ProcessTable::look_for_newcomers() {
    is_complete_ = false;
    if (!proc_has_our_numbers()) return;
    const Result<std::vector<std::string>> names = list_directory("/proc");
    if (!names) return;
    is_complete_ = true;
    has_everybody_ = sees_everybody();
    std::set<std::uint32_t> there;
    for (const std::string& process : *names) {
        if (!is_number(process)) continue;
        const auto process_id = static_cast<std::uint32_t>(std::strtoul(process.c_str(), nullptr, 10));
        if (process_ids_.contains(process_id)) {
            there.insert(process_id);
            continue;
        }
        const Result<Numbers> numbers = numbers_of(process);
        if (!numbers) { /* it has ended since; or there is no descriptor for us */
            if (!is_nobody(numbers.error())) is_complete_ = false;
            continue;
        }
        Process entry{process_id, {}};
        if (numbers->count == 1) entry.space = own_namespace();
        by_own_number_.emplace(numbers->own, entry);
        there.insert(process_id);
    }
    std::erase_if(by_own_number_, [&](const auto& each) { return !there.contains(each.second.process_id); });
    process_ids_ = std::move(there);
}

std::uint32_t ProcessTable::space_of(Process& process) {
    if (!process.space) process.space = namespace_of(std::to_string(process.process_id));
    return *process.space;
}

/* Then who is not seen in it is not there. */
bool ProcessTable::is_below_us(std::uint32_t space) {
    if (space == 0) return false;
    for (auto& [own_number, process] : by_own_number_)
        if (space_of(process) == space) return true;
    return false;
}

Sight ProcessTable::look_for(OwnName name, const std::function<bool(std::uint32_t process_id)>& is_it) {
    bool is_certain = true;
    std::uint32_t found = 0;
    const auto [first, last] = by_own_number_.equal_range(name.process_id);
    for (auto place = first; place != last;) {
        const auto each = place++;
        const std::uint32_t process_id = each->second.process_id;
        const std::uint32_t space = space_of(each->second);
        if (name.space == 0 ? !is_it(process_id) : space != name.space) {
            if (space == 0) is_certain = false; /* it may be the one */
            continue;
        }
        /* Who was this when it was read may have ended since, and another be it now. */
        const Result<Numbers> now = numbers_of(std::to_string(process_id));
        if (!now && !is_nobody(now.error())) {
            is_certain = false;
            continue;
        }
        const std::uint32_t space_now = now ? namespace_of(std::to_string(process_id)) : 0;
        if (!now || now->own != name.process_id || (space_now != 0 && space_now != space)) {
            process_ids_.erase(process_id); /* then a newcomer */
            by_own_number_.erase(each);
            continue;
        }
        if (name.space != 0) return {Sight::seen, process_id};
        if (found != 0) return {}; /* either of them: each numbers its processes for itself */
        found = process_id;
    }
    if (found != 0) return {Sight::seen, found};
    if (!is_complete_ || !is_certain) return {};
    return {has_everybody_ || is_below_us(name.space) ? Sight::gone : Sight::hidden, 0};
}

std::uint32_t look_for_thread(std::uint32_t process_id, std::uint32_t own_process_id,
                              std::uint32_t own_thread_id) {
    const std::string tasks = std::to_string(process_id) + "/task";
    const auto is_it = [&](const std::string& thread) {
        const Result<Numbers> numbers = numbers_of(tasks + "/" + thread);
        return numbers && numbers->own == own_thread_id;
    };
    /* Numbers are given out in turn, so most are as far apart in both namespaces. */
    const std::uint32_t likely = process_id + (own_thread_id - own_process_id);
    if (is_it(std::to_string(likely))) return likely;
    const Result<std::vector<std::string>> names = list_directory("/proc/" + tasks);
    if (!names) return 0;
    for (const std::string& thread : *names)
        if (is_it(thread)) return static_cast<std::uint32_t>(std::strtoul(thread.c_str(), nullptr, 10));
    return 0;
}

} // namespace plumb
