/*
 * Members of a JSON object that somebody else has written, a description of a session or a request, read one after the other: each
 * is of the type that it has to be, and the first that is not is told.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_MEMBERS_H
#define PLUMB_CONSUMERD_DAEMON_MEMBERS_H

#include "base/result.h"
#include "consumerd/daemon/message.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace plumb {

/* What is not known here is refused, and not passed over: it may have been meant. */
inline Status check_keys(const Json& object, std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : object.items())
        if (std::find(known.begin(), known.end(), key) == known.end())
            return Error("\"{}\" is not known here.", key)
                .hint("Is it of a newer version, or a slip?")
                .as(EINVAL);
    return ok();
}

/* Reads one member after the other; the first error is kept. */
class Members {
public:
    explicit Members(const Json& object) : object_(object) {}
    bool has(const char* name) const { return object_.contains(name); }
    std::string text(const char* name, std::optional<std::string> fallback = {}) {
        return take(text_in(object_, name, std::move(fallback)));
    }
    std::uint64_t number(const char* name, std::optional<std::uint64_t> fallback = {}) {
        return take(number_in(object_, name, fallback));
    }
    std::uint32_t small_number(const char* name, std::uint32_t fallback) {
        const std::uint64_t value = number(name, fallback);
        if (value > std::numeric_limits<std::uint32_t>::max()) refuse(Error("\"{}\" is too large.", name));
        return static_cast<std::uint32_t>(value);
    }
    bool flag(const char* name, bool fallback) { return take(flag_in(object_, name, fallback)); }
    void refuse(const Error& error) {
        if (!problem_) problem_ = error.as(EINVAL);
    }
    Status status() const { return problem_ ? Status(*problem_) : ok(); }

private:
    template <typename T>
    T take(Result<T> result) {
        if (result) return std::move(*result);
        refuse(result.error());
        return T{};
    }
    const Json& object_;
    std::optional<Error> problem_;
};

} // namespace plumb

#endif
