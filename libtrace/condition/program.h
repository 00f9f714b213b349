// A condition as it is asked of one event: fields are places in the payload, and what never changes is known. It is made from
// the code in the state file (link.cc) and run over a payload before there is a record (run.cc).
//
// It is run with nothing held, so its memory stays what it is for as long as the process lives (store.cc), and may be written
// anew at any moment. Who runs it believes nothing that stands there, and looks at `version` before and behind: if that has
// changed, what came out means nothing, and the event's condition is asked again.
#pragma once

#include "value.h"

#include "../atomic.h"

#include <plumb/abi/condition.h>
#include <plumb/abi/state.h>
#include <plumb/runtime.h>

namespace plumb::condition {

// Beyond the codes of <plumb/abi/condition.h>, of which those of constants and fields stand in no program.
enum Operation : uint8_t {
    operation_no_value = 64,
    operation_integer, // `operand`
    operation_floating,
    operation_text,          // `operand` bytes, `place` behind the program's beginning
    operation_integer_field, // at `place`; `type`: see below
    operation_enumeration,   // the same; `operand`: the index of the field, for its labels
    operation_float_field,   // at `place`; `type`: its size
    operation_string_field,
    operation_text_field,
    operation_element, // of a sequence at `place`; `operand`: which one; `type`: as of an integer
    operation_comm,
    operation_cpu,
    operation_pid,
    operation_tid,
    operation_compare_integer, // a field at `place` with `operand`; `jump`: the code of the comparison
    operation_end
};

// `type` of integers: bytes, and whether there is a sign. Of what is compared with a field: whether `operand` has one.
constexpr uint8_t type_bytes = 0x0f;
constexpr uint8_t type_signed = 0x10;
constexpr uint8_t type_operand_signed = 0x20;

// Where a field begins: so many bytes behind the event's nth field of variable length; 0: behind the beginning.
constexpr uint32_t place_offset_bits = 26;
constexpr uint32_t place_of(uint32_t variables, uint32_t offset) {
    return variables << place_offset_bits | offset;
}

struct Step {
    uint8_t operation;
    uint8_t type;
    uint16_t jump; // steps that AND_THEN and OR_ELSE leave out
    uint32_t place;
    uint64_t operand;
};

// Most conditions are comparisons of fields with what is written there, joined by && and ||. They are a row of tests, too, each of which
// knows where to go on: nothing is kept between two of them, and none leads back. A payload that has no value where a test looks is
// asked by the steps.
enum TestKind : uint8_t {
    test_integer, // the field's value, from `low` on, is within `span`; of signed fields with the sign's bit turned
    test_text_begins, // the field begins with `span` bytes that stand `low` bytes behind the program's beginning
    test_text_is,
    test_text_matches // them as a pattern
};
constexpr uint8_t test_holds = 254, test_holds_not = 255;
constexpr uint32_t tests_max = test_holds;

struct Test {
    uint8_t kind;
    uint8_t type;              // as of a step; of a text: enum plumb_field_type
    uint8_t when_not, when_so; // the index of a test, or what the answer is
    uint32_t place;
    uint64_t low;
    uint64_t span;
};

// A field of variable length.
struct Variable {
    uint32_t offset; // behind the one before it
    uint8_t type;    // enum plumb_field_type
    uint8_t size;    // of an element
    uint16_t reserved;
};

// Then follow the steps, the tests, and texts.
struct Program {
    uint32_t version;  // odd: it is being written, or free
    uint32_t bytes;    // of its place in memory, which never change
    uint64_t identity; // of the conditions that it was made of
    Program* next;     // while it is free
    uint32_t step_count;
    uint32_t variable_count;
    uint32_t has_floats; // it counts with floating point
    uint32_t test_count; // 0: its steps alone say whether it holds
    // What is written in front of what fulfils it (../context/context.h), and what it has to fit.
    uint32_t context;
    uint32_t callstack_depth;
    uint32_t record_limit;
    Variable variables[PLUMB_EVENT_MAX_FIELDS];

    Step* steps() { return reinterpret_cast<Step*>(this + 1); }
    const Step* steps() const { return reinterpret_cast<const Step*>(this + 1); }
    uint32_t steps_max() const { return static_cast<uint32_t>((bytes - sizeof(Program)) / sizeof(Step)); }
};
static_assert(sizeof(Program) % alignof(Step) == 0);

// Of one condition, and the answer of those before it.
constexpr uint32_t stack_max = PLUMB_CONDITION_DEPTH + 1;

struct Code {
    const unsigned char* at;
    uint32_t bytes;
};

// link.cc
// no_room: it needs a larger place.
enum class Linked { done, never_holds, no_room };
// What asks whether one of the conditions holds, into the place at `program`, whose `version` is odd.
Linked link_conditions(const Code* codes, uint32_t count, const plumb_event_info& info, Program& program);
// What holds always.
void link_nothing(Program& program);

// run.cc
// not_known: it may hold, and what it depends on takes a system call to know, which may not be made.
enum class Answer { holds, holds_not, not_known, changed };
Answer ask_steps(const Program& program, uint32_t version, const plumb_event_info& info, const void* payload,
                 uint32_t payload_bytes);

// store.cc; as the owner of `updating`
// The conditions of one event in one session; of none, identity 0: what is written then is every record.
struct Conditions {
    const Code* codes;
    uint32_t count;
    uint64_t identity; // a hash of them, not 0
};
// Puts them in the place of those that the event has there, whose program nobody can use behind the next quiescence.
// never_holds: nothing of the event would ever be written. no_room: there is no memory.
Linked install_conditions(plumb_event& event, uint32_t session, const Conditions& conditions);
bool are_installed(const plumb_event& event, uint32_t session, uint64_t identity);
bool remove_conditions(plumb_event& event, uint32_t session); // whether there were any
void forget_conditions(plumb_event& event);                   // of all sessions, and that it ever had any

} // namespace plumb::condition

// By session.
struct plumb_event_conditions {
    plumb::condition::Program* programs[PLUMB_MAX_SESSIONS];
    plumb_event_conditions* next; // while it is free
};

namespace plumb::condition {

// Which program a payload is asked by; nullptr: none. Behind the look at its version it is to be looked once more whether it is
// this one: it may have become another event's in between.
inline const Program* program_of(const plumb_event& event, uint32_t session) {
    const plumb_event_conditions* const table = load_acquire(event.conditions);
    return table == nullptr ? nullptr : load_acquire(table->programs[session]);
}

} // namespace plumb::condition
