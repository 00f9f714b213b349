#include "consumerd/kernel/syscall_texts.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace plumb {
namespace {

/* Threads whose call was told and did not come: since a filter left it out, or it is of another kind of process. */
/* Nanoseconds, or cycles: some milliseconds. A call's event comes some microseconds behind what was told of it. */
constexpr std::uint64_t told_together_limit = 10'000'000;
constexpr std::size_t waiting_threads_max = 1 << 16;
/* More than any path; what says otherwise is damaged. */
constexpr std::size_t text_bytes_max = 8192;

} // namespace

TextTag TextTag::from(std::uint64_t number) {
    TextTag tag;
    tag.call = static_cast<std::uint32_t>(number >> call_shift);
    tag.index = static_cast<std::uint8_t>(number & ((1u << index_bits) - 1));
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
    if (call_ != told.tag.call || texts_[told.tag.index].is_whole) texts_ = {};
    call_ = told.tag.call;
    Text& text = texts_[told.tag.index];
    const bool begins = !text.is_told;
    text.is_told = true;
    text.is_whole = told.tag.state != TextTag::State::goes_on;
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

std::size_t TextsOfCall::longest() const {
    std::size_t longest = text_not_read.size();
    for (const Text& text : texts_)
        longest = std::max(longest, text.text.size());
    return longest;
}

const TextsOfCall& TextsOfThreads::add(std::uint32_t thread_id, const ToldText& told,
                                       std::uint64_t timestamp) {
    if (texts_.size() >= waiting_threads_max) texts_.clear();
    Told& kept = texts_[thread_id];
    if (timestamp - kept.last > told_together_limit) kept.texts = {};
    kept.last = timestamp;
    kept.texts.add(told);
    return kept.texts;
}

TextsOfCall TextsOfThreads::take(std::uint32_t thread_id, std::uint32_t call, std::uint64_t timestamp) {
    const auto found = texts_.find(thread_id);
    if (found == texts_.end()) return {};
    const Told kept = std::move(found->second);
    texts_.erase(found);
    const bool is_near = timestamp - kept.last <= told_together_limit;
    return is_near && kept.texts.is_of(call) ? kept.texts : TextsOfCall();
}

} // namespace plumb
