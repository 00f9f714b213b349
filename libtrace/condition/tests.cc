// A row of tests out of a program's steps, where these are nothing but comparisons of fields, joined by && and ||, and what is not
// asked by them as they are.
#include "tests.h"
#include "../bytes.h"

#include "fields.h"

#include "../runtime.h"

namespace plumb::condition {

namespace {

// A comparison.
struct Leaf {
    Test test;
    uint32_t step_count;
    bool is_negated;
    bool is_never_so; // whatever the field's value is
};

class TestMaker {
public:
    TestMaker(Program& program, uint32_t step_count, uint32_t texts_from)
        : program_(program),
          step_count_(step_count),
          first_(sizeof(Program) + uint64_t{step_count} * sizeof(Step)),
          texts_from_(texts_from) {}

    // False: there is no room.
    bool make() {
        if (!are_all_tests()) return true;
        if (first_ + count_ * sizeof(Test) > texts_from_) return false;
        make_from_the_end();
        store_relaxed(program_.test_count, count_);
        return true;
    }

private:
    struct Open { // what an AND_THEN, or OR_ELSE, has yet to be joined with
        uint8_t joined_by;
        uint32_t ends_at;
    };

    Step step_at(uint32_t index) const {
        Step step;
        __builtin_memcpy(&step, program_.steps() + index, sizeof(step));
        return step;
    }

    // Each value is a comparison's, and it alone is there when it is made use of.
    bool are_all_tests() {
        Open open[stack_max];
        uint32_t open_count = 0;
        bool is_value_there = false;
        count_ = 0;
        for (uint32_t i = 0; i < step_count_;) {
            Leaf leaf;
            if (find_leaf(i, leaf)) {
                if (is_value_there || count_ == tests_max) return false;
                is_value_there = true;
                count_++;
                i += leaf.step_count;
                continue;
            }
            if (!is_value_there) return false;
            const Step step = step_at(i++);
            if (step.operation == PLUMB_CONDITION_AND_THEN || step.operation == PLUMB_CONDITION_OR_ELSE) {
                if (open_count == stack_max) return false;
                const bool is_and = step.operation == PLUMB_CONDITION_AND_THEN;
                open[open_count++] = {static_cast<uint8_t>(is_and ? PLUMB_CONDITION_AND : PLUMB_CONDITION_OR),
                                      i + step.jump};
                is_value_there = false;
            } else if (step.operation == PLUMB_CONDITION_AND || step.operation == PLUMB_CONDITION_OR) {
                if (open_count == 0) return false;
                const Open& last = open[--open_count];
                if (last.joined_by != step.operation || last.ends_at != i) return false;
            } else if (step.operation != PLUMB_CONDITION_NOT) {
                return false;
            }
        }
        return is_value_there && open_count == 0;
    }

    // Where a value leads to, false or true, behind the step that is looked at; and behind each join around it.
    struct Ways {
        uint8_t when[2];
    };
    void make_from_the_end() {
        Ways joined[stack_max];
        uint32_t joined_count = 0, index = count_;
        Ways ways = {{test_holds_not, test_holds}};
        for (uint32_t i = step_count_; i-- > 0;) {
            const uint8_t operation = step_at(i).operation;
            switch (operation) {
            case PLUMB_CONDITION_NOT:
                ways = {{ways.when[1], ways.when[0]}};
                break;
            case PLUMB_CONDITION_AND:
            case PLUMB_CONDITION_OR:
                joined[joined_count++] = ways;
                break;
            case PLUMB_CONDITION_AND_THEN:
            case PLUMB_CONDITION_OR_ELSE: {
                const uint32_t deciding = operation == PLUMB_CONDITION_OR_ELSE ? 1 : 0;
                ways.when[deciding] = joined[--joined_count].when[deciding];
                break;
            }
            default: {
                i = first_step_of_leaf(i);
                Leaf leaf;
                (void)find_leaf(i, leaf);
                leaf.test.when_not = ways.when[leaf.is_negated];
                leaf.test.when_so = leaf.is_never_so ? leaf.test.when_not : ways.when[!leaf.is_negated];
                store(--index, leaf.test);
                ways = {{static_cast<uint8_t>(index), static_cast<uint8_t>(index)}};
            }
            }
        }
    }
    uint32_t first_step_of_leaf(uint32_t last_step) const {
        const uint8_t operation = step_at(last_step).operation;
        return operation == operation_compare_integer || operation == operation_integer_field ? last_step
                                                                                              : last_step - 2;
    }

    bool find_leaf(uint32_t index, Leaf& leaf) const {
        const Step step = step_at(index);
        leaf = {{}, 1, false, false};
        leaf.test.place = step.place;
        switch (step.operation) {
        case operation_compare_integer:
            set_integer(leaf, step.type, static_cast<uint8_t>(step.jump),
                        (step.type & type_operand_signed) != 0 ? -static_cast<__int128>(step.operand)
                                                               : static_cast<__int128>(step.operand));
            return true;
        case operation_integer_field:
            set_integer(leaf, step.type, PLUMB_CONDITION_UNEQUAL, 0);
            return true;
        case operation_string_field:
        case operation_text_field:
            return index + 3 <= step_count_ &&
                   set_text(leaf, step.operation, step_at(index + 1), step_at(index + 2).operation);
        default:
            return false;
        }
    }

