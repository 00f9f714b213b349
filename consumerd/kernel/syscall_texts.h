/*
 * File names and other strings of system calls. The kernel's events hold pointers into the program alone. So a BPF program
 * runs before them (syscall_text_program.h), reads what they point to, and tells it by bpf_trace_printk: an event of the
 * instance, on the same CPU, by the same thread, directly before the call's own:
 *
 *   bpf_trace_printk: "plumb_r812_1b_1_00000000feedc0de 10101:/etc/passwd"
 *                      ^ the instance's name              ^ TextTag, hexadecimal
 *   sys_enter_openat: dfd, filename = 0x7ffe5c3b, ...
 *
 * A page of the program that is not in memory is not read then: nothing may wait there. Once the call has come back the
 * page is in memory, mostly, since the kernel has read it: so the program looks again, and tells it late. Strings longer
 * than a piece come in several.
 *
 * Of a list of strings, argv, each is told by itself, with its number, and the end, or why there is none, with the next number.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_SYSCALL_TEXTS_H
#define PLUMB_CONSUMERD_KERNEL_SYSCALL_TEXTS_H

#include "consumerd/kernel/list_text.h"
#include "consumerd/kernel/syscall_arguments.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace plumb {

/* What stands before each text, as a number. */
struct TextTag {
    enum class State : std::uint8_t { whole, goes_on, null, not_read };
    static constexpr unsigned index_bits = 3, state_shift = 3, end_shift = 5, further_shift = 6,
                              late_shift = 7, call_shift = 8, call_bits = 10, element_shift = 18,
                              element_bits = 6;

    std::uint32_t call = 0;   /* its number */
    std::uint8_t index = 0;   /* of the argument */
    std::uint8_t element = 0; /* of a list, from 1; 0: it is none, or all of it */
    bool is_end = false;      /* of the list: whole; goes_on: there are more; not_read: perhaps */
    bool is_further = false;  /* a piece behind the first */
    bool is_late = false;     /* where the call returned */
    State state = State::whole;

    static TextTag from(std::uint64_t number);
};

/* What is shown of a pointer that leads nowhere; of what could not be read, or was lost; behind what was read in part. */
constexpr std::string_view null_text = "(null)", text_not_read = "(not read)", text_goes_on = "...";

struct ToldText {
    TextTag tag;
    std::string_view text;
};
/* Nothing if the message of bpf_trace_printk is somebody else's. */
std::optional<ToldText> told_text(std::string_view message, std::string_view marker);

/* Of the call that a thread is in. */
class TextsOfCall {
public:
    void add(const ToldText& told);
    bool is_of(std::uint32_t call) const { return call_ == call; }
    bool is_told(unsigned index) const { return index < texts_.size() && texts_[index].is_told; }
    bool is_whole(unsigned index) const { return index < texts_.size() && texts_[index].is_whole; }
    /* Nothing more will be told. */
    void end();
    std::size_t longest() const; /* of what text() may say */
    /* text_not_read if nothing was told of it. */
    std::string_view text(unsigned index) const {
        return is_told(index) ? std::string_view(texts_[index].text) : text_not_read;
    }

private:
    struct Text {
        bool is_told = false;
        bool is_whole = false;
        std::string text;
        std::unique_ptr<ListText> list; /* if it is one */
        bool goes_on = false;           /* the last piece said so, of this element of a list */
        std::uint8_t element = 0;
        /* Not of what was lost before it. */
        bool is_continued_by(const TextTag& tag) const { return goes_on && element == tag.element; }
    };
    static void add_element(Text& text, const ToldText& told, bool is_beheaded);

    std::uint32_t call_ = 0;
    std::array<Text, syscall_arguments_max> texts_;
};

/* What was told of calls whose event has not come yet. By CPU: the buffers are not read in the order of time, so what was told
 * of a thread's call may come before the event of its last one, on the CPU where it was then.
 *
 * What was told long before may be of another call, if the event of that one and what was told of this one were lost. Where
 * nothing was, it is of this one: the machine stood still in between, as one does whose processors another has, too. */
class TextsOfThreads {
public:
    /* Asked about what was told long before. Without it something counts as lost. */
    void ask_for_losses(std::function<bool()> has_lost_events) {
        has_lost_events_ = std::move(has_lost_events);
    }

    const TextsOfCall& add(std::uint32_t cpu, std::uint32_t thread_id, const ToldText& told,
                           std::uint64_t timestamp);
    /* Takes them: of this call, or none. A thread may have been moved here since they were told. */
    TextsOfCall take(std::uint32_t cpu, std::uint32_t thread_id, std::uint32_t call, std::uint64_t timestamp);
    /* Events were lost, of whichever CPU: what was told before may be of a call that was among them, and its thread may be elsewhere by now. */
    void forget() { texts_.clear(); }

private:
    struct Told {
        TextsOfCall texts;
        std::uint64_t last = 0;
    };
    static std::uint64_t place(std::uint32_t cpu, std::uint32_t thread_id) {
        return std::uint64_t{cpu} << 32 | thread_id;
    }
    bool may_be_of_one_call(const Told& told, std::uint64_t timestamp) const;

    std::unordered_map<std::uint64_t, Told> texts_;
    std::uint32_t cpu_count_ = 0; /* up to the last one where something was told */
    std::function<bool()> has_lost_events_;
};

} // namespace plumb

#endif
