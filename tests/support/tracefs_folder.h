// A directory that looks like tracefs with one instance in it, whose per-CPU buffers are files: what is read from them is
// gone for the next who reads from the same descriptor, as with the kernel's.
#pragma once

#include "consumerd/kernel/kernel_session.h"
#include "tests/support/kernel_pages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace plumb::test {

class TracefsFolder {
public:
    static constexpr size_t page_bytes = 4096;
    static constexpr uint64_t cookie = 0xfeedc0ffee;

    TracefsFolder() {
        char pattern[] = "/tmp/plumb-tracefs-XXXXXX";
        EXPECT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
        instance_ = fmt::format("{}/instances/plumb_{:016x}", root_, cookie);
        write(instance_ + "/events/header_page", "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
                                                 "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
                                                 "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n");
        write(instance_ + "/buffer_size_kb", "64\n");
        write(instance_ + "/set_event", "test:number\n");
        write(instance_ + "/events/test/number/format",
              format_of("number", "42", "\tfield:u32 number;\toffset:8;\tsize:4;\tsigned:0;\n"));
    }
    ~TracefsFolder() { std::filesystem::remove_all(root_); }
    TracefsFolder(const TracefsFolder&) = delete;
    TracefsFolder& operator=(const TracefsFolder&) = delete;

    /* In the buffer of a CPU, in this order; each is made as long as a page. */
    void add_cpu(unsigned cpu, const std::vector<std::vector<std::byte>>& pages) const {
        std::string all;
        for (std::vector<std::byte> page : pages) {
            page.resize(page_bytes);
            all.append(reinterpret_cast<const char*>(page.data()), page.size());
        }
        const std::string folder = fmt::format("{}/per_cpu/cpu{}", instance_, cpu);
        write(folder + "/trace_pipe_raw", all);
        write(folder + "/stats",
              "entries: 0\noverrun: 0\ncommit overrun: 0\ndropped events: 0\nread events: 0\n");
    }
    /* What the kernel has counted for it by now. */
    void set_counts(unsigned cpu, uint64_t overrun, uint64_t dropped, uint64_t read,
                    uint64_t commit_overrun = 0) const {
        write(
            fmt::format("{}/per_cpu/cpu{}/stats", instance_, cpu),
            fmt::format("entries: 0\noverrun: {}\ncommit overrun: {}\ndropped events: {}\nread events: {}\n",
                        overrun, commit_overrun, dropped, read));
    }
    void set_buffer_kilobytes(int kilobytes) const {
        write(instance_ + "/buffer_size_kb", std::to_string(kilobytes) + "\n");
    }
    /* Whose buffer can be opened, and not read. */
    void add_broken_cpu(unsigned cpu) const {
        add_cpu(cpu, {});
        const std::string raw = fmt::format("{}/per_cpu/cpu{}/trace_pipe_raw", instance_, cpu);
        std::filesystem::remove(raw);
        std::filesystem::create_directory(raw);
    }
    /* As a recording does that names threads. */
    void add_renames() const {
        write(instance_ + "/set_event", "test:number\ntask:task_rename\n");
        const std::string folder = instance_ + "/events/task/task_rename";
        write(folder + "/format",
              format_of("task_rename", "43",
                        "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
                        "\tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
                        "\tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;\n"
                        "\tfield:short oom_score_adj;\toffset:44;\tsize:2;\tsigned:1;\n"));
        write(folder + "/filter", std::string(filter_of_ours) + "\n");
    }
    /* As a recording of forks does. */
    void add_forks() const {
        write(instance_ + "/set_event", "test:number\nsched:sched_process_fork\ntask:task_newtask\n");
        write(instance_ + "/events/sched/sched_process_fork/format",
              format_of("sched_process_fork", "44",
                        "\tfield:char parent_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                        "\tfield:pid_t parent_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
                        "\tfield:char child_comm[16];\toffset:28;\tsize:16;\tsigned:0;\n"
                        "\tfield:pid_t child_pid;\toffset:44;\tsize:4;\tsigned:1;\n"));
        const std::string folder = instance_ + "/events/task/task_newtask";
        write(folder + "/format",
              format_of("task_newtask", "45",
                        "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
                        "\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
                        "\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;\n"
                        "\tfield:short oom_score_adj;\toffset:40;\tsize:2;\tsigned:1;\n"));
        write(folder + "/filter", std::string(filter_of_ours) + "\n");
    }
    const std::string& root() const { return root_; }
    const std::string& instance() const { return instance_; }

    /* Of the one event that it has. */
    static std::vector<std::byte> number_event(uint32_t thread_id, uint32_t number) {
        return Bytes().put(uint16_t{42}).put(uint16_t{0}).put(thread_id).put(number).vector();
    }

    static std::vector<std::byte> rename_event(uint32_t thread_id, const std::string& name) {
        Bytes bytes;
        bytes.put(uint16_t{43}).put(uint16_t{0}).put(thread_id).put(thread_id);
        bytes.text("old").fill(28).text(name).fill(44);
        return bytes.put(uint16_t{0}).put(uint16_t{0}).vector();
    }

    static std::vector<std::byte> fork_event(uint32_t parent, uint32_t child) {
        Bytes bytes;
        bytes.put(uint16_t{44}).put(uint16_t{0}).put(parent).text("maker").fill(24).put(parent);
        return bytes.text("made").fill(44).put(child).vector();
    }
    static std::vector<std::byte> newtask_event(uint32_t by, uint32_t thread_id, bool is_thread) {
        Bytes bytes;
        bytes.put(uint16_t{45}).put(uint16_t{0}).put(by).put(thread_id).text("made").fill(32);
        return bytes.put(uint64_t{is_thread ? 0x10000u : 0}).put(uint32_t{0}).vector();
    }

private:
    static void write(const std::string& path, const std::string& content) {
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path, std::ios::binary) << content;
    }

    std::string root_, instance_;
};

} // namespace plumb::test
