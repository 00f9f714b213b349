/* Events as lines of text; see event_writer.h. */
#include "trace/show/event_writer.h"

#include "trace/stack_frames.h"

#include <algorithm>
#include <map>
#include <set>

namespace plumb {
namespace {

struct Colors {
    std::string_view time, event, name, text, end;
};
constexpr Colors no_colors{"", "", "", "", ""};
constexpr Colors some_colors{"\x1b[32m", "\x1b[1;35m", "\x1b[36m", "\x1b[33m", "\x1b[0m"};

std::string_view base_prefix(const Step& step) {
    return step.base == 16 ? "0x" : step.base == 8 ? "0" : step.base == 2 ? "0b" : "";
}

/* The list of strings that execve() is given: a text with quotes and escapes of its own, `["ls", "-l"]`. */
const Step* list_of(const EventInfo& info) {
    if (info.name != "syscall_entry_execve" && info.name != "syscall_entry_execveat") return nullptr;
    for (const Step& step : info.fields.steps)
        if (step.kind == StepKind::string && step.name == "argv") return &step;
    return nullptr;
}

/* Shown without other quotes around it; whatever the trace has there, it can not steer a terminal. */
void put_list(OutputBuffer& out, std::string_view list) {
    const std::string text = escaped(list);
    for (std::size_t at = 0; at < text.size(); at++) {
        const bool is_escape = text[at] == '\\' && at + 1 < text.size();
        if (is_escape && (text[at + 1] == '"' || text[at + 1] == '\\'))
            at++;
        else if (is_escape)
            out.put(text[at++]);
        out.put(text[at]);
    }
}

/* Every piece starts with the comma and the blank that separate it from the one before. The quote of a string that may be
 * a list is not part of it. */
StepPieces make_pieces(const Plan& plan, const Colors& colors, const Step* list = nullptr) {
    StepPieces pieces;
    pieces.reserve(plan.steps.size());
    for (const Step& step : plan.steps) {
        std::string text = ", ";
        if (!step.name.empty()) text += fmt::format("{}{}{} = ", colors.name, escaped(step.name), colors.end);
        if (step.kind == StepKind::integer && step.labels == nullptr) text += base_prefix(step);
        if (step.kind == StepKind::array) text += '[';
        if (step.kind == StepKind::structure) text += '{';
        if (step.kind == StepKind::string || step.kind == StepKind::text)
            text += fmt::format("{}{}", colors.text, &step == list ? "" : "\"");
        pieces.emplace_back(text);
    }
    return pieces;
}

/* Strings of a system call that Plumb could read only where it returned, of lists also those of which it could read a part
 * before: events of their own, each with the names of the call and of the argument, and the text. */
constexpr std::string_view late_text_event = "syscall_late_text";

class LateTexts : public SkipVisitor {
public:
    /* The texts stay in the event's bytes. False: it is one of another call. */
    bool add(const Event& event, std::string_view call) {
        parts_.clear();
        (void)visit_fields(event, *this);
        if (parts_.size() != 3 || parts_[0] != call) return false;
        texts_.insert_or_assign(parts_[1], parts_[2]);
        return true;
    }
    void text(const Step&, std::string_view value) { parts_.push_back(value); }
    std::string_view instead_of(std::string_view argument, std::string_view otherwise) const {
        const auto found = texts_.find(argument);
        return found == texts_.end() ? otherwise : found->second;
    }

private:
    std::vector<std::string_view> parts_;
    std::map<std::string_view, std::string_view> texts_;
};

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

class TextWriter : public EventWriter {
public:
    TextWriter(const TraceReader& reader, OutputBuffer& out, TextStyle style)
        : reader_(reader),
          out_(out),
          colors_(style.color ? some_colors : no_colors),
          pairs_(style.pairs),
          min_duration_ns_(style.min_duration_ns),
          lines_max_(style.lines_max),
          losses_(std::move(style.losses)),
          frames_(reader),
          time_(style.time, reader.start_ns(), reader.monotonic_zero_ns().value_or(0)),
          time_end_(fmt::format("{}] (", colors_.end)),
          time_begin_(fmt::format("[{}", colors_.time)) {
        for (const EventInfo* info : reader.event_infos())
            events_.push_back(
                {TextPiece(fmt::format(") {}{}{}:", colors_.event, escaped(info->name), colors_.end)),
                 make_pieces(info->context, colors_),
                 make_pieces(info->fields, colors_, list_of(*info)),
                 names_of_steps(*info),
                 list_of(*info),
                 StackStep(*info),
                 {},
                 false,
                 false,
                 false,
                 false,
                 false,
                 false,
                 false});
        if (!pairs_) return;
        std::set<RecordedCall> with_exit;
        for (const EventInfo* info : reader.event_infos())
            if (info->name.starts_with(exit_start))
                with_exit.emplace(reader.recording_of(*info), info->name.substr(exit_start.size()));
        for (const EventInfo* info : reader.event_infos())
            note_system_call(*info, with_exit, events_[info->index]);
    }

