#include "consumerd/kernel/syscall_texts.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace plumb {
namespace {

/* Nanoseconds, or cycles: some milliseconds. A call's event comes some microseconds behind what was told of it. */
constexpr std::uint64_t told_together_limit = 10'000'000;
/* Threads whose call was told and did not come: since a filter left it out, or it is of another kind of process. */
constexpr std::size_t waiting_threads_max = 1 << 16;
/* More than any path; what says otherwise is damaged. */
constexpr std::size_t text_bytes_max = 8192;

} // namespace

TextTag TextTag::from(std::uint64_t number) {
    const auto bits = [number](unsigned shift, unsigned count) {
        return static_cast<std::uint32_t>(number >> shift & ((1u << count) - 1));
    };
    TextTag tag;
    tag.call = bits(call_shift, call_bits);
    tag.index = static_cast<std::uint8_t>(bits(0, index_bits));
    tag.element = static_cast<std::uint8_t>(bits(element_shift, element_bits));
    tag.is_end = bits(end_shift, 1) != 0;
    tag.is_further = bits(further_shift, 1) != 0;
    tag.is_late = (number >> late_shift & 1) != 0;
    tag.state = static_cast<State>(number >> state_shift & 3);
    return tag;
}

std::optional<ToldText> told_text(std::string_view message, std::string_view marker) {
    if (!message.starts_with(marker)) return {};
    message.remove_prefix(marker.size());
    if (!message.starts_with(' ')) return {};
    message.remove_prefix(1);
    std::uint64_t number = 0;
    const char* const end = message.data() + message.size();
    const auto [behind, wrong] = std::from_chars(message.data(), end, number, 16);
    if (wrong != std::errc() || behind == end || *behind != ':') return {};
    message.remove_prefix(static_cast<std::size_t>(behind - message.data()) + 1);
    return ToldText{TextTag::from(number), message};
}

void TextsOfCall::add(const ToldText& told) {
    if (told.tag.index >= texts_.size()) return;
    /* What is left of another call, or of the same call before it: that was in nobody's way. */
    const Text& before = texts_[told.tag.index];
    const bool is_other = told.tag.element != 0 && before.list && !before.list->takes(told.tag.element);
    const bool begins_again = told.tag.element == 0 && before.is_told && !told.tag.is_further;
    if (call_ != told.tag.call || before.is_whole || is_other || begins_again) texts_ = {};
    call_ = told.tag.call;
    Text& text = texts_[told.tag.index];
    const bool is_beheaded = told.tag.is_further && !text.is_continued_by(told.tag);
    text.goes_on = told.tag.state == TextTag::State::goes_on && !is_beheaded;
    text.element = told.tag.element;
    if (told.tag.element != 0) return add_element(text, told, is_beheaded);
    const bool begins = !text.is_told;
    text.is_told = true;
    text.is_whole = told.tag.state != TextTag::State::goes_on;
    if (is_beheaded) {
        text.text = text_not_read;
        return;
    }
    switch (told.tag.state) {
    case TextTag::State::null:
        text.text = null_text;
        break;
    case TextTag::State::not_read:
        text.text += begins ? text_not_read : text_goes_on;
        break;
    default:
        if (text.text.size() < text_bytes_max) text.text += told.text;
        break;
    }
}

void TextsOfCall::add_element(Text& text, const ToldText& told, bool is_beheaded) {
    using State = TextTag::State;
    const State state = told.tag.state;
    text.is_told = true;
    if (!text.list) text.list = std::make_unique<ListText>();
    if (!told.tag.is_end) {
        if (state == State::not_read || state == State::null || is_beheaded)
            text.list->add_not_read(told.tag.element);
        else
            text.list->add(told.tag.element, told.text, state == State::goes_on);
        return;
    }
    text.list->end(told.tag.element, state == State::whole     ? ListText::End::whole
                                     : state == State::goes_on ? ListText::End::more
                                                               : ListText::End::not_read);
    text.is_whole = true;
    text.text = text.list->text();
}

void TextsOfCall::end() {
    for (Text& text : texts_) {
        if (!text.list || text.is_whole) continue;
        text.list->end_untold();
        text.text = text.list->text();
    }
}

std::size_t TextsOfCall::longest() const {
    std::size_t longest = text_not_read.size();
    for (const Text& text : texts_)
        longest = std::max(longest, text.text.size());
    return longest;
}

bool TextsOfThreads::may_be_of_one_call(const Told& told, std::uint64_t timestamp) const {
    if (timestamp < told.last) return false;
    return timestamp - told.last <= told_together_limit || (has_lost_events_ && !has_lost_events_());
}

const TextsOfCall& TextsOfThreads::add(std::uint32_t cpu, std::uint32_t thread_id, const ToldText& told,
                                       std::uint64_t timestamp) {
    if (texts_.size() >= waiting_threads_max) texts_.clear();
    cpu_count_ = std::max(cpu_count_, cpu + 1);
    const auto [found, is_first] = texts_.try_emplace(place(cpu, thread_id));
    Told& kept = found->second;
    if (!is_first && !may_be_of_one_call(kept, timestamp)) kept.texts = {};
    kept.last = timestamp;
    kept.texts.add(told);
    return kept.texts;
}

namespace {

TextsOfCall whole(TextsOfCall texts) {
    texts.end();
    return texts;
}

} // namespace

TextsOfCall TextsOfThreads::take(std::uint32_t cpu, std::uint32_t thread_id, std::uint32_t call,
                                 std::uint64_t timestamp) {
    if (const auto here = texts_.find(place(cpu, thread_id)); here != texts_.end()) {
        Told kept = std::move(here->second);
        texts_.erase(here);
        if (kept.texts.is_of(call) && may_be_of_one_call(kept, timestamp))
            return whole(std::move(kept.texts));
    }
    for (std::uint32_t other = 0; other < cpu_count_ && !texts_.empty(); other++) {
        const auto there = texts_.find(place(other, thread_id));
        if (there == texts_.end() || !there->second.texts.is_of(call)) continue;
        if (timestamp < there->second.last || timestamp - there->second.last > told_together_limit) continue;
        Told kept = std::move(there->second);
        texts_.erase(there);
        return whole(std::move(kept.texts));
    }
    return {};
}

} // namespace plumb
