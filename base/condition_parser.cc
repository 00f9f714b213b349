#include "base/condition_parser.h"

#include "base/glob.h"
#include "base/output_buffer.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace plumb {
namespace {

constexpr std::size_t nodes_max = 4096;
constexpr unsigned depth_max = 200; /* of what is nested: each takes some stack */

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

struct Sign {
    std::string_view text;
    ConditionOperator op;
    int strength; /* how tight it binds its operands */
};

/* Those that begin like another one come first. */
constexpr Sign signs[] = {
    {"||", ConditionOperator::logical_or, 1},  {"&&", ConditionOperator::logical_and, 2},
    {"==", ConditionOperator::equal, 3},       {"!=", ConditionOperator::unequal, 3},
    {"<<", ConditionOperator::shift_left, 7},  {">>", ConditionOperator::shift_right, 7},
    {"<=", ConditionOperator::less_equal, 3},  {">=", ConditionOperator::greater_equal, 3},
    {"!~", ConditionOperator::matches_not, 3}, {"=~", ConditionOperator::matches, 3},
    {"<", ConditionOperator::less, 3},         {">", ConditionOperator::greater, 3},
    {"~", ConditionOperator::matches, 3},      {"|", ConditionOperator::bit_or, 4},
    {"^", ConditionOperator::bit_xor, 5},      {"&", ConditionOperator::bit_and, 6},
    {"+", ConditionOperator::add, 8},          {"-", ConditionOperator::subtract, 8},
    {"*", ConditionOperator::multiply, 9},     {"/", ConditionOperator::divide, 9},
    {"%", ConditionOperator::modulo, 9}};
constexpr int comparison_strength = 3;

class ConditionParser {
public:
    explicit ConditionParser(std::string_view text) { tree_.source = text; }

    Result<ConditionTree> parse() {
        skip_blanks();
        if (at_ == tree_.source.size()) return Error("The condition is empty.");
        const auto whole = expression(0);
        if (!whole) return whole.error();
        if (at_ != tree_.source.size()) return no_operation();
        return std::move(tree_);
    }

private:
    using Place = Result<uint32_t>; /* of a node */

    Error wrong(std::size_t column, const std::string& what) const {
        return condition_error(tree_.source, column, what);
    }
    /* How others write an operation. */
    const char* meant_sign() const {
        const std::string_view rest = std::string_view(tree_.source).substr(at_);
        if (rest.starts_with('=')) return "==";
        const std::string_view word = rest.substr(0, rest.find_first_of(" \t\n(!\"'"));
        if (word == "and" || word == "AND") return "&&";
        return word == "or" || word == "OR" ? "||" : nullptr;
    }
    Error no_operation() const {
        const char* const meant = meant_sign();
        return wrong(at_, meant == nullptr ? "there is no operation here"
                                           : fmt::format("there is no operation here: {} is one", meant));
    }
    char peek(std::size_t ahead = 0) const {
        return at_ + ahead < tree_.source.size() ? tree_.source[at_ + ahead] : '\0';
    }
    void skip_blanks() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\n')
            at_++;
    }
    Place add(ConditionNode node) {
        if (tree_.nodes.size() == nodes_max) return wrong(node.column, "the condition is too long");
        tree_.nodes.push_back(std::move(node));
        return static_cast<uint32_t>(tree_.nodes.size() - 1);
    }

    const Sign* next_sign() const {
        const std::string_view rest = std::string_view(tree_.source).substr(at_);
        for (const Sign& sign : signs)
            if (rest.starts_with(sign.text)) return &sign;
        return nullptr;
    }

    /* Operations that bind tighter than `strength`, and their operands. */
    Place expression(int strength) {
        Place left = operand();
        while (left) {
            const Sign* const sign = next_sign();
            if (sign == nullptr || sign->strength <= strength) break;
            const std::size_t column = at_;
            at_ += sign->text.size();
            const bool is_match =
                sign->op == ConditionOperator::matches || sign->op == ConditionOperator::matches_not;
            const bool was_pattern = std::exchange(in_pattern_, in_pattern_ || is_match);
            const Place right = expression(sign->strength);
            in_pattern_ = was_pattern;
            if (!right) return right.error();
            const Sign* const behind = next_sign();
            if (sign->strength == comparison_strength && behind != nullptr &&
                behind->strength == comparison_strength)
                return wrong(at_, "comparisons do not follow each other: join them by &&");
            ConditionNode node;
            node.kind = ConditionKind::binary;
            node.op = sign->op;
            node.left = *left;
            node.right = *right;
            node.column = column;
            left = add(std::move(node));
        }
        return left;
    }

