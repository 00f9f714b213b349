#include "consumerd/kernel/bpf_program.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace plumb {
namespace {

/* Functions that read memory are for programs that say so; the project's own licence is MIT. */
constexpr const char* program_licence = "Dual MIT/GPL";

int call_bpf(bpf_cmd command, bpf_attr& attributes) {
    return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

std::uint64_t address_of(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

/* What the verifier says comes last, before how much it looked at. */
std::string last_line(std::string_view log) {
    log = log.substr(0, log.rfind("processed "));
    while (log.ends_with('\n'))
        log.remove_suffix(1);
    return std::string(log.substr(log.rfind('\n') + 1));
}

Result<FileDescriptor> load_bpf_program(const std::string& name, const BpfAssembler& code) {
    const std::vector<bpf_insn> instructions = code.instructions();
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
    attributes.insns = address_of(instructions.data());
    attributes.insn_cnt = static_cast<std::uint32_t>(instructions.size());
    attributes.license = address_of(program_licence);
    std::strncpy(attributes.prog_name, name.c_str(), sizeof(attributes.prog_name) - 1);
    FileDescriptor program(call_bpf(BPF_PROG_LOAD, attributes));
    if (program.is_open()) return program;
    const int number = errno;
    std::vector<char> log(std::size_t{1} << 16);
    attributes.log_level = 1;
    attributes.log_buf = address_of(log.data());
    attributes.log_size = static_cast<std::uint32_t>(log.size());
    program = FileDescriptor(call_bpf(BPF_PROG_LOAD, attributes));
    if (program.is_open()) return program;
    const std::string why = last_line(log.data());
    return Error::from_errno(number, "The kernel does not take a BPF program{}",
                             why.empty() ? "" : " (" + why + ")");
}

} // namespace

void BpfAssembler::add(int code, int to, int from, std::int16_t offset, std::int32_t value) {
    bpf_insn instruction{};
    instruction.code = static_cast<std::uint8_t>(code);
    instruction.dst_reg = static_cast<std::uint8_t>(to & 0xf);
    instruction.src_reg = static_cast<std::uint8_t>(from & 0xf);
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
}

/* 64 bits take two instructions; the kernel puts the address there. */
void BpfAssembler::wide(BpfRegister to, int kind, std::int32_t value) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, value);
    add(0, 0, 0, 0, 0);
}

void BpfAssembler::jump(int condition, BpfRegister left, std::int32_t right, const std::string& label) {
    references_.push_back({code_.size(), label, false});
    add(BPF_JMP | condition | BPF_K, left, 0, 0, right);
}

void BpfAssembler::call(const std::string& label) {
    references_.push_back({code_.size(), label, true});
    add(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 0);
}

std::vector<bpf_insn> BpfAssembler::instructions() const {
    std::vector<bpf_insn> code = code_;
    for (const Reference& reference : references_) {
        const auto distance = static_cast<std::ptrdiff_t>(labels_.at(reference.label)) -
                              static_cast<std::ptrdiff_t>(reference.at) - 1;
        if (reference.is_call)
            code[reference.at].imm = static_cast<std::int32_t>(distance);
        else
            code[reference.at].off = static_cast<std::int16_t>(distance);
    }
    return code;
}

Result<FileDescriptor> make_bpf_map(bpf_map_type type, std::uint32_t key_bytes, std::uint32_t value_bytes,
                                    std::uint32_t entries) {
    bpf_attr attributes{};
    attributes.map_type = type;
    attributes.key_size = key_bytes;
    attributes.value_size = value_bytes;
    attributes.max_entries = entries;
    FileDescriptor map(call_bpf(BPF_MAP_CREATE, attributes));
    if (!map.is_open()) return Error::from_errno(errno, "The kernel makes no table for a BPF program");
    return map;
}

Status set_bpf_map(const FileDescriptor& map, const void* key, const void* value) {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(map.get());
    attributes.key = address_of(key);
    attributes.value = address_of(value);
    if (call_bpf(BPF_MAP_UPDATE_ELEM, attributes) != 0)
        return Error::from_errno(errno, "Could not fill a table of a BPF program");
    return ok();
}

Result<FileDescriptor> attach_bpf_program(const std::string& name, const BpfAssembler& code,
                                          const std::string& raw_tracepoint) {
    const auto program = load_bpf_program(name, code);
    if (!program) return program.error();
    bpf_attr attributes{};
    attributes.raw_tracepoint.name = address_of(raw_tracepoint.c_str());
    attributes.raw_tracepoint.prog_fd = static_cast<std::uint32_t>(program->get());
    FileDescriptor link(call_bpf(BPF_RAW_TRACEPOINT_OPEN, attributes));
    if (!link.is_open())
        return Error::from_errno(errno, "The kernel attaches no BPF program to {}", raw_tracepoint);
    return link;
}

} // namespace plumb
