#include "consumerd/kernel/syscall_text_program.h"

#include "consumerd/kernel/bpf_program.h"
#include "consumerd/kernel/syscall_texts.h"
#include "consumerd/kernel/tracefs.h"

#include <unistd.h>

#include <array>
#include <set>

namespace plumb {
namespace {

constexpr std::uint32_t calls_max = 1024;
/* Threads at once whose call will be looked at again where it returns. */
constexpr std::uint32_t late_threads = 4096;
constexpr std::uint32_t format_bytes = 128;

/* Of a text, with its NUL: what the stack has room for, and bpf_trace_printk for arguments. A path has 4096 at most. */
constexpr std::int16_t piece_bytes = 384;
constexpr int pieces_max = 11;

/* ---- where a program keeps what: offsets from the end of its stack ---- */
constexpr std::int16_t call_key = -8, registers = -96, thread_key = -104, pointer = -112;
/* What changes on the way is not where eight bytes begin: of that the verifier follows every value that it may have. */
constexpr std::int16_t unread = -4, pieces_left = -116;
constexpr std::int16_t piece = -piece_bytes;

#if defined(__x86_64__)
/* Of struct pt_regs, of which r10 to cs are copied. */
constexpr bool is_known_processor = true;
constexpr std::int16_t first_register = 56, register_bytes = 88;
constexpr std::array<std::int16_t, syscall_arguments_max> argument_registers = {112, 104, 96, 56, 72, 64};
constexpr std::int16_t call_register = 120, mode_register = 136;
constexpr std::int32_t mode_of_32_bits = 0x23;
#else
constexpr bool is_known_processor = false;
constexpr std::int16_t first_register = 0, register_bytes = 88;
constexpr std::array<std::int16_t, syscall_arguments_max> argument_registers = {};
constexpr std::int16_t call_register = 0, mode_register = 0;
constexpr std::int32_t mode_of_32_bits = 0;
#endif
static_assert(registers + register_bytes == call_key);

constexpr std::int16_t on_stack(std::int16_t register_offset) {
    return static_cast<std::int16_t>(registers + register_offset - first_register);
}

constexpr std::int32_t tag_state(TextTag::State state) {
    return static_cast<std::int32_t>(state) << TextTag::state_shift;
}
constexpr std::int32_t late_tag = 1 << TextTag::late_shift, end_tag = 1 << TextTag::end_shift,
                       further_tag = 1 << TextTag::further_shift;
constexpr std::int32_t next_element = 1 << TextTag::element_shift;
static_assert(list_pieces_max + 1 < 1u << TextTag::element_bits && calls_max == 1u << TextTag::call_bits);

/* Of a call: its strings, a bit for each argument, and behind them the argument that is a list, if it is not 0. */
constexpr unsigned list_shift = 8;
constexpr std::int32_t list_mask = 7 << list_shift;
static_assert(syscall_arguments_max <= list_shift);

/* The arguments that are lists, of whichever call that is recorded: without any, the programs are as short as without lists. */
using Lists = std::set<std::uint8_t>;

struct Tables {
    const FileDescriptor& calls;  /* number -> its strings and its list */
    const FileDescriptor& late;   /* thread -> the same, of those that were not read */
    const FileDescriptor& format; /* of the message */
};

/* r6 is what the tracepoint gave us: first of all, the registers that the program was in. */
void copy_registers(BpfAssembler& code) {
    code.move(bpf_r1, bpf_fp);
    code.compute(BPF_ADD, bpf_r1, registers);
    code.set(bpf_r2, register_bytes);
    code.load(8, bpf_r3, bpf_r6, 0);
    code.compute(BPF_ADD, bpf_r3, std::int32_t{first_register});
    code.call(BPF_FUNC_probe_read_kernel);
    code.jump(BPF_JNE, bpf_r0, 0, "end");
    /* Numbers mean other calls there, and the kernel has no events of these. */
    code.load(8, bpf_r1, bpf_fp, on_stack(mode_register));
    code.jump(BPF_JEQ, bpf_r1, mode_of_32_bits, "end");
}

/* r8 = the value of this key, or the end if there is none, or it is 0. */
void look_up(BpfAssembler& code, const FileDescriptor& map, std::int16_t key) {
    code.map(bpf_r1, map);
    code.move(bpf_r2, bpf_fp);
    code.compute(BPF_ADD, bpf_r2, key);
    code.call(BPF_FUNC_map_lookup_elem);
    code.jump(BPF_JEQ, bpf_r0, 0, "end");
    code.load(4, bpf_r8, bpf_r0, 0);
    code.jump(BPF_JEQ, bpf_r8, 0, "end");
}

/* r1 = the pointer at r6, or on to where it could not be read. */
void read_pointer(BpfAssembler& code, const std::string& not_read) {
    code.move(bpf_r1, bpf_fp);
    code.compute(BPF_ADD, bpf_r1, pointer);
    code.set(bpf_r2, sizeof(std::uint64_t));
    code.move(bpf_r3, bpf_r6);
    code.call(BPF_FUNC_probe_read_user);
    code.jump(BPF_JNE, bpf_r0, 0, not_read);
    code.load(8, bpf_r2, bpf_fp, pointer);
}

void list_was_not_read(BpfAssembler& code) {
    code.move(bpf_r1, bpf_r8);
    code.compute(BPF_AND, bpf_r1, list_mask);
    code.load(4, bpf_r2, bpf_fp, unread);
    code.compute(BPF_OR, bpf_r2, bpf_r1);
    code.store(4, bpf_fp, unread, bpf_r2);
}

/* The strings to which the pointers at r6 lead, by the tag r7. */
void tell_elements(BpfAssembler& code, std::int32_t flags) {
    for (unsigned element = 1; element <= list_pieces_max + 1; element++) {
        const std::string was_read = fmt::format("element_{}", element);
        code.compute(BPF_ADD, bpf_r7, next_element);
        /* Late, it was said before. */
        read_pointer(code, element == 1 && (flags & late_tag) != 0 ? "list_told" : "list_not_read");
        code.jump(BPF_JEQ, bpf_r2, 0, "list_ends");
        if (element > list_pieces_max) break;
        code.load(4, bpf_r1, bpf_fp, pieces_left);
        code.jump(BPF_JLE, bpf_r1, pieces_max, "list_goes_on");
        code.move(bpf_r1, bpf_r7);
        code.call("tell");
        code.load(4, bpf_r1, bpf_fp, pieces_left);
        code.compute(BPF_SUB, bpf_r1, bpf_r0);
        code.store(4, bpf_fp, pieces_left, bpf_r1);
        code.compute(BPF_ADD, bpf_r6, std::int32_t{sizeof(std::uint64_t)});
        code.jump(BPF_JNE, bpf_r0, 0, was_read);
        list_was_not_read(code);
        code.label(was_read);
    }
    code.label("list_goes_on");
    code.compute(BPF_OR, bpf_r7, tag_state(TextTag::State::goes_on));
    code.jump("list_ends");
    code.label("list_not_read");
    list_was_not_read(code);
    code.compute(BPF_OR, bpf_r7, tag_state(TextTag::State::not_read));
    code.label("list_ends");
    code.compute(BPF_OR, bpf_r7, end_tag);
    code.set(bpf_r6, 0);
    code.label("list_is_null");
    code.move(bpf_r1, bpf_r7);
    code.move(bpf_r2, bpf_r6);
    code.call("tell");
    code.label("list_told");
}

/* A call has one at most. */
void tell_list(BpfAssembler& code, const Lists& lists, std::int32_t flags) {
    if (lists.empty()) return;
    code.move(bpf_r1, bpf_r8);
    code.compute(BPF_AND, bpf_r1, list_mask);
    for (const std::uint8_t index : lists)
        code.jump(BPF_JEQ, bpf_r1, index << list_shift, fmt::format("list_{}", index));
    code.jump("no_list");
    for (const std::uint8_t index : lists) {
        code.label(fmt::format("list_{}", index));
        code.load(8, bpf_r6, bpf_fp, on_stack(argument_registers[index]));
        code.jump("list");
    }
    code.label("list");
    /* By what the table says, so that one look of the verifier is enough for all of them. */
    code.move(bpf_r1, bpf_r8);
    code.compute(BPF_AND, bpf_r1, list_mask);
    code.compute(BPF_RSH, bpf_r1, std::int32_t{list_shift});
    code.compute(BPF_OR, bpf_r7, bpf_r1);
    code.compute(BPF_OR, bpf_r7, flags);
    code.store_number(4, bpf_fp, pieces_left, list_pieces_max + pieces_max);
    code.jump(BPF_JEQ, bpf_r6, 0, "list_is_null");
    tell_elements(code, flags);
    code.compute(BPF_AND, bpf_r7, (calls_max - 1) << TextTag::call_shift);
    code.label("no_list");
}

/* Tells the arguments in r8 of the call r7, and leaves those that could not be read in `unread`. */
void tell_arguments(BpfAssembler& code, const Lists& lists, std::int32_t flags) {
    code.compute(BPF_AND, bpf_r7, calls_max - 1);
    code.compute(BPF_LSH, bpf_r7, std::int32_t{TextTag::call_shift});
    code.move(bpf_r1, bpf_r8);
    code.compute(BPF_AND, bpf_r1, ~list_mask);
    code.store(4, bpf_fp, unread, bpf_r1);
    tell_list(code, lists, flags);
    for (unsigned index = 0; index < syscall_arguments_max; index++) {
        const auto bit = static_cast<std::int32_t>(1u << index);
        const std::string wanted = fmt::format("wanted_{}", index), next = fmt::format("next_{}", index);
        code.jump(BPF_JSET, bpf_r8, bit, wanted);
        code.jump(next);
        code.label(wanted);
        code.move(bpf_r1, bpf_r7);
        code.compute(BPF_OR, bpf_r1, flags | static_cast<std::int32_t>(index));
        code.load(8, bpf_r2, bpf_fp, on_stack(argument_registers[index]));
        code.call("tell");
        code.jump(BPF_JEQ, bpf_r0, 0, next);
        code.load(4, bpf_r1, bpf_fp, unread);
        code.compute(BPF_AND, bpf_r1, ~bit);
        code.store(4, bpf_fp, unread, bpf_r1);
        code.label(next);
    }
}

void print_piece(BpfAssembler& code, const Tables& tables) {
    code.map_value(bpf_r1, tables.format);
    code.set(bpf_r2, format_bytes);
    code.move(bpf_r4, bpf_fp);
    code.compute(BPF_ADD, bpf_r4, piece);
    code.call(BPF_FUNC_trace_printk);
}

void end_of_program(BpfAssembler& code) {
    code.label("end");
    code.set(bpf_r0, 0);
    code.exit();
}

/* tell(tag, pointer): how many pieces it had, 0 if it could not be read at all. The end of a list has no pointer. */
void function_tell(BpfAssembler& code, const Tables& tables) {
    code.label("tell");
    code.move(bpf_r6, bpf_r1);
    code.move(bpf_r7, bpf_r2);
    code.set(bpf_r8, 0); /* pieces so far */
    code.store_number(8, bpf_fp, piece, 0);
    code.jump(BPF_JNE, bpf_r7, 0, "next_piece");
    code.move(bpf_r3, bpf_r6);
    code.jump(BPF_JSET, bpf_r6, end_tag, "print_last");
    code.jump(BPF_JSET, bpf_r6, late_tag, "told"); /* execve() has come back */
    code.compute(BPF_OR, bpf_r3, tag_state(TextTag::State::null));
    code.jump("print_last");

    code.label("next_piece");
    code.move(bpf_r1, bpf_fp);
    code.compute(BPF_ADD, bpf_r1, piece);
    code.set(bpf_r2, piece_bytes);
    code.move(bpf_r3, bpf_r7);
    code.call(BPF_FUNC_probe_read_user_str);
    code.jump(BPF_JSLT, bpf_r0, 0, "not_read");
    code.move(bpf_r3, bpf_r6);
    code.jump(BPF_JNE, bpf_r0, piece_bytes, "print_last");
    code.compute(BPF_OR, bpf_r3, tag_state(TextTag::State::goes_on));
    print_piece(code, tables);
    code.compute(BPF_OR, bpf_r6, further_tag);
    code.compute(BPF_ADD, bpf_r7, piece_bytes - 1);
    code.compute(BPF_ADD, bpf_r8, 1);
    code.jump(BPF_JEQ, bpf_r8, pieces_max, "not_read"); /* no more of it */
    code.jump("next_piece");

    code.label("print_last");
    print_piece(code, tables);
    code.label("told");
    code.move(bpf_r0, bpf_r8);
    code.compute(BPF_ADD, bpf_r0, 1);
    code.exit();

    code.label("not_read");
    code.store_number(8, bpf_fp, piece, 0);
    code.move(bpf_r3, bpf_r6);
    code.compute(BPF_OR, bpf_r3, tag_state(TextTag::State::not_read));
    code.jump(BPF_JNE, bpf_r8, 0, "print_last");
    code.jump(BPF_JSET, bpf_r6, late_tag, "told"); /* that it was not read was told before */
    print_piece(code, tables);
    code.set(bpf_r0, 0);
    code.exit();
}

/* sys_enter(registers, number) */
BpfAssembler program_at_entry(const Tables& tables, const Lists& lists) {
    BpfAssembler code;
    code.move(bpf_r6, bpf_r1);
    code.load(8, bpf_r7, bpf_r6, 8);
    code.store(4, bpf_fp, call_key, bpf_r7);
    look_up(code, tables.calls, call_key);
    copy_registers(code);
    tell_arguments(code, lists, 0);
    code.load(4, bpf_r1, bpf_fp, unread);
    code.jump(BPF_JEQ, bpf_r1, 0, "end");
    code.call(BPF_FUNC_get_current_pid_tgid);
    code.store(8, bpf_fp, thread_key, bpf_r0);
    code.map(bpf_r1, tables.late);
    code.move(bpf_r2, bpf_fp);
    code.compute(BPF_ADD, bpf_r2, thread_key);
    code.move(bpf_r3, bpf_fp);
    code.compute(BPF_ADD, bpf_r3, unread);
    code.set(bpf_r4, BPF_ANY);
    code.call(BPF_FUNC_map_update_elem);
    end_of_program(code);
    function_tell(code, tables);
    return code;
}

/* sys_exit(registers, value): the arguments are still there, but after execve(), which leaves nothing to read. */
BpfAssembler program_at_exit(const Tables& tables, const Lists& lists) {
    BpfAssembler code;
    code.move(bpf_r6, bpf_r1);
    copy_registers(code);
    code.load(8, bpf_r7, bpf_fp, on_stack(call_register));
    code.store(4, bpf_fp, call_key, bpf_r7);
    look_up(code, tables.calls, call_key);
    code.move(bpf_r9, bpf_r8);
    code.call(BPF_FUNC_get_current_pid_tgid);
    code.store(8, bpf_fp, thread_key, bpf_r0);
    look_up(code, tables.late, thread_key);
    code.compute(BPF_AND, bpf_r8, bpf_r9); /* a call that did not return, as exit(), leaves its own */
    code.map(bpf_r1, tables.late);
    code.move(bpf_r2, bpf_fp);
    code.compute(BPF_ADD, bpf_r2, thread_key);
    code.call(BPF_FUNC_map_delete_elem);
    tell_arguments(code, lists, late_tag);
    end_of_program(code);
    function_tell(code, tables);
    return code;
}

/* Where a program that may print is loaded, the kernel switches the event of it on, for everybody who looks into the first
 * buffer; a moment later, since 6.12. That was not asked for: ours is in the instance. */
class FirstBuffer {
public:
    explicit FirstBuffer(const std::string& root)
        : file_(root + "/events/bpf_trace/bpf_trace_printk/enable"), was_off_(is("0")) {}
    ~FirstBuffer() {
        constexpr int looks_max = 100, times = 2;
        for (int i = 0; was_off_ && i < times; i++) {
            for (int looks = 0; looks < (i == 0 ? looks_max : 2) && is("0"); looks++)
                usleep(pause_us);
            if (is("1")) (void)write_tracefs(file_, "0");
        }
    }
    FirstBuffer(const FirstBuffer&) = delete;
    FirstBuffer& operator=(const FirstBuffer&) = delete;

private:
    static constexpr useconds_t pause_us = 1000;
    bool is(const char* value) const {
        const auto text = read_small_file(file_);
        return text && text->starts_with(value);
    }
    std::string file_;
    bool was_off_;
};

} // namespace

Result<SyscallTextProgram> SyscallTextProgram::attach(const std::string& root, const std::string& marker,
                                                      const TextArguments& calls) {
    if (!is_known_processor)
        return Error("It is not known where this processor has the arguments of system calls.");
    auto call_table =
        make_bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(std::uint32_t), sizeof(std::uint32_t), calls_max);
    if (!call_table) return call_table.error();
    auto late_table =
        make_bpf_map(BPF_MAP_TYPE_LRU_HASH, sizeof(std::uint64_t), sizeof(std::uint32_t), late_threads);
    if (!late_table) return late_table.error();
    auto format_table = make_bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(std::uint32_t), format_bytes, 1);
    if (!format_table) return format_table.error();
    std::string format = marker + " %llx:%pks";
    if (format.size() >= format_bytes) return Error("The marker {} is too long.", marker);
    format.resize(format_bytes);
    const std::uint32_t only = 0;
    if (Status set = set_bpf_map(*format_table, &only, format.data()); !set) return set.error();
    Lists lists;
    for (const auto& [call, arguments] : calls) {
        const auto number = syscall_number(call);
        std::uint32_t bits = 0;
        for (const TextArgument& argument : arguments) {
            bits |= argument.is_list ? std::uint32_t{argument.index} << list_shift : 1u << argument.index;
            if (argument.is_list) lists.insert(argument.index);
        }
        if (!number || *number >= calls_max) continue;
        if (Status set = set_bpf_map(*call_table, &*number, &bits); !set) return set.error();
    }
    const Tables tables{*call_table, *late_table, *format_table};
    const FirstBuffer first_buffer(root);
    auto at_entry = attach_bpf_program("plumb_texts", program_at_entry(tables, lists), "sys_enter");
    if (!at_entry) return at_entry.error();
    auto at_exit = attach_bpf_program("plumb_texts_late", program_at_exit(tables, lists), "sys_exit");
    if (!at_exit) return at_exit.error();
    SyscallTextProgram program;
    program.calls_ = std::move(*call_table);
    program.late_ = std::move(*late_table);
    program.format_ = std::move(*format_table);
    program.at_entry_ = std::move(*at_entry);
    program.at_exit_ = std::move(*at_exit);
    return program;
}

Status try_syscall_texts(const std::string& root) {
    const auto program = SyscallTextProgram::attach(root, "plumb_doctor", {{"execve", {{1, "argv", true}}}});
    return program ? ok() : Status(program.error());
}

} // namespace plumb