    Place operand() {
        if (++depth_ > depth_max) return wrong(at_, "this is nested too deeply");
        skip_blanks();
        const Place found = operand_here();
        skip_blanks();
        depth_--;
        return found;
    }

    Place operand_here() {
        const std::size_t column = at_;
        switch (peek()) {
        case '!':
            return of_one(ConditionOperator::logical_not);
        case '-':
            return of_one(ConditionOperator::negate);
        case '~':
            return of_one(ConditionOperator::bit_not);
        case '"':
        case '\'':
            return quoted();
        case '(': {
            at_++;
            const Place inner = expression(0);
            if (!inner) return inner;
            if (peek() != ')' && meant_sign() != nullptr) return no_operation();
            if (peek() != ')') return wrong(column, "this parenthesis is not closed");
            at_++;
            return inner;
        }
        default:
            if (is_digit(peek())) return number();
            if (is_name_start(peek())) return field();
            if (peek() == '$') return wrong(column, "names stand alone: vpid, not $ctx.vpid");
            return wrong(column, at_ == tree_.source.size()
                                     ? "something is missing here"
                                     : "this is no field, number or text in quotation marks");
        }
    }

    Place of_one(ConditionOperator op) {
        ConditionNode node;
        node.kind = ConditionKind::unary;
        node.op = op;
        node.column = at_++;
        const Place inner = operand();
        if (!inner) return inner;
        node.left = *inner;
        return add(std::move(node));
    }

    Place number() {
        ConditionNode node;
        node.column = at_;
        const char* const begin = tree_.source.data() + at_;
        const char* const end = tree_.source.data() + tree_.source.size();
        const bool is_prefixed = *begin == '0' && (peek(1) == 'x' || peek(1) == 'X' || peek(1) == 'b');
        /* As permissions are shown: mode = 0644 */
        const bool is_octal = *begin == '0' && is_digit(peek(1));
        const int base = is_prefixed ? (peek(1) == 'b' ? 2 : 16) : is_octal ? 8 : 10;
        uint64_t value = 0;
        auto parsed = std::from_chars(begin + (is_prefixed ? 2 : 0), end, value, base);
        if (parsed.ec == std::errc::result_out_of_range)
            return wrong(node.column, "no number has more than 64 bits");
        if (parsed.ec != std::errc()) return wrong(node.column, "this number has no digits");
        node.integer = static_cast<__int128>(value);
        const bool is_floating = base == 10 && parsed.ptr != end &&
                                 (*parsed.ptr == '.' || *parsed.ptr == 'e' || *parsed.ptr == 'E');
        if (is_floating) {
            node.kind = ConditionKind::floating;
            parsed = std::from_chars(begin, end, node.floating);
            if (parsed.ec != std::errc() || !std::isfinite(node.floating))
                return wrong(node.column, "this is no number");
        }
        at_ = static_cast<std::size_t>(parsed.ptr - tree_.source.data());
        if (is_octal && (is_digit(peek()) || peek() == '.'))
            return wrong(at_, "a number that begins with 0 is octal, and has no such digit");
        if (is_name_start(peek()) || is_digit(peek()) || peek() == '.')
            return wrong(at_, "a number has no such digit, and no unit");
        return add(std::move(node));
    }

    Place quoted() {
        ConditionNode node;
        node.kind = ConditionKind::text;
        node.column = at_;
        const char mark = tree_.source[at_++];
        for (;;) {
            if (at_ == tree_.source.size()) return wrong(node.column, "this text has no end");
            const char c = tree_.source[at_++];
            if (c == mark) break;
            if (c != '\\') {
                node.text += c;
                continue;
            }
            const auto escaped_one = escape();
            if (!escaped_one) return escaped_one.error();
            node.text += *escaped_one;
        }
        return add(std::move(node));
    }

