/*
 * From the kernel's description of an event (its `format` file) to Plumb's: a description that goes into the
 * trace's metadata, and a plan by which each raw event becomes the payload of a record.
 *
 * Names are those that LTTng's kernel tracer uses, so that tools which know its traces know these:
 *
 *   sched:sched_switch           -> sched_switch, and its fields prev_pid -> prev_tid, next_pid -> next_tid;
 *                                   pid, parent_pid, child_pid of sched events -> tid, parent_tid, child_tid
 *   sched:sched_process_fork     -> also parent_pid and child_pid, the processes, which the kernel's event lacks
 *   syscalls:sys_enter_openat    -> syscall_entry_openat, without the number that every event of it repeats
 *   syscalls:sys_exit_openat     -> syscall_exit_openat
 *
 * Fixed and dynamic character arrays become strings; dynamic arrays become sequences; symbols that the print format names
 * become labels; flag sets stay integers, with the names of their bits.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_EVENT_FORMAT_H
#define PLUMB_CONSUMERD_KERNEL_EVENT_FORMAT_H

#include "base/result.h"
#include "consumerd/event/elf_events.h"
#include "consumerd/kernel/syscall_arguments.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct tep_handle;

namespace plumb {

/* Of a comm in an event. */
constexpr std::uint32_t thread_name_bytes = 16;

/* One step from a raw event to a payload. */
/* What a probe could not read has no length, not even that of a NUL. */
constexpr std::string_view text_of_fault = "(fault)";

struct RawStep {
    enum class Kind : std::uint8_t {
        copy,         /* `bytes` at `from` */
        thread_name,  /* the same as the next, of thread_name_bytes */
        fixed_string, /* up to a NUL, at most `bytes` at `from`; the payload gets a NUL */
        io_flags,     /* of the letters at `from`, at most `bytes`, the number that LTTng has for them */
        string,       /* the same of what the location at `from` says */
        probe_string, /* the same; of none, text_of_fault */
        told_text, /* of argument `from` of a system call, which is told beside the event (syscall_texts.h) */
        sequence,  /* elements of `bytes` of what the location says, behind their number (u16) */
        of_parent, /* not in the event: whose thread it is that makes another one (ForkProcesses) */
        of_child   /* and whose the new one is */
    };
    Kind kind;
    bool is_relative; /* the location counts from behind itself */
    std::uint16_t from;
    std::uint16_t bytes;
};

/* What an event tells of threads: that one began, that one has a new name, that one made another. */
enum class ThreadNews : std::uint8_t { none, began, renamed, made };

struct KernelEvent {
    std::string system;   /* "sched" */
    std::string raw_name; /* "sched_switch", as in tracefs */
    std::uint16_t id = 0; /* of the kernel; also in the trace */
    /* Of task:task_newtask, task:task_rename, sched:sched_process_fork. */
    ThreadNews thread_news = ThreadNews::none;
    std::uint16_t parent_at = 0,
                  child_at = 0; /* of ThreadNews::made: where a raw event has the two threads */
    bool is_ours = false;       /* not asked for: it tells us the names of threads, and is not in the trace */
    EventDescription description;
    std::vector<RawStep> steps;
    std::uint32_t least_bytes = 0; /* of a raw event that has all its fixed fields */
    /* Of a payload, see payload_room(). */
    std::uint32_t fixed_room = 0;
    std::uint32_t dynamic_fields = 0;
    /* Where a raw event has numbers of threads and processes, see process_number_offsets(). */
    std::vector<std::uint16_t> process_numbers;
    /* Of a system call. */
    std::vector<TextArgument> told_texts; /* fields that are told beside the event */
    std::uint16_t call_offset = 0;        /* of its number, four bytes */
    bool has_filter = false;              /* the kernel's: not each one that happens is recorded */
};

/* Of Plumb's own: a string of a system call that could not be read where the call began, told where it returned. */
constexpr std::uint16_t late_text_id = 65535;
KernelEvent late_text_event();

/* Keeps what libtraceevent needs from one format to the next. Not thread-safe. */
class FormatParser {
public:
    FormatParser();
    ~FormatParser();
    FormatParser(const FormatParser&) = delete;
    FormatParser& operator=(const FormatParser&) = delete;

    /* `text`: that of printk_formats, the kernel's constant strings and where they are. Some events hold such an
     * address; parsed from now on, they show the string. */
    void know_constant_strings(const std::string& text);
    /* The strings of these calls are told: from now on they take the place of the pointers. */
    void know_told_texts(TextArguments calls) { told_texts_ = std::move(calls); }

    /* `format`: the text of events/SYSTEM/NAME/format. */
    Result<KernelEvent> parse(const std::string& system, const std::string& format);

private:
    bool has_good_fields(const std::string& system, const std::string& name, const std::string& format);

    tep_handle* tep_;
    tep_handle* fields_only_;
    std::vector<std::pair<std::int64_t, std::string>> constant_strings_;
    TextArguments told_texts_;
};

} // namespace plumb

#endif
