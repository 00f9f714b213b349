/*
 * The messages by which a session is controlled (docs/consumerd-protocol.md): a head of 12 bytes, then so many bytes of JSON.
 *
 *   bytes 0..3   "PLCM"
 *   bytes 4..5   version of the format, little-endian: 1
 *   bytes 6..7   0
 *   bytes 8..11  bytes of the JSON text behind it, little-endian
 *
 * Whoever reads them believes nothing: what is no head, of another version, or longer than it may be ends the connection before any
 * of it is kept.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_MESSAGE_H
#define PLUMB_CONSUMERD_DAEMON_MESSAGE_H

#include "base/result.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumb {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t message_head_bytes = 12;
inline constexpr std::uint16_t message_version = 1;
/* What is asked: rules, at most. What is answered: the state of all sessions. */
inline constexpr std::size_t request_bytes_max = std::size_t{1} << 18;
inline constexpr std::size_t answer_bytes_max = std::size_t{1} << 24;

/* With its head. */
std::string encode_message(std::string_view text);

/* Takes bytes as they come. */
class MessageReader {
public:
    explicit MessageReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}
    void add(std::string_view bytes) { bytes_.append(bytes); }
    /* The text of the next one; nothing while it is not whole. An error: nothing that comes can be understood any more. */
    Result<std::optional<std::string>> next();
    /* Whether a part of one is there. */
    bool has_part() const { return !bytes_.empty(); }

private:
    std::size_t bytes_max_;
    std::string bytes_;
};

/* On one line; bytes of names that are no text are replaced. */
/* Bytes that are no UTF-8 become U+FFFD; whether there are none: */
std::string text_of(const Json& message);
bool is_utf8(const Json& message);
/* An object, not nested deeper than anything that is meant. */
Result<Json> parse_message(std::string_view text);

/* {"ok": true, ...result}, {"ok": false, "error": "...", "number": 17}; and what they say. */
Json good_answer(Json result = Json::object());
Json bad_answer(const Error& error);
Result<Json> result_of_answer(std::string_view text);

/* Of an object: the member, if it is there and of that kind; the fallback if it is not there. An error names it. */
Result<std::string> text_in(const Json& object, const char* name, std::optional<std::string> fallback = {});
Result<std::uint64_t> number_in(const Json& object, const char* name,
                                std::optional<std::uint64_t> fallback = {});
Result<bool> flag_in(const Json& object, const char* name, bool fallback);

} // namespace plumb

#endif
