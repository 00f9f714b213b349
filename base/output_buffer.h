/*
 * Text on its way to a file descriptor: collected in one buffer, written when it is full. Formatting code
 * asks for room, writes there, and says how far it came; so each piece costs one comparison.
 *
 * When the reader at the other end has gone (a pager was closed), everything further is thrown away quietly
 * and is_closed() says so. SIGPIPE must be ignored by the program.
 */
#ifndef PLUMB_BASE_OUTPUT_BUFFER_H
#define PLUMB_BASE_OUTPUT_BUFFER_H

#include "base/result.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace plumb {

/* Text that is written again and again: padded, so that it is copied in whole blocks without a call. */
class TextPiece {
public:
    static constexpr std::size_t block_bytes = 16;

    TextPiece() = default;
    explicit TextPiece(std::string_view text) : padded_(text), size_(text.size()) {
        padded_.resize(text.size() + block_bytes);
    }
    std::size_t size() const { return size_; }
    std::string_view text() const { return {padded_.data(), size_}; }

    /* Writes up to a block more than it says. Returns where the text ends. `skip` characters are left out in
     * front; there must be as many. */
    char* copy_to(char* at, std::size_t skip = 0) const {
        const char* const from = padded_.data() + skip;
        const std::size_t size = size_ - skip;
        for (std::size_t done = 0; done < size; done += block_bytes)
            std::memcpy(at + done, from + done, block_bytes);
        return at + size;
    }

private:
    std::string padded_;
    std::size_t size_ = 0;
};

class OutputBuffer {
public:
    /* Does not own the descriptor. -1: collects without end, for text(). */
    explicit OutputBuffer(int fd);
    ~OutputBuffer() { flush(); }
    OutputBuffer(const OutputBuffer&) = delete;
    OutputBuffer& operator=(const OutputBuffer&) = delete;

    /* Room for `bytes` characters, to be ended with wrote(). */
    char* room(std::size_t bytes) {
        if (static_cast<std::size_t>(end_ - at_) < bytes) make_room(bytes);
        return at_;
    }
    void wrote(char* end) { at_ = end; }

    void put(char c) {
        char* const at = room(1);
        *at = c;
        wrote(at + 1);
    }
    void put(std::string_view text) {
        char* const at = room(text.size());
        std::memcpy(at, text.data(), text.size());
        wrote(at + text.size());
    }
    void put(const TextPiece& piece, std::size_t skip = 0) {
        char* const at = room(piece.size() + TextPiece::block_bytes);
        wrote(piece.copy_to(at, skip));
    }
    template <typename Integer>
    void put_integer(Integer value, int base = 10) {
        char* const at = room(72);
        wrote(std::to_chars(at, at + 72, value, base).ptr);
    }

    /* Much at once, which is not copied first. */
    void put_through(std::string_view text);

    void flush();
    /* Nobody reads any more, or writing failed: stop. */
    bool is_closed() const { return closed_; }
    /* The errno of a failed write; 0 if there was none, or the reader had gone. */
    int error_number() const { return error_number_; }
    /* What is in the buffer. */
    std::string_view text() const { return {buffer_.get(), static_cast<std::size_t>(at_ - buffer_.get())}; }
    void clear() { at_ = buffer_.get(); }

private:
    void make_room(std::size_t bytes);
    void write_out(std::string_view text);

    int fd_;
    bool closed_ = false;
    int error_number_ = 0;
    std::unique_ptr<char[]> buffer_;
    char* at_;
    char* end_;
};

/* Appends text with what could end a quotation or steer a terminal escaped as in C: \" \\ \n \x1b. Valid
 * UTF-8 stays as it is. */
void put_escaped(OutputBuffer& out, std::string_view text);
/* The same in the way of JSON, as a string with its quotes. Bytes that are no UTF-8 become U+FFFD. */
void put_json_string(OutputBuffer& out, std::string_view text);
std::string escaped(std::string_view text);

/* A message, which quotes names as they are: only what could steer a terminal is escaped; quotation marks, backslashes and
 * ends of lines stand. */
std::string without_controls(std::string_view text);
std::string json_string(std::string_view text);

} // namespace plumb

#endif