    void write(const Event& event) override {
        newest_ns_ = event.time_ns;
        EventPieces& pieces = events_[event.info->index];
        if (pieces.is_call && event.thread_id == 0)
            ++threadless_calls_;
        else if (pieces.is_call && take_call(event, pieces))
            return;
        else if (pieces.is_lone_entry)
            drop_call(event);
        if (min_duration_ns_ != 0) return;
        write_head(event, pieces.head);
        write_fields(event);
        out_.put('\n');
    }

    void pass_over(const Event& event) override {
        newest_ns_ = event.time_ns;
        const EventPieces& pieces = events_[event.info->index];
        if ((!pieces.is_exit && !pieces.is_late_text) || entries_.empty()) return;
        const auto entry = entries_.find({reader_.recording_of(event), event.thread_id});
        if (entry == entries_.end()) return;
        if (pieces.is_late_text) {
            (void)entry->second.late.add(event, call_of(entry->second.entry));
            return;
        }
        if (event.time_ns - entry->second.entry.time_ns >= min_duration_ns_) write_entry(entry->second, "");
        entries_.erase(entry);
    }

    void continue_after(std::optional<int64_t> last_ns) override {
        last_ns_known_ = last_ns.has_value();
        last_ns_ = last_ns.value_or(0);
    }

    void finish() override {
        std::vector<const OpenCall*> left;
        for (const auto& [thread, call] : entries_)
            left.push_back(&call);
        std::sort(left.begin(), left.end(),
                  [](const OpenCall* a, const OpenCall* b) { return a->entry.time_ns < b->entry.time_ns; });
        for (const OpenCall* call : left)
            if ((lines_max_ == 0 || lines_ < lines_max_) &&
                newest_ns_ - call->entry.time_ns >= min_duration_ns_)
                write_entry(*call, " <unfinished>");
        entries_.clear();
    }

private:
    struct EventPieces {
        TextPiece head;
        StepPieces context;
        StepPieces fields;
        StepNames names;
        const Step* list;
        StackStep stack;
        TextPiece system_call; /* the head of the pair's line; pieces of entry and exit are equal */
        bool is_call = false;  /* one of these: */
        bool is_entry = false;
        bool is_exit = false;
        bool is_late_text = false;
        bool is_lone_entry = false; /* none of these: it has a line of its own */
        bool is_execveat = false;
        bool ends_exec =
            false; /* also that of execveat(): a program that begins has come from execve(), for the kernel */
    };
    struct OpenCall {
        Event entry;
        LateTexts late;
    };

    using ThreadKey = std::pair<uint32_t, uint32_t>; /* recording, thread */

    /* A thread that calls exec() gets its process's number by it: the call returns to another thread than it came from. */
    std::map<ThreadKey, OpenCall>::iterator exec_of_another_thread(const Event& exit) {
        return std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) {
            const auto& [thread, call] = each;
            if (thread.first != reader_.recording_of(exit) || !is_exec(call)) return false;
            const ThreadRecord* const caller = reader_.thread_of(call.entry, thread_cache_);
            return caller != nullptr && caller->process_id == exit.thread_id;
        });
    }

    /* What is a part of a pair's line; false: it has a line of its own. */
    bool take_call(const Event& event, const EventPieces& pieces) {
        if (pieces.is_entry) {
            /* The bytes of an event stay where they are, in the mapped file. */
            const ThreadKey thread(reader_.recording_of(event), event.thread_id);
            drop_call(event);
            entries_.insert_or_assign(thread, OpenCall{event, {}});
            return true;
        }
        auto entry = entries_.find({reader_.recording_of(event), event.thread_id});
        if (pieces.ends_exec && (entry == entries_.end() || !is_exec(entry->second)))
            if (const auto of_thread = exec_of_another_thread(event); of_thread != entries_.end()) {
                drop_call(event); /* who had the number until then has ended */
                entry = of_thread;
            }
        if (entry == entries_.end()) return false;
        if (pieces.is_late_text) return entry->second.late.add(event, call_of(entry->second.entry));
        const EventPieces& begun = events_[entry->second.entry.info->index];
        const bool is_its_exit =
            begun.system_call.text() == pieces.system_call.text() || (begun.is_execveat && pieces.ends_exec);
        if (!is_its_exit) {
            drop_call(event);
            return false;
        }
        if (event.time_ns - entry->second.entry.time_ns >= min_duration_ns_) write_pair(entry->second, event);
        entries_.erase(entry);
        return true;
    }

