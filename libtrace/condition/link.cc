// From the code in the state file, which knows names, to the program for one event, which knows places. The code is not
// believed: what is no code makes a condition that never holds.
#include "../bytes.h"
#include "tests.h"

#include <plumb/detail/marker_names.h>

namespace plumb::condition {

namespace {

// What is known of a value before there is a payload. `none`: nothing can be said, ever. `not_true`: that, or false.
enum class Known : uint8_t { anything, none, not_true };

class Linker {
public:
    Linker(const plumb_event_info& info, Program& program)
        : info_(info), program_(program), texts_from_(program.bytes) {
        store_relaxed(program_.variable_count, 0u);
    }

    void add(const Code& code) {
        code_ = code.at;
        code_bytes_ = code.bytes;
        at_ = 0;
        open_count_ = 0;
        depth_before_ = depth_;
        while (at_ < code_bytes_ && is_sound_) {
            close_ended();
            add_operation();
        }
        close_ended();
        if (open_count_ != 0 || depth_ != depth_before_ + 1) is_sound_ = false;
    }
    // One of those before holds, or this one.
    void or_else() { or_else_step_ = add_step({PLUMB_CONDITION_OR_ELSE, 0, 0, 0, 0}); }
    void join() {
        add_binary(PLUMB_CONDITION_OR);
        end_jump(or_else_step_);
    }

    Linked end() {
        if (!is_sound_ || depth_ != 1 || known_[0] != Known::anything)
            return has_room_ ? Linked::never_holds : Linked::no_room;
        if (!has_room_ || !make_tests(program_, step_count_, texts_from_)) return Linked::no_room;
        store_relaxed(program_.has_floats, has_floats_ ? 1u : 0u);
        store_relaxed(program_.step_count, step_count_);
        return Linked::done;
    }

private:
    struct Open { // of AND_THEN and OR_ELSE
        uint32_t step;
        uint32_t ends_at; // in the code
        uint32_t depth;
    };

    template <typename T>
    T take() {
        T value = {};
        if (code_bytes_ - at_ < sizeof(T)) {
            is_sound_ = false;
            return value;
        }
        __builtin_memcpy(&value, code_ + at_, sizeof(T));
        at_ += static_cast<uint32_t>(sizeof(T));
        return value;
    }
    Bytes take_bytes(uint32_t count) {
        if (!is_sound_ || code_bytes_ - at_ < count) {
            is_sound_ = false;
            return {nullptr, 0};
        }
        const Bytes bytes = {reinterpret_cast<const char*>(code_ + at_), count};
        at_ += count;
        return bytes;
    }

    uint32_t add_step(const Step& step) {
        if (reinterpret_cast<unsigned char*>(program_.steps() + step_count_ + 1) >
            reinterpret_cast<unsigned char*>(&program_) + texts_from_) {
            has_room_ = is_sound_ = false;
            return 0;
        }
        uint64_t words[2];
        __builtin_memcpy(words, &step, sizeof(step));
        auto* const to = reinterpret_cast<uint64_t*>(program_.steps() + step_count_);
        store_relaxed(to[0], words[0]);
        store_relaxed(to[1], words[1]);
        return step_count_++;
    }
    Step step_at(uint32_t index) const {
        Step step;
        __builtin_memcpy(&step, program_.steps() + index, sizeof(step));
        return step;
    }
    void replace_step(uint32_t index, const Step& step) {
        const uint32_t count = step_count_;
        step_count_ = index;
        add_step(step);
        step_count_ = count;
    }

    void push(Known known, const Step& step) {
        if (depth_ - depth_before_ == PLUMB_CONDITION_DEPTH) {
            is_sound_ = false;
            return;
        }
        add_step(step);
        has_floats_ |= step.operation == operation_floating || step.operation == operation_float_field;
        known_[depth_++] = known;
    }

    void end_jump(uint32_t step_index) {
        if (!is_sound_) return;
        Step step = step_at(step_index);
        step.jump = static_cast<uint16_t>(step_count_ - step_index - 1);
        replace_step(step_index, step);
    }
    // What AND_THEN and OR_ELSE leave out ends here.
    void close_ended() {
        while (is_sound_ && open_count_ != 0 && open_[open_count_ - 1].ends_at <= at_) {
            const Open& open = open_[--open_count_];
            if (open.ends_at != at_ || open.depth != depth_) is_sound_ = false;
            end_jump(open.step);
        }
    }

