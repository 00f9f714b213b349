#include "consumerd/kernel/kernel_statedump.h"

#include "base/file.h"
#include "base/processes.h"
#include "base/time_namespace.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/event/record_encoder.h"
#include "consumerd/kernel/event_format.h"

#include <plumb/abi/event.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

namespace plumb {
namespace {

/* Ids, in the order of kernel_statedump_events(). */
enum : std::uint16_t {
    dump_start = 1,
    dump_end,
    dump_thread,
    dump_file,
    dump_interrupt,
    dump_module,
    dump_block_device,
    dump_named
};

/* Of a device's number, as events of the block layer have it. */
constexpr unsigned minor_bits = 20;

/* LTTng's numbers. */
enum : std::int32_t { user_thread = 0, kernel_thread = 1 };
enum : std::int32_t { mode_unknown = 5 };
enum : std::int32_t { submode_unknown = 1 };
enum : std::int32_t {
    status_unnamed = 0,
    status_wait_cpu = 2,
    status_exit = 3,
    status_zombie = 4,
    status_wait = 5,
    status_dead = 7
};

EventField integer(std::string name, std::uint8_t bytes, bool is_signed, bool hex = false) {
    return {std::move(name), PLUMB_FIELD_INTEGER, bytes, is_signed, hex, 0, {}};
}

/* A number for other readers, as LTTng has it. */
EventField labelled(std::string name, std::vector<EventLabel> labels) {
    return {std::move(name), PLUMB_FIELD_INTEGER, 4, true, false, 0, std::move(labels)};
}

EventField string(std::string name) {
    return {std::move(name), PLUMB_FIELD_STRING, 1, false, false, 0, {}};
}

EventDescription event(std::string name, std::vector<EventField> fields) {
    EventDescription description;
    description.name = std::move(name);
    description.log_level = PLUMB_DEBUG_LINE;
    description.fields = std::move(fields);
    return description;
}

struct ThreadStat {
    std::string name;
    char state = '?';
    std::int32_t parent = 0;
    std::uint64_t flags = 0;
    std::uint64_t began_boottime_ns = 0;
    std::uint32_t cpu = 0;
};

/* On the machine's clock, which /proc shifts for those in a time namespace. */
std::uint64_t boottime_of_ticks(std::uint64_t ticks) {
    static const std::uint64_t tick_ns = 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
    const auto offsets = own_time_offsets();
    return ticks * tick_ns - static_cast<std::uint64_t>(offsets ? offsets->boottime_ns : 0);
}

constexpr std::uint64_t kernel_thread_flag = 0x00200000; /* PF_KTHREAD */

/* Of threads of its own /proc tells more than their names, which events of the kernel have: "kworker/1:1-events" is called
 * "kworker/1:1", "rcu_exp_gp_kthread_worker" what fits. */
std::string name_of_kernel_thread(std::string name) {
    constexpr std::string_view worker = "kworker/", rescuer = "kworker/R-";
    if (name.starts_with(worker) && !name.starts_with(rescuer))
        name = name.substr(0, name.find_first_of("+-"));
    return name.substr(0, thread_name_bytes - 1);
}

/* /proc/PID/task/TID/stat: "12 (a name) S 1 ...". The name may hold anything, so its end is the last ')'. */
std::optional<ThreadStat> thread_stat(std::uint32_t process_id, std::uint32_t thread_id) {
    const auto text = read_small_file(fmt::format("/proc/{}/task/{}/stat", process_id, thread_id));
    if (!text) return {};
    const std::size_t open = text->find('('), close = text->rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return {};
    ThreadStat stat;
    stat.name = text->substr(open + 1, close - open - 1);
    std::istringstream rest(text->substr(close + 1));
    std::string skipped;
    rest >> stat.state >> stat.parent;
    for (int field = 5; field <= 8; field++)
        rest >> skipped;
    rest >> stat.flags; /* the 9th */
    if ((stat.flags & kernel_thread_flag) != 0) stat.name = name_of_kernel_thread(stat.name);
    for (int field = 10; field <= 21; field++)
        rest >> skipped;
    std::uint64_t start_ticks = 0;
    rest >> start_ticks; /* the 22nd */
    stat.began_boottime_ns = boottime_of_ticks(start_ticks);
    for (int field = 23; field <= 38; field++)
        rest >> skipped;
    rest >> stat.cpu; /* the 39th */
    return stat;
}

std::int32_t status_of(char state) {
    switch (state) {
    case 'R':
        return status_wait_cpu;
    case 'Z':
        return status_zombie;
    case 'X':
    case 'x':
        return status_dead;
    case 'S':
    case 'D':
    case 'I':
    case 'T':
    case 't':
    case 'P':
        return status_wait;
    default:
        return status_unnamed;
    }
}

std::vector<std::uint32_t> numbers_in(const std::string& folder) {
    std::vector<std::uint32_t> numbers;
    const auto names = list_directory(folder);
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
        std::uint32_t number = 0;
        const char* const end = name.data() + name.size();
        const auto [rest, wrong] = std::from_chars(name.data(), end, number);
        if (wrong == std::errc() && rest == end) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

std::string line_of(const std::string& path) {
    const auto text = read_small_file(path);
    return text ? text->substr(0, text->find('\n')) : "";
}

class Dump {
public:
    explicit Dump(plumb_clock_mode clock) : clock_(clock) {}

    void mark(std::uint16_t id) {
        begin(id);
        encoder_.end();
    }
    /* Where one ends meanwhile, whom it made may be the only one by whom the others are known: each that makes the next one. */
    void threads(std::uint32_t process_id) {
        constexpr int looks_max = 10;
        std::set<std::uint32_t> dumped;
        bool has_missed = true;
        for (int looks = 0; looks < looks_max && has_missed; looks++) {
            const ShownThreads shown = shown_threads(process_id);
            has_missed = !shown.is_whole;
            for (const std::uint32_t thread_id : shown.ids)
                if (!dumped.contains(thread_id)) {
                    const bool is_there = thread(process_id, thread_id);
                    if (is_there) dumped.insert(thread_id);
                    has_missed |= !is_there;
                }
        }
    }
    void files(std::uint32_t process_id) {
        const std::string process = proc_folder(process_id);
        const std::string folder = process + "/fd";
        for (const std::uint32_t number : numbers_in(folder)) {
            const auto target = read_link(fmt::format("{}/{}", folder, number));
            /* Longer than the kernel tells; any other has been closed. */
            if (!target && target.error().number() != ENAMETOOLONG) continue;
            const std::uint32_t flags = flags_of(process, number);
            begin(dump_file);
            encoder_.put(process_id);
            encoder_.put(file_table_of(process_id));
            encoder_.put(number);
            encoder_.put(flags);
            encoder_.put(file_mode_of(flags));
            encoder_.put_string(target ? *target : std::string());
            encoder_.end();
        }
    }
    void interrupts() {
        for (const std::uint32_t number : numbers_in("/sys/kernel/irq")) {
            const std::string folder = fmt::format("/sys/kernel/irq/{}/", number);
            const std::string action = line_of(folder + "actions");
            if (action.empty()) continue; /* nobody handles it */
            begin(dump_interrupt);
            encoder_.put(number);
            encoder_.put_string(line_of(folder + "chip_name"));
            encoder_.put_string(action);
            encoder_.end();
        }
    }
    /* "name size uses users state address" */
    void modules() {
        const auto text = read_small_file("/proc/modules");
        std::istringstream lines(text ? *text : "");
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string name, skipped, address;
            std::uint64_t size = 0;
            words >> name >> size >> skipped >> skipped >> skipped >> address;
            std::uint64_t base = 0;
            if (address.starts_with("0x"))
                std::from_chars(address.data() + 2, address.data() + address.size(), base, 16);
            begin(dump_module);
            encoder_.put(base);
            encoder_.put(size);
            encoder_.put_string(name);
            encoder_.end();
        }
    }
    /* "major minor blocks name", behind a line of titles and an empty one. */
    void block_devices() {
        const auto text = read_small_file("/proc/partitions");
        std::istringstream lines(text ? *text : "");
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::uint32_t major = 0, minor = 0;
            std::uint64_t blocks = 0;
            std::string name;
            if (!(words >> major >> minor >> blocks >> name)) continue;
            begin(dump_block_device);
            encoder_.put(major << minor_bits | minor);
            encoder_.put_string(name);
            encoder_.end();
        }
    }
    KernelStatedump take() { return {encoder_.bytes(), std::move(threads_)}; }

private:
    /* False if it ended meanwhile. */
    bool thread(std::uint32_t process_id, std::uint32_t thread_id) {
        const std::uint64_t looked_at = read_clock(clock_);
        const auto stat = thread_stat(process_id, thread_id);
        if (!stat) return false;
        threads_[thread_id] = {process_id, stat->began_boottime_ns, looked_at, stat->name};
        begin(dump_thread, looked_at);
        encoder_.put(thread_id);
        encoder_.put(process_id);
        encoder_.put(stat->parent);
        encoder_.put_string(stat->name);
        encoder_.put((stat->flags & kernel_thread_flag) != 0 ? kernel_thread : user_thread);
        encoder_.put(std::int32_t{mode_unknown});
        encoder_.put(std::int32_t{submode_unknown});
        encoder_.put(status_of(stat->state));
        encoder_.put(stat->cpu);
        encoder_.put(file_table_of(process_id));
        encoder_.end();
        return true;
    }
    void begin(std::uint16_t id) { begin(id, read_clock(clock_)); }
    void begin(std::uint16_t id, std::uint64_t time) {
        encoder_.begin(id, time, static_cast<std::uint32_t>(getpid()));
    }

