/*
 * Any page of the kernel's ring buffer: never a crash, and records that walk exactly. The first two bytes of the
 * input say how much of the page was read, the rest is the page.
 */
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/raw_page.h"
#include "consumerd/kernel/translator.h"
#include "tests/support/kernel_pages.h"

#include <plumb/abi/record.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

const char* const common = "format:\n"
                           "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                           "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
                           "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
                           "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
                           "\n";

struct Format {
    const char* system;
    const char* head;
    const char* fields;
};

/* The numbers are small, so that a fuzzer finds them. */
const Format formats[] = {
    {"sched", "name: sched_switch\nID: 1\n", plumb::test::switch_fields},
    {"sched", "name: sched_process_exec\nID: 2\n",
     "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n"
     "\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n"
     "\tfield:pid_t old_pid;\toffset:16;\tsize:4;\tsigned:1;\n"},
    {"test", "name: relative\nID: 3\n",
     "\tfield:u16 number;\toffset:8;\tsize:2;\tsigned:0;\n"
     "\tfield:__rel_loc char[] path;\toffset:12;\tsize:4;\tsigned:0;\n"
     "\tfield:__rel_loc u8[] tail;\toffset:16;\tsize:4;\tsigned:0;\n"},
    {"test", "name: sequences\nID: 4\n",
     "\tfield:__data_loc u64[] addrs;\toffset:8;\tsize:4;\tsigned:0;\n"
     "\tfield:__data_loc u32[] lengths;\toffset:12;\tsize:4;\tsigned:0;\n"
     "\tfield:__data_loc u8[] buf;\toffset:16;\tsize:4;\tsigned:0;\n"},
    {"test", "name: empty\nID: 5\n", ""},
    {"task", "name: task_newtask\nID: 6\n",
     "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
     "\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
     "\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;\n"
     "\tfield:short oom_score_adj;\toffset:40;\tsize:2;\tsigned:1;\n"},
    {"task", "name: task_rename\nID: 7\n",
     "\tfield:char oldcomm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
     "\tfield:char newcomm[16];\toffset:24;\tsize:16;\tsigned:0;\n"
     "\tfield:short oom_score_adj;\toffset:40;\tsize:2;\tsigned:1;\n"},
    {"bpf_trace", "name: bpf_trace_printk\nID: 8\n",
     "\tfield:__data_loc char[] bpf_string;\toffset:8;\tsize:4;\tsigned:0;\n"},
    {"syscalls", "name: sys_enter_access\nID: 9\n",
     "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
     "\tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n"
     "\tfield:int mode;\toffset:24;\tsize:8;\tsigned:0;\n"},
};
constexpr std::uint16_t id_ours = 7, id_told = 8, id_last = 9;
const char* const marker = "m"; /* of messages that tell file names */

std::vector<plumb::KernelEvent> parse_formats() {
    std::vector<plumb::KernelEvent> events;
    plumb::FormatParser parser;
    parser.know_told_texts({{"access", {{0, "filename"}}}});
    for (const Format& format : formats) {
        auto event = parser.parse(format.system,
                                  std::string(format.head) + common + format.fields + "\nprint fmt: \"\"\n");
        if (!event) std::abort();
        event->is_ours = event->id == id_ours || event->id == id_told;
        events.push_back(*std::move(event));
    }
    events.push_back(plumb::late_text_event());
    return events;
}

void require(bool condition) {
    if (!condition) std::abort();
}

/* Every event lies inside of the page, behind the one before. Returns how many there are. */
std::uint64_t walk(std::span<const std::byte> bytes) {
    std::uint64_t count = 0;
    plumb::RawPage page(bytes, {});
    const std::byte* before = bytes.data();
    for (plumb::RawEvent event; page.next(event); count++) {
        require(event.data.data() > before);
        before = event.data.data() + event.data.size();
        require(before <= bytes.data() + bytes.size());
    }
    plumb::RawEvent event;
    require(!page.next(event));
    return count;
}

/* `since`: the time of the last record before these. Returns that of the last. */
std::uint64_t check(const plumb::TranslatedRecords& records, std::uint64_t since) {
    const plumb::Piece piece = records.piece();
    std::uint64_t count = 0;
    std::size_t end = 0;
    plumb::for_each_record(piece, [&](const plumb_record& record) {
        end = (end + PLUMB_RECORD_ALIGNMENT - 1) & ~std::size_t{PLUMB_RECORD_ALIGNMENT - 1};
        end += record.length;
        require(record.length >= PLUMB_RECORD_HEADER_BYTES && record.length <= PLUMB_RECORD_MAX_BYTES);
        require(record.event_id != PLUMB_EVENT_ID_PADDING && record.event_id != id_ours &&
                record.event_id != id_told);
        require(record.event_id <= id_last || record.event_id == plumb::late_text_id);
        require(record.timestamp >= since);
        if (count == 0) require(record.timestamp == piece.first_timestamp);
        since = record.timestamp;
        count++;
    });
    require(end == piece.records.size());
    require(count == piece.record_count);
    require(records.empty() == (count == 0));
    if (count > 0) require(since == piece.last_timestamp);
    return since;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    static const std::vector<plumb::KernelEvent> events = parse_formats();
    static plumb::Translator translator(events, nullptr, nullptr, marker);
    std::uint16_t cut;
    if (size < sizeof(cut)) return 0;
    std::memcpy(&cut, data, sizeof(cut));
    const auto* const begin = reinterpret_cast<const std::byte*>(data + sizeof(cut));
    /* A copy of its own, so that the sanitizer sees its end. */
    const std::vector<std::byte> bytes(begin, begin + std::min<std::size_t>(cut, size - sizeof(cut)));

    const std::uint64_t count = walk(bytes);
    plumb::TranslatedRecords records;
    const std::uint64_t seen = translator.seen_events();
    std::uint64_t last = 0;
    /* The second time most of it is in the past; the third time also what was written is gone. */
    for (int round = 0; round < 3; round++) {
        if (round == 2) records.clear();
        plumb::RawPage page(bytes, {});
        const bool is_whole = translator.translate(page, records);
        require(is_whole == !page.is_damaged());
        require(translator.seen_events() == seen + count * (static_cast<std::uint64_t>(round) + 1));
        last = check(records, round == 2 ? last : 0);
    }
    for (const plumb::ThreadNote& note : translator.take_notes())
        require(note.name.size() <= 16);
    return 0;
}
