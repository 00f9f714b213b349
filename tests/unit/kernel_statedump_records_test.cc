// cmake-once
// The records of a dump of the kernel's state: what they say of threads, files, interrupts and disks is what the machine says
// of them elsewhere; and how names that were told meanwhile find their places between them.
#include "base/file.h"
#include "base/processes.h"
#include "consumerd/event/record_encoder.h"
#include "consumerd/kernel/kernel_statedump.h"
#include "tests/support/paused_process.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <sched.h>
#include <span>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

using namespace plumb;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAreArray;

namespace {

struct DumpedRecord {
    plumb_record header;
    std::string name;
    std::map<std::string, std::string> fields;

    std::string all() const {
        std::string text;
        for (const auto& [field, value] : fields)
            text += fmt::format("{}={} ", field, value);
        return text;
    }
};

uint64_t uint_at(std::span<const std::byte> bytes, size_t at, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
}

/* By the descriptions, as a reader of the trace does it. */
std::vector<DumpedRecord> records_in(std::span<const std::byte> dump) {
    std::vector<DumpedRecord> records;
    for (size_t at = 0; at < dump.size();) {
        DumpedRecord record;
        std::memcpy(&record.header, dump.data() + at, sizeof(record.header));
        const auto& events = kernel_statedump_events();
        if (record.header.event_id < 1 || record.header.event_id > events.size()) {
            ADD_FAILURE() << "there is no event " << record.header.event_id;
            return records;
        }
        const EventDescription& event = events[record.header.event_id - 1];
        record.name = event.name;
        size_t field_at = at + sizeof(record.header);
        for (const EventField& field : event.fields) {
            if (field.type == PLUMB_FIELD_STRING) {
                const std::string text(reinterpret_cast<const char*>(dump.data() + field_at));
                record.fields[field.name] = text;
                field_at += text.size() + 1;
                continue;
            }
            const uint64_t value = uint_at(dump, field_at, field.size);
            record.fields[field.name] =
                field.hex ? fmt::format("{:#x}", value) : fmt::format("{}", static_cast<int64_t>(value));
            field_at += field.size;
        }
        EXPECT_EQ(field_at - at, record.header.length) << record.name;
        records.push_back(record);
        at = (field_at + 7) & ~size_t{7};
    }
    return records;
}

std::vector<DumpedRecord> named(const std::vector<DumpedRecord>& records, const std::string& name) {
    std::vector<DumpedRecord> found;
    for (const DumpedRecord& record : records)
        if (record.name == name) found.push_back(record);
    return found;
}

std::vector<std::string> texts_of(const std::vector<DumpedRecord>& records) {
    std::vector<std::string> texts;
    for (const DumpedRecord& record : records)
        texts.push_back(record.all());
    return texts;
}

std::string first_line(const std::string& path) {
    const auto text = read_small_file(path);
    return text ? text->substr(0, text->find('\n')) : "";
}

unsigned last_cpu() {
    return static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_CONF)) - 1;
}

/* With a name that looks like what surrounds it in /proc; on one CPU. */
class OddProcess : public test::PausedProcess {
public:
    explicit OddProcess(
        unsigned cpu_number, const std::function<void()>& work = [] {})
        : PausedProcess([&] {
              ::prctl(PR_SET_NAME, "a) R 7 (b 8 9");
              cpu_set_t only;
              CPU_ZERO(&only);
              CPU_SET(cpu_number, &only);
              ::sched_setaffinity(0, sizeof(only), &only);
              work();
          }),
          cpu(cpu_number) {}

    void wait_for_state(char state) const {
        for (int i = 0; i < 10000; i++) {
            const auto status = process_status(static_cast<uint32_t>(id()));
            if (status && status->state == state) return;
            ::usleep(1000);
        }
        ADD_FAILURE() << "process " << id() << " did not come to state " << state;
    }
    std::string record(const std::vector<DumpedRecord>& all) const {
        for (const DumpedRecord& each : named(all, "lttng_statedump_process_state"))
            if (each.fields.at("tid") == std::to_string(id())) return each.all();
        return "";
    }
    std::string expected(int status) const {
        return fmt::format(
            "cpu={} file_table_address={:#x} mode=5 name=a) R 7 (b 8 9 pid={} ppid={} status={} "
            "submode=1 tid={} type=0 ",
            cpu, id(), id(), ::getpid(), status, id());
    }

    const unsigned cpu;
};

NamedThread told_name(uint64_t time, uint32_t thread_id, const std::string& name) {
    return {time, thread_id, thread_id + 1000, name};
}

/* Each of another length, with a time. */
std::vector<std::byte> dump_of(const std::vector<uint64_t>& times) {
    RecordEncoder encoder;
    size_t length = 0;
    for (const uint64_t time : times) {
        encoder.begin(7, time, 5);
        encoder.put(uint32_t{1});
        encoder.put_string(std::string(length++, 'd'));
        encoder.end();
    }
    return encoder.bytes();
}

