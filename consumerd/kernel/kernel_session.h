/*
 * A session's kernel domain, over tracefs: an instance of its own with its own buffers, the events chosen there,
 * whom they are limited to, and the reading ends of its per-CPU buffers.
 *
 *   auto session = KernelSession::create(config);     // nothing is recorded yet
 *   session->select({{"sched:*"}, {"syscalls:openat"}});
 *   session->limit_to({pid});                         // it and its children; without: the whole machine
 *   session->start();
 *   ... drain_kernel() reads ...
 *   session->stop();                                  // no further event; what is in the buffers can be read
 *   session->remove();
 *
 * An instance is locked while its maker lives, so whoever comes later sees that it is gone, and removes the instance; or,
 * by the session's cookie in its name, adopts it (tracing_instances.h).
 */
#ifndef PLUMB_CONSUMERD_KERNEL_KERNEL_SESSION_H
#define PLUMB_CONSUMERD_KERNEL_KERNEL_SESSION_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/global_numbers.h"
#include "consumerd/kernel/kernel_counts.h"
#include "consumerd/kernel/kernel_start.h"
#include "consumerd/kernel/own_calls.h"
#include "consumerd/kernel/probe_place.h"
#include "consumerd/kernel/raw_page.h"
#include "consumerd/kernel/record_filter.h"
#include "consumerd/kernel/session_settings.h"
#include "consumerd/kernel/syscall_arguments.h"
#include "consumerd/kernel/syscall_text_program.h"
#include "consumerd/kernel/taken_in_threads.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/kernel/tracefs_reader.h"

#include <plumb/abi/clock_page.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace plumb {

struct KernelConfig {
    plumb_clock_mode clock_mode = PLUMB_CLOCK_TSC;
    std::uint64_t buffer_bytes = std::uint64_t{8} << 20; /* for each CPU */
    bool overwrite = false;                              /* when full: the oldest goes, not the newest */
    std::uint64_t session_cookie = 0;                    /* of the channel beside it; 0: none */
    bool file_names = true;                              /* and other strings of system calls */
    bool is_of_programs = false; /* of processes as long as they run certain programs: see filter_records() */
    bool is_kept = false; /* it stays, and records on, without who made it, until somebody takes it over */
};

/* What to say where counts tell of it. */
Error emptied_by_others();

/* Every event passes; whoever adopts the instance knows by it which events were not asked for. */
constexpr const char* filter_of_ours = "common_pid >= 0";

class KernelSession {
public:
    static Result<std::unique_ptr<KernelSession>> create(const KernelConfig& config);
    /* What the killed recorder of this session left, as far as its buffers hold it: stopped, to be read, and then to be removed by remove().
     * number() of the error is ENOENT if there is nothing any more, EBUSY while somebody else has it. */
    static Result<std::unique_ptr<KernelSession>> adopt(std::uint64_t session_cookie);
    /* In `root`, where tracefs is mounted. */
    static Result<std::unique_ptr<KernelSession>>
    adopt_in(const std::string& root, std::uint64_t session_cookie, bool has_other_numbers = false);
    /* One that is kept, behind the death of who had it: as it runs. Its events were chosen: they are what is switched on in it. Strings
     * of system calls are not read any more: texts_problem(). number() of the error as above. */
    static Result<std::unique_ptr<KernelSession>> take_over(const KernelConfig& config);
    /* Removes what there is of a session that is kept no longer. */
    static void remove_kept(std::uint64_t session_cookie);
    KernelSession(const KernelSession&) = delete;
    KernelSession& operator=(const KernelSession&) = delete;
    /* Removes an instance that was made here if remove() did not. One that was adopted, or is kept, stays, and the events in it. */
    ~KernelSession();
    /* Behind stop(): it stays when this object goes, as when its process is killed, to be adopted. */
    void leave();

    /* Chooses events; once. An error names the first that does not work. */
    Status select(const std::vector<KernelSelector>& selectors);
    /* Also those that tell the names of threads, which are marked as ours. */
    const std::vector<KernelEvent>& events() const { return events_; }
    /* Names of system calls of which an exit may be missing, and that of a later call come next (ctf_layout.h). */
    std::vector<std::string> split_calls() const;
    /* What select() did otherwise than asked, for people. */
    const std::vector<std::string>& notes() const { return notes_; }

    /* To be called before select() by who does not see the machine's own numbers of processes. Then records have those of
     * here, and others a number that nobody has (global_numbers.h). number() of the error may be
     * GlobalNumbers::cannot_be_known. */
    Status translate_numbers();
    /* Null: the machine's numbers are ours. */
    GlobalNumbers* numbers() const { return numbers_.get(); }
    /* Who reads leaves out what it does not want; it must live as long as somebody reads. */
    void filter_records(RecordFilter* filter) { filter_ = filter; }
    RecordFilter* filter() const { return filter_; }
    /* A tracing instance beside this one, for the recorder itself. */
    Result<std::unique_ptr<TracefsReader>>
    open_reader(const std::string& purpose, TracefsReader::Room room = TracefsReader::Room::usual) const;

