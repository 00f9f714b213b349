// A place in the test's own /dev/shm, of a size that the test chooses, removed at the end.
#pragma once

#include <string>

namespace plumb::test {

class ScratchShm {
public:
    // `bytes`: the size of the file system mounted there; 0: the test's /dev/shm as it is.
    explicit ScratchShm(unsigned long bytes = 0);
    ~ScratchShm();
    ScratchShm(const ScratchShm&) = delete;
    ScratchShm& operator=(const ScratchShm&) = delete;
    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
    bool is_mounted_ = false;
};

} // namespace plumb::test
