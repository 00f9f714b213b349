// Asks a payload whether a condition holds. Nothing in the program is believed: it may be written anew meanwhile, and then
// `version` says so behind.
#include "../bytes.h"
#include "fields.h"
#include "tests.h"

#include "../ring/sequence.h"
#include "../runtime.h"

#include <sys/prctl.h>

namespace plumb::condition {

namespace {

class Run {
public:
    // What a value depends on could not be asked for: no system call may be made.
    bool is_something_unknown() const { return is_something_unknown_; }

    Run(const Program& program, const plumb_event_info& info, const void* payload, uint32_t payload_bytes)
        : program_(program), info_(info), fields_{static_cast<const unsigned char*>(payload), payload_bytes} {
        bases_[0] = 0;
    }

    bool holds() {
        const uint32_t count = load_relaxed(program_.step_count);
        const uint32_t steps_max = program_.steps_max();
        for (uint32_t i = 0; i < count && i < steps_max; i++) {
            const Step step = copy_of(program_.steps()[i]);
            if (step.operation == operation_compare_integer) {
                push(compare(step));
            } else if (step.operation < operation_no_value) {
                if (!operate(step, i)) return false;
            } else {
                push(value_of(step));
            }
        }
        return depth_ == 1 && is_true(stack_[0]);
    }

private:
    static Step copy_of(const Step& shared) {
        const auto* words = reinterpret_cast<const uint64_t*>(&shared);
        const uint64_t copy[2] = {load_relaxed(words[0]), load_relaxed(words[1])};
        Step step;
        __builtin_memcpy(&step, copy, sizeof(step));
        return step;
    }

    void push(const Value& value) {
        if (depth_ < stack_max) stack_[depth_++] = value;
    }

    // False: there is nothing on the stack to work on.
    bool operate(const Step& step, uint32_t& at) {
        if (depth_ == 0) return false;
        Value& last = stack_[depth_ - 1];
        switch (step.operation) {
        case PLUMB_CONDITION_AND_THEN:
        case PLUMB_CONDITION_OR_ELSE: {
            const bool deciding = step.operation == PLUMB_CONDITION_OR_ELSE;
            if (!(deciding ? is_true(last) : is_false(last))) return true;
            last = integer_value(deciding ? 1 : 0);
            at += step.jump;
            return true;
        }
        case PLUMB_CONDITION_NOT:
        case PLUMB_CONDITION_NEGATE:
        case PLUMB_CONDITION_BIT_NOT:
            last = of_one(step.operation, last);
            return true;
        default:
            if (depth_ < 2) return false;
            depth_--;
            stack_[depth_ - 1] = of_two(step.operation, stack_[depth_ - 1], stack_[depth_]);
            return true;
        }
    }

    // Bytes in the payload behind the nth field of variable length; past its end if there are no such.
    uint32_t base_of(uint32_t variables) {
        if (variables > PLUMB_EVENT_MAX_FIELDS) return fields_.bytes;
        for (; known_ < variables; known_++)
            bases_[known_ + 1] = fields_.behind(program_.variables[known_], bases_[known_]);
        return bases_[variables];
    }
    uint32_t begin_of(uint32_t place) { return fields_.begin_of(place, base_of(place >> place_offset_bits)); }

    bool load(uint32_t begin, uint32_t bytes, uint64_t& bits) const {
        bits = 0;
        if (begin > fields_.bytes || fields_.bytes - begin < bytes) return false;
        switch (bytes) {
        case 1:
            bits = fields_.payload[begin];
            return true;
        case 2:
            __builtin_memcpy(&bits, fields_.payload + begin, 2);
            return true;
        case 4:
            __builtin_memcpy(&bits, fields_.payload + begin, 4);
            return true;
        case 8:
            __builtin_memcpy(&bits, fields_.payload + begin, 8);
            return true;
        default:
            return false;
        }
    }
    static __int128 extended(uint64_t bits, uint8_t type) {
        if ((type & type_signed) == 0) return bits;
        const uint32_t unused = 64 - 8 * (type & type_bytes);
        return static_cast<int64_t>(bits << unused) >> unused;
    }
    Value integer_at(uint32_t begin, uint8_t type) const {
        uint64_t bits;
        return load(begin, type & type_bytes, bits) ? integer_value(extended(bits, type)) : no_value();
    }

