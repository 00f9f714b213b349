#include "consumerd/kernel/list_text.h"

#include "base/output_buffer.h"

#include <cstddef>

namespace plumb {
namespace {

constexpr std::string_view not_read = "(not read)", dots = "...";
/* So that a record has room for it and for the other strings of the call, whatever has to be escaped. */
constexpr std::size_t list_bytes_max = 32768;
/* Of a byte, as \xNN; and what stands around an element: its quotes, "...", what separates it. */
constexpr std::size_t escape_bytes_max = 4, around_bytes_max = 16;

} // namespace

/* False: there is no room for more. */
bool ListText::begin(unsigned element) {
    if (is_open_) close(true);
    while (elements_ + 1 < element) {
        elements_++;
        put(not_read);
    }
    elements_ = element;
    return !is_cut_;
}

void ListText::put(std::string_view element) {
    if (text_.size() + element.size() + around_bytes_max > list_bytes_max) is_cut_ = true;
    if (is_cut_) return;
    text_ += text_.empty() ? "[" : ", ";
    text_ += element;
}

/* Escaped at once: a character may lie in two pieces. */
void ListText::close(bool is_cut) {
    is_open_ = false;
    const std::size_t used = text_.size() + 2 * around_bytes_max;
    const std::size_t room = used < list_bytes_max ? list_bytes_max - used : 0;
    std::string shown = escaped(open_);
    if (shown.size() > room) {
        is_cut = true;
        shown = escaped(std::string_view(open_).substr(0, room / escape_bytes_max));
    }
    put('"' + shown + '"' + std::string(is_cut ? dots : ""));
    open_.clear();
}

void ListText::add(unsigned element, std::string_view piece, bool goes_on) {
    if (element != elements_ || !is_open_) {
        if (!begin(element)) return;
        is_open_ = true;
    }
    if (open_.size() < list_bytes_max) open_ += piece;
    if (!goes_on) close(false);
}

void ListText::add_not_read(unsigned element) {
    if (element == elements_ && is_open_)
        close(true);
    else if (begin(element))
        put(not_read);
}

void ListText::end(unsigned element, End how) {
    if (how == End::not_read && element == 1) {
        text_ = not_read;
        is_ended_ = true;
        return;
    }
    (void)begin(element);
    if (how == End::not_read) put(not_read);
    if (text_.empty()) text_ = '[';
    if (how != End::whole || is_cut_) text_ += text_.size() > 1 ? ", ..." : "...";
    text_ += ']';
    is_ended_ = true;
}

void ListText::end_untold() {
    if (is_ended_ || elements_ == 0) return;
    end(elements_ + 1, End::more);
}

} // namespace plumb
