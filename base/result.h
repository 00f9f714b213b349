/*
 * The one way in which the consumer library and the command line report that something failed: a value or an
 * Error, and the compiler complains if nobody looks. No exception leaves a library function.
 *
 * Patterns:
 *
 *   Result<Channel> made = Channel::create(directory, config);      // a function that can fail
 *   if (!made) return made.error();                                 // pass the error on: converts to any
 *   Channel channel = std::move(*made);                             // take the value
 *
 *   Status written = write_all(fd, bytes);                          // nothing to return but success
 *   if (!written) return written.error().with("The trace in {} is not complete", path);
 *
 *   return ok();                                                    // success of a Status
 *   return Error::from_errno(errno, "Could not open {}", path);     // "Could not open X: Permission denied."
 *   return Error("There is no session {}.", name).hint("See `plumb list`.");
 *
 * A message speaks to a person: what was tried, what went wrong, and (hint) what to do. Taking the value of a
 * Result that holds an Error is a bug of the caller and ends the program with the message.
 */
#ifndef PLUMB_BASE_RESULT_H
#define PLUMB_BASE_RESULT_H

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace plumb {

/* "No such file or directory" for ENOENT. */
std::string errno_text(int number);

class Error {
public:
    template <typename... Args>
    explicit Error(fmt::format_string<Args...> format, Args&&... args)
        : message_(fmt::format(format, std::forward<Args>(args)...)) {}

    /* "<what was tried>: <text of the errno>." */
    template <typename... Args>
    static Error from_errno(int number, fmt::format_string<Args...> tried, Args&&... args) {
        Error error("{}: {}.", fmt::format(tried, std::forward<Args>(args)...), errno_text(number));
        error.number_ = number;
        return error;
    }

    /* The same error with what it means for the caller in front. */
    template <typename... Args>
    Error with(fmt::format_string<Args...> format, Args&&... args) const {
        Error error = *this;
        error.message_ = fmt::format(format, std::forward<Args>(args)...) + ": " + message_;
        return error;
    }

    /* The same error with what the reader can do about it behind. */
    template <typename... Args>
    Error hint(fmt::format_string<Args...> format, Args&&... args) const {
        Error error = *this;
        error.message_ += ' ';
        error.message_ += fmt::format(format, std::forward<Args>(args)...);
        return error;
    }

    /* The same error with an errno that callers can tell it by. */
    Error as(int number) const {
        Error error = *this;
        error.number_ = number;
        return error;
    }

    const std::string& message() const { return message_; }
    /* The errno behind it, or 0. */
    int number() const { return number_; }

private:
    std::string message_;
    int number_ = 0;
};

template <typename T>
class [[nodiscard]] Result {
public:
    Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const { return content_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    T& value() {
        require(has_value());
        return *std::get_if<0>(&content_);
    }
    const T& value() const {
        require(has_value());
        return *std::get_if<0>(&content_);
    }
    T& operator*() { return value(); }
    const T& operator*() const { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    T value_or(T otherwise) const { return has_value() ? value() : std::move(otherwise); }

    /* Only if there is no value. */
    const Error& error() const { return *std::get_if<1>(&content_); }

private:
    void require(bool condition) const {
        if (condition) return;
        std::fprintf(stderr, "plumb: a result was used without a look at its error: %s\n",
                     error().message().c_str());
        std::abort();
    }

    std::variant<T, Error> content_;
};

/* A Result of nothing but success. */
using Status = Result<std::monostate>;

inline Status ok() {
    return std::monostate{};
}

} // namespace plumb

#endif
