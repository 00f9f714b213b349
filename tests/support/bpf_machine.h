// A kernel for small BPF programs, so that what they do can be seen without one that takes them: bpf(2) of this process makes
// tables and loads programs here, and the machine runs them against memory of a "user" that a test has laid out. As the
// verifier, it refuses what reads or writes where nothing is. The file that includes it defines `syscall` (below).
//
// Source: the kernel's Documentation/bpf/standardization/instruction-set.rst and include/uapi/linux/bpf.h.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace plumb::test {

/* Memory of a program, page by page: those that are not in memory can not be read from BPF. */
class UserMemory {
public:
    static constexpr uint64_t page_bytes = 4096;

    void put(uint64_t address, std::string_view bytes) {
        for (const char byte : bytes)
            bytes_[address++] = byte;
    }
    void put_pointer(uint64_t address, uint64_t to) {
        put(address, {reinterpret_cast<const char*>(&to), sizeof(to)});
    }
    void set_absent(uint64_t address, bool is_absent = true) { absent_[address / page_bytes] = is_absent; }

    bool read(uint64_t address, char& byte) const {
        const auto page = absent_.find(address / page_bytes);
        const auto found = bytes_.find(address);
        if (found == bytes_.end() || (page != absent_.end() && page->second)) return false;
        byte = found->second;
        return true;
    }

private:
    std::map<uint64_t, char> bytes_;
    std::map<uint64_t, bool> absent_;
};

class BpfMachine {
public:
    struct Table {
        bpf_map_type type;
        uint32_t key_bytes, value_bytes, entries;
        std::map<std::string, std::string> values;
    };
    struct Program {
        std::string name, licence, tracepoint;
        std::vector<bpf_insn> code;
    };

    std::map<int, Table> tables;
    std::map<int, Program> loaded;
    std::vector<Program> attached; /* whose descriptors may be closed */
    UserMemory user;
    uint64_t thread = 1;
    std::vector<std::string> printed;
    std::function<void()> on_load = [] {};
    unsigned calls = 0, fails_at = 0; /* of bpf(2), from 1 */

    long call(long command, bpf_attr& a) {
        if (++calls == fails_at) return refuse(EPERM);
        if (command == BPF_MAP_CREATE) {
            const int made = descriptor();
            tables[made] = {
                static_cast<bpf_map_type>(a.map_type), a.key_size, a.value_size, a.max_entries, {}};
            if (a.map_type == BPF_MAP_TYPE_ARRAY)
                for (uint32_t i = 0; i < a.max_entries; i++)
                    tables[made].values[bytes_at(&i, 4)] = std::string(a.value_size, '\0');
            return made;
        }
        if (command == BPF_MAP_UPDATE_ELEM) {
            Table& table = tables.at(static_cast<int>(a.map_fd));
            const std::string key = bytes_at(reinterpret_cast<void*>(a.key), table.key_bytes);
            if (table.type == BPF_MAP_TYPE_ARRAY && !table.values.contains(key)) return refuse(E2BIG);
            table.values[key] = bytes_at(reinterpret_cast<void*>(a.value), table.value_bytes);
            return 0;
        }
        if (command == BPF_PROG_LOAD) {
            if (a.prog_type != BPF_PROG_TYPE_RAW_TRACEPOINT) return refuse(EINVAL);
            const auto* const code = reinterpret_cast<const bpf_insn*>(a.insns);
            const int made = descriptor();
            loaded[made] = {
                a.prog_name, reinterpret_cast<const char*>(a.license), "", {code, code + a.insn_cnt}};
            on_load();
            return made;
        }
        if (command != BPF_RAW_TRACEPOINT_OPEN) return refuse(EINVAL);
        attached.push_back(loaded.at(static_cast<int>(a.raw_tracepoint.prog_fd)));
        attached.back().tracepoint = reinterpret_cast<const char*>(a.raw_tracepoint.name);
        return descriptor();
    }

    /* All that are attached there, with these two words. */
    void hit(std::string_view tracepoint, const void* first, uint64_t second) {
        for (const Program& program : attached) {
            if (program.tracepoint != tracepoint) continue;
            const uint64_t context[2] = {reinterpret_cast<uint64_t>(first), second};
            steps_left_ = 1'000'000;
            readable_ = {{context, sizeof(context)}, {first, kernel_bytes}};
            uint64_t registers[11] = {};
            registers[1] = reinterpret_cast<uint64_t>(context);
            EXPECT_EQ(run(program, 0, registers), 0U);
        }
    }
    /* What lies at `first`, and whether it can be read. */
    std::size_t kernel_bytes = 0;
    bool is_kernel_readable = true;

private:
    static constexpr std::size_t stack_bytes = 512; /* of all functions together, each a multiple of 32 */
    struct Frame {
        const char* end;
        std::size_t used;
    };