    /* Behind the backslash: what view prints is undone. A pattern keeps what else is quoted there, for the glob. */
    Result<std::string> escape() {
        if (at_ == tree_.source.size()) return wrong(at_ - 1, "nothing is quoted by this");
        const char c = tree_.source[at_++];
        switch (c) {
        case 'n':
            return std::string("\n");
        case 'r':
            return std::string("\r");
        case 't':
            return std::string("\t");
        case '"':
        case '\'':
            return std::string(1, c);
        case 'x':
            return escaped_byte();
        default:
            break;
        }
        if (in_pattern_) return std::string("\\") + c;
        if (c == '\\') return std::string(1, c);
        return wrong(at_ - 2, R"(a text has no such escape: a backslash itself is written \\)");
    }

    /* A byte that is given by its number is no operator of a glob. */
    Result<std::string> escaped_byte() {
        unsigned value = 0;
        const char* const begin = tree_.source.data() + at_;
        const char* const end = tree_.source.data() + std::min(at_ + 2, tree_.source.size());
        const auto [rest, failed] = std::from_chars(begin, end, value, 16);
        if (failed != std::errc() || rest != begin + 2)
            return wrong(at_ - 2, "two hexadecimal digits follow \\x");
        at_ += 2;
        const char byte = static_cast<char>(value);
        const bool is_special = std::string_view("*?[\\").find(byte) != std::string_view::npos;
        return std::string(in_pattern_ && is_special ? "\\" : "") + byte;
    }

    std::string name() {
        const std::size_t begin = at_;
        while (is_name_start(peek()) || is_digit(peek()))
            at_++;
        return tree_.source.substr(begin, at_ - begin);
    }

    Place field() {
        ConditionNode node;
        node.kind = ConditionKind::field;
        node.column = at_;
        node.field.parts.push_back(name());
        while (peek() == '.') {
            at_++;
            if (!is_name_start(peek())) return wrong(at_, "the name of a part is missing");
            node.field.parts.push_back(name());
        }
        if (peek() != '[') return add(std::move(node));
        const std::size_t bracket = at_++;
        uint64_t element = 0;
        const char* const begin = tree_.source.data() + at_;
        const auto [rest, failed] =
            std::from_chars(begin, tree_.source.data() + tree_.source.size(), element);
        at_ += static_cast<std::size_t>(rest - begin);
        if (failed != std::errc() || peek() != ']')
            return wrong(bracket, "an element has a number in brackets: [0]");
        at_++;
        node.field.element = element;
        return add(std::move(node));
    }

    ConditionTree tree_;
    std::size_t at_ = 0;
    unsigned depth_ = 0;
    bool in_pattern_ = false; /* behind ~ and !~ */
};

} // namespace

std::string FieldPath::text() const {
    std::string text;
    for (const std::string& part : parts)
        text += (text.empty() ? "" : ".") + part;
    if (element) text += fmt::format("[{}]", *element);
    return text;
}

Error condition_error(const std::string& source, std::size_t column, const std::string& what) {
    /* On one line, and as wide as it is shown. */
    std::string line, marks;
    for (std::size_t at = 0; at < source.size(); at++) {
        const char c = source[at];
        line += c == '\n' || c == '\t' ? ' ' : c;
        const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80; /* of UTF-8 */
        if (at < column && !continues) marks += ' ';
    }
    return Error("{}:\n    {}\n    {}^", what, line, marks);
}

Result<ConditionTree> parse_condition(std::string_view text) {
    return ConditionParser(text).parse();
}

std::vector<std::string> texts_like_patterns(const ConditionTree& tree) {
    std::vector<std::string> lines;
    for (const ConditionNode& node : tree.nodes) {
        const bool is_equal = node.op == ConditionOperator::equal;
        if (!is_equal && node.op != ConditionOperator::unequal) continue;
        const auto side = {&tree.nodes[node.left], &tree.nodes[node.right]};
        for (const ConditionNode* const text : side) {
            if (text->kind != ConditionKind::text || text->text.find('*') == std::string::npos) continue;
            lines.push_back(fmt::format(R"({} takes the star in "{}" for itself: {} compares with a pattern)",
                                        is_equal ? "==" : "!=", text->text, is_equal ? "~" : "!~"));
        }
    }
    return lines;
}

} // namespace plumb
