// Walks the stack of this thread, by what objects say of their frames (cfi.h), which compilers give all code unless they are told
// not to; a program needs neither frame pointers nor symbols for it.
//
// What a frame needs is remembered by its return address: how its canonical frame address comes from a register, where the return
// address is, and which registers it has saved where. So a frame that was seen before costs a look into a table and a few loads.
// The table is one of a fixed size for the process. Its rows are written by anybody at any time: each has a sum over what stands in
// it, and one that is half of one frame and half of another is none. What it says of an object that was unloaded since is not
// taken for what is there now, as each row knows which object it is of: by where that is, and by how many with tracepoints had
// come and gone by then, since the loader gives the next one all that one had. If one without any takes the place of another, it
// is only which words of the stack are read.
//
// Nothing is read that may not be there (known_memory.h).
#include "callstack.h"

#include "../runtime.h"
#include "cfi.h"
#include "frame_names.h"
#include "known_memory.h"

#include <plumb/made_code.h>

#include <dlfcn.h>
#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#define PLUMB_WALKS_STACKS
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept __attribute__((weak));
#endif

namespace plumb::context {

constinit plumb_made_code* first_made_code = nullptr;

#if defined(PLUMB_WALKS_STACKS)

uint64_t first_stack_end;
bool may_ask_for_pages;

namespace {

// With tracepoints.
uint32_t objects_changed;

// Which object a frame is of: a stack goes to and fro between a few.
class Objects {
public:
    // False: of none that is known.
    bool find(uint64_t address) {
        if (found_[current_].object.has(address)) return true;
        for (uint32_t i = 0; i < used_; i++)
            if (found_[i].object.has(address)) {
                current_ = i;
                return true;
            }
        return look_up(address);
    }
    const Object& object() const { return found_[current_].object; }
    uint16_t mark() const { return found_[current_].mark; }

private:
    static constexpr uint32_t count_max = 4;
    struct Found {
        Object object;
        uint16_t mark; // by which it is told from what was there before it
    };

    __attribute__((noinline)) bool look_up(uint64_t address) {
        dl_find_object there = {};
        if (_dl_find_object(reinterpret_cast<void*>(address), &there) != 0) return false;
        const Object object = {reinterpret_cast<uint64_t>(there.dlfo_map_start),
                               reinterpret_cast<uint64_t>(there.dlfo_map_end),
                               reinterpret_cast<uint64_t>(there.dlfo_eh_frame)};
        const uint64_t what = object.start ^ object.frame_header << 7 ^
                              reinterpret_cast<uint64_t>(there.dlfo_link_map) << 13 ^
                              uint64_t { load_relaxed(objects_changed) } << 40;
        current_ = next_++ % count_max;
        if (used_ <= current_) used_ = current_ + 1;
        found_[current_] = {object, static_cast<uint16_t>((what * 0x9e3779b97f4a7c15u) >> 48)};
        return object.has(address);
    }

