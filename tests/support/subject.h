// A running tests/fixtures/subject: starts it, talks to it, ends it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <sys/types.h>
#include <vector>

namespace plumb::test {

class Subject {
public:
    // Returns when its threads are in place. `program` is "subject" or "subject_sync".
    explicit Subject(const std::vector<std::string>& what, const std::string& program = "subject",
                     const std::vector<std::string>& environment = {});
    ~Subject(); // ends it, whatever state it is in
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    pid_t process_id() const { return process_; }
    uint32_t id() const { return static_cast<uint32_t>(process_); }
    // Of the thread made for the what with this index, threads counted only.
    uint32_t thread(size_t index) const { return threads_.at(index); }
    void send(const std::string& command) const;
    // Sends it and returns the line that comes back.
    std::string ask(const std::string& command);
    uint64_t number(const std::string& command);
    // Ends it and waits for it: its exit status, or 128 + the signal that killed it.
    int end();
    // Whether it has not ended, zombies excluded.
    bool is_alive() const;

private:
    std::string read_line();

    pid_t process_ = -1;
    int to_ = -1;
    FILE* from_ = nullptr;
    std::vector<uint32_t> threads_;
};

} // namespace plumb::test