    void add_operation() {
        const auto code = take<uint8_t>();
        switch (code) {
        case PLUMB_CONDITION_INTEGER:
            return push(Known::anything, {operation_integer, 0, 0, 0, take<uint64_t>()});
        case PLUMB_CONDITION_FLOATING:
            return push(Known::anything, {operation_floating, 0, 0, 0, take<uint64_t>()});
        case PLUMB_CONDITION_TEXT: {
            const auto count = take<uint16_t>();
            if (count > PLUMB_CONDITION_TEXT_BYTES) is_sound_ = false;
            return add_text(take_bytes(count));
        }
        case PLUMB_CONDITION_FIELD: {
            const auto element = take<uint16_t>();
            const auto count = take<uint8_t>();
            return add_field(take_bytes(count), element);
        }
        case PLUMB_CONDITION_NOT:
        case PLUMB_CONDITION_NEGATE:
        case PLUMB_CONDITION_BIT_NOT:
            return add_unary(code);
        case PLUMB_CONDITION_AND_THEN:
        case PLUMB_CONDITION_OR_ELSE:
            return open(code, take<uint16_t>());
        default:
            if (code < PLUMB_CONDITION_OR || code > PLUMB_CONDITION_MODULO)
                is_sound_ = false;
            else
                add_binary(code);
        }
    }

    void open(uint8_t code, uint32_t left_out) {
        if (!is_sound_ || depth_ == 0 || open_count_ == PLUMB_CONDITION_DEPTH ||
            left_out > code_bytes_ - at_) {
            is_sound_ = false;
            return;
        }
        const uint32_t ends_at = at_ + left_out;
        if (open_count_ != 0 && ends_at > open_[open_count_ - 1].ends_at) is_sound_ = false;
        open_[open_count_++] = {add_step({code, 0, 0, 0, 0}), ends_at, depth_};
    }

    void add_unary(uint8_t code) {
        if (depth_ == 0) {
            is_sound_ = false;
            return;
        }
        Known& last = known_[depth_ - 1];
        if (last == Known::not_true) last = Known::anything;
        Constant of;
        if (code == PLUMB_CONDITION_BIT_NOT && find_constant(step_count_, of) &&
            replace_by_constant(of.first_step, of_one(code, integer_value(of.value))))
            return;
        add_step({code, 0, 0, 0, 0});
    }

    void add_binary(uint8_t code) {
        if (depth_ < 2) {
            is_sound_ = false;
            return;
        }
        const Known a = known_[depth_ - 2], b = known_[depth_ - 1];
        const bool one_is_open = a == Known::anything || b == Known::anything;
        const bool both_are_open = a == Known::anything && b == Known::anything;
        depth_--;
        Known& result = known_[depth_ - 1];
        if (code == PLUMB_CONDITION_AND)
            result = both_are_open ? Known::anything : Known::not_true;
        else if (code == PLUMB_CONDITION_OR)
            result = one_is_open ? Known::anything : Known::not_true;
        else
            result = a == Known::none || b == Known::none ? Known::none : Known::anything;
        if (!join_constants(code) && !join_comparison(code)) add_step({code, 0, 0, 0, 0});
    }

    // A number, whose sign is a step of its own.
    struct Constant {
        __int128 value;
        uint32_t first_step;
    };
    bool find_constant(uint32_t behind_step, Constant& constant) const {
        const bool is_negated =
            behind_step > 0 && step_at(behind_step - 1).operation == PLUMB_CONDITION_NEGATE;
        const uint32_t count = is_negated ? 2 : 1;
        if (!is_sound_ || behind_step < count) return false;
        const Step number = step_at(behind_step - count);
        if (number.operation != operation_integer) return false;
        constant.value =
            is_negated ? -static_cast<__int128>(number.operand) : static_cast<__int128>(number.operand);
        constant.first_step = behind_step - count;
        return true;
    }
    // False: it has no room in a step.
    bool replace_by_constant(uint32_t first_step, const Value& value) {
        constexpr __int128 most = UINT64_MAX;
        if (value.kind != Value::Kind::integer || value.integer > most || value.integer < -most) return false;
        const bool is_negative = value.integer < 0;
        const __int128 amount = is_negative ? -value.integer : value.integer;
        step_count_ = first_step;
        add_step({operation_integer, 0, 0, 0, static_cast<uint64_t>(amount)});
        if (is_negative) add_step({PLUMB_CONDITION_NEGATE, 0, 0, 0, 0});
        return true;
    }
    // 1 << 20 is counted once.
    bool join_constants(uint8_t code) {
        Constant a, b;
        return code >= PLUMB_CONDITION_BIT_OR && find_constant(step_count_, b) &&
               find_constant(b.first_step, a) &&
               replace_by_constant(a.first_step,
                                   of_two(code, integer_value(a.value), integer_value(b.value)));
    }

