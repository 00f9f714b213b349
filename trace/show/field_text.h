/*
 * An event's fields as text: `id = 1, status = sent (1), flags = O_RDWR|O_CLOEXEC`. What is the same each time, a field's name and what
 * stands around its value, is put together once.
 */
#ifndef PLUMB_TRACE_SHOW_FIELD_TEXT_H
#define PLUMB_TRACE_SHOW_FIELD_TEXT_H

#include "base/output_buffer.h"
#include "trace/show/event_writer.h"
#include "trace/show/late_texts.h"
#include "trace/stack_frames.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct Colors {
    std::string_view time, event, name, text, end;
};
inline constexpr Colors no_colors{"", "", "", "", ""};
inline constexpr Colors some_colors{"\x1b[32m", "\x1b[1;35m", "\x1b[36m", "\x1b[33m", "\x1b[0m"};

std::string_view base_prefix(const Step& step);

/* The list of strings that execve() is given: a text with quotes and escapes of its own, `["ls", "-l"]`. */
const Step* list_of(const EventInfo& info);

/* Shown without other quotes around it; whatever the trace has there, it can not steer a terminal. */
void put_list(OutputBuffer& out, std::string_view list);

/* Every piece starts with the comma and the blank that separate it from the one before. The quote of a string that may be
 * a list is not part of it. */
StepPieces make_pieces(const Plan& plan, const Colors& colors, const Step* list = nullptr);

class FieldPrinter {
public:
    /* `names`: of the steps' numbers, as many as steps, or none. */
    FieldPrinter(OutputBuffer& out, const Plan& plan, const StepPieces& pieces, const Colors& colors,
                 const StepNames* names = nullptr, const Step* list = nullptr,
                 const LateTexts* late = nullptr, const std::vector<std::string>* frames = nullptr)
        : out_(out),
          steps_(plan.steps.data()),
          pieces_(pieces.data()),
          colors_(colors),
          names_(names == nullptr || names->empty() ? nullptr : names->data()),
          list_(list),
          late_(late),
          frames_(frames) {}

    void integer(const Step& step, uint64_t value) {
        if (step.is_length) return;
        if (is_in_stack_ && next_frame_ < frames_->size()) {
            out_.put(first_ ? " " : ", "); /* without what stands before a number */
            first_ = false;
            put_escaped(out_, (*frames_)[next_frame_++]);
            return;
        }
        if (step.labels != nullptr) {
            labelled(step, value);
            return;
        }
        if (names_ != nullptr && named(step, value)) return;
        const TextPiece& piece = pieces_[&step - steps_];
        char* const at = out_.room(piece.size() + TextPiece::block_bytes + 72);
        char* const number = piece.copy_to(at, skip());
        out_.wrote(convert(step, value, number));
    }
    void floating(const Step& step, double value) {
        lead(step);
        char* const at = out_.room(40);
        /* The shortest text that is this value again, as the type it was recorded with. */
        out_.wrote(step.size_bits == 32 ? std::to_chars(at, at + 40, static_cast<float>(value)).ptr
                                        : std::to_chars(at, at + 40, value).ptr);
    }
    void text(const Step& step, std::string_view value) {
        lead(step);
        if (late_ != nullptr) value = late_->instead_of(step.name, value);
        if (&step == list_ && value.starts_with('[')) {
            put_list(out_, value);
        } else {
            if (&step == list_) out_.put('"');
            put_escaped(out_, value);
            out_.put('"');
        }
        out_.put(colors_.end);
    }
    void begin(const Step& step, uint64_t) {
        lead(step);
        first_ = true;
        is_in_stack_ = frames_ != nullptr && StackStep::is_stack(step);
    }
    void end(const Step& step) {
        is_in_stack_ = false;
        if (!first_) out_.put(' ');
        out_.put(step.kind == StepKind::array ? ']' : '}');
        first_ = false;
    }

private:
    /* The first part of a list has a blank in front and no comma. */
    std::size_t skip() {
        const std::size_t skipped = first_ ? 1 : 0;
        first_ = false;
        return skipped;
    }
    void lead(const Step& step) { out_.put(pieces_[&step - steps_], skip()); }
    static char* convert(const Step& step, uint64_t value, char* at) {
        char* const limit = at + 72;
        if (step.base == 10)
            return step.is_signed ? std::to_chars(at, limit, static_cast<int64_t>(value)).ptr
                                  : std::to_chars(at, limit, value).ptr;
        if (step.size_bits < 64) value &= (uint64_t{1} << step.size_bits) - 1;
        return std::to_chars(at, limit, value, step.base).ptr;
    }
    /* flags = O_RDWR|O_CLOEXEC, ret = -2 (ENOENT), or false */
    bool named(const Step& step, uint64_t value) {
        const std::string text = names_[&step - steps_].text_of(value, step.size_bits);
        if (text.empty()) return false;
        lead(step);
        out_.put(text);
        return true;
    }
    /* status = sent (1), or only the number */
    void labelled(const Step& step, uint64_t value) {
        lead(step);
        const bool is_known = get_label(step, value, label_);
        if (is_known) {
            put_escaped(out_, label_);
            out_.put(" (");
        }
        out_.put(base_prefix(step));
        char* const at = out_.room(72);
        out_.wrote(convert(step, value, at));
        if (is_known) out_.put(')');
    }

    OutputBuffer& out_;
    const Step* steps_;
    const TextPiece* pieces_;
    const Colors& colors_;
    std::string label_;
    const FieldNames* names_;
    const Step* list_;
    const LateTexts* late_;
    const std::vector<std::string>* frames_; /* of the call stack, in place of its addresses */
    std::size_t next_frame_ = 0;
    bool is_in_stack_ = false;
    bool first_ = true;
};

} // namespace plumb

#endif
