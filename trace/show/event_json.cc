/*
 * Events as JSON, one object for each line; see event_writer.h. Integers of 64 bits are written with all
 * their digits: a program that reads them must not turn them into floating point. An enumeration is an object
 * of its value and label; numbers that JSON does not know ("NaN", "Infinity", "-Infinity") are strings.
 */
#include "trace/show/event_writer.h"

#include "trace/stack_frames.h"

#include <cmath>

namespace plumb {
namespace {

StepPieces make_pieces(const Plan& plan) {
    StepPieces pieces;
    pieces.reserve(plan.steps.size());
    for (const Step& step : plan.steps) {
        std::string text = ",";
        if (!step.name.empty()) text += json_string(step.name) + ":";
        if (step.kind == StepKind::array) text += '[';
        if (step.kind == StepKind::structure) text += '{';
        pieces.emplace_back(text);
    }
    return pieces;
}

class JsonPrinter {
public:
    /* `names`: of the steps' numbers, as many as steps, or none. */
    JsonPrinter(OutputBuffer& out, const Plan& plan, const StepPieces& pieces,
                const StepNames* names = nullptr)
        : out_(out),
          steps_(plan.steps.data()),
          pieces_(pieces.data()),
          names_(names == nullptr || names->empty() ? nullptr : names->data()) {}

    void integer(const Step& step, uint64_t value) {
        if (step.is_length) return;
        lead(step);
        if (step.labels == nullptr) {
            number(step, value);
            if (names_ != nullptr) name_beside(step, value);
            return;
        }
        out_.put("{\"value\":");
        number(step, value);
        out_.put(",\"label\":");
        if (get_label(step, value, label_))
            put_json_string(out_, label_);
        else
            out_.put("null");
        out_.put('}');
    }
    void floating(const Step& step, double value) {
        lead(step);
        if (std::isnan(value)) {
            out_.put("\"NaN\"");
        } else if (std::isinf(value)) {
            out_.put(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        } else if (value == 0 && std::signbit(value)) {
            out_.put("-0.0"); /* "-0" is an integer, which has no sign, to who reads it */
        } else {
            char* const at = out_.room(40);
            out_.wrote(step.size_bits == 32 ? std::to_chars(at, at + 40, static_cast<float>(value)).ptr
                                            : std::to_chars(at, at + 40, value).ptr);
        }
    }
    void text(const Step& step, std::string_view value) {
        lead(step);
        put_json_string(out_, value);
    }
    void begin(const Step& step, uint64_t) {
        lead(step);
        first_ = true;
        is_array_ = is_array_ << 1 | (step.kind == StepKind::array ? 1 : 0);
        ++open_;
    }
    void end(const Step&) { close(); }
    /* A walk that stopped early left open what it was in. */
    void close_all() {
        while (open_ > 0)
            close();
    }

private:
    void lead(const Step& step) {
        out_.put(pieces_[&step - steps_], first_ ? 1 : 0);
        first_ = false;
    }
    /* "flags":524288,"flags_text":"O_RDONLY|O_CLOEXEC" */
    void name_beside(const Step& step, uint64_t value) {
        const std::string name = names_[&step - steps_].name_of(value, step.size_bits);
        if (name.empty()) return;
        out_.put(",");
        put_json_string(out_, fmt::format("{}_text", step.name));
        out_.put(":");
        put_json_string(out_, name);
    }
    void close() {
        out_.put((is_array_ & 1) != 0 ? ']' : '}');
        is_array_ >>= 1;
        --open_;
        first_ = false;
    }
    void number(const Step& step, uint64_t value) {
        if (step.is_signed)
            out_.put_integer(static_cast<int64_t>(value));
        else
            out_.put_integer(value);
    }

    OutputBuffer& out_;
    const Step* steps_;
    const TextPiece* pieces_;
    std::string label_;
    const FieldNames* names_;
    bool first_ = true;
    uint64_t is_array_ = 0; /* a bit for each level, of which there are at most tsdl::max_type_depth */
    unsigned open_ = 0;
};
static_assert(tsdl::max_type_depth <= 64);

class JsonWriter : public EventWriter {
public:
    JsonWriter(const TraceReader& reader, OutputBuffer& out) : reader_(reader), out_(out), frames_(reader) {
        for (const EventInfo* info : reader.event_infos())
            events_.push_back({TextPiece(",\"event\":" + json_string(info->name)), make_pieces(info->context),
                               make_pieces(info->fields), names_of_steps(*info), StackStep(*info)});
    }