    // The most frequent question, without a way over the stack.
    Value compare(const Step& step) {
        uint64_t bits;
        if (!load(begin_of(step.place), step.type & type_bytes, bits)) return no_value();
        const __int128 value = extended(bits, step.type);
        const __int128 other = (step.type & type_operand_signed) != 0 ? -static_cast<__int128>(step.operand)
                                                                      : static_cast<__int128>(step.operand);
        switch (step.jump) {
        case PLUMB_CONDITION_EQUAL:
            return integer_value(value == other);
        case PLUMB_CONDITION_UNEQUAL:
            return integer_value(value != other);
        case PLUMB_CONDITION_LESS:
            return integer_value(value < other);
        case PLUMB_CONDITION_LESS_EQUAL:
            return integer_value(value <= other);
        case PLUMB_CONDITION_GREATER:
            return integer_value(value > other);
        default:
            return integer_value(value >= other);
        }
    }

    Value value_of(const Step& step) {
        switch (step.operation) {
        case operation_integer:
            return integer_value(step.operand);
        case operation_text:
            return text_of_program(step);
        case operation_integer_field:
            return integer_at(begin_of(step.place), step.type);
        case operation_enumeration:
            return with_label(integer_at(begin_of(step.place), step.type), step.operand);
        case operation_float_field:
            return float_at(begin_of(step.place), step.type);
        case operation_string_field:
        case operation_text_field:
            return text_at(begin_of(step.place), step.operation == operation_text_field);
        case operation_element:
            return element(begin_of(step.place), step);
        case operation_floating: {
            double number;
            __builtin_memcpy(&number, &step.operand, sizeof(number));
            return floating_value(number);
        }
        default:
            return value_of_writer(step.operation);
        }
    }

    Value text_of_program(const Step& step) const {
        if (step.place > program_.bytes || step.operand > program_.bytes - step.place) return no_value();
        return text_value(
            {reinterpret_cast<const char*>(&program_) + step.place, static_cast<uint32_t>(step.operand)});
    }
    // Not in line: with both kinds of labels in one loop gcc 12 finds none at -O3.
    __attribute__((noinline)) static const char* label_of_range(const plumb_event_field& field,
                                                                int64_t value) {
        const bool is_signed = (field.flags & PLUMB_FIELD_SIGNED) != 0;
        for (uint32_t i = 1; i < field.label_count; i += 2) {
            const int64_t first = field.labels[i - 1].value, last = field.labels[i].value;
            const bool is_in = is_signed ? value >= first && value <= last
                                         : static_cast<uint64_t>(value) >= static_cast<uint64_t>(first) &&
                                               static_cast<uint64_t>(value) <= static_cast<uint64_t>(last);
            if (is_in) return field.labels[i].name;
        }
        return nullptr;
    }
    // nullptr: it has none.
    __attribute__((noinline)) static const char* label_of(const plumb_event_field& field, int64_t value) {
        if ((field.flags & PLUMB_FIELD_RANGES) != 0) return label_of_range(field, value);
        for (uint32_t i = 0; i < field.label_count; i++)
            if (field.labels[i].value == value) return field.labels[i].name;
        return nullptr;
    }
    Value with_label(Value value, uint64_t field_index) const {
        if (value.kind != Value::Kind::integer || field_index >= info_.field_count) return value;
        const char* const name = label_of(info_.fields[field_index], static_cast<int64_t>(value.integer));
        value.label = name != nullptr ? Value::Label::has : Value::Label::lacks;
        if (name != nullptr) value.set_text({name, static_cast<uint32_t>(length_of(name))});
        return value;
    }
    Value float_at(uint32_t begin, uint8_t type) const {
        uint64_t bits;
        if (!load(begin, type & type_bytes, bits)) return no_value();
        if ((type & type_bytes) == sizeof(float)) {
            float number;
            __builtin_memcpy(&number, &bits, sizeof(number));
            return floating_value(as_shown(number));
        }
        double number;
        __builtin_memcpy(&number, &bits, sizeof(number));
        return floating_value(number);
    }
    Value text_at(uint32_t begin, bool is_counted) const {
        Bytes text;
        return fields_.find_text(is_counted, begin, text) ? text_value(text) : no_value();
    }
    Value element(uint32_t begin, const Step& step) const {
        const uint64_t which = step.operand;
        if (which >= fields_.count_at(begin)) return no_value();
        return integer_at(begin + 2 + static_cast<uint32_t>(which) * (step.type & type_bytes), step.type);
    }

