// Whether other processes still live, by /proc; where that cannot be read, they do.
#include "runtime.h"
#include "text.h"

namespace plumb {

// The kernel lets signals be sent to a zombie, so kill() does not tell.
bool is_zombie(uint32_t process_id, uint32_t thread_id) {
    char path[64];
    char* end = append_decimal(append(path, "/proc/"), process_id);
    append(append_decimal(append(end, "/task/"), thread_id), "/stat");
    const int fd = sys::open(path, O_RDONLY);
    if (fd < 0) return false;
    char line[128];
    const long bytes = sys::read(fd, line, sizeof(line));
    sys::close(fd);
    // "pid (name) state ...": the name may hold anything, but is at most 64 bytes long.
    for (long i = bytes - 3; i > 0; i--) {
        if (line[i] == ')') return line[i + 2] == 'Z' || line[i + 2] == 'X';
    }
    return false;
}

} // namespace plumb