    /* The kernel tells nobody where it keeps a process's files, so this is no address: it only says whose they are. */
    static std::uint64_t file_table_of(std::uint32_t process_id) { return process_id; }

    /* Whether it is read and written, as the kernel makes the one of the other. */
    static std::uint32_t file_mode_of(std::uint32_t flags) {
        return (flags & O_PATH) != 0 ? 0 : (flags + 1) & O_ACCMODE;
    }

    static std::uint32_t flags_of(const std::string& process, std::uint32_t number) {
        const auto text = read_small_file(fmt::format("{}/fdinfo/{}", process, number));
        constexpr std::string_view key = "flags:\t";
        const std::size_t at = text ? text->find(key) : std::string::npos;
        std::uint32_t flags = 0;
        if (at != std::string::npos)
            std::from_chars(text->data() + at + key.size(), text->data() + text->size(), flags, 8);
        return flags;
    }

    plumb_clock_mode clock_;
    RecordEncoder encoder_;
    std::map<std::uint32_t, ThreadOrigin> threads_;
};

} // namespace

const std::vector<EventDescription>& kernel_statedump_events() {
    static const std::vector<EventDescription> events = {
        event("lttng_statedump_start", {}),
        event("lttng_statedump_end", {}),
        event("lttng_statedump_process_state",
              {integer("tid", 4, true), integer("pid", 4, true), integer("ppid", 4, true), string("name"),
               labelled("type", {{user_thread, "USER_THREAD"}, {kernel_thread, "KERNEL_THREAD"}}),
               labelled("mode", {{mode_unknown, "MODE_UNKNOWN"}}),
               labelled("submode", {{submode_unknown, "UNKNOWN"}}),
               labelled("status", {{status_unnamed, "UNNAMED"},
                                   {status_wait_cpu, "WAIT_CPU"},
                                   {status_exit, "EXIT"},
                                   {status_zombie, "ZOMBIE"},
                                   {status_wait, "WAIT"},
                                   {status_dead, "DEAD"}}),
               integer("cpu", 4, false), integer("file_table_address", 8, false, true)}),
        event("lttng_statedump_file_descriptor",
              {integer("pid", 4, true), integer("file_table_address", 8, false, true), integer("fd", 4, true),
               integer("flags", 4, false, true), integer("fmode", 4, false, true), string("filename")}),
        event("lttng_statedump_interrupt", {integer("irq", 4, false), string("name"), string("action")}),
        event("lttng_statedump_module",
              {integer("address", 8, false, true), integer("size", 8, false), string("name")}),
        event("lttng_statedump_block_device", {integer("dev", 4, false), string("diskname")}),
        event("plumb_statedump_thread", {integer("tid", 4, true), integer("pid", 4, true), string("name")}),
    };
    return events;
}