    void write(const Event& event) override {
        const EventPieces& pieces = events_[event.info->index];
        out_.put("{\"timestamp_ns\":");
        out_.put_integer(event.time_ns);
        out_.put(pieces.head);
        if (event.cpu != no_cpu) {
            out_.put(",\"cpu\":");
            out_.put_integer(event.cpu);
        }
        write_thread(event);
        if (!event.stream->is_plumb_record()) write_stream_context(event);
        if (!event.info->context.empty()) write_event_context(event, pieces);
        write_plan(event, ",\"fields\":{", event.info->fields, pieces.fields, visit_fields<JsonPrinter>,
                   &pieces.names);
        out_.put("}\n");
    }

private:
    struct EventPieces {
        TextPiece head;
        StepPieces context;
        StepPieces fields;
        StepNames names;
        StackStep stack;
    };

    template <typename Visit>
    void write_plan(const Event& event, std::string_view begin, const Plan& plan, const StepPieces& pieces,
                    Visit visit, const StepNames* names = nullptr) {
        out_.put(begin);
        JsonPrinter printer(out_, plan, pieces, names);
        if (!visit(event, printer)) {
            ++damaged_events_;
            printer.close_all();
        }
        out_.put('}');
    }

    void write_thread(const Event& event) {
        if (const ThreadRecord* const thread = reader_.thread_of(event, thread_cache_)) {
            out_.put(threads_.of(*thread, [](const ThreadRecord& t) {
                return fmt::format(",\"comm\":{},\"pid\":{},\"tid\":{}", json_string(t.name), t.process_id,
                                   t.thread_id);
            }));
            return;
        }
        if (event.process_id != 0) {
            out_.put(",\"pid\":");
            out_.put_integer(event.process_id);
        }
        if (event.thread_id != 0 || event.stream->is_plumb_record()) { /* the kernel's idle threads are 0 */
            out_.put(",\"tid\":");
            out_.put_integer(event.thread_id);
        }
    }

    void write_stream_context(const Event& event) {
        const Plan& stream_plan = event.stream->event_context;
        if (stream_plan.empty()) return;
        StepPieces& stream_pieces = contexts_[&stream_plan];
        if (stream_pieces.empty()) stream_pieces = make_pieces(stream_plan);
        write_plan(event, ",\"context\":{", stream_plan, stream_pieces, visit_stream_context<JsonPrinter>);
    }
    void write_event_context(const Event& event, const EventPieces& pieces) {
        write_plan(event, ",\"event_context\":{", event.info->context, pieces.context,
                   visit_event_context<JsonPrinter>);
        if (pieces.stack.empty()) return;
        out_.put(",\"callstack\":[");
        const char* separator = "";
        for (const std::string& frame : frames_.of(event, pieces.stack)) {
            out_.put(separator);
            put_json_string(out_, frame);
            separator = ",";
        }
        out_.put(']');
    }

    const TraceReader& reader_;
    OutputBuffer& out_;
    std::vector<EventPieces> events_;
    std::unordered_map<const Plan*, StepPieces> contexts_;
    ThreadPieces threads_;
    ThreadCache thread_cache_;
    StackFrames frames_;
};

} // namespace

std::unique_ptr<EventWriter> make_json_writer(const TraceReader& reader, OutputBuffer& out) {
    return std::make_unique<JsonWriter>(reader, out);
}

} // namespace plumb