    // Who would write the record, and where. Some of it takes a system call, and is not known where none may be made.
    Value value_of_writer(uint8_t operation) {
        switch (operation) {
        case operation_pid:
            if (!is_in_vfork()) return integer_value(runtime.process_id);
            return asked_of_kernel(SYS_getpid);
        case operation_tid:
            if (!is_in_vfork() && plumb_thread_self.id != 0) return integer_value(plumb_thread_self.id);
            return asked_of_kernel(SYS_gettid);
        case operation_cpu:
            return cpu();
        case operation_comm:
            return comm();
        default:
            return no_value();
        }
    }
    // A child of vfork() has its parent's memory, and so what that remembers of itself.
    static bool is_in_vfork() { return load_relaxed(plumb_thread_self.in_vfork) != 0; }
    Value asked_of_kernel(long call) {
        const Permit permit;
        return permit.given() ? integer_value(sys::call(call)) : not_asked();
    }
    Value not_asked() {
        is_something_unknown_ = true;
        return no_value();
    }
    Value cpu() {
        if (uses_sequences()) return integer_value(current_cpu(runtime.rseq_offset));
        const Permit permit;
        unsigned number = 0;
        if (!permit.given() || sys::call(SYS_getcpu, &number, nullptr, nullptr) != 0) return not_asked();
        return integer_value(number);
    }
    Value comm() {
        const Permit permit;
        if (!permit.given() || sys::call(SYS_prctl, PR_GET_NAME, name_, 0, 0, 0) != 0) return not_asked();
        name_[sizeof(name_) - 1] = '\0';
        return text_value({name_, static_cast<uint32_t>(length_of(name_))});
    }

    const Program& program_;
    const plumb_event_info& info_;
    const Fields fields_;
    bool is_something_unknown_ = false;
    uint32_t depth_ = 0;
    uint32_t known_ = 0; // bases
    uint32_t bases_[PLUMB_EVENT_MAX_FIELDS + 1];
    char name_[16];
    Value stack_[stack_max];
};

// What a program has set of floating point is its own: how it rounds, what of it traps, what has happened. Conditions are asked
// as if it had set nothing, and it sees nothing of that.
class OrdinaryFloats {
public:
#if defined(__x86_64__)
    OrdinaryFloats() {
        constexpr uint32_t ordinary = 0x1f80;
        __asm__ volatile("fnsave %0\nstmxcsr %1\nldmxcsr %2" // which leaves the x87 as it begins
                         : "=m"(x87_), "=m"(vectors_)
                         : "m"(ordinary)
                         : "memory");
    }
    ~OrdinaryFloats() {
        __asm__ volatile("frstor %0\nldmxcsr %1" : : "m"(x87_), "m"(vectors_) : "memory");
    }
    OrdinaryFloats(const OrdinaryFloats&) = delete;
    OrdinaryFloats& operator=(const OrdinaryFloats&) = delete;

private:
    unsigned char x87_[108];
    uint32_t vectors_;
#endif
};

__attribute__((noinline)) Answer run(const Program& program, const plumb_event_info& info,
                                     const void* payload, uint32_t payload_bytes) {
    Run run(program, info, payload, payload_bytes);
    if (run.holds()) return Answer::holds;
    return run.is_something_unknown() ? Answer::not_known : Answer::holds_not;
}

// Functions, so that the compiler moves nothing across the change.
__attribute__((noinline)) Answer run_with_floats(const Program& program, const plumb_event_info& info,
                                                 const void* payload, uint32_t payload_bytes) {
    const OrdinaryFloats floats;
    return run(program, info, payload, payload_bytes);
}

} // namespace

Answer ask_steps(const Program& program, uint32_t version, const plumb_event_info& info, const void* payload,
                 uint32_t payload_bytes) {
    const Answer answer = load_relaxed(program.has_floats) != 0
                              ? run_with_floats(program, info, payload, payload_bytes)
                              : run(program, info, payload, payload_bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (load_relaxed(program.version) != version) return Answer::changed;
    return answer;
}

} // namespace plumb::condition