KernelStatedump kernel_statedump(const KernelStatedumpOptions& options) {
    Dump dump(options.clock_mode);
    dump.mark(dump_start);
    for (const std::uint32_t process_id : numbers_in("/proc")) {
        dump.threads(process_id);
        if (options.open_files) dump.files(process_id);
    }
    dump.interrupts();
    dump.modules();
    dump.block_devices();
    dump.mark(dump_end);
    return dump.take();
}

std::vector<std::byte> encode_named_threads(const std::vector<NamedThread>& threads) {
    RecordEncoder encoder;
    for (const NamedThread& thread : threads) {
        encoder.begin(dump_named, thread.timestamp, thread.thread_id);
        encoder.put(thread.thread_id);
        encoder.put(thread.process_id);
        encoder.put_string(thread.name);
        encoder.end();
    }
    return encoder.bytes();
}

std::vector<std::byte> with_named_threads(std::span<const std::byte> dump,
                                          const std::vector<NamedThread>& threads) {
    constexpr std::size_t mask = PLUMB_RECORD_ALIGNMENT - 1;
    const std::vector<std::byte> named = encode_named_threads(threads);
    std::vector<std::byte> merged;
    merged.reserve(named.size() + dump.size() + PLUMB_RECORD_ALIGNMENT);
    std::span<const std::byte> names = named;
    const auto first_of = [](std::span<const std::byte> records) {
        plumb_record record;
        std::memcpy(&record, records.data(), sizeof(record));
        return record;
    };
    while (!names.empty() || !dump.empty()) {
        const bool is_name =
            dump.empty() || (!names.empty() && first_of(names).timestamp <= first_of(dump).timestamp);
        std::span<const std::byte>& from = is_name ? names : dump;
        const std::size_t length = first_of(from).length;
        merged.resize((merged.size() + mask) & ~mask);
        merged.insert(merged.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(length));
        from = from.subspan(std::min((length + mask) & ~mask, from.size()));
    }
    return merged;
}

} // namespace plumb