    /* Why the strings of system calls are not in the trace; nothing if they are, or none was asked for. */
    const std::optional<Error>& texts_problem() const { return texts_problem_; }
    /* What every message begins with that tells such a string. */
    const std::string& texts_marker() const { return name_; }

    /* Only these processes, and all that they start from now on. */
    Status limit_to(const std::vector<std::uint32_t>& process_ids);
    /* These too, from now on. */
    Status add(const std::vector<std::uint32_t>& process_ids);
    /* Of these threads nothing from now on, nor of those that they start; show() takes that back. While it does, there may
     * be events of others that are hidden. */
    Status hide(const std::vector<std::uint32_t>& thread_ids);
    Status show(const std::vector<std::uint32_t>& thread_ids);
    /* As the kernel calls them; those that have ended have none. */
    Result<std::set<std::uint32_t>> machine_numbers_of(const std::vector<std::uint32_t>& thread_ids) const;
    /* Threads that limit_to(), add() and the kernel have put into the list, as we call them, and those that are hidden. Some
     * may have ended. */
    Result<std::set<std::uint32_t>> listed_threads() const;
    Result<std::set<std::uint32_t>> hidden_threads() const;
    /* Of the command, before it is one. */
    OwnCalls& own_calls() { return own_calls_; }
    /* Who adds a thread that runs already, or shows it again, tells its name here: the drain writes it. */
    TakenInThreads& taken_in() { return taken_in_; }
    /* By the clock of the records. */
    std::uint64_t now() const;
    /* All but the threads that this process has now, */
    Status leave_out_self();
    /* and whoever is left out already, and these. */
    Status leave_out_too(const std::vector<std::uint32_t>& process_ids);
    /* Nor those that it makes from then on, and its children: when all that is to be recorded has been started. */
    Status leave_out_later_threads();

    /* What the kernel recorded of its own start, from its command line on: it is part of this session then. To be called before
     * start(); and take_start() behind it. The error says why it can not be. */
    Status find_start();
    Status take_start();
    /* Of a CPU; nullptr: there is none. */
    KernelStart::Cpu* start_of(std::uint32_t cpu) { return start_ ? start_->of(cpu) : nullptr; }

    Status start();
    /* It records no further until start(); what was chosen stays so. An error as stop() has it. */
    Status pause();
    /* An error, once, if somebody else has stopped it. */
    Status check_running();
    /* An error, once, if somebody has emptied the buffers since it was asked last; whether that was so. */
    Status check_emptied();
    bool was_emptied() const { return was_emptied_; }
    /* Also an error if somebody has changed what was to be recorded: it is stopped then. */
    Status stop();
    Status remove();