    Found found_[count_max] = {};
    uint32_t current_ = 0, used_ = 0, next_ = 0;
};

// What a usual frame needs, in two words: where registers are, in words below the canonical frame address.
constexpr uint32_t kept[] = {register_rbx, register_rbp, 12, 13, 14, 15};
constexpr uint32_t kept_count = sizeof(kept) / sizeof(kept[0]);

struct Frame {
    uint64_t how;   // canonical frame address: register, offset; flags; the object's mark
    uint64_t where; // a byte for each register that is kept: 0: it still is what it was
};

constexpr uint64_t frame_is_outermost = 1u << 8;
constexpr uint32_t offset_shift = 16, mark_shift = 48;

bool make_frame(const Row& row, uint16_t mark, Frame& frame) {
    frame = {};
    const Rule& back = row.rules[register_rip];
    frame.how = uint64_t{mark} << mark_shift;
    if (back.kind == RuleKind::undefined) {
        frame.how |= frame_is_outermost;
        return true;
    }
    if (row.is_signal_frame || row.is_cfa_expression || back.kind != RuleKind::offset || back.value != -8)
        return false;
    if (row.cfa_register >= register_rip || row.cfa_offset < INT32_MIN || row.cfa_offset > INT32_MAX)
        return false;
    if (row.rules[register_rsp].kind != RuleKind::same) return false;
    frame.how |= row.cfa_register | uint64_t{static_cast<uint32_t>(row.cfa_offset)} << offset_shift;
    for (uint32_t i = 0; i < kept_count; i++) {
        const Rule& rule = row.rules[kept[i]];
        if (rule.kind == RuleKind::same) continue;
        const int32_t words = -rule.value / 8;
        if (rule.kind != RuleKind::offset || rule.value % 8 != 0 || words < 1 || words > 255) return false;
        frame.where |= uint64_t{static_cast<uint32_t>(words)} << (8 * i);
    }
    return true;
}

// Of each frame, by the address that it returns to. Four places for each, two lines of the cache.
class Known {
public:
    bool find(uint64_t key, uint16_t mark, Frame& frame) const {
        if (rows_ == nullptr) return false;
        const Row* const row = rows_ + first_of(key);
        for (uint32_t i = 0; i < places; i++) {
            if (load_relaxed(row[i].key) != key) continue;
            frame = {load_relaxed(row[i].how), load_relaxed(row[i].where)};
            if (load_relaxed(row[i].sum) == sum_of(key, frame) && frame.how >> mark_shift == mark)
                return true;
        }
        return false;
    }
    void keep(uint64_t key, const Frame& frame) {
        if (rows_ == nullptr) return;
        Row* row = rows_ + first_of(key);
        uint32_t place = static_cast<uint32_t>(key / 16) % places; // of another one, if all are taken
        for (uint32_t i = 0; i < places; i++)
            if (const uint64_t there = load_relaxed(row[i].key); there == 0 || there == key) {
                place = i;
                break;
            }
        row += place;
        store_relaxed(row->sum, uint64_t{0});
        store_relaxed(row->key, key);
        store_relaxed(row->how, frame.how);
        store_relaxed(row->where, frame.where);
        store_release(row->sum, sum_of(key, frame));
    }
    void take_memory() {
        if (rows_ != nullptr) return;
        void* const memory =
            sys::map(count * sizeof(Row), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        store_release(rows_, static_cast<Row*>(memory));
    }

private:
    static constexpr uint32_t places = 4, count = 8192;
    struct Row {
        uint64_t key;
        uint64_t how;
        uint64_t where;
        uint64_t sum;
    };
    static uint32_t first_of(uint64_t key) {
        return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15u) >> 40) % (count / places) * places;
    }
    static uint64_t sum_of(uint64_t key, const Frame& frame) {
        return (key * 0x9e3779b97f4a7c15u ^ frame.how * 0xbf58476d1ce4e5b9u) + frame.where + 1;
    }

    Row* rows_ = nullptr;
};
constinit Known known;

enum class Step { there, outermost, unknown, unreadable, no_room };

// What a stack is written as.
class Frames {
public:
    Frames(unsigned char* to, uint32_t count_max) : to_(to), count_max_(count_max) {}
    // False: there is no room for it.
    bool put(uint64_t address) {
        if (count_ == count_max_) return false;
        __builtin_memcpy(to_ + uint64_t{8} * count_++, &address, sizeof(address));
        return true;
    }
    uint32_t count() const { return count_; }

private:
    unsigned char* to_;
    uint32_t count_max_;
    uint32_t count_ = 0;
};

// Who knows the frames of this code, which is in no object; nullptr: nobody.
const plumb_made_code* made_code_at(uint64_t address) {
    for (const plumb_made_code* code = load_acquire(first_made_code); code != nullptr; code = code->next)
        if (address >= load_relaxed(code->begin) && address < load_relaxed(code->end)) return code;
    return nullptr;
}

// What a step through made code sees of a walk.
struct MadeWalk : plumb_stack_walk {
    KnownMemory& memory;
    Frames& frames;
    uint32_t session;
    bool has_room = true;

    MadeWalk(const Registers& registers, KnownMemory& known_memory, Frames& to, uint32_t of_session)
        : plumb_stack_walk{registers.value[register_rip],
                           registers.value[register_rsp],
                           registers.value[register_rbp],
                           registers.value[register_rbx],
                           registers.value[12],
                           registers.value[13],
                           registers.value[14],
                           registers.value[15],
                           (registers.known >> register_rbx & 1) | (registers.known >> 12 & 0xf) << 1,
                           0,
                           read_memory,
                           put_frame},
          memory(known_memory),
          frames(to),
          session(of_session) {}