    static long refuse(int number) {
        errno = number;
        return -1;
    }
    static int descriptor() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
    static std::string bytes_at(const void* at, std::size_t count) {
        return {static_cast<const char*>(at), count};
    }

    /* Memory of the kernel's that a program may use. */
    char* checked(uint64_t address, std::size_t count) {
        auto* const at = reinterpret_cast<char*>(address);
        if (const auto* const end = frames_.back().end; at < end && at >= end - stack_bytes)
            frames_.back().used = std::max(frames_.back().used, static_cast<std::size_t>(end - at));
        for (const auto& [begin, bytes] : readable_) {
            const auto* const first = static_cast<const char*>(begin);
            if (at >= first && at + count <= first + bytes) return at;
        }
        ADD_FAILURE() << count << " bytes that are not the program's";
        steps_left_ = 0;
        return nowhere_;
    }

    char* aligned(uint64_t address, std::size_t count) {
        EXPECT_EQ(address % count, 0U);
        return checked(address, count);
    }

    static bool is_taken(int operation, uint64_t left, uint64_t right) {
        switch (operation) {
        case BPF_JA:
            return true;
        case BPF_JEQ:
            return left == right;
        case BPF_JNE:
            return left != right;
        case BPF_JGT:
            return left > right;
        case BPF_JGE:
            return left >= right;
        case BPF_JLT:
            return left < right;
        case BPF_JLE:
            return left <= right;
        case BPF_JSET:
            return (left & right) != 0;
        case BPF_JSLT:
            return static_cast<int64_t>(left) < static_cast<int64_t>(right);
        default:
            ADD_FAILURE() << "jump " << operation;
            return false;
        }
    }
    static uint64_t computed(int operation, uint64_t left, uint64_t right) {
        switch (operation) {
        case BPF_ADD:
            return left + right;
        case BPF_SUB:
            return left - right;
        case BPF_OR:
            return left | right;
        case BPF_AND:
            return left & right;
        case BPF_LSH:
            return left << right;
        case BPF_RSH:
            return left >> right;
        case BPF_MOV:
            return right;
        default:
            ADD_FAILURE() << "operation " << operation;
            return 0;
        }
    }
    static std::size_t size_of(int code) {
        switch (code & 0x18) {
        case BPF_B:
            return 1;
        case BPF_H:
            return 2;
        case BPF_W:
            return 4;
        default:
            return 8;
        }
    }

    /* A function, from its first instruction to its exit. What it was given is in r1 to r5. */
    uint64_t run(const Program& program, std::size_t at, uint64_t (&given)[11]) {
        std::vector<char> stack(stack_bytes, '\x5a');
        const auto readable = readable_;
        readable_.emplace_back(stack.data(), stack.size());
        frames_.push_back({stack.data() + stack.size(), 0});
        const auto leave = [&](uint64_t result) {
            std::size_t used = 0;
            for (const Frame& frame : frames_)
                used += (frame.used + 31) / 32 * 32;
            EXPECT_LE(used, stack_bytes) << program.name;
            frames_.pop_back();
            readable_ = readable;
            return result;
        };
        uint64_t r[11];
        std::memcpy(r, given, sizeof(r));
        r[10] = reinterpret_cast<uint64_t>(stack.data() + stack.size());
        for (; steps_left_ > 0 && at < program.code.size(); at++, steps_left_--) {
            const bpf_insn& i = program.code[at];
            const auto number = static_cast<uint64_t>(int64_t{i.imm});
            const uint64_t right = BPF_SRC(i.code) == BPF_X ? r[i.src_reg] : number;
            const uint64_t offset = static_cast<uint64_t>(int64_t{i.off});
            switch (BPF_CLASS(i.code)) {
            case BPF_ALU64:
                r[i.dst_reg] = computed(BPF_OP(i.code), r[i.dst_reg], right);
                break;
            case BPF_LDX: {
                const std::size_t size = size_of(i.code);
                const char* const from = aligned(r[i.src_reg] + offset, size);
                r[i.dst_reg] = 0;
                std::memcpy(&r[i.dst_reg], from, size);
                break;
            }
            case BPF_ST:
            case BPF_STX: {
                const uint64_t stored = BPF_CLASS(i.code) == BPF_ST ? number : r[i.src_reg];
                const std::size_t size = size_of(i.code);
                std::memcpy(aligned(r[i.dst_reg] + offset, size), &stored, size);
                break;
            }
            case BPF_LD: {
                Table& table = tables.at(i.imm);
                r[i.dst_reg] = static_cast<uint64_t>(i.imm);
                if (i.src_reg == BPF_PSEUDO_MAP_VALUE) {
                    std::string& only = table.values.begin()->second;
                    r[i.dst_reg] = reinterpret_cast<uint64_t>(only.data());
                    readable_.emplace_back(only.data(), only.size());
                }
                at++;
                break;
            }
            default:
                if (BPF_OP(i.code) == BPF_EXIT) return leave(r[0]);
                if (BPF_OP(i.code) == BPF_CALL)
                    r[0] = i.src_reg == BPF_PSEUDO_CALL
                               ? run(program, at + 1 + static_cast<std::size_t>(int64_t{i.imm}), r)
                               : help(static_cast<bpf_func_id>(i.imm), r);
                else if (is_taken(BPF_OP(i.code), r[i.dst_reg], right))
                    at += static_cast<std::size_t>(offset);
                if (BPF_OP(i.code) == BPF_CALL) /* they are lost in it */
                    for (int lost = 1; lost <= 5; lost++)
                        r[lost] = 0xdeaddeaddeaddead;
            }
        }
        ADD_FAILURE() << program.name << " does not end, or runs over its end";
        steps_left_ = 0;
        return leave(0);
    }

