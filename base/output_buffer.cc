#include "base/output_buffer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace plumb {
namespace {

constexpr std::size_t buffer_bytes = 256 * 1024;

/* Length of the UTF-8 character at the start of `text`, 0 if there is none. Characters that steer terminals
 * (U+0080 to U+009F) count as none. */
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto follows = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) {
        if (!follows(1) || (first == 0xc2 && byte(1) < 0xa0)) return 0;
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        if (!follows(1) || !follows(2)) return 0;
        if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0)) return 0;
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (!follows(1) || !follows(2) || !follows(3)) return 0;
        if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) return 0;
        return 4;
    }
    return 0;
}

/* Whether the character at the start of `text` turns the direction of what stands behind it: U+061C, U+200E, U+200F, U+202A to
 * U+202E, U+2066 to U+2069. */
bool is_direction_mark(std::string_view text) {
    if (text.starts_with("\xd8\x9c")) return true;
    if (text.size() < 3) return false;
    const auto third = static_cast<unsigned char>(text[2]);
    if (text.starts_with("\xe2\x80"))
        return third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae);
    return text.starts_with("\xe2\x81") && third >= 0xa6 && third <= 0xa9;
}

bool is_plain(char c) {
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* U+0080 to U+009F in UTF-8. */
bool is_c1_control(std::string_view text) {
    return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) >= 0x80 &&
           static_cast<unsigned char>(text[1]) < 0xa0;
}

constexpr char hex_digits[] = "0123456789abcdef";

/* As JSON has a character up to U+00FF. */
void put_json_escape(OutputBuffer& out, unsigned char c) {
    out.put("\\u00");
    out.put(hex_digits[c >> 4]);
    out.put(hex_digits[c & 15]);
}

/* For whom a text is: a terminal shows it in the direction that it says. */
enum class Reader { person, program };

/* Calls `strange(char)` for each byte that can not stand as it is. */
template <Reader reader, typename Strange>
void put_with(OutputBuffer& out, std::string_view text, Strange strange) {
    while (!text.empty()) {
        std::size_t plain = 0;
        while (plain < text.size() && is_plain(text[plain]))
            ++plain;
        out.put(text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty()) return;
        const std::size_t length = static_cast<unsigned char>(text[0]) >= 0x80 ? utf8_length(text) : 0;
        if (reader == Reader::person && length > 0 && is_direction_mark(text)) {
            for (const char c : text.substr(0, length))
                strange(c);
            text.remove_prefix(length);
        } else if (length > 0) {
            out.put(text.substr(0, length));
            text.remove_prefix(length);
        } else if (reader == Reader::program && is_c1_control(text)) {
            put_json_escape(out, static_cast<unsigned char>(text[1]));
            text.remove_prefix(2);
        } else {
            strange(text[0]);
            text.remove_prefix(1);
        }
    }
}

char short_escape(char c) {
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\n':
        return 'n';
    case '\t':
        return 't';
    case '\r':
        return 'r';
    default:
        return 0;
    }
}

} // namespace

OutputBuffer::OutputBuffer(int fd)
    : fd_(fd),
      buffer_(std::make_unique_for_overwrite<char[]>(buffer_bytes)),
      at_(buffer_.get()),
      end_(at_ + buffer_bytes) {}

void OutputBuffer::flush() {
    if (fd_ < 0) return;
    write_out(text());
    at_ = buffer_.get();
}

void OutputBuffer::put_through(std::string_view text) {
    if (fd_ < 0) {
        put(text);
        return;
    }
    flush();
    write_out(text);
}

void OutputBuffer::write_out(std::string_view text) {
    const char* from = text.data();
    const char* const end = from + text.size();
    while (from < end && !closed_) {
        const ssize_t written = ::write(fd_, from, static_cast<std::size_t>(end - from));
        if (written > 0) {
            from += written;
        } else if (written < 0 && errno == EAGAIN) {
            /* Somebody made the terminal or pipe non-blocking, for all who share it. */
            pollfd room{fd_, POLLOUT, 0};
            ::poll(&room, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            closed_ = true;
            if (written < 0 && errno != EPIPE) error_number_ = errno;
        }
    }
}

void OutputBuffer::make_room(std::size_t bytes) {
    flush();
    if (static_cast<std::size_t>(end_ - at_) >= bytes) return;
    const auto used = static_cast<std::size_t>(at_ - buffer_.get());
    const std::size_t size = std::max(2 * static_cast<std::size_t>(end_ - buffer_.get()), used + bytes);
    auto larger = std::make_unique_for_overwrite<char[]>(size);
    std::memcpy(larger.get(), buffer_.get(), used);
    buffer_ = std::move(larger);
    at_ = buffer_.get() + used;
    end_ = buffer_.get() + size;
}

namespace {

void put_escape(OutputBuffer& out, char c) {
    char* const at = out.room(4);
    at[0] = '\\';
    if (const char letter = short_escape(c); letter != 0) {
        at[1] = letter;
        out.wrote(at + 2);
        return;
    }
    at[1] = 'x';
    at[2] = hex_digits[static_cast<unsigned char>(c) >> 4];
    at[3] = hex_digits[static_cast<unsigned char>(c) & 15];
    out.wrote(at + 4);
}

} // namespace

void put_escaped(OutputBuffer& out, std::string_view text) {
    put_with<Reader::person>(out, text, [&out](char c) { put_escape(out, c); });
}

void put_json_string(OutputBuffer& out, std::string_view text) {
    out.put('"');
    put_with<Reader::program>(out, text, [&out](char c) {
        if (const char letter = short_escape(c); letter != 0) {
            out.put('\\');
            out.put(letter);
        } else if (static_cast<unsigned char>(c) < 0x80) {
            put_json_escape(out, static_cast<unsigned char>(c));
        } else {
            out.put("\xef\xbf\xbd");
        }
    });
    out.put('"');
}

std::string escaped(std::string_view text) {
    OutputBuffer out(-1);
    put_escaped(out, text);
    return std::string(out.text());
}

std::string without_controls(std::string_view text) {
    OutputBuffer out(-1);
    put_with<Reader::person>(out, text, [&out](char c) {
        if (c == '"' || c == '\\' || c == '\n')
            out.put(c);
        else
            put_escape(out, c);
    });
    return std::string(out.text());
}

std::string json_string(std::string_view text) {
    OutputBuffer out(-1);
    put_json_string(out, text);
    return std::string(out.text());
}

} // namespace plumb