    const std::vector<std::uint32_t>& cpus() const { return cpus_; }
    Result<FileDescriptor> open_raw(std::uint32_t cpu) const;
    KernelCounts counts(std::uint32_t cpu) const;
    /* From now on counts() and missed_probe_hits() leave out what they said before, and nothing else. */
    void leave_out(std::uint32_t cpu, const KernelCounts& counted);
    void leave_out_probe_hits(std::uint64_t counted) { missed_before_ += counted; }
    /* Of kprobes and kretprobes, by whichever process: the kernel does not tell whose they were. */
    std::uint64_t missed_probe_hits() const;
    /* By number of event, of programs' probes with texts and without a filter: how often they were hit, by whichever process,
     * between start() and stop(). Known behind stop(). */
    const std::map<std::uint16_t, std::uint64_t>& text_probe_hits() const { return text_probe_hits_; }
    /* Pages that a CPU's buffer has, at least; and as the kernel counts them, for what fits into each. */
    std::uint64_t pages_per_cpu() const;
    std::uint64_t pages_of_buffer() const;
    const RawPageFormat& page_format() const { return page_format_; }
    std::uint32_t page_bytes() const { return page_bytes_; }
    std::uint64_t buffer_bytes() const { return config_.buffer_bytes; }
    std::uint64_t cookie() const { return config_.session_cookie; }
    bool overwrites() const { return config_.overwrite; }
    const std::string& name() const { return name_; }
    /* Of a killed recorder: stopped. */
    bool is_adopted() const { return is_adopted_; }

private:
    KernelSession(std::string root, std::string name, const KernelConfig& config);
    std::string path(const std::string& file) const { return path_ + "/" + file; }
    Status end();
    Status configure();
    Status know_layout();
    static Result<std::unique_ptr<KernelSession>> open_left(const std::string& root,
                                                            const KernelConfig& config);
    void know_buffer_size();
    Status know_events();
    void know_filters();
    Status choose(const KernelSelector& selector);
    void choose_ours();
    Result<KernelEvent> described(const std::string& system, const std::string& name);
    Result<KernelEvent*> known(const std::string& system, const std::string& name);
    /* With the selector's filter, on those of them that have its fields. */
    Status switch_on(const std::vector<TracefsEvent>& events, const KernelSelector& selector);
    void note_filters();
    bool is_filtered(const std::string& call_event) const;
    bool is_recorded(const std::string& call_event) const;
    bool goes_by_the_thread(const std::string& call_event) const;
    Status take_filter(const KernelEvent& event, const std::string& filter, std::string& lacking);
    Status enable(const KernelEvent& event);
    /* What a pattern beginning with "kprobe:", "uprobe:" and the like asks for. */
    Status add_probes(const KernelSelector& selector);
    Result<std::string> make_probe(const KernelSelector& selector, const ProbePlace& place);
    Error not_taken(const KernelSelector& selector, const std::string& command, const Error& error) const;
    std::string free_raw_name(const std::string& wanted) const;
    void name_probes();
    Status read_page_format();
    Result<std::set<std::uint32_t>> listed(const char* list) const; /* the machine's numbers */
    Result<std::set<std::uint32_t>> named_here(const char* list) const;
    std::set<std::uint32_t> called_here(const std::set<std::uint32_t>& numbers) const;
    Result<std::set<std::uint32_t>> ended_in_list(const std::vector<std::uint32_t>& process_ids) const;
    Status leave_off_ended(const std::vector<std::uint32_t>& process_ids);
    bool is_of(std::uint32_t number, const std::set<std::uint32_t>& threads,
               const std::vector<std::uint32_t>& process_ids) const;
    Result<bool> add_settled(const std::vector<std::uint32_t>& process_ids, std::uint64_t patience_ns);
    Result<bool> add_all(const std::vector<std::uint32_t>& process_ids);
    struct Look {
        std::size_t open; /* threads that were not in the list */
        int certain;      /* how much it counts where there are none */
    };
    Result<Look> add(const std::vector<std::uint32_t>& process_ids, std::set<std::uint32_t>& known,
                     std::uint64_t least_age_ns);
    struct Numbers {
        std::vector<std::uint32_t> all;
        std::vector<std::uint32_t> open; /* too young, or ended; by our numbers */
        bool misses_some = false;        /* perhaps: threads ended while they were shown */
        bool goes_on = false;            /* of the living, one does */
    };
    Result<Numbers> machine_numbers(std::uint32_t process_id, std::set<std::uint32_t>& known,
                                    std::uint64_t least_age_ns) const;
    TextArguments texts_of(const std::vector<std::string>& event_names) const;
    void begin_texts(const std::vector<KernelSelector>& selectors);
    Status tell_texts();
    void find_told_texts(const std::vector<std::string>& names);
    bool is_for_texts_alone(const KernelEvent& event, const std::string& filter) const;
    KernelCounts all_counts(std::uint32_t cpu) const;
    std::uint64_t all_missed_probe_hits() const;
    std::map<std::uint16_t, std::uint64_t> all_text_probe_hits() const;
    void count_text_probe_hits();

    std::string root_; /* of tracefs */
    std::string name_;
    std::string path_; /* of the instance; empty: removed */
    LifeLock lock_;    /* on it */
    KernelConfig config_;
    OwnCalls own_calls_;
    TakenInThreads taken_in_;
    std::unique_ptr<FormatParser> parser_;
    std::unique_ptr<GlobalNumbers> numbers_;
    RecordFilter* filter_ = nullptr;
    std::vector<KernelEvent> events_;
    SessionSettings settings_;                            /* as they were when it began */
    bool was_stopped_ = false;                            /* by somebody else; said */
    std::map<std::uint32_t, CountsWatch> counts_watched_; /* by CPU */
    bool was_emptied_ = false;                            /* the same */
    bool is_adopted_ = false;
    std::optional<KernelStart> start_;
    std::optional<SyscallTextProgram> texts_;
    std::optional<Error> texts_problem_;
    std::vector<std::string> notes_;
    std::vector<std::string> probes_;     /* "group/name" of dynamic events of ours */
    std::vector<ProbePlace> made_probes_; /* with the names that they have got */
    /* By "system/name", of events that are on: any of them is enough; none: each event passes. */
    std::map<std::string, std::vector<std::string>> filters_;
    struct Unfiltered {
        std::string selector; /* with its filter */
        std::vector<TracefsEvent> events;
    };
    std::vector<Unfiltered> unfiltered_; /* events that do not have the fields of the filter */
    std::vector<std::uint32_t> cpus_;
    std::map<std::uint32_t, KernelCounts> counted_before_;      /* by CPU */
    mutable std::map<std::uint32_t, KernelCounts> last_counts_; /* the same */
    std::uint64_t missed_before_ = 0;
    std::map<std::uint16_t, std::uint64_t> text_probe_hits_, text_probe_hits_before_;
    RawPageFormat page_format_;
    std::uint32_t page_bytes_ = 4096;
};

} // namespace plumb

#endif
