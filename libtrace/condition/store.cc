// The memory of programs, and which event has which. A place that was a program once is one for as long as the process lives:
// who runs it holds nothing, and may look at it at any time.
#include "program.h"

#include "../runtime.h"

namespace plumb::condition {

namespace {

// Places of 512 bytes, and each kind twice as large as the one before it.
constexpr uint32_t smallest_bytes = 512;
constexpr uint32_t size_count = 6;
constexpr uint64_t block_bytes = 64ull * 1024;
static_assert(smallest_bytes << (size_count - 1) <= block_bytes &&
              smallest_bytes >= sizeof(Program) + sizeof(Step));

// A thread may fork while another one is anywhere here: of each two stores the first alone must be true, too.
struct Memory {
    unsigned char* block = nullptr;
    uint64_t used = block_bytes; // of it
    Program* free_programs[size_count] = {};
    plumb_event_conditions* free_tables = nullptr;
};
constinit Memory memory;

void* take_bytes(uint32_t bytes) {
    if (block_bytes - memory.used < bytes) {
        void* const block = sys::map(block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (block == nullptr) return nullptr;
        store_seq_cst(memory.used, block_bytes);
        store_seq_cst(memory.block, static_cast<unsigned char*>(block));
        store_seq_cst(memory.used, uint64_t{0});
    }
    void* const taken = memory.block + memory.used;
    store_seq_cst(memory.used, memory.used + bytes);
    return taken;
}

// Its version is odd.
Program* take_program(uint32_t size) {
    Program*& first = memory.free_programs[size];
    if (Program* const program = first) {
        store_seq_cst(first, program->next);
        return program;
    }
    const uint32_t bytes = smallest_bytes << size;
    auto* const program = static_cast<Program*>(take_bytes(bytes));
    if (program == nullptr) return nullptr;
    store_seq_cst(program->bytes, bytes);
    store_seq_cst(program->version, 1u);
    return program;
}

void give_back(Program* program) {
    const uint32_t version = load_relaxed(program->version);
    if (version % 2 == 0) store_seq_cst(program->version, version + 1);
    uint32_t size = 0;
    while (size + 1 < size_count && smallest_bytes << size < program->bytes)
        size++;
    store_seq_cst(program->next, memory.free_programs[size]);
    store_seq_cst(memory.free_programs[size], program);
}

plumb_event_conditions* table_of(plumb_event& event) {
    if (event.conditions != nullptr) return event.conditions;
    plumb_event_conditions* table = memory.free_tables;
    if (table != nullptr)
        store_seq_cst(memory.free_tables, table->next);
    else
        table = static_cast<plumb_event_conditions*>(take_bytes(sizeof(plumb_event_conditions)));
    if (table != nullptr) store_release(event.conditions, table);
    return table;
}

// In the smallest place that has room.
Linked make_program(const plumb_event& event, const Conditions& conditions, Program*& made) {
    for (uint32_t size = 0; size < size_count; size++) {
        Program* const program = take_program(size);
        if (program == nullptr) return Linked::no_room;
        Linked linked = Linked::done;
        if (conditions.count == 0)
            link_nothing(*program);
        else
            linked = link_conditions(conditions.codes, conditions.count, *event.info, *program);
        if (linked == Linked::done) {
            made = program;
            return linked;
        }
        give_back(program);
        if (linked == Linked::never_holds) return linked;
    }
    return Linked::no_room;
}

} // namespace

Linked install_conditions(plumb_event& event, uint32_t session, const Conditions& conditions) {
    plumb_event_conditions* const table = table_of(event);
    if (table == nullptr) return Linked::no_room;
    Program* made = nullptr;
    const Linked linked = make_program(event, conditions, made);
    if (linked != Linked::done) return linked;
    store_relaxed(made->identity, conditions.identity);
    store_relaxed(made->context, attachments[session].context);
    store_relaxed(made->callstack_depth, attachments[session].callstack_depth);
    store_relaxed(made->record_limit, attachments[session].record_limit);
    store_release(made->version, load_relaxed(made->version) + 1);
    Program* const before = table->programs[session];
    store_seq_cst(table->programs[session], made);
    if (before != nullptr) give_back(before);
    return linked;
}

// One that was being written when another thread forked is none.
bool are_installed(const plumb_event& event, uint32_t session, uint64_t identity) {
    const Program* const program = program_of(event, session);
    return program != nullptr && load_relaxed(program->version) % 2 == 0 &&
           load_relaxed(program->identity) == identity;
}

bool remove_conditions(plumb_event& event, uint32_t session) {
    plumb_event_conditions* const table = event.conditions;
    if (table == nullptr || table->programs[session] == nullptr) return false;
    Program* const program = table->programs[session];
    store_seq_cst(table->programs[session], static_cast<Program*>(nullptr));
    give_back(program);
    return true;
}

void forget_conditions(plumb_event& event) {
    plumb_event_conditions* const table = event.conditions;
    if (table == nullptr) return;
    for (uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++)
        (void)remove_conditions(event, session);
    store_seq_cst(event.conditions, static_cast<plumb_event_conditions*>(nullptr));
    store_seq_cst(table->next, memory.free_tables);
    store_seq_cst(memory.free_tables, table);
}

} // namespace plumb::condition