std::vector<std::string> order_of(std::span<const std::byte> dump) {
    std::vector<std::string> order;
    for (const DumpedRecord& record : records_in(dump))
        order.push_back(fmt::format("{} {}", record.header.timestamp,
                                    record.header.event_id == 7 ? record.fields.at("diskname")
                                                                : record.fields.at("name")));
    return order;
}

} // namespace

TEST(kernel_statedump_records, say_of_a_thread_what_proc_says) {
    OddProcess sleeping(0), stopped(last_cpu()), ended(0);
    sleeping.wait_for_state('S');
    ::kill(stopped.id(), SIGSTOP);
    stopped.wait_for_state('T');
    ::kill(ended.id(), SIGKILL);
    ended.wait_for_state('Z');
    const KernelStatedump dump = kernel_statedump({});
    const std::vector<DumpedRecord> records = records_in(dump.records);
    EXPECT_EQ(sleeping.record(records), sleeping.expected(5));
    EXPECT_EQ(stopped.record(records), stopped.expected(5));
    EXPECT_THAT(ended.record(records), testing::HasSubstr(" status=4 "));
    const auto running = std::to_string(::gettid());
    for (const DumpedRecord& each : named(records, "lttng_statedump_process_state"))
        if (each.fields.at("tid") == running) {
            EXPECT_EQ(each.fields.at("status"), "2"); /* who looks is on a CPU */
        }
    const auto id = static_cast<uint32_t>(stopped.id());
    EXPECT_EQ(dump.threads.at(id).process_id, id);
    EXPECT_EQ(dump.threads.at(id).began_boottime_ns, process_start_boottime_ns(id));
}

TEST(kernel_statedump_records, have_kernel_threads_by_the_names_that_events_have) {
    const auto records = records_in(kernel_statedump({}).records);
    size_t longer = 0;
    for (const DumpedRecord& each : named(records, "lttng_statedump_process_state")) {
        const std::string shown = first_line(fmt::format("/proc/{}/comm", each.fields.at("tid")));
        const std::string name = each.fields.at("name");
        const auto status = first_line(fmt::format("/proc/{}/cmdline", each.fields.at("tid")));
        if (each.fields.at("type") != "1") {
            EXPECT_NE(shown, "kthreadd");
            continue;
        }
        EXPECT_EQ(status, "") << name; /* no program */
        EXPECT_LE(name.size(), 15u) << name;
        const bool is_worker = shown.starts_with("kworker/") && !shown.starts_with("kworker/R-");
        if (is_worker) {
            EXPECT_EQ(name.find_first_of("+-"), std::string::npos) << name << ", shown as " << shown;
        } else if (!shown.empty()) {
            EXPECT_EQ(name, shown.substr(0, 15));
            longer += shown.size() > 15;
        }
    }
    if (first_line("/proc/2/comm") == "kthreadd" && first_line("/proc/2/cmdline").empty()) {
        EXPECT_THAT(texts_of(records),
                    Contains(AllOf(testing::HasSubstr(" name=kthreadd pid=2 ppid=0 "),
                                   testing::HasSubstr(" tid=2 type=1 "), testing::HasSubstr(" status=5 "))));
    }
}

TEST(kernel_statedump_records, stand_between_a_start_and_an_end_in_time_order) {
    const auto now = [] {
        timespec time{};
        ::clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
    };
    const uint64_t before = now();
    const auto records =
        records_in(kernel_statedump({.clock_mode = PLUMB_CLOCK_MONOTONIC, .open_files = true}).records);
    const uint64_t behind = now();
    ASSERT_GE(records.size(), 3u);
    EXPECT_EQ(records.front().name, "lttng_statedump_start");
    EXPECT_EQ(records.back().name, "lttng_statedump_end");
    EXPECT_EQ(named(records, "lttng_statedump_start").size(), 1u);
    EXPECT_EQ(named(records, "lttng_statedump_end").size(), 1u);
    uint64_t last = before;
    for (const DumpedRecord& record : records) {
        EXPECT_GE(record.header.timestamp, last);
        EXPECT_EQ(record.header.thread_id, static_cast<uint32_t>(::getpid()));
        last = record.header.timestamp;
    }
    EXPECT_LE(last, behind);
}

