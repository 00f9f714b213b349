/*
 * Who wrote a trace: the processes, threads and loaded objects that Plumb's statedump events tell of. Numbers
 * are used again by the kernel, so what holds for an event is the last entry that is not younger than it (or
 * the first one, where all are younger). Another recording has other numbers: its names are kept apart.
 *
 * Of the kernel's threads a trace says for which times it knows them: until shortly before the end, where its recorder was killed,
 * or with a gap where another one went on. What the kernel's events are asked about does not reach over a gap.
 */
#ifndef PLUMB_TRACE_TRACE_NAMES_H
#define PLUMB_TRACE_TRACE_NAMES_H

#include "trace/ctf/stream_reader.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace plumb {

struct ProcessRecord {
    int64_t time_ns = 0;
    uint32_t process_id = 0;
    uint32_t parent_process_id = 0;
    uint32_t user_id = 0;
    std::string name;
    std::string executable;
};

struct ThreadRecord {
    int64_t time_ns = 0;
    uint32_t thread_id = 0;
    uint32_t process_id = 0;
    std::string name;
    uint32_t number =
        0; /* dense, over all records of all traces that are read together: for who keeps something for each */
};

struct ObjectRecord {
    int64_t time_ns = 0;
    uint32_t process_id = 0;
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    std::string build_id; /* hexadecimal */
    std::string path;
};

/* A record and the times for which it is the one that holds. */
struct ThreadSpan {
    const ThreadRecord* thread = nullptr;
    int64_t from_ns = std::numeric_limits<int64_t>::min();
    int64_t until_ns = std::numeric_limits<int64_t>::max();
};

/* Both times belong to it. */
struct NamedTime {
    int64_t from_ns, until_ns;
};

/* What a process ran at some time, and when it ran that. */
struct ProcessImage {
    const ProcessRecord* process = nullptr; /* as of that time; null: nothing is known of it */
    int64_t from_ns = std::numeric_limits<int64_t>::min();
    int64_t until_ns = std::numeric_limits<int64_t>::max();
    /* When this one of it was first told of, by the parent that it has; and the times in which it is the one. A number may be
     * used again for another process that runs the same. */
    int64_t begun_ns = std::numeric_limits<int64_t>::min();
    int64_t same_from_ns = std::numeric_limits<int64_t>::min();
    int64_t same_until_ns = std::numeric_limits<int64_t>::max();
};

class TraceNames {
public:
    /* What is told again is the same, and not another one of the same name. Before finish(). */
    void expect_repetitions() { has_repetitions_ = true; }
    /* Takes a statedump event; others are ignored. */
    void add(const Event& event);
    /* Names of the kernel's threads are known then. */
    void add_named_time(NamedTime time) {
        named_times_.push_back(time);
        has_named_times_ = true;
    }
    /* Not of what was extracted from a kernel channel, of which nobody has told who was there. */
    bool has_named_times() const { return has_named_times_; }
    /* After the last add(), before anything is asked. Threads are numbered from `first_number` on. */
    void finish(uint32_t first_number = 0);

    ThreadSpan find_thread(uint32_t thread_id, int64_t time_ns) const;
    /* For the kernel's events; of nobody, with the times for which that holds, where names are not known. */
    ThreadSpan find_named_thread(uint32_t thread_id, int64_t time_ns) const;
    /* In order; the first one from ever, if nobody was killed before it. Before finish(): as they were added. */
    const std::vector<NamedTime>& named_times() const { return named_times_; }
    const ProcessRecord* find_process(uint32_t process_id, int64_t time_ns) const;
    /* From one exec() to the next, as far as they can be told apart: by what was run. */
    ProcessImage find_image(uint32_t process_id, int64_t time_ns) const;
    /* By process; of each, in time order. */
    const std::vector<ObjectRecord>& objects() const { return objects_; }
    std::span<const ObjectRecord> objects_of(uint32_t process_id) const;
    /* Of a function in made code (trace/ctf/frame_name.h); empty: it was not told. */
    const std::string& function_named(uint64_t frame) const;
    /* Behind the last one. */
    uint32_t next_number() const { return next_number_; }

private:
    void join_named_times();
    std::size_t named_time_behind(int64_t time_ns) const;
    bool is_named_at(int64_t time_ns) const;
    void complete_processes();
    void leave_out_repeated();

    std::unordered_map<uint32_t, std::vector<ThreadRecord>> threads_; /* by thread id; in time order */
    std::unordered_map<uint32_t, std::vector<ProcessRecord>> processes_;
    std::vector<ObjectRecord> objects_;
    std::unordered_map<uint64_t, std::string> functions_;
    /* Thread and process of those who wrote process entries: a main thread may have no entry of its own. */
    std::vector<ThreadRecord> main_threads_;
    uint32_t next_number_ = 0;
    bool has_repetitions_ = false;
    std::vector<NamedTime> named_times_;
    bool has_named_times_ = false;
};

} // namespace plumb

#endif
