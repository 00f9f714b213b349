/*
 * A small BPF program, put together instruction by instruction while we run, and loaded by bpf(2): no compiler, no library
 * and no type information of the kernel is needed for it.
 *
 *   BpfAssembler code;
 *   code.load(8, bpf_r2, bpf_r1, 8);           // r2 = *(u64*)(r1 + 8)
 *   code.jump(BPF_JEQ, bpf_r2, 0, "end");      // labels may be set later
 *   ...
 *   code.label("end");
 *   code.set(bpf_r0, 0);
 *   code.exit();
 *   auto attached = attach_bpf_program("plumb_texts", code, "sys_enter");
 *
 * Source: the kernel's Documentation/bpf/standardization/instruction-set.rst and include/uapi/linux/bpf.h.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_BPF_PROGRAM_H
#define PLUMB_CONSUMERD_KERNEL_BPF_PROGRAM_H

#include "base/file.h"
#include "base/result.h"

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plumb {

/* r0: what functions return; r1 to r5: what they are given, lost in them; r6 to r9 are kept; fp: the end of the stack. */
enum BpfRegister : std::uint8_t {
    bpf_r0 = BPF_REG_0,
    bpf_r1,
    bpf_r2,
    bpf_r3,
    bpf_r4,
    bpf_r5,
    bpf_r6,
    bpf_r7,
    bpf_r8,
    bpf_r9,
    bpf_fp
};

class BpfAssembler {
public:
    void move(BpfRegister to, BpfRegister from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
    void set(BpfRegister to, std::int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
    /* BPF_ADD, BPF_OR, BPF_AND, BPF_LSH ... */
    void compute(int operation, BpfRegister to, std::int32_t value) {
        add(BPF_ALU64 | operation | BPF_K, to, 0, 0, value);
    }
    void compute(int operation, BpfRegister to, BpfRegister from) {
        add(BPF_ALU64 | operation | BPF_X, to, from, 0, 0);
    }
    /* `bytes`: 1, 2, 4 or 8 */
    void load(int bytes, BpfRegister to, BpfRegister from, std::int16_t offset) {
        add(BPF_LDX | BPF_MEM | size_code(bytes), to, from, offset, 0);
    }
    void store(int bytes, BpfRegister to, std::int16_t offset, BpfRegister from) {
        add(BPF_STX | BPF_MEM | size_code(bytes), to, from, offset, 0);
    }
    void store_number(int bytes, BpfRegister to, std::int16_t offset, std::int32_t value) {
        add(BPF_ST | BPF_MEM | size_code(bytes), to, 0, offset, value);
    }
    void map(BpfRegister to, const FileDescriptor& map) { wide(to, BPF_PSEUDO_MAP_FD, map.get()); }
    /* The address of the value of an array of one element. */
    void map_value(BpfRegister to, const FileDescriptor& map) { wide(to, BPF_PSEUDO_MAP_VALUE, map.get()); }
    void call(bpf_func_id helper) { add(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
    void exit() { add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

    /* BPF_JEQ, BPF_JNE, BPF_JSLT, BPF_JSET ... against a number; BPF_JA always. */
    void jump(int condition, BpfRegister left, std::int32_t right, const std::string& label);
    void jump(const std::string& label) { jump(BPF_JA, bpf_r0, 0, label); }
    /* A function of this program, which begins at the label. */
    void call(const std::string& label);
    void label(const std::string& name) { labels_[name] = code_.size(); }

    /* With all labels found. */
    std::vector<bpf_insn> instructions() const;

private:
    struct Reference {
        std::size_t at;
        std::string label;
        bool is_call;
    };
    static int size_code(int bytes) {
        return bytes == 1 ? BPF_B : bytes == 2 ? BPF_H : bytes == 4 ? BPF_W : BPF_DW;
    }
    void add(int code, int to, int from, std::int16_t offset, std::int32_t value);
    void wide(BpfRegister to, int kind, std::int32_t value);

    std::vector<bpf_insn> code_;
    std::map<std::string, std::size_t> labels_;
    std::vector<Reference> references_;
};

Result<FileDescriptor> make_bpf_map(bpf_map_type type, std::uint32_t key_bytes, std::uint32_t value_bytes,
                                    std::uint32_t entries);
Status set_bpf_map(const FileDescriptor& map, const void* key, const void* value);

/* On a raw tracepoint ("sys_enter") from now on, until the descriptor is closed. The name has 15 characters at most. */
Result<FileDescriptor> attach_bpf_program(const std::string& name, const BpfAssembler& code,
                                          const std::string& raw_tracepoint);

} // namespace plumb

#endif