TEST(kernel_statedump_records, say_how_a_file_is_open) {
    char path[] = "/tmp/plumb-statedump-XXXXXX";
    const int file = ::mkstemp(path);
    ASSERT_GE(file, 0);
    constexpr int ways[] = {O_RDONLY, O_WRONLY | O_APPEND, O_RDWR | O_CLOEXEC};
    int flags[3] = {};
    for (int i = 0; i < 3; i++) {
        const int opened = ::open(path, ways[i]);
        flags[i] = ::fcntl(opened, F_GETFL) | (ways[i] & O_CLOEXEC);
        ::close(opened);
    }
    ::close(file);
    OddProcess process(0, [&] {
        for (int i = 0; i < 3; i++) {
            const int opened = ::open(path, ways[i]);
            ::dup3(opened, 40 + i, ways[i] & O_CLOEXEC);
            ::close(opened);
        }
    });
    std::vector<std::string> seen;
    for (const DumpedRecord& each :
         named(records_in(kernel_statedump({.open_files = true}).records), "lttng_statedump_file_descriptor"))
        if (each.fields.at("pid") == std::to_string(process.id()) && each.fields.at("filename") == path)
            seen.push_back(each.all());
    std::vector<std::string> expected;
    for (int i = 0; i < 3; i++)
        expected.push_back(
            fmt::format("fd={} file_table_address={:#x} filename={} flags={:#x} fmode={:#x} pid={} ", 40 + i,
                        process.id(), path, flags[i], i + 1, process.id()));
    EXPECT_EQ(seen, expected);
    ::unlink(path);
}

TEST(kernel_statedump_records, have_the_interrupts_that_somebody_handles) {
    std::vector<std::string> expected;
    std::error_code wrong;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/irq", wrong)) {
        const std::string folder = entry.path().string(), actions = first_line(folder + "/actions");
        if (!actions.empty())
            expected.push_back(fmt::format("action={} irq={} name={} ", actions,
                                           entry.path().filename().string(),
                                           first_line(folder + "/chip_name")));
    }
    const auto records = records_in(kernel_statedump({}).records);
    EXPECT_THAT(texts_of(named(records, "lttng_statedump_interrupt")), UnorderedElementsAreArray(expected));
}

TEST(kernel_statedump_records, have_the_disks_by_the_numbers_of_their_devices) {
    const auto records = named(records_in(kernel_statedump({}).records), "lttng_statedump_block_device");
    for (const DumpedRecord& each : records) {
        const std::string device = first_line("/sys/class/block/" + each.fields.at("diskname") + "/dev");
        unsigned major = 0, minor = 0;
        ASSERT_EQ(std::sscanf(device.c_str(), "%u:%u", &major, &minor), 2) << each.all();
        EXPECT_EQ(each.fields.at("dev"), std::to_string(major * 1048576 + minor)) << each.all();
    }
    size_t lines = 0;
    if (const auto partitions = read_small_file("/proc/partitions"))
        lines = static_cast<size_t>(std::count(partitions->begin(), partitions->end(), '\n'));
    EXPECT_EQ(records.size(), lines > 2 ? lines - 2 : 0); /* titles, and an empty line */
}

/* ---- names that were told ---- */

TEST(kernel_statedump_records, of_names_have_thread_and_process) {
    const auto records =
        records_in(encode_named_threads({told_name(5, 0x10203, "one"), told_name(9, 7, "")}));
    EXPECT_THAT(texts_of(records), ElementsAre("name=one pid=67051 tid=66051 ", "name= pid=1007 tid=7 "));
    EXPECT_EQ(records[0].name, "plumb_statedump_thread");
    EXPECT_EQ(records[0].header.timestamp, 5u);
    EXPECT_EQ(records[0].header.thread_id, 0x10203u);
    EXPECT_THAT(encode_named_threads({}), IsEmpty());
}

/* A name that was told in the moment of a record comes first. */
TEST(kernel_statedump_records, and_names_become_one_dump_in_time_order) {
    const auto dump = dump_of({1, 4, 6, 6, 9});
    const std::vector<NamedThread> names = {told_name(0, 1, "a"), told_name(4, 2, "bb"),
                                            told_name(5, 3, "ccc"), told_name(10, 4, "dddd"),
                                            told_name(11, 5, "eeeee")};
    EXPECT_THAT(
        order_of(with_named_threads(dump, names)),
        ElementsAre("0 a", "1 ", "4 bb", "4 d", "5 ccc", "6 dd", "6 ddd", "9 dddd", "10 dddd", "11 eeeee"));
    EXPECT_EQ(with_named_threads(dump, {}), dump);
    EXPECT_EQ(with_named_threads({}, names), encode_named_threads(names));
    EXPECT_THAT(with_named_threads({}, {}), IsEmpty());
}

TEST(kernel_statedump_records, of_every_length_are_aligned_between_names) {
    for (size_t length = 0; length < 20; length++) {
        const std::vector<NamedThread> names = {told_name(1, 1, std::string(length, 'n')),
                                                told_name(3, 1, std::string(19 - length, 'm'))};
        EXPECT_THAT(order_of(with_named_threads(dump_of({0, 2, 2, 4}), names)),
                    ElementsAre("0 ", "1 " + std::string(length, 'n'), "2 d", "2 dd",
                                "3 " + std::string(19 - length, 'm'), "4 ddd"));
    }
}
