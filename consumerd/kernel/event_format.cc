#include "consumerd/kernel/event_format.h"

#include "consumerd/kernel/event_names.h"

#include <traceevent/event-parse.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

namespace plumb {
namespace {

using Labels = std::vector<EventLabel>;
using ConstantStrings = std::vector<std::pair<std::int64_t, std::string>>;

struct FieldLabels {
    Labels labels;
    bool are_flags;
};

constexpr unsigned io_flags_bytes = sizeof(std::uint32_t);
constexpr unsigned thread_id_bytes = sizeof(std::uint32_t);

/* ---- labels, out of __print_symbolic() and __print_flags() ---- */

const char* field_of(const tep_print_arg* arg) {
    while (arg != nullptr) {
        switch (arg->type) {
        case TEP_PRINT_FIELD:
            return arg->field.name;
        case TEP_PRINT_TYPE:
            arg = arg->typecast.item;
            break;
        case TEP_PRINT_OP: /* REC->flags & 0xff, and no other: labels are of the value as it is */
            if (arg->op.op == nullptr || std::string_view(arg->op.op) != "&") return nullptr;
            arg = arg->op.left;
            break;
        default:
            return nullptr;
        }
    }
    return nullptr;
}

Labels labels_of(const tep_print_flag_sym* symbol) {
    Labels labels;
    for (; symbol != nullptr; symbol = symbol->next) {
        if (symbol->value == nullptr || symbol->str == nullptr) continue;
        char* end = nullptr;
        errno = 0;
        const unsigned long long value = std::strtoull(symbol->value, &end, 0);
        if (errno == 0 && end != symbol->value && *end == '\0')
            labels.emplace_back(static_cast<std::int64_t>(value), symbol->str);
    }
    return labels;
}

/* In a signed field the highest bit is a negative number; what names no bit, or one beyond the field, names nothing. */
Labels flags_of(const Labels& labels, unsigned bytes, bool is_signed) {
    Labels flags;
    const unsigned unused = 64 - bytes * 8;
    for (const EventLabel& label : labels) {
        const auto cut = static_cast<std::uint64_t>(label.first) << unused;
        const auto low = static_cast<std::int64_t>(cut >> unused);
        if (low == 0 || low != label.first) continue;
        flags.emplace_back(is_signed ? static_cast<std::int64_t>(cut) >> unused : low, label.name);
    }
    return flags;
}

/* Tables that differ are each of a case of its own (c ? a : b): which one a value is of is not known from the field alone. */
void add_table(std::map<std::string, FieldLabels>& found, const std::string& name, FieldLabels table) {
    const auto [known, is_new] = found.emplace(name, table);
    FieldLabels& before = known->second;
    if (!is_new && (before.are_flags != table.are_flags || before.labels != table.labels))
        before.labels.clear();
}

void collect_labels(const tep_print_arg* arg, std::map<std::string, FieldLabels>& found, int depth = 0) {
    constexpr int depth_max = 64;
    for (; arg != nullptr && depth < depth_max; arg = arg->next) {
        const tep_print_arg* field = nullptr;
        const tep_print_flag_sym* symbols = nullptr;
        switch (arg->type) {
        case TEP_PRINT_SYMBOL:
            field = arg->symbol.field;
            symbols = arg->symbol.symbols;
            break;
        case TEP_PRINT_FLAGS:
            field = arg->flags.field;
            symbols = arg->flags.flags;
            break;
        case TEP_PRINT_OP: /* a ? b : c is one, too */
            collect_labels(arg->op.left, found, depth + 1);
            collect_labels(arg->op.right, found, depth + 1);
            break;
        case TEP_PRINT_TYPE:
            collect_labels(arg->typecast.item, found, depth + 1);
            break;
        default:
            break;
        }
        const char* const name = field_of(field);
        if (name == nullptr) continue;
        Labels labels = labels_of(symbols);
        if (!labels.empty()) add_table(found, name, {std::move(labels), arg->type == TEP_PRINT_FLAGS});
    }
}

std::map<std::string, FieldLabels> labels_in(const tep_print_arg* arguments) {
    std::map<std::string, FieldLabels> found;
    collect_labels(arguments, found);
    std::erase_if(found, [](const auto& each) { return each.second.labels.empty(); });
    return found;
}

/* ---- fields ---- */

bool is_word_size(unsigned bytes) {
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

bool has(const tep_format_field& field, unsigned long flag) {
    return (field.flags & flag) != 0;
}

/* libtraceevent calls every array of bytes a string, and does not know the elements of all dynamic arrays: so by the
 * name of the type, as C has it. */
std::string_view element_type(const tep_format_field& field) {
    std::string_view type = field.type;
    for (const std::string_view prefix : {"__data_loc ", "__rel_loc ", "const "})
        if (type.starts_with(prefix)) type.remove_prefix(prefix.size());
    return type.substr(0, type.find('['));
}

bool is_character_array(const tep_format_field& field) {
    return element_type(field) == "char";
}

/* 1 where nobody knows: then they are shown as bytes. */
unsigned element_bytes(const tep_format_field& field) {
    static const std::map<std::string_view, unsigned> sizes = {{"short", 2},     {"unsigned short", 2},
                                                               {"int", 4},       {"unsigned int", 4},
                                                               {"long", 8},      {"unsigned long", 8},
                                                               {"long long", 8}, {"unsigned long long", 8},
                                                               {"__u16", 2},     {"__u32", 4},
                                                               {"__u64", 8},     {"size_t", 8},
                                                               {"pid_t", 4},     {"u16", 2},
                                                               {"u32", 4},       {"u64", 8},
                                                               {"s16", 2},       {"s32", 4},
                                                               {"s64", 8}};
    const auto found = sizes.find(element_type(field));
    if (found != sizes.end()) return found->second;
    return is_word_size(field.elementsize) ? field.elementsize : 1;
}

/* Bytes, and whether there is a sign, of types of system calls' arguments: to the kernel each is a register without one. */
std::optional<std::pair<unsigned, bool>> argument_type(std::string_view type) {
    static const std::set<std::string_view> with_sign = {"int",       "pid_t",       "s32",   "__s32",
                                                         "clockid_t", "mqd_t",       "key_t", "rwf_t",
                                                         "timer_t",   "key_serial_t"},
                                            without_sign = {"unsigned int", "unsigned", "u32",  "__u32",
                                                            "uid_t",        "gid_t",    "qid_t"},
                                            wide_with_sign = {"long",    "off_t", "loff_t",
                                                              "ssize_t", "__s64", "long long"};
    constexpr std::string_view constant = "const ";
    if (type.starts_with(constant)) type.remove_prefix(constant.size());
    if (with_sign.contains(type)) return std::pair(4u, true);
    if (wide_with_sign.contains(type)) return std::pair(8u, true);
    if (without_sign.contains(type) || type.starts_with("enum ")) return std::pair(4u, false);
    return {};
}

EventField make_field(std::string name, plumb_field_type type, unsigned size, bool is_signed, bool hex) {
    return {std::move(name), type, static_cast<std::uint8_t>(size), is_signed, hex, 0, {}};
}

class Builder {
public:
    Builder(KernelEvent& event, std::map<std::string, FieldLabels> labels,
            const ConstantStrings& constant_strings, const std::vector<TextArgument>& told_texts)
        : event_(event),
          labels_(std::move(labels)),
          constant_strings_(constant_strings),
          told_texts_(told_texts) {}

    void add(const tep_format_field& field) {
        if (field.offset < 0 || field.size < 0 ||
            field.offset + field.size > std::numeric_limits<std::uint16_t>::max())
            return;
        const auto from = static_cast<std::uint16_t>(field.offset);
        const auto bytes = static_cast<unsigned>(field.size);
        event_.least_bytes = std::max(event_.least_bytes, from + bytes);
        const std::string name = kernel_field_name(event_.system, field.name);
        is_probe_ |= name.starts_with("__probe_");
        if (const TextArgument* const text = told_text_of(field.name))
            add_told_text(*text);
        else if (has(field, TEP_FIELD_IS_DYNAMIC))
            add_dynamic(field, name, from);
        else if (has(field, TEP_FIELD_IS_ARRAY))
            add_array(field, name, from, bytes);
        else
            add_scalar(field, name, from, bytes);
        if (event_.thread_news == ThreadNews::made) add_process(field.name, from, bytes);
    }

private:
    /* The processes of a fork: what the scheduler calls parent_pid and child_pid are threads. */
    void add_process(const std::string& raw_name, std::uint16_t from, unsigned bytes) {
        const bool is_parent = raw_name == "parent_pid";
        if ((!is_parent && raw_name != "child_pid") || bytes != thread_id_bytes) return;
        (is_parent ? event_.parent_at : event_.child_at) = from;
        event_.description.fields.push_back(
            make_field(raw_name, PLUMB_FIELD_INTEGER, thread_id_bytes, true, false));
        step(is_parent ? RawStep::Kind::of_parent : RawStep::Kind::of_child, from, bytes, false);
    }

    const TextArgument* told_text_of(std::string_view name) const {
        const auto found = std::find_if(told_texts_.begin(), told_texts_.end(),
                                        [&](const TextArgument& each) { return each.name == name; });
        return found == told_texts_.end() ? nullptr : &*found;
    }

    void add_told_text(const TextArgument& text) {
        event_.description.fields.push_back(make_field(text.name, PLUMB_FIELD_STRING, 1, false, false));
        event_.steps.push_back({RawStep::Kind::told_text, false, text.index, 0});
        event_.told_texts.push_back(text);
    }

    void add_dynamic(const tep_format_field& field, const std::string& name, std::uint16_t from) {
        const bool is_relative = has(field, TEP_FIELD_IS_RELATIVE);
        if (is_character_array(field)) {
            event_.description.fields.push_back(make_field(name, PLUMB_FIELD_STRING, 1, false, false));
            step(is_probe_ ? RawStep::Kind::probe_string : RawStep::Kind::string, from, 0, is_relative);
            return;
        }
        const unsigned element = element_bytes(field);
        event_.description.fields.push_back(
            make_field(name, PLUMB_FIELD_SEQUENCE, element, has(field, TEP_FIELD_IS_SIGNED), element == 1));
        step(RawStep::Kind::sequence, from, element, is_relative);
    }

    void add_array(const tep_format_field& field, const std::string& name, std::uint16_t from,
                   unsigned bytes) {
        if (is_io_flags(event_.system, field.name)) {
            event_.description.fields.push_back(make_field(name, PLUMB_FIELD_INTEGER, 4, false, true));
            step(RawStep::Kind::io_flags, from, bytes, false);
            event_.description.fields.push_back(
                make_field(name + "_text", PLUMB_FIELD_STRING, 1, false, false));
            step(RawStep::Kind::fixed_string, from, bytes, false);
            return;
        }
        if (is_character_array(field)) {
            event_.description.fields.push_back(make_field(name, PLUMB_FIELD_STRING, 1, false, false));
            step(bytes == thread_name_bytes ? RawStep::Kind::thread_name : RawStep::Kind::fixed_string, from,
                 bytes, false);
            return;
        }
        const unsigned element = element_bytes(field);
        add_elements(name, from, bytes, bytes % element == 0 ? element : 1, has(field, TEP_FIELD_IS_SIGNED));
    }

    void add_elements(const std::string& name, std::uint16_t from, unsigned bytes, unsigned element,
                      bool is_signed) {
        EventField array =
            make_field(name, PLUMB_FIELD_ARRAY, element, is_signed, element == 1 && !is_signed);
        array.array_length = static_cast<std::uint16_t>(bytes / element);
        event_.description.fields.push_back(std::move(array));
        step(RawStep::Kind::copy, from, bytes, false);
    }

    void add_scalar(const tep_format_field& field, const std::string& name, std::uint16_t from,
                    unsigned bytes) {
        if (!is_word_size(bytes)) return add_elements(name, from, bytes, 1, false);
        const std::string_view type = field.type;
        const bool is_pointer = has(field, TEP_FIELD_IS_POINTER);
        bool is_signed = has(field, TEP_FIELD_IS_SIGNED);
        /* System calls widen every argument to a register. */
        if (is_syscall(event_.system) && bytes == 8 && !is_pointer)
            if (const auto argument = argument_type(type)) std::tie(bytes, is_signed) = *argument;
        /* Of probes: the function, and where it returns to. */
        const bool is_address = is_pointer || name.starts_with("__probe_");
        EventField made = make_field(name, PLUMB_FIELD_INTEGER, bytes, is_signed, is_address);
        const auto labels = labels_.find(field.name);
        if (labels != labels_.end() && labels->second.are_flags) {
            made.labels = flags_of(labels->second.labels, bytes, is_signed);
            made.has_flags = true;
            made.hex = made.hex || !is_signed;
        } else if (labels != labels_.end()) {
            if (!is_read_as_number(event_.system, field.name)) made.type = PLUMB_FIELD_ENUM;
            made.labels = labels->second.labels;
        } else if (type == "const char *" && !is_syscall(event_.system) && !constant_strings_.empty()) {
            made.type = PLUMB_FIELD_ENUM; /* a system call's is an address of the program */
            for (const auto& [address, text] : constant_strings_)
                made.labels.emplace_back(address, text);
        }
        event_.description.fields.push_back(std::move(made));
        step(RawStep::Kind::copy, from, bytes, false);
    }

    /* Neighbours are copied together. */
    void step(RawStep::Kind kind, std::uint16_t from, unsigned bytes, bool is_relative) {
        const bool is_dynamic = kind == RawStep::Kind::string || kind == RawStep::Kind::probe_string ||
                                kind == RawStep::Kind::sequence;
        if (is_dynamic) event_.dynamic_fields++;
        if (kind == RawStep::Kind::probe_string) event_.fixed_room += std::uint32_t{text_of_fault.size()};
        if (!is_dynamic) event_.fixed_room += std::max(bytes + 1, io_flags_bytes); /* a NUL */
        if (kind == RawStep::Kind::copy && !event_.steps.empty()) {
            RawStep& last = event_.steps.back();
            if (last.kind == kind && last.from + last.bytes == from) {
                last.bytes = static_cast<std::uint16_t>(last.bytes + bytes);
                return;
            }
        }
        event_.steps.push_back({kind, is_relative, from, static_cast<std::uint16_t>(bytes)});
    }

    KernelEvent& event_;
    bool is_probe_ = false;
    std::map<std::string, FieldLabels> labels_;
    const ConstantStrings& constant_strings_;
    const std::vector<TextArgument>& told_texts_;
};

} // namespace

KernelEvent late_text_event() {
    KernelEvent event;
    event.system = "plumb";
    event.raw_name = "syscall_late_text";
    event.id = late_text_id;
    event.description.name = event.raw_name;
    event.description.log_level = PLUMB_DEBUG_SYSTEM;
    for (const char* name : {"call", "argument", "text"})
        event.description.fields.push_back(make_field(name, PLUMB_FIELD_STRING, 1, false, false));
    return event;
}

FormatParser::FormatParser() : tep_(tep_alloc()), fields_only_(tep_alloc()) {
    if (tep_ == nullptr || fields_only_ == nullptr) std::abort(); /* no memory for an empty table */
    for (tep_handle* const handle : {tep_, fields_only_}) {
        tep_set_long_size(handle, sizeof(long));
        tep_set_page_size(handle, 4096);
        tep_set_file_bigendian(handle, TEP_LITTLE_ENDIAN);
        tep_set_local_bigendian(handle, TEP_LITTLE_ENDIAN);
    }
    tep_set_loglevel(TEP_LOG_NONE);
}

FormatParser::~FormatParser() {
    tep_free(tep_);
    tep_free(fields_only_);
}

/* Lines: 0xffffffff82819b04 : "rcu_preempt-GPS". What is between the quotes is escaped as in C. */
void FormatParser::know_constant_strings(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t begin = line.find('"'), end = line.rfind('"');
        if (begin == std::string::npos || end == begin) continue;
        const ConstantStrings::value_type entry(
            static_cast<std::int64_t>(std::strtoull(line.c_str(), nullptr, 0)),
            line.substr(begin + 1, end - begin - 1));
        if (entry.first != 0) constant_strings_.push_back(entry);
    }
    std::sort(constant_strings_.begin(), constant_strings_.end());
    constant_strings_.erase(std::unique(constant_strings_.begin(), constant_strings_.end()),
                            constant_strings_.end());
}

/* An event whose print format is not understood is marked as failed, and so is one whose fields are not; the first is
 * good enough for us. So once more without the print format. */
bool FormatParser::has_good_fields(const std::string& system, const std::string& name,
                                   const std::string& format) {
    const std::size_t print = format.find("\nprint fmt:");
    if (print == std::string::npos) return false;
    const std::string plain = format.substr(0, print) + "\nprint fmt: \"\"\n";
    (void)tep_parse_event(fields_only_, plain.c_str(), plain.size(), system.c_str());
    const tep_event* const event = tep_find_event_by_name(fields_only_, system.c_str(), name.c_str());
    return event != nullptr && (event->flags & TEP_EVENT_FL_FAILED) == 0;
}

Result<KernelEvent> FormatParser::parse(const std::string& system, const std::string& format) {
    /* "name: sched_switch", the first line. A print format that the library does not understand costs the
     * labels, not the event: then it reports an error, and the event is there. */
    constexpr std::string_view name_line = "name: ";
    const std::size_t line_end = std::min(format.find('\n'), format.size());
    if (!format.starts_with(name_line)) return Error("The format of an event of {} has no name.", system);
    const std::string name = format.substr(name_line.size(), line_end - name_line.size());
    const tep_errno wrong = tep_parse_event(tep_, format.c_str(), format.size(), system.c_str());
    const tep_event* const parsed = tep_find_event_by_name(tep_, system.c_str(), name.c_str());
    if (parsed == nullptr || !has_good_fields(system, name, format)) {
        char text[256] = "";
        tep_strerror(tep_, wrong, text, sizeof(text));
        return Error("The format of {}:{} is not understood: {}.", system, name, text);
    }
    KernelEvent event;
    event.system = system;
    event.raw_name = name;
    if (parsed->id <= 0 || parsed->id >= late_text_id) {
        return Error("Event {}:{} has the number {}, which no record can hold.", system, event.raw_name,
                     parsed->id);
    }
    event.id = static_cast<std::uint16_t>(parsed->id);
    if (system == "task" && name == "task_newtask") event.thread_news = ThreadNews::began;
    if (system == "task" && name == "task_rename") event.thread_news = ThreadNews::renamed;
    if (system == "sched" && name == "sched_process_fork") event.thread_news = ThreadNews::made;
    event.description.name = kernel_event_name(system, event.raw_name);
    event.description.log_level = PLUMB_DEBUG_SYSTEM;
    constexpr std::uint32_t common_bytes = 8; /* type, flags, preempt count, pid */
    event.least_bytes = common_bytes;
    constexpr std::string_view entry_prefix = "sys_enter_";
    const bool is_entry = is_syscall(system) && name.starts_with(entry_prefix);
    const auto told = told_texts_.find(is_entry ? name.substr(entry_prefix.size()) : "");
    const std::vector<TextArgument> no_texts;
    Builder builder(event, labels_in(parsed->print_fmt.args), constant_strings_,
                    told == told_texts_.end() ? no_texts : told->second);
    for (const tep_format_field* field = parsed->format.fields; field != nullptr; field = field->next) {
        if (is_syscall(system) && std::string_view(field->name) == "__syscall_nr") {
            event.call_offset = static_cast<std::uint16_t>(field->offset);
            continue;
        }
        builder.add(*field);
    }
    return event;
}

} // namespace plumb