    Registers registers() const {
        Registers caller;
        const uint64_t values[] = {rbx, r12, r13, r14, r15};
        constexpr uint32_t numbers[] = {register_rbx, 12, 13, 14, 15};
        for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
            if ((known >> i & 1) != 0) caller.set(numbers[i], values[i]);
        caller.set(register_rip, instruction);
        caller.set(register_rsp, stack);
        caller.set(register_rbp, frame);
        return caller;
    }

private:
    static int read_memory(plumb_stack_walk* walk, uint64_t address, void* to, uint32_t bytes) {
        auto& memory = static_cast<MadeWalk*>(walk)->memory;
        return memory.read(memory, address, to, bytes) ? 1 : 0;
    }
    static void put_frame(plumb_stack_walk* walk, const char* function, uint32_t bytes, uint32_t line) {
        auto& self = *static_cast<MadeWalk*>(walk);
        self.has_room = self.has_room && self.frames.put(name_frame(self.session, function, bytes, line));
    }
};

class Walk {
public:
    explicit Walk(const Registers& registers)
        : memory_(registers.value[register_rsp]), registers_(registers) {}

    uint64_t address() const { return registers_.value[register_rip]; }
    uint64_t stack_pointer() const { return registers_.value[register_rsp]; }

    // To the caller.
    Step up() {
        // A return address is behind its call, which may be the last instruction of its function.
        const uint64_t instruction = address() - (is_exact_ ? 0 : 1);
        if (address() == 0) return Step::outermost;
        if (!objects_.find(instruction)) return Step::unknown;
        Frame frame;
        if (is_remembered() && known.find(key(), objects_.mark(), frame)) return up_by(frame);
        return up_by_tables(instruction);
    }

    // The same through code that was made at run time, by who knows it; its frames, or its address if nobody does, are put. What a
    // signal has interrupted may be in the middle of making its frame.
    Step up_made(const plumb_made_code& code, Frames& frames, uint32_t session) {
        const uint32_t before = frames.count();
        MadeWalk made(registers_, memory_, frames, session);
        const plumb_step step = is_exact_ ? PLUMB_STEP_UNKNOWN : code.step(&made);
        if (!made.has_room) return Step::no_room;
        if (step == PLUMB_STEP_THERE && made.stack > stack_pointer()) {
            registers_ = made.registers();
            is_exact_ = is_first_ = false;
            return Step::there;
        }
        if (frames.count() == before && !frames.put(address())) return Step::no_room;
        return step == PLUMB_STEP_UNREADABLE ? Step::unreadable : Step::unknown;
    }

private:
    static constexpr uint32_t signal_frames_max = 16;

    Step up_by(const Frame& frame) {
        if ((frame.how & frame_is_outermost) != 0) return Step::outermost;
        const auto cfa_register = static_cast<uint32_t>(frame.how & 0xff);
        if (!registers_.has(cfa_register)) return Step::unknown;
        const auto offset = static_cast<int32_t>(static_cast<uint32_t>(frame.how >> offset_shift));
        const uint64_t cfa = registers_.value[cfa_register] + static_cast<uint64_t>(int64_t{offset});
        uint64_t back = 0;
        if (cfa <= stack_pointer()) return Step::unknown;
        if (!memory_.load_word(cfa - 8, back)) return Step::unreadable;
        uint64_t where = frame.where;
        for (uint32_t i = 0; where != 0; i++, where >>= 8) {
            if ((where & 0xff) == 0) continue;
            uint64_t value = 0;
            if (!memory_.load_word(cfa - (where & 0xff) * 8, value)) return Step::unreadable;
            registers_.set(kept[i], value);
        }
        registers_.known &= called_keeps;
        registers_.set(register_rsp, cfa);
        registers_.set(register_rip, back);
        is_exact_ = is_first_ = false;
        return Step::there;
    }

    __attribute__((noinline)) Step up_by_tables(uint64_t instruction) {
        Row row;
        if (!find_row(memory_, objects_.object(), instruction, row)) return Step::unknown;
        Frame frame;
        if (make_frame(row, objects_.mark(), frame)) {
            if (is_remembered()) known.keep(key(), frame);
            return up_by(frame);
        }
        if (row.rules[register_rip].kind == RuleKind::undefined) return Step::outermost;
        Registers caller;
        uint64_t cfa = 0;
        if (!apply_row(memory_, row, registers_, caller, cfa)) return Step::unreadable;
        if (!caller.has(register_rip)) return Step::unknown;
        // A handler may run on another stack than what it has interrupted: anywhere.
        if (row.is_signal_frame ? ++signal_frames_ > signal_frames_max : cfa <= stack_pointer())
            return Step::unknown;
        if (!row.is_signal_frame) caller.known &= called_keeps;
        registers_ = caller;
        is_exact_ = row.is_signal_frame;
        is_first_ = false;
        return Step::there;
    }

