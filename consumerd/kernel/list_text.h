/*
 * The text of a list of strings that a system call was given, argv of execve(), put together from what is told of its
 * elements one after the other (syscall_texts.h):
 *
 *   ["ls", "-l", "a \"b\"\n\xff"]      escaped as in C: so the text is UTF-8 without control characters
 *   ["sh", "-c", "very lo"..., ...]    one that was cut, and there were more
 *   ["ls", (not read), "-l"]           one whose page was not in memory, or what told it was lost
 */
#ifndef PLUMB_CONSUMERD_KERNEL_LIST_TEXT_H
#define PLUMB_CONSUMERD_KERNEL_LIST_TEXT_H

#include <string>
#include <string_view>

namespace plumb {

class ListText {
public:
    enum class End : unsigned char { whole, more, not_read };

    /* Elements are numbered from 1. False: what is told of this one can only be of another list. */
    bool takes(unsigned element) const { return element > elements_ || (element == elements_ && is_open_); }
    /* Of those before it that were not told, it is said that they were not read. `goes_on`: a piece of it. */
    void add(unsigned element, std::string_view piece, bool goes_on);
    void add_not_read(unsigned element);
    /* `element`: the one that is not there, or was not told. */
    void end(unsigned element, End how);
    /* Where its end was not told, if anything was. */
    void end_untold();

    bool is_ended() const { return is_ended_; }
    const std::string& text() const { return text_; } /* once it is ended */

private:
    bool begin(unsigned element);
    void close(bool is_cut);
    void put(std::string_view element);

    std::string text_;
    std::string open_; /* the element that goes on, as it is */
    unsigned elements_ = 0;
    bool is_open_ = false;
    bool is_cut_ = false;
    bool is_ended_ = false;
};

} // namespace plumb

#endif
