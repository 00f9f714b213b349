#include "consumerd/daemon/message.h"

#include <array>
#include <cerrno>

namespace plumb {
namespace {

constexpr std::string_view magic = "PLCM";
/* A description has rules in a list in an object in a request. */
constexpr int depth_max = 8;

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
    std::uint32_t number = 0;
    for (std::size_t i = count; i-- > 0;)
        number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
    return number;
}

void put_number(std::string& bytes, std::uint32_t number, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        bytes.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

Error wrong_kind(const char* name, const char* kind) {
    return Error("\"{}\" is not {}.", name, kind).as(EINVAL);
}

Error missing(const char* name) {
    return Error("\"{}\" is missing.", name).as(EINVAL);
}

} // namespace

std::string encode_message(std::string_view text) {
    std::string bytes(magic);
    put_number(bytes, message_version, 2);
    put_number(bytes, 0, 2);
    put_number(bytes, static_cast<std::uint32_t>(text.size()), 4);
    return bytes.append(text);
}

Result<std::optional<std::string>> MessageReader::next() {
    if (bytes_.compare(0, magic.size(), magic, 0, std::min(bytes_.size(), magic.size())) != 0)
        return Error("That is no message of Plumb's.").as(EPROTO);
    if (bytes_.size() < message_head_bytes) return std::optional<std::string>();
    if (const std::uint32_t version = number_at(bytes_, 4, 2); version != message_version)
        return Error("Messages of version {} are not understood, but those of version {}.", version,
                     message_version)
            .hint("The command and plumb-consumerd are of different versions: install both of one.")
            .as(EPROTO);
    if (number_at(bytes_, 6, 2) != 0) return Error("The head of a message is damaged.").as(EPROTO);
    const std::size_t length = number_at(bytes_, 8, 4);
    if (length > bytes_max_)
        return Error("A message of {} bytes is too long: {} are possible.", length, bytes_max_).as(EMSGSIZE);
    if (bytes_.size() - message_head_bytes < length) return std::optional<std::string>();
    std::optional<std::string> text = bytes_.substr(message_head_bytes, length);
    bytes_.erase(0, message_head_bytes + length);
    return text;
}

Result<Json> parse_message(std::string_view text) {
    const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) { return depth <= depth_max; };
    Json parsed = Json::parse(text, is_shallow, false);
    if (!parsed.is_object()) return Error("The message is no JSON object.").as(EPROTO);
    return parsed;
}

std::string text_of(const Json& message) {
    return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_utf8(const Json& message) {
    try {
        (void)message.dump();
        return true;
    } catch (const Json::type_error&) {
        return false;
    }
}

Json good_answer(Json result) {
    Json answer = {{"ok", true}};
    answer.update(result);
    return answer;
}

Json bad_answer(const Error& error) {
    return {{"ok", false}, {"error", error.message()}, {"number", error.number()}};
}

Result<Json> result_of_answer(std::string_view text) {
    auto answer = parse_message(text);
    if (!answer) return answer.error().with("plumb-consumerd answers what is not understood");
    const auto is_good = flag_in(*answer, "ok", false);
    if (is_good && *is_good) {
        answer->erase("ok");
        return answer;
    }
    const auto message = text_in(*answer, "error", "plumb-consumerd refused it.");
    const auto number = answer->value("number", Json());
    return Error("{}", message.value_or("plumb-consumerd refused it."))
        .as(number.is_number_integer() ? number.get<int>() : 0);
}

Result<std::string> text_in(const Json& object, const char* name, std::optional<std::string> fallback) {
    const auto found = object.find(name);
    if (found == object.end()) return fallback ? Result<std::string>(*fallback) : missing(name);
    if (!found->is_string()) return wrong_kind(name, "a text");
    std::string text = found->get<std::string>();
    /* Behind it nobody would see anything. */
    if (text.find('\0') != std::string::npos) return wrong_kind(name, "a text without NUL");
    return text;
}

Result<std::uint64_t> number_in(const Json& object, const char* name, std::optional<std::uint64_t> fallback) {
    const auto found = object.find(name);
    if (found == object.end()) return fallback ? Result<std::uint64_t>(*fallback) : missing(name);
    if (!found->is_number_unsigned()) return wrong_kind(name, "a number, 0 or more");
    return found->get<std::uint64_t>();
}

Result<bool> flag_in(const Json& object, const char* name, bool fallback) {
    const auto found = object.find(name);
    if (found == object.end()) return fallback;
    if (!found->is_boolean()) return wrong_kind(name, "true or false");
    return found->get<bool>();
}

} // namespace plumb