    // What a signal has interrupted is anywhere, and not there again so soon; where a walk begins is one place. That has a key of its
    // own: it may be behind a call, too.
    bool is_remembered() const { return !is_exact_ || is_first_; }
    uint64_t key() const { return is_exact_ ? address() | uint64_t{1} << 63 : address(); }

    static constexpr uint32_t called_keeps = 1u << register_rbx | 1u << register_rbp | 1u << register_rsp |
                                             1u << 12 | 1u << 13 | 1u << 14 | 1u << 15 | 1u << register_rip;

    KnownMemory memory_;
    Objects objects_;
    Registers registers_;
    bool is_exact_ = true; // the next instruction is at the address, and not behind a call
    bool is_first_ = true;
    uint32_t signal_frames_ = 0;
};

plumb_callstack_end end_of(Step step) {
    switch (step) {
    case Step::outermost:
        return PLUMB_CALLSTACK_WHOLE;
    case Step::unknown:
        return PLUMB_CALLSTACK_UNKNOWN;
    case Step::no_room:
        return PLUMB_CALLSTACK_DEEPER;
    default:
        return PLUMB_CALLSTACK_UNREADABLE;
    }
}

// One function further, which is put.
Step put_and_go_up(Walk& walk, uint32_t session, Frames& frames) {
    const uint64_t address = walk.address();
    if (address == 0) return Step::outermost;
    if (const plumb_made_code* const code = made_code_at(address); code != nullptr)
        return walk.up_made(*code, frames, session);
    return frames.put(address) ? walk.up() : Step::no_room;
}

Walked walk(Walk& walk, const void* entry, uint32_t session, unsigned char* to, uint32_t count_max) {
    constexpr uint32_t own_frames_max = 64;
    const auto entry_address = reinterpret_cast<uint64_t>(entry);
    for (uint32_t i = 0; walk.stack_pointer() < entry_address; i++) { // of the runtime
        const Step step = i < own_frames_max ? walk.up() : Step::unknown;
        if (step != Step::there) return {0, end_of(step)};
    }
    Frames frames(to, count_max);
    for (;;)
        if (const Step step = put_and_go_up(walk, session, frames); step != Step::there)
            return {frames.count(), end_of(step)};
}

} // namespace

__attribute__((noinline)) Walked walk_stack(const void* entry, uint32_t session, unsigned char* to,
                                            uint32_t count_max) {
    if (_dl_find_object == nullptr) return {0, PLUMB_CALLSTACK_UNABLE};
    Registers here;
    __asm__ volatile("leaq 0f(%%rip), %%rax\n"
                     "0: movq %%rax, 128(%0)\n"
                     "movq %%rbx, 24(%0)\n"
                     "movq %%rbp, 48(%0)\n"
                     "movq %%rsp, 56(%0)\n"
                     "movq %%r12, 96(%0)\n"
                     "movq %%r13, 104(%0)\n"
                     "movq %%r14, 112(%0)\n"
                     "movq %%r15, 120(%0)"
                     :
                     : "r"(here.value)
                     : "rax", "memory");
    here.known = 1u << register_rbx | 1u << register_rbp | 1u << register_rsp | 0xf000u | 1u << register_rip;
    Walk from_here(here);
    return walk(from_here, entry, session, to, count_max);
}

void prepare_callstacks() {
    first_stack_end = told_at_start(AT_RANDOM) & page_mask; // the kernel's own words are behind it
    // Where somebody else answers for the kernel, he may not look at the set at all.
    may_ask_for_pages =
        is_page_there(reinterpret_cast<uint64_t>(&may_ask_for_pages)) && !is_page_there(page_bytes);
    known.take_memory();
    prepare_frame_names();
}

void forget_frames() {
    __atomic_fetch_add(&objects_changed, 1, __ATOMIC_RELAXED);
}

#else

void forget_frames() {}

Walked walk_stack(const void*, uint32_t, unsigned char*, uint32_t) {
    return {0, PLUMB_CALLSTACK_UNABLE};
}

void prepare_callstacks() {}

#endif

} // namespace plumb::context

extern "C" __attribute__((visibility("default"))) void plumb_walk_made_code(plumb_made_code* code) {
    using namespace plumb;
    code->next = load_relaxed(context::first_made_code);
    while (!compare_exchange(context::first_made_code, code->next, code)) {
    }
}