    // A field that is compared with a number: one step of the last two, or three.
    bool join_comparison(uint8_t code) {
        if (!is_sound_ || code < PLUMB_CONDITION_EQUAL || code > PLUMB_CONDITION_GREATER_EQUAL) return false;
        Constant number;
        if (!find_constant(step_count_, number) || number.first_step == 0) return false;
        const Step field = step_at(number.first_step - 1);
        if (field.operation != operation_integer_field && field.operation != operation_enumeration)
            return false;
        const bool is_negative = number.value < 0;
        step_count_ = number.first_step - 1;
        add_step({operation_compare_integer,
                  static_cast<uint8_t>(field.type | (is_negative ? type_operand_signed : 0)), code,
                  field.place, static_cast<uint64_t>(is_negative ? -number.value : number.value)});
        return true;
    }

    // At the end of the program's place, the last one first.
    void add_text(Bytes text) {
        if (!is_sound_) return;
        if (text.count > texts_from_ - sizeof(Program) - step_count_ * sizeof(Step)) {
            has_room_ = is_sound_ = false;
            return;
        }
        texts_from_ -= text.count;
        auto* const to = reinterpret_cast<char*>(&program_) + texts_from_;
        for (uint32_t i = 0; i < text.count; i++)
            store_relaxed(to[i], text.at[i]);
        push(Known::anything, {operation_text, 0, 0, texts_from_, text.count});
    }

    bool is_name(Bytes name, const char* other) const {
        return length_of(other) == name.count && are_same(name.at, other, name.count);
    }
    bool is_name_of_field(Bytes name, uint32_t index) const {
        const plumb_event_field& field = info_.fields[index];
        if (field.name != nullptr) return is_name(name, field.name);
        char of_marker[64];
        if (info_.format == nullptr) return false;
        plumb_marker_field_name(info_.format, index, of_marker, sizeof(of_marker));
        return is_name(name, of_marker);
    }

    void add_nothing() { push(Known::none, {operation_no_value, 0, 0, 0, 0}); }

    void add_field(Bytes name, uint32_t element) {
        if (!is_sound_) return;
        uint32_t variables = 0, offset = 0;
        for (uint32_t i = 0; i < info_.field_count && i < PLUMB_EVENT_MAX_FIELDS; i++) {
            const plumb_event_field& field = info_.fields[i];
            if (is_name_of_field(name, i))
                return element == 0 ? add_whole(field, i, place_of(variables, offset))
                                    : add_element(field, element - 1, variables, offset);
            if (step_over(field, offset)) continue;
            note_variable(variables++, field, offset);
            offset = 0;
        }
        if (element != 0) return add_nothing();
        add_writers(name);
    }

    // Fields of fixed length. False: it is of another one.
    static bool step_over(const plumb_event_field& field, uint32_t& offset) {
        switch (field.type) {
        case PLUMB_FIELD_STRING:
        case PLUMB_FIELD_TEXT:
        case PLUMB_FIELD_SEQUENCE:
            return false;
        case PLUMB_FIELD_ARRAY:
            offset += uint32_t{field.size} * field.array_length;
            return true;
        default:
            offset += field.size;
            return true;
        }
    }
    void note_variable(uint32_t index, const plumb_event_field& field, uint32_t offset) {
        Variable& variable = program_.variables[index];
        store_relaxed(variable.offset, offset);
        store_relaxed(variable.type, field.type);
        store_relaxed(variable.size, field.type == PLUMB_FIELD_TEXT ? uint8_t{1} : field.size);
        if (index >= program_.variable_count) store_relaxed(program_.variable_count, index + 1);
    }