    uint64_t help(bpf_func_id function, const uint64_t (&r)[11]) {
        const auto wrong = static_cast<uint64_t>(-EFAULT);
        switch (function) {
        case BPF_FUNC_get_current_pid_tgid:
            return thread;
        case BPF_FUNC_probe_read_kernel:
            if (!is_kernel_readable) return wrong;
            std::memcpy(checked(r[1], r[2]), checked(r[3], r[2]), r[2]);
            return 0;
        case BPF_FUNC_probe_read_user: {
            char* const to = checked(r[1], r[2]);
            for (uint64_t i = 0; i < r[2]; i++)
                if (!user.read(r[3] + i, to[i])) return wrong;
            return 0;
        }
        case BPF_FUNC_probe_read_user_str: {
            char* const to = checked(r[1], r[2]);
            for (uint64_t i = 0; i < r[2]; i++) {
                if (!user.read(r[3] + i, to[i])) return wrong;
                if (to[i] == '\0') return i + 1;
            }
            to[r[2] - 1] = '\0';
            return r[2];
        }
        case BPF_FUNC_trace_printk: {
            std::string text = checked(r[1], r[2]);
            replace(text, "%llx", fmt::format("{:x}", r[3]));
            replace(text, "%pks", checked(r[4], 1));
            printed.push_back(text);
            return text.size();
        }
        case BPF_FUNC_map_lookup_elem: {
            Table& table = tables.at(static_cast<int>(r[1]));
            const auto found = table.values.find(bytes_at(checked(r[2], table.key_bytes), table.key_bytes));
            if (found == table.values.end()) return 0;
            readable_.emplace_back(found->second.data(), found->second.size());
            return reinterpret_cast<uint64_t>(found->second.data());
        }
        case BPF_FUNC_map_update_elem: {
            Table& table = tables.at(static_cast<int>(r[1]));
            EXPECT_EQ(r[4], uint64_t{BPF_ANY});
            table.values[bytes_at(checked(r[2], table.key_bytes), table.key_bytes)] =
                bytes_at(checked(r[3], table.value_bytes), table.value_bytes);
            return 0;
        }
        case BPF_FUNC_map_delete_elem: {
            Table& table = tables.at(static_cast<int>(r[1]));
            return table.values.erase(bytes_at(checked(r[2], table.key_bytes), table.key_bytes)) - 1;
        }
        default:
            ADD_FAILURE() << "function " << function;
            return wrong;
        }
    }
    static void replace(std::string& text, std::string_view what, const std::string& by) {
        const std::size_t at = text.find(what);
        ASSERT_NE(at, std::string::npos);
        text.replace(at, what.size(), by);
    }

    std::vector<std::pair<const void*, std::size_t>> readable_;
    std::vector<Frame> frames_;
    uint64_t steps_left_ = 0;
    char nowhere_[512] = {};
};

} // namespace plumb::test
