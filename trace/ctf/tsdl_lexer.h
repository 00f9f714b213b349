/*
 * Splits TSDL, the text that describes a CTF 1.8 trace (diamon.org/ctf/v1.8.3), into tokens. The text may
 * come from anyone: every error names its line, and nothing is read outside the text.
 */
#ifndef PLUMB_TRACE_CTF_TSDL_LEXER_H
#define PLUMB_TRACE_CTF_TSDL_LEXER_H

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plumb::tsdl {

enum class TokenKind : uint8_t {
    end,
    identifier,
    number, /* a non-negative integer; a minus is punctuation */
    string, /* without quotes, escapes replaced */
    punctuation
};

struct Token {
    TokenKind kind = TokenKind::end;
    uint32_t line = 1;
    uint64_t number = 0;
    std::string text; /* identifier, string; punctuation: "{", ":=", "..." and so on */

    bool is(std::string_view punctuation) const {
        return kind == TokenKind::punctuation && text == punctuation;
    }
    bool is_word(std::string_view word) const { return kind == TokenKind::identifier && text == word; }
    /* For messages: `}` or "the end of the text". */
    std::string shown() const;
};

/* Each use of a type may say its names once more. */
inline constexpr std::size_t max_identifier_bytes = 1024;

class Lexer {
public:
    explicit Lexer(std::string_view text) : text_(text) {}

    Result<Token> next();

private:
    Status skip_blanks();
    Result<Token> read_string(Token token);
    Result<Token> read_number(Token token);
    char peek(std::size_t ahead = 0) const {
        return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
    }

    std::string_view text_;
    std::size_t position_ = 0;
    uint32_t line_ = 1;
};

/* "The metadata, line 12: ..." */
Error error_at(uint32_t line, std::string_view what);

} // namespace plumb::tsdl

#endif
