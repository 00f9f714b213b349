/*
 * Which locks of a traced program are waited for: counts, times waited and times held for each mutex,
 * read/write lock and spin lock, from the events of the pthread probe (probes/pthread/events.h), and the waits for each monitor
 * and each lock of java.util.concurrent, from those of the agent for Java (probes/jvm/events.h), which tells of no others.
 *
 * A lock is named by recording, process and address; a lock made where another one was destroyed counts as the same.
 * Times come from the events themselves (waited) and from the time between them (held). A lock was waited for where
 * an event says so: a time alone may be that of a call which could not try the lock first.
 */
#ifndef PLUMB_TRACE_ANSWERS_LOCK_CONTENTION_H
#define PLUMB_TRACE_ANSWERS_LOCK_CONTENTION_H

#include "trace/answers/lock_holds.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace plumb {

enum class LockKind : uint8_t { mutex, rwlock, spin, monitor, synchronizer };
constexpr std::size_t lock_kinds = 5;
const char* lock_kind_name(LockKind kind);
/* Of Java: of these only waits are known, not how often they were taken, nor how long they were held. */
constexpr bool is_known_by_waits(LockKind kind) {
    return kind == LockKind::monitor || kind == LockKind::synchronizer;
}

/* What people call the lock in which an object of this class waits: "ReentrantLock" of
 * java.util.concurrent.locks.ReentrantLock$NonfairSync. */
std::string synchronizer_name(std::string_view class_name);

struct LockUse {
    LockKind kind = LockKind::mutex;
    const TraceNames* names =
        nullptr; /* of the trace that spoke of it last: as long as the reader is there */
    uint32_t process_id = 0;
    uint64_t address = 0;         /* of what Java has, its number */
    int64_t last_ns = 0;          /* time of its last event */
    uint64_t acquired_count = 0;  /* of what Java has, behind a wait */
    uint64_t released_count = 0;  /* and not refused */
    uint64_t contended_count = 0; /* waited for, whether in vain or not */
    uint64_t in_vain_count = 0;   /* a time-out, an error */
    uint64_t waited_ns = 0;
    uint64_t max_waited_ns = 0;
    HoldTimes held;
    uint64_t thread_count = 0;
    uint64_t busiest_caller = 0; /* the code that waited most often; 0: not known */
    uint64_t busiest_caller_count = 0;
    int64_t busiest_caller_ns = 0; /* when it did so last */
    std::string class_name;        /* of what Java has: its object's */
    std::string
        busiest_owner; /* of what Java has: the thread that had it most often when another one began to wait */
    uint64_t busiest_owner_count = 0;
};

class LockContention {
public:
    explicit LockContention(TraceReader& reader);

    /* Takes any event, and looks at those of locks. */
    void add(const Event& event);
    /* Whether the trace has events of locks at all. */
    bool has_lock_events() const { return lock_events_ > 0; }
    /* Of locks, but cut or damaged: left out. */
    uint64_t unreadable_count() const { return unreadable_; }
    /* The most waited for first; of equals, the most used. */
    std::vector<LockUse> result() const;

private:
    enum class Action : uint8_t { none, made, wait, acquired, failed, released, refused };
    /* What an event class means, and which of its steps hold what. */
    struct Meaning {
        Action action = Action::none;
        LockKind kind = LockKind::mutex;
        bool has_waits = false; /* the trace has events that say who waits */
        const Step* address = nullptr;
        const Step* waited_ns = nullptr;
        const Step* caller = nullptr;
        const Step* mode = nullptr;
        const Step* nature = nullptr;
        const Step* class_name = nullptr;
        const Step* owner_name = nullptr;
        const Step* synchronizer = nullptr;
    };
    struct Caller {
        uint64_t count = 0;
        int64_t last_ns = 0;
    };
    struct Lock {
        LockUse use;
        LockHolds holds;
        std::unordered_set<uint32_t> waiting; /* threads */
        std::unordered_map<uint64_t, Caller> callers;
        std::map<std::string, uint64_t> owners;
        std::vector<uint32_t> threads; /* sorted */
    };
    struct Key {
        uint32_t recording;
        uint32_t process_id;
        uint64_t address;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const {
            const uint64_t process = uint64_t{key.recording} << 32 | key.process_id;
            return static_cast<std::size_t>((key.address ^ process) * 0x9e3779b97f4a7c15ull);
        }
    };

    struct Fields;
    static Meaning meaning_of(const EventInfo& info);
    static Meaning meaning_of_java(const EventInfo& info);
    static bool is_lock(const Meaning& meaning, const Fields& fields);
    static void wait(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields);
    static bool ends_wait(Lock& lock, const Meaning& meaning, uint32_t thread_id, uint64_t waited_ns);
    static void acquire(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields);
    static void fail(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields);
    static void apply(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields);

    TraceReader& reader_;
    std::vector<Meaning> meanings_; /* by EventInfo::index */
    uint64_t lock_events_ = 0;
    uint64_t unreadable_ = 0;
    std::unordered_map<Key, Lock, KeyHash> locks_;
};

} // namespace plumb

#endif