    bool is_exec(const OpenCall& call) const { return call_of(call.entry).starts_with("execve"); }

    static constexpr std::string_view entry_start = "syscall_entry_", exit_start = "syscall_exit_";
    using RecordedCall = std::pair<uint32_t, std::string>; /* recording, name of the call */

    static std::string_view call_of(const Event& entry) {
        return std::string_view(entry.info->name).substr(entry_start.size());
    }

    void note_system_call(const EventInfo& info, const std::set<RecordedCall>& with_exit,
                          EventPieces& pieces) {
        pieces.is_entry = info.name.starts_with(entry_start);
        pieces.is_exit = info.name.starts_with(exit_start);
        pieces.is_late_text = info.name == late_text_event;
        /* These do not return (rt_sigreturn goes on with what the signal interrupted): they are written where they are. */
        if (info.name == "syscall_entry_exit" || info.name == "syscall_entry_exit_group" ||
            info.name == "syscall_entry_rt_sigreturn")
            pieces.is_lone_entry = true;
        const std::string name = info.name.substr(pieces.is_entry  ? entry_start.size()
                                                  : pieces.is_exit ? exit_start.size()
                                                                   : 0);
        /* Nor is it known that these do: their exits were not recorded. */
        if (pieces.is_entry && with_exit.count({reader_.recording_of(info), name}) == 0)
            pieces.is_lone_entry = true;
        if (pieces.is_lone_entry) pieces.is_entry = false;
        pieces.is_execveat = info.name == "syscall_entry_execveat";
        pieces.ends_exec = info.name == "syscall_exit_execve";
        pieces.is_call = pieces.is_entry || pieces.is_exit || pieces.is_late_text;
        if (!pieces.is_entry && !pieces.is_exit) return;
        pieces.system_call = TextPiece(fmt::format(") {}{}{}:", colors_.event, escaped(name), colors_.end));
    }

    void write_pair(const OpenCall& call, const Event& exit) {
        const Event& entry = call.entry;
        write_head(exit, events_[entry.info->index].system_call);
        write_fields(entry, &call.late);
        out_.put(" ->");
        write_fields(exit);
        out_.put(" after ");
        put_duration(exit.time_ns - entry.time_ns);
        if (were_lost(entry, exit)) out_.put(" <events were lost meanwhile>");
        out_.put('\n');
    }

    /* Then it may be the exit of a later call. Within a packet none are missing of its own stream; but the thread may have been
     * on another processor meanwhile. */
    bool were_lost(const Event& entry, const Event& exit) const {
        return std::any_of(losses_.begin(), losses_.end(), [&](const StreamLossPlaces& stream) {
            if (entry.packet == exit.packet && stream.has(entry.packet)) return false;
            const auto behind =
                std::partition_point(stream.places.begin(), stream.places.end(),
                                     [&](const LossPlace& place) { return place.until_ns < entry.time_ns; });
            return behind != stream.places.end() && behind->from_ns <= exit.time_ns;
        });
    }

    void write_entry(const OpenCall& call, std::string_view mark) {
        write_head(call.entry, events_[call.entry.info->index].head);
        write_fields(call.entry, &call.late);
        out_.put(mark);
        out_.put('\n');
    }

    /* The thread that wrote this is not in a call that began before: its exit was lost, and nobody knows how long it took.
     */
    void drop_call(const Event& event) {
        const auto before = entries_.find({reader_.recording_of(event), event.thread_id});
        if (before == entries_.end()) return;
        if (min_duration_ns_ == 0) write_entry(before->second, " <exit not seen>");
        entries_.erase(before);
    }