    static void set_integer(Leaf& leaf, uint8_t type, uint8_t code, __int128 other) {
        const bool is_signed = (type & type_signed) != 0;
        const __int128 turn = is_signed ? static_cast<__int128>(1) << 63 : 0;
        const __int128 least = -turn, most = least + UINT64_MAX;
        __int128 low = least, high = most;
        if (code == PLUMB_CONDITION_EQUAL || code == PLUMB_CONDITION_UNEQUAL) low = high = other;
        if (code == PLUMB_CONDITION_LESS) high = other - 1;
        if (code == PLUMB_CONDITION_LESS_EQUAL) high = other;
        if (code == PLUMB_CONDITION_GREATER) low = other + 1;
        if (code == PLUMB_CONDITION_GREATER_EQUAL) low = other;
        if (low < least) low = least;
        if (high > most) high = most;
        leaf.test.kind = test_integer;
        leaf.test.type = static_cast<uint8_t>(type & (type_bytes | type_signed));
        leaf.is_negated = code == PLUMB_CONDITION_UNEQUAL;
        leaf.is_never_so = low > high;
        if (leaf.is_never_so) return;
        leaf.test.low = static_cast<uint64_t>(low + turn);
        leaf.test.span = static_cast<uint64_t>(high - low);
    }

    bool set_text(Leaf& leaf, uint8_t field, const Step& text, uint8_t code) const {
        if (text.operation != operation_text) return false;
        const bool is_pattern = code == PLUMB_CONDITION_MATCHES || code == PLUMB_CONDITION_MATCHES_NOT;
        if (!is_pattern && code != PLUMB_CONDITION_EQUAL && code != PLUMB_CONDITION_UNEQUAL) return false;
        leaf.step_count = 3;
        leaf.is_negated = code == PLUMB_CONDITION_MATCHES_NOT || code == PLUMB_CONDITION_UNEQUAL;
        leaf.test.type =
            static_cast<uint8_t>(field == operation_string_field ? PLUMB_FIELD_STRING : PLUMB_FIELD_TEXT);
        leaf.test.low = text.place;
        leaf.test.span = text.operand;
        leaf.test.kind = is_pattern ? kind_of_pattern(leaf.test) : uint8_t{test_text_is};
        return true;
    }
    // A pattern of characters that are bytes, but for a star at its end, is compared as they are.
    uint8_t kind_of_pattern(Test& test) const {
        const char* const pattern = reinterpret_cast<const char*>(&program_) + test.low;
        for (uint64_t i = 0; i < test.span; i++) {
            if (pattern[i] == '*' && i + 1 == test.span) {
                test.span = i;
                return test_text_begins;
            }
            const bool is_plain = static_cast<signed char>(pattern[i]) > 0 && pattern[i] != '*' &&
                                  pattern[i] != '?' && pattern[i] != '[' && pattern[i] != '\\';
            if (!is_plain) return test_text_matches;
        }
        return test_text_is;
    }

    void store(uint32_t index, const Test& test) {
        uint64_t words[sizeof(Test) / sizeof(uint64_t)];
        __builtin_memcpy(words, &test, sizeof(test));
        auto* const to =
            reinterpret_cast<uint64_t*>(reinterpret_cast<unsigned char*>(&program_) + first_) + index * 3;
        for (uint32_t i = 0; i < 3; i++)
            store_relaxed(to[i], words[i]);
    }

    Program& program_;
    uint32_t step_count_;
    uint64_t first_; // byte of the program, where tests begin
    uint64_t texts_from_;
    uint32_t count_ = 0;
};

} // namespace

Tested test_elsewhere(const Program& program, const Test& test, const unsigned char* payload,
                      uint32_t payload_bytes) {
    const Fields fields = {payload, payload_bytes};
    const uint32_t variables = test.place >> place_offset_bits;
    if (variables > PLUMB_EVENT_MAX_FIELDS) return Tested::not_here;
    uint32_t base = 0;
    for (uint32_t i = 0; i < variables; i++)
        base = fields.behind(program.variables[i], base);
    const uint32_t begin = fields.begin_of(test.place, base);
    if (test.kind == test_integer) {
        const uint32_t size = test.type & type_bytes;
        if (begin > payload_bytes || payload_bytes - begin < size) return Tested::not_here;
        return test_integer_at(test, payload + begin);
    }
    Bytes text;
    if (!fields.find_text(test.type == PLUMB_FIELD_TEXT, begin, text)) return Tested::not_here;
    const uint32_t limit = load_relaxed(program.bytes);
    if (test.low > limit || test.span > limit - test.low) return Tested::not_here;
    const Bytes wanted = {reinterpret_cast<const char*>(&program) + test.low,
                          static_cast<uint32_t>(test.span)};
    bool is_so = false;
    if (test.kind == test_text_matches)
        is_so = pattern_matches(wanted, text);
    else if (test.kind == test_text_begins || test.kind == test_text_is)
        is_so = text.count >= wanted.count && (test.kind == test_text_begins || text.count == wanted.count) &&
                are_same(text.at, wanted.at, wanted.count);
    else
        return Tested::not_here;
    return is_so ? Tested::so : Tested::not_so;
}

bool make_tests(Program& program, uint32_t step_count, uint32_t texts_from) {
    store_relaxed(program.test_count, 0u);
    return TestMaker(program, step_count, texts_from).make();
}

} // namespace plumb::condition
