/* Events as lines of text; see event_writer.h. */
#include "trace/show/event_writer.h"

#include "trace/show/field_text.h"
#include "trace/stack_frames.h"

#include <algorithm>
#include <map>
#include <set>

namespace plumb {
namespace {

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
            if (info->name.starts_with(syscall_exit_start))
                with_exit.emplace(reader.recording_of(*info), info->name.substr(syscall_exit_start.size()));
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

    using RecordedCall = std::pair<uint32_t, std::string>; /* recording, name of the call */

    static std::string_view call_of(const Event& entry) {
        return std::string_view(entry.info->name).substr(syscall_entry_start.size());
    }

    void note_system_call(const EventInfo& info, const std::set<RecordedCall>& with_exit,
                          EventPieces& pieces) {
        pieces.is_entry = info.name.starts_with(syscall_entry_start);
        pieces.is_exit = info.name.starts_with(syscall_exit_start);
        pieces.is_late_text = info.name == syscall_late_text;
        /* These do not return (rt_sigreturn goes on with what the signal interrupted, the last two with the function that has a
         * probe): they are written where they are. */
        static const std::set<std::string_view> returning_otherwise{
            "syscall_entry_exit", "syscall_entry_exit_group", "syscall_entry_rt_sigreturn",
            "syscall_entry_uprobe", "syscall_entry_uretprobe"};
        if (returning_otherwise.contains(info.name)) pieces.is_lone_entry = true;
        const std::string name = info.name.substr(pieces.is_entry  ? syscall_entry_start.size()
                                                  : pieces.is_exit ? syscall_exit_start.size()
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
        if (entry.info->is_of_split_call) out_.put(" <the exit may be of a later call>");
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
