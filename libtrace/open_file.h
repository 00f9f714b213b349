// A file that is open for a moment, in a program whose other threads count on the lowest free descriptor: close(0), then
// open() is to give 0. So it has the lowest one as briefly as can be, and then one from the end of the table.
//
// A program may also close all that it does not know, or put a file of its own in the place. What stands at our number is
// closed only if it is our file.
#pragma once

#include "system.h"

namespace plumb {

class OpenFile {
public:
    OpenFile(int directory, const char* path, int flags, int mode = 0);
    OpenFile(const char* path, int flags) : OpenFile(AT_FDCWD, path, flags) {}
    ~OpenFile();
    OpenFile(OpenFile&& other) noexcept;
    OpenFile& operator=(OpenFile&& other) noexcept;
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    static OpenFile failed(int error) { return OpenFile(error); }
    static OpenFile taken_over(int number); // a descriptor that the kernel has given in another way

    int number() const { return number_; } // or -errno

private:
    explicit OpenFile(int number) : number_(number) {}
    bool move_away(int directory, const char* path);

    int number_ = -EBADF;
    bool known_ = false; // what follows is
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

// How large the process's table of descriptors is, from /proc/self/status. Until it is called, files stay where they are
// opened: what moves them takes calls that a filter may not know, and a dynamic linker that loads us does no better.
void know_descriptor_table(uint32_t slots);
bool is_descriptor_table_outgrown(); // one of ours found its place behind it

} // namespace plumb