    void put_duration(int64_t ns) {
        out_.put(fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000));
    }

    void write_head(const Event& event, const TextPiece& head) {
        ++lines_;
        out_.put(time_begin_);
        time_.set_monotonic_zero(reader_.monotonic_zero_ns(*event.info));
        time_.put_time(out_, event.time_ns);
        out_.put(time_end_);
        if (last_ns_known_)
            TimeFormat::put_difference(out_, event.time_ns, last_ns_);
        else
            out_.put("+?.?????????");
        last_ns_ = event.time_ns;
        last_ns_known_ = true;
        out_.put(head);
        if (event.cpu != no_cpu) {
            out_.put(cpu_);
            out_.put_integer(event.cpu);
            out_.put(" },");
        }
        if (event.stream->is_plumb_record())
            write_thread(event);
        else
            write_stream_context(event);
        if (!event.info->context.empty()) write_event_context(event, events_[event.info->index]);
    }

    void write_fields(const Event& event, const LateTexts* late = nullptr) {
        const EventPieces& pieces = events_[event.info->index];
        out_.put(" {");
        FieldPrinter printer(out_, event.info->fields, pieces.fields, colors_, &pieces.names, pieces.list,
                             late);
        const bool whole = visit_fields(event, printer);
        if (!whole) {
            ++damaged_events_;
            out_.put(" <the event ends here, too early>");
        }
        out_.put(" }");
    }

    std::string thread_text(const ThreadRecord& thread) const {
        return fmt::format(" {{ {}comm{} = {}\"{}\"{}, {}pid{} = {}, {}tid{} = {} }},", colors_.name,
                           colors_.end, colors_.text, escaped(thread.name), colors_.end, colors_.name,
                           colors_.end, thread.process_id, colors_.name, colors_.end, thread.thread_id);
    }

    void write_thread(const Event& event) {
        if (const ThreadRecord* const thread = reader_.thread_of(event, thread_cache_)) {
            out_.put(threads_.of(*thread, [this](const ThreadRecord& t) { return thread_text(t); }));
            return;
        }
        out_.put(tid_);
        out_.put_integer(event.thread_id);
        out_.put(" },");
    }

    void write_stream_context(const Event& event) {
        const Plan& stream_plan = event.stream->event_context;
        if (stream_plan.empty()) return;
        StepPieces& stream_pieces = contexts_[&stream_plan];
        if (stream_pieces.empty()) stream_pieces = make_pieces(stream_plan, colors_);
        out_.put(" {");
        FieldPrinter printer(out_, stream_plan, stream_pieces, colors_);
        if (!visit_stream_context(event, printer)) ++damaged_events_;
        out_.put(" },");
    }
    /* Of a call stack, the functions in place of the addresses. */
    void write_event_context(const Event& event, const EventPieces& pieces) {
        out_.put(" {");
        const std::vector<std::string>* const frames =
            pieces.stack.empty() ? nullptr : &frames_.of(event, pieces.stack);
        FieldPrinter printer(out_, event.info->context, pieces.context, colors_, nullptr, nullptr, nullptr,
                             frames);
        if (!visit_event_context(event, printer)) ++damaged_events_;
        out_.put(" },");
    }

    const TraceReader& reader_;
    OutputBuffer& out_;
    const Colors& colors_;
    bool pairs_;
    int64_t min_duration_ns_;
    uint64_t lines_max_;
    std::vector<StreamLossPlaces> losses_; /* with pairs */
    int64_t newest_ns_ = 0;
    std::map<ThreadKey, OpenCall> entries_; /* of system calls that have not returned */
    StackFrames frames_;
    TimeFormat time_;
    std::vector<EventPieces> events_;
    std::unordered_map<const Plan*, StepPieces> contexts_;
    ThreadPieces threads_;
    ThreadCache thread_cache_;
    TextPiece time_end_;
    TextPiece time_begin_;
    TextPiece cpu_{fmt::format(" {{ {}cpu_id{} = ", colors_.name, colors_.end)};
    TextPiece tid_{fmt::format(" {{ {}tid{} = ", colors_.name, colors_.end)};
    int64_t last_ns_ = 0;
    bool last_ns_known_ = false;
};

} // namespace

StepNames names_of_steps(const EventInfo& info) {
    StepNames names;
    bool any = false;
    for (const Step& step : info.fields.steps) {
        const bool is_plain = step.kind == StepKind::integer && step.labels == nullptr;
        names.push_back(is_plain ? names_of_field(info.name, step.name) : FieldNames());
        any |= names.back().kind != FieldNames::Kind::none;
    }
    return any ? names : StepNames();
}

std::unique_ptr<EventWriter> make_text_writer(const TraceReader& reader, OutputBuffer& out, TextStyle style) {
    return std::make_unique<TextWriter>(reader, out, style);
}

} // namespace plumb
