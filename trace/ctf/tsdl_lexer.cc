/* Tokens of TSDL: identifiers, integers in base 8, 10 and 16, quoted strings, punctuation, two kinds of
 * comment. */
#include "trace/ctf/tsdl_lexer.h"

#include <charconv>

namespace plumb::tsdl {
namespace {

bool is_identifier_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_identifier_part(char c) {
    return is_identifier_start(c) || is_digit(c);
}

char unescape(char c) {
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'a':
        return '\a';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    default:
        return c;
    }
}

} // namespace

Error error_at(uint32_t line, std::string_view what) {
    return Error("The metadata, line {}: {}.", line, what);
}

std::string Token::shown() const {
    switch (kind) {
    case TokenKind::end:
        return "the end of the text";
    case TokenKind::number:
        return fmt::format("{}", number);
    case TokenKind::string:
        return fmt::format("\"{:.40}\"", text);
    default:
        return fmt::format("`{:.40}`", text);
    }
}

Status Lexer::skip_blanks() {
    for (;;) {
        const char c = peek();
        if (c == '\n') {
            ++line_;
            ++position_;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            ++position_;
        } else if (c == '/' && peek(1) == '/') {
            while (position_ < text_.size() && text_[position_] != '\n')
                ++position_;
        } else if (c == '/' && peek(1) == '*') {
            const std::size_t end = text_.find("*/", position_ + 2);
            if (end == std::string_view::npos) return error_at(line_, "a comment has no end");
            for (; position_ < end; ++position_)
                if (text_[position_] == '\n') ++line_;
            position_ = end + 2;
        } else {
            return ok();
        }
    }
}

Result<Token> Lexer::read_string(Token token) {
    ++position_;
    token.kind = TokenKind::string;
    for (;; ++position_) {
        if (position_ >= text_.size() || text_[position_] == '\n')
            return error_at(token.line, "a string has no end");
        char c = text_[position_];
        if (c == '"') break;
        if (c == '\\') {
            ++position_;
            if (position_ >= text_.size() || text_[position_] == '\n')
                return error_at(token.line, "a string has no end");
            c = unescape(text_[position_]);
        }
        token.text.push_back(c);
    }
    ++position_;
    return token;
}

Result<Token> Lexer::read_number(Token token) {
    token.kind = TokenKind::number;
    int base = 10;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) {
        base = 16;
        position_ += 2;
    } else if (peek() == '0' && is_digit(peek(1))) {
        base = 8;
        ++position_;
    }
    const char* const first = text_.data() + position_;
    const char* const last = text_.data() + text_.size();
    const std::from_chars_result parsed = std::from_chars(first, last, token.number, base);
    if (parsed.ec == std::errc::result_out_of_range)
        return error_at(token.line, "a number needs more than 64 bits");
    if (parsed.ec != std::errc()) return error_at(token.line, "a number has no digits");
    position_ += static_cast<std::size_t>(parsed.ptr - first);
    while (peek() == 'u' || peek() == 'U' || peek() == 'l' || peek() == 'L')
        ++position_;
    if (is_identifier_part(peek())) return error_at(token.line, "a number is followed by letters");
    return token;
}

Result<Token> Lexer::next() {
    if (Status skipped = skip_blanks(); !skipped) return skipped.error();
    Token token;
    token.line = line_;
    if (position_ >= text_.size()) return token;
    const char c = peek();
    if (c == '"') return read_string(std::move(token));
    if (is_digit(c)) return read_number(std::move(token));
    if (is_identifier_start(c)) {
        const std::size_t start = position_;
        while (is_identifier_part(peek()))
            ++position_;
        if (position_ - start > max_identifier_bytes)
            return error_at(line_, fmt::format("a name is longer than {} characters", max_identifier_bytes));
        token.kind = TokenKind::identifier;
        token.text = text_.substr(start, position_ - start);
        return token;
    }
    token.kind = TokenKind::punctuation;
    std::size_t length = 1;
    if (c == ':' && peek(1) == '=') length = 2;
    if (c == '.' && peek(1) == '.' && peek(2) == '.') length = 3;
    if (length == 1 && std::string_view("{}()[]<>;:=,.-+*").find(c) == std::string_view::npos)
        return error_at(line_, fmt::format("the character 0x{:02x} has no meaning here",
                                           static_cast<unsigned>(static_cast<unsigned char>(c))));
    token.text = text_.substr(position_, length);
    position_ += length;
    return token;
}

} // namespace plumb::tsdl
