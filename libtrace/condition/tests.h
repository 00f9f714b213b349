// The tests of a program (program.h): what most conditions are asked by, in a few nanoseconds. Nothing that stands there is
// believed, as in run.cc.
#pragma once

#include "program.h"

namespace plumb::condition {

// tests.cc
// Of the steps; behind them, up to `texts_from`. False: there is no room. What is no row of tests has none.
bool make_tests(Program& program, uint32_t step_count, uint32_t texts_from);
// What the field at `test.place` is, where it has no fixed place, or is compared with a pattern; as `ask_tests`.
enum class Tested { so, not_so, not_here };
Tested test_elsewhere(const Program& program, const Test& test, const unsigned char* payload,
                      uint32_t payload_bytes);

inline bool begins_with(const unsigned char* text, const unsigned char* wanted, uint64_t count) {
    const auto differ = [&](auto word, uint64_t offset) {
        auto other = word;
        __builtin_memcpy(&word, text + offset, sizeof(word));
        __builtin_memcpy(&other, wanted + offset, sizeof(other));
        return word != other;
    };
    if (count >= 8) {
        for (uint64_t at = 0; at + 8 < count; at += 8)
            if (differ(uint64_t{}, at)) return false;
        return !differ(uint64_t{}, count - 8);
    }
    if (count >= 4) return !differ(uint32_t{}, 0) && !differ(uint32_t{}, count - 4);
    if (count >= 2) return !differ(uint16_t{}, 0) && !differ(uint16_t{}, count - 2);
    return count == 0 || *text == *wanted;
}

inline Tested test_integer_at(const Test& test, const unsigned char* at) {
    uint64_t bits = 0;
    switch (test.type & type_bytes) {
    case 8:
        __builtin_memcpy(&bits, at, 8);
        break;
    case 4:
        __builtin_memcpy(&bits, at, 4);
        break;
    case 2:
        __builtin_memcpy(&bits, at, 2);
        break;
    case 1:
        bits = *at;
        break;
    default: // of a program that is being written
        return Tested::not_here;
    }
    if ((test.type & type_signed) != 0) {
        const uint32_t unused = 64 - 8 * (test.type & type_bytes);
        bits =
            static_cast<uint64_t>(static_cast<int64_t>(bits << (unused & 63)) >> (unused & 63)) ^ 1ull << 63;
    }
    return bits - test.low <= test.span ? Tested::so : Tested::not_so;
}

inline Tested test_text_at(const Program& program, const Test& test, const unsigned char* payload,
                           uint32_t begin, uint32_t payload_bytes) {
    const uint32_t left = payload_bytes - begin;
    const uint64_t count = test.span;
    const uint64_t limit = load_relaxed(program.bytes);
    if (left == 0 || test.low > limit || count > limit - test.low) return Tested::not_here;
    if (count > left) return Tested::not_so;
    const auto* const wanted = reinterpret_cast<const unsigned char*>(&program) + test.low;
    if (!begins_with(payload + begin, wanted, count)) return Tested::not_so;
    const bool is_longer = count < left && payload[begin + count] != '\0';
    return test.kind == test_text_begins || !is_longer ? Tested::so : Tested::not_so;
}

inline Tested run_test(const Program& program, const Test& test, const unsigned char* payload,
                       uint32_t payload_bytes) {
    // Behind a field of variable length, it is past any payload.
    const uint32_t size = test.kind == test_integer ? test.type & type_bytes : 0u;
    if (test.place >> place_offset_bits == 0 && uint64_t{test.place} + size <= payload_bytes) {
        if (test.kind == test_integer) return test_integer_at(test, payload + test.place);
        if (test.type == PLUMB_FIELD_STRING && test.kind != test_text_matches)
            return test_text_at(program, test, payload, test.place, payload_bytes);
    }
    return test_elsewhere(program, test, payload, payload_bytes);
}

// not_here: the steps have to say it. As for those, the answer means nothing if the version has changed behind.
inline Tested ask_tests(const Program& program, const void* payload, uint32_t payload_bytes) {
    const uint32_t count = load_relaxed(program.test_count);
    const uint64_t room = load_relaxed(program.bytes);
    const uint64_t first = sizeof(Program) + uint64_t{load_relaxed(program.step_count)} * sizeof(Step);
    uint32_t index = 0;
    while (index < count && first + (index + 1) * sizeof(Test) <= room) {
        const auto* const words =
            reinterpret_cast<const uint64_t*>(reinterpret_cast<const unsigned char*>(&program) + first) +
            index * (sizeof(Test) / sizeof(uint64_t));
        const uint64_t copy[3] = {load_relaxed(words[0]), load_relaxed(words[1]), load_relaxed(words[2])};
        Test test;
        static_assert(sizeof(test) == sizeof(copy));
        __builtin_memcpy(&test, copy, sizeof(test));
        const Tested tested =
            run_test(program, test, static_cast<const unsigned char*>(payload), payload_bytes);
        if (tested == Tested::not_here) return tested;
        const uint32_t next = tested == Tested::so ? test.when_so : test.when_not;
        if (next >= test_holds) return next == test_holds ? Tested::so : Tested::not_so;
        if (next <= index) break;
        index = next;
    }
    return Tested::not_here;
}

inline Answer ask(const Program& program, uint32_t version, const plumb_event_info& info, const void* payload,
                  uint32_t payload_bytes) {
    const Tested tested = ask_tests(program, payload, payload_bytes);
    if (tested == Tested::not_here) return ask_steps(program, version, info, payload, payload_bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (load_relaxed(program.version) != version) return Answer::changed;
    return tested == Tested::so ? Answer::holds : Answer::holds_not;
}

} // namespace plumb::condition
