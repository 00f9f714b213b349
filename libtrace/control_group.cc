// Whether this process is in a control group that a rule names, or below it. It asks nobody: its own path, as /proc/self/cgroup has
// it, begins with the group's, and the rule says how that is called in the cgroup namespace that the process is in. Nothing of
// /sys/fs/cgroup is needed, and nothing is looked at unless a rule asks.
#include "open_file.h"
#include "runtime.h"

#include <plumb/detail/state_layout.h>

namespace plumb {

namespace {

constexpr uint32_t depth_unknown = PLUMB_CGROUP_DEPTH_UNKNOWN;

// Its own group: hashes of the path's beginnings, from none of it to all of it. Of the owner of `updating`.
struct OwnGroup {
    bool is_looked_at;
    uint32_t name_space;
    uint32_t depth; // the last of `beginnings`
    uint64_t beginnings[depth_unknown];
};
constinit OwnGroup own = {};

// Takes /proc/self/cgroup byte by byte: a path may be longer than there is room on a stack. The line of version 2 is "0::/path".
class GroupReader {
public:
    explicit GroupReader(OwnGroup& group) : group_(group) {}
    bool is_over() const { return is_over_; }

    void take(char c) {
        constexpr char mark[] = "0::";
        constexpr uint32_t mark_bytes = sizeof(mark) - 1;
        if (c == '\n' && matched_ == mark_bytes) return end();
        if (c == '\n') {
            matched_ = 0;
        } else if (matched_ < mark_bytes) {
            matched_ = matched_ != skips && c == mark[matched_] ? matched_ + 1 : skips;
        } else if (matched_ == mark_bytes) {
            take_of_path(c);
        }
    }

private:
    static constexpr uint32_t skips = ~0u; // the rest of this line

    void take_of_path(char c) {
        if (c == '/') end_name();
        is_above_ = c == '.' && (is_above_ || name_bytes_ == 0);
        if (c != '/') name_bytes_++;
        hash_ = plumb_cgroup_hash(hash_, c);
    }
    void end_name() {
        if (name_bytes_ == 0) return;
        // "/..": outside of the namespace's root, so nothing can be told.
        if ((is_above_ && name_bytes_ == 2) || ++depth_ >= depth_unknown) is_lost_ = true;
        if (!is_lost_) group_.beginnings[depth_] = hash_;
        name_bytes_ = 0;
    }
    void end() {
        end_name();
        is_over_ = true;
        group_.beginnings[0] = PLUMB_CGROUP_HASH_START;
        group_.depth = is_lost_ ? depth_unknown : depth_;
    }

    OwnGroup& group_;
    uint64_t hash_ = PLUMB_CGROUP_HASH_START;
    uint32_t matched_ = 0, depth_ = 0, name_bytes_ = 0;
    bool is_above_ = false; // the name has dots alone so far
    bool is_lost_ = false, is_over_ = false;
};

bool read_group(const char* name_space, const char* group_path, OwnGroup& group) {
    group.depth = depth_unknown;
    struct stat info;
    if (sys::status_of(name_space, &info) != 0) return false;
    group.name_space = static_cast<uint32_t>(info.st_ino);
    const OpenFile file(group_path, O_RDONLY);
    GroupReader reader(group);
    char text[256];
    long bytes;
    while (!reader.is_over() && (bytes = sys::read(file.number(), text, sizeof(text))) > 0)
        for (long i = 0; i < bytes && !reader.is_over(); i++)
            reader.take(text[i]);
    return group.depth != depth_unknown;
}

// The process's, or if its first thread has ended, of which the kernel shows no namespaces then, this thread's. Who does not see it any
// more, behind a chroot(), is still where it was.
void look_at_own_group() {
    static OwnGroup seen;
    if (own.is_looked_at) return;
    if (read_group("/proc/self/ns/cgroup", "/proc/self/cgroup", seen) ||
        read_group("/proc/thread-self/ns/cgroup", "/proc/thread-self/cgroup", seen) || own.name_space == 0)
        own = seen;
    own.is_looked_at = true;
}

} // namespace

void forget_control_group() {
    own.is_looked_at = false;
}

Membership membership_in(const plumb_rule_cgroup& group) {
    look_at_own_group();
    if (own.depth == depth_unknown) return Membership::not_known;
    for (uint32_t i = 0; i < PLUMB_CGROUP_PLACES; i++) {
        if (group.name_space[i] != own.name_space) continue;
        for (uint32_t depth = 0; depth <= own.depth; depth++)
            if (own.beginnings[depth] == group.path_hash[i]) return Membership::is_in;
        return Membership::is_out;
    }
    return Membership::not_known;
}

int control_group_error() {
    return PLUMB_ERROR_NO_CGROUP(static_cast<int>(own.depth));
}

} // namespace plumb