    static uint8_t integer_type(const plumb_event_field& field) {
        return static_cast<uint8_t>(field.size |
                                    ((field.flags & PLUMB_FIELD_SIGNED) != 0 ? type_signed : uint8_t{0}));
    }

    void add_whole(const plumb_event_field& field, uint32_t index, uint32_t place) {
        switch (field.type) {
        case PLUMB_FIELD_INTEGER:
            return push(Known::anything, {operation_integer_field, integer_type(field), 0, place, 0});
        case PLUMB_FIELD_ENUM:
            return push(Known::anything, {operation_enumeration, integer_type(field), 0, place, index});
        case PLUMB_FIELD_FLOAT:
            return push(Known::anything, {operation_float_field, field.size, 0, place, 0});
        case PLUMB_FIELD_STRING:
            return push(Known::anything, {operation_string_field, 0, 0, place, 0});
        case PLUMB_FIELD_TEXT:
            return push(Known::anything, {operation_text_field, 0, 0, place, 0});
        default: // of arrays and sequences, elements have values
            return add_nothing();
        }
    }
    void add_element(const plumb_event_field& field, uint32_t element, uint32_t variables, uint32_t offset) {
        if ((field.flags & PLUMB_FIELD_FLOATS) != 0) return add_nothing();
        if (field.type == PLUMB_FIELD_SEQUENCE)
            return push(Known::anything,
                        {operation_element, integer_type(field), 0, place_of(variables, offset), element});
        if (field.type != PLUMB_FIELD_ARRAY || element >= field.array_length) return add_nothing();
        push(Known::anything, {operation_integer_field, integer_type(field), 0,
                               place_of(variables, offset + element * field.size), 0});
    }

    void add_writers(Bytes name) {
        if (is_name(name, "event")) return add_event_name();
        constexpr struct {
            const char* name;
            Operation operation;
        } of_writer[] = {{"comm", operation_comm}, {"cpu", operation_cpu},  {"pid", operation_pid},
                         {"tid", operation_tid},   {"vpid", operation_pid}, {"vtid", operation_tid}};
        for (const auto& each : of_writer)
            if (is_name(name, each.name)) return push(Known::anything, {each.operation, 0, 0, 0, 0});
        add_nothing();
    }
    void add_event_name() {
        char text[256];
        uint32_t used = 0;
        const char* const parts[] = {info_.provider, ":", info_.name};
        for (const char* part : parts)
            for (const char* from = part; *from != '\0' && used < sizeof(text); from++)
                text[used++] = *from;
        add_text({text, used});
    }

    const plumb_event_info& info_;
    Program& program_;
    uint32_t texts_from_;
    const unsigned char* code_ = nullptr;
    uint32_t code_bytes_ = 0;
    uint32_t at_ = 0;
    uint32_t step_count_ = 0;
    uint32_t depth_ = 0;
    uint32_t depth_before_ = 0; // this condition
    bool has_floats_ = false;
    uint32_t or_else_step_ = 0;
    uint32_t open_count_ = 0;
    bool is_sound_ = true;
    bool has_room_ = true;
    Known known_[stack_max] = {};
    Open open_[PLUMB_CONDITION_DEPTH] = {};
};

} // namespace

Linked link_conditions(const Code* codes, uint32_t count, const plumb_event_info& info, Program& program) {
    Linker linker(info, program);
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0) linker.or_else();
        linker.add(codes[i]);
        if (i != 0) linker.join();
    }
    return linker.end();
}

void link_nothing(Program& program) {
    const Step always = {operation_integer, 0, 0, 0, 1};
    uint64_t words[2];
    __builtin_memcpy(words, &always, sizeof(always));
    auto* const to = reinterpret_cast<uint64_t*>(program.steps());
    store_relaxed(to[0], words[0]);
    store_relaxed(to[1], words[1]);
    store_relaxed(program.has_floats, 0u);
    store_relaxed(program.test_count, 0u);
    store_relaxed(program.step_count, 1u);
}

} // namespace plumb::condition
