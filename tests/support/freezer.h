/*
 * A cgroup whose processes can be frozen: of version 1, or 2 where that is all there is. As root, where one can be made.
 */
#ifndef PLUMB_TESTS_SUPPORT_FREEZER_H
#define PLUMB_TESTS_SUPPORT_FREEZER_H

#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb::test {

class Freezer {
public:
    Freezer() {
        for (const char* root : {"/sys/fs/cgroup/freezer", "/sys/fs/cgroup"}) {
            path_ = std::string(root) + "/plumb-test-" + std::to_string(::getpid());
            is_made_ = ::mkdir(path_.c_str(), 0700) == 0;
            is_of_version_1_ = is_made_ && ::access((path_ + "/freezer.state").c_str(), W_OK) == 0;
            if (is_of_version_1_ || (is_made_ && ::access((path_ + "/cgroup.freeze").c_str(), W_OK) == 0))
                return;
            if (is_made_) ::rmdir(path_.c_str());
            is_made_ = false;
        }
    }
    ~Freezer() {
        if (is_made_) thaw();
        for (int tries = 0; is_made_ && tries < 1000 && ::rmdir(path_.c_str()) != 0; tries++)
            ::usleep(1000); /* its processes end in a moment */
    }
    Freezer(const Freezer&) = delete;
    Freezer& operator=(const Freezer&) = delete;

    bool is_there() const { return is_made_; }
    /* Returns when all of its threads are; false if some run on for 20 seconds. */
    bool freeze(pid_t process) {
        write("cgroup.procs", std::to_string(process));
        write(is_of_version_1_ ? "freezer.state" : "cgroup.freeze", is_of_version_1_ ? "FROZEN" : "1");
        for (int tries = 0; tries < 20'000; tries++) {
            if (is_frozen()) return true;
            ::usleep(1000);
        }
        return false;
    }
    void thaw() {
        write(is_of_version_1_ ? "freezer.state" : "cgroup.freeze", is_of_version_1_ ? "THAWED" : "0");
    }

private:
    void write(const std::string& name, const std::string& value) {
        std::ofstream(path_ + "/" + name) << value << std::flush;
    }
    /* "FREEZING": some still run. */
    bool is_frozen() const {
        std::ifstream file(path_ + (is_of_version_1_ ? "/freezer.state" : "/cgroup.events"));
        for (std::string line; std::getline(file, line);)
            if (line == "FROZEN" || line == "frozen 1") return true;
        return false;
    }

    std::string path_;
    bool is_made_ = false;
    bool is_of_version_1_ = false;
};

} // namespace plumb::test

#endif
