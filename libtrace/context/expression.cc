#include "expression.h"

#include "cursor.h"

namespace plumb::context {

namespace {

class Expression {
public:
    Expression(Memory& memory, const Registers& registers) : memory_(memory), registers_(registers) {}

    bool evaluate(uint64_t at, const uint64_t* first, uint64_t& result) {
        constexpr uint64_t bytes_max = 4096;
        Cursor head(memory_, at, at + 10);
        const uint64_t bytes = head.uleb();
        if (!head.is_sound() || bytes > bytes_max) return false;
        const uint64_t begin = head.at();
        Cursor cursor(memory_, begin, begin + bytes);
        if (first != nullptr) push(*first);
        for (uint32_t steps = 0; !cursor.is_at_end(); steps++)
            if (steps == steps_max || !step(cursor, begin) || !is_sound_) return false;
        if (!cursor.is_sound() || depth_ == 0) return false;
        result = stack_[depth_ - 1];
        return true;
    }

private:
    static constexpr uint32_t depth_max = 16;
    static constexpr uint32_t steps_max = 256;

    void push(uint64_t value) {
        if (depth_ == depth_max)
            is_sound_ = false;
        else
            stack_[depth_++] = value;
    }
    uint64_t pop() {
        if (depth_ == 0) {
            is_sound_ = false;
            return 0;
        }
        return stack_[--depth_];
    }
    uint64_t pick(uint64_t below) {
        if (below >= depth_) {
            is_sound_ = false;
            return 0;
        }
        return stack_[depth_ - 1 - below];
    }
    bool push_register(uint32_t number, int64_t offset) {
        if (!registers_.has(number)) return false;
        push(registers_.value[number] + static_cast<uint64_t>(offset));
        return true;
    }
    bool load(uint32_t bytes) {
        uint64_t value = 0;
        if (bytes == 0 || bytes > sizeof(value) || !memory_.read(memory_, pop(), &value, bytes)) return false;
        push(value);
        return true;
    }

    bool step(Cursor& cursor, uint64_t begin) {
        const uint8_t code = cursor.byte();
        if (code >= 0x30 && code <= 0x4f) {
            push(code - 0x30u);
            return true;
        }
        if (code >= 0x70 && code <= 0x8f) return push_register(code - 0x70u, cursor.sleb());
        if (code >= 0x08 && code <= 0x11) return constant(cursor, code);
        if (code >= 0x12 && code <= 0x17) return move(cursor, code);
        if (code >= 0x19 && code <= 0x27) return arithmetic(cursor, code);
        if (code >= 0x29 && code <= 0x2e) return comparison(code);
        switch (code) {
        case 0x03: // addr
            push(cursor.number<uint64_t>());
            return true;
        case 0x06:
            return load(8);
        case 0x94:
            return load(cursor.byte());
        case 0x28: { // bra
            const int64_t to = static_cast<int16_t>(cursor.number<uint16_t>());
            if (pop() != 0) cursor.jump(to, begin);
            return true;
        }
        case 0x2f: { // skip
            const int64_t to = static_cast<int16_t>(cursor.number<uint16_t>());
            cursor.jump(to, begin);
            return true;
        }
        case 0x96: // nop
            return true;
        default:
            return false;
        }
    }
    bool constant(Cursor& cursor, uint8_t code) {
        switch (code) {
        case 0x08:
            push(cursor.number<uint8_t>());
            break;
        case 0x09:
            push(static_cast<uint64_t>(int64_t{static_cast<int8_t>(cursor.number<uint8_t>())}));
            break;
        case 0x0a:
            push(cursor.number<uint16_t>());
            break;
        case 0x0b:
            push(static_cast<uint64_t>(int64_t{static_cast<int16_t>(cursor.number<uint16_t>())}));
            break;
        case 0x0c:
            push(cursor.number<uint32_t>());
            break;
        case 0x0d:
            push(static_cast<uint64_t>(int64_t{static_cast<int32_t>(cursor.number<uint32_t>())}));
            break;
        case 0x10:
            push(cursor.uleb());
            break;
        case 0x11:
            push(static_cast<uint64_t>(cursor.sleb()));
            break;
        default: // 8 bytes
            push(cursor.number<uint64_t>());
        }
        return true;
    }
    bool move(Cursor& cursor, uint8_t code) {
        switch (code) {
        case 0x12: // dup
            push(pick(0));
            break;
        case 0x13: // drop
            (void)pop();
            break;
        case 0x14: // over
            push(pick(1));
            break;
        case 0x15:
            push(pick(cursor.byte()));
            break;
        case 0x16: { // swap
            const uint64_t a = pop(), b = pop();
            push(a);
            push(b);
            break;
        }
        default: { // rot
            const uint64_t a = pop(), b = pop(), c = pop();
            push(a);
            push(c);
            push(b);
        }
        }
        return true;
    }
    bool arithmetic(Cursor& cursor, uint8_t code) {
        const uint64_t b = pop();
        switch (code) {
        case 0x19: // abs
            push(static_cast<int64_t>(b) < 0 ? -b : b);
            return true;
        case 0x1f:
            push(-b);
            return true;
        case 0x20:
            push(~b);
            return true;
        case 0x23:
            push(b + cursor.uleb());
            return true;
        default:
            return of_two(code, pop(), b);
        }
    }
    bool of_two(uint8_t code, uint64_t a, uint64_t b) {
        const auto signed_a = static_cast<int64_t>(a), signed_b = static_cast<int64_t>(b);
        switch (code) {
        case 0x1a:
            push(a & b);
            return true;
        case 0x1b: // div
            if (b == 0 || (signed_a == INT64_MIN && signed_b == -1)) return false;
            push(static_cast<uint64_t>(signed_a / signed_b));
            return true;
        case 0x1c:
            push(a - b);
            return true;
        case 0x1d: // mod
            if (b == 0) return false;
            push(a % b);
            return true;
        case 0x1e:
            push(a * b);
            return true;
        case 0x21:
            push(a | b);
            return true;
        case 0x22:
            push(a + b);
            return true;
        case 0x24:
            push(b < 64 ? a << b : 0);
            return true;
        case 0x25:
            push(b < 64 ? a >> b : 0);
            return true;
        case 0x26:
            push(static_cast<uint64_t>(signed_a >> (b < 64 ? b : 63)));
            return true;
        case 0x27:
            push(a ^ b);
            return true;
        default:
            return false;
        }
    }
    bool comparison(uint8_t code) {
        const auto b = static_cast<int64_t>(pop()), a = static_cast<int64_t>(pop());
        const bool results[] = {a == b, a >= b, a > b, a <= b, a < b, a != b};
        push(results[code - 0x29] ? 1 : 0);
        return true;
    }

    Memory& memory_;
    const Registers& registers_;
    uint64_t stack_[depth_max];
    uint32_t depth_ = 0;
    bool is_sound_ = true;
};

} // namespace

bool evaluate(Memory& memory, const Registers& registers, uint64_t at, const uint64_t* first,
              uint64_t& result) {
    return Expression(memory, registers).evaluate(at, first, result);
}

} // namespace plumb::context
