// Says who writes: a channel gets an entry for the process and its loaded objects when the process attaches,
// and one for each thread before its first record, so that every record can be attributed after both are
// gone.
//
// The loaded objects come from /proc/self/maps and their headers in memory: dl_iterate_phdr() takes a lock of
// the dynamic linker, and this may run in a signal handler.
#include "runtime.h"

#include <elf.h>
#include <link.h>
#include <sys/prctl.h>

namespace plumb {

namespace {

constexpr uint32_t path_bytes_max = 4096;

// Large structs: static, used by the owner of `updating` alone.
struct ProcessEntry {
    plumb_entry_process fixed;
    char rest[path_bytes_max];
} process_entry;
struct ObjectEntry {
    plumb_entry_object fixed;
    char rest[path_bytes_max];
} object_entry;

// Base addresses that the channels already know, so that a later dlopen() adds only what is new.
constexpr uint32_t known_objects_max = 1024;
uint64_t known_objects[known_objects_max];
uint32_t known_object_count;

uint32_t entry_bytes(size_t fixed_bytes, size_t path_offset, size_t path_bytes) {
    const size_t bytes = path_offset + path_bytes + 1;
    return static_cast<uint32_t>(bytes < fixed_bytes ? fixed_bytes : bytes);
}

// Copies at most path_bytes_max - 1 bytes and ends them with NUL; returns the bytes before it.
size_t copy_path(char* to, const char* from, size_t bytes) {
    if (bytes > path_bytes_max - 1) bytes = path_bytes_max - 1;
    __builtin_memcpy(to, from, bytes);
    to[bytes] = '\0';
    return bytes;
}

void find_build_id(const unsigned char* note, size_t bytes, plumb_entry_object& entry) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) header;
        __builtin_memcpy(&header, note, sizeof(header));
        const size_t name_bytes = (size_t{header.n_namesz} + 3) & ~size_t{3};
        const size_t content_bytes = (size_t{header.n_descsz} + 3) & ~size_t{3};
        const size_t all_bytes = sizeof(header) + name_bytes + content_bytes;
        if (all_bytes > bytes) return;
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
            __builtin_memcmp(note + sizeof(header), "GNU", 4) == 0 &&
            header.n_descsz <= sizeof(entry.build_id)) {
            entry.build_id_bytes = static_cast<uint8_t>(header.n_descsz);
            __builtin_memcpy(entry.build_id, note + sizeof(header) + name_bytes, header.n_descsz);
            return;
        }
        note += all_bytes;
        bytes -= all_bytes;
    }
}

// [start, end) is the first, readable mapping of a file from offset 0.
void read_elf_header(const unsigned char* start, const unsigned char* end, plumb_entry_object& entry) {
    const auto bytes = static_cast<size_t>(end - start);
    ElfW(Ehdr) header;
    if (bytes < sizeof(header)) return;
    __builtin_memcpy(&header, start, sizeof(header));
    if (__builtin_memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)))
        return;
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        const uint64_t offset = header.e_phoff + i * sizeof(ElfW(Phdr));
        if (offset > bytes || sizeof(ElfW(Phdr)) > bytes - offset) return;
        ElfW(Phdr) segment;
        __builtin_memcpy(&segment, start + offset, sizeof(segment));
        if (segment.p_type == PT_NOTE && segment.p_offset <= bytes &&
            segment.p_filesz <= bytes - segment.p_offset)
            find_build_id(start + segment.p_offset, segment.p_filesz, entry);
    }
}

struct Mapping {
    uint64_t start, end, offset;
    bool readable, executable;
    const char* path; // not NUL-terminated
    size_t path_bytes;
};

uint64_t parse_hex(const char*& at) {
    uint64_t value = 0;
    for (;; at++) {
        if (*at >= '0' && *at <= '9')
            value = value << 4 | static_cast<uint64_t>(*at - '0');
        else if (*at >= 'a' && *at <= 'f')
            value = value << 4 | static_cast<uint64_t>(*at - 'a' + 10);
        else
            return value;
    }
}

// One line of /proc/self/maps, NUL-terminated: start-end perms offset device inode path
bool parse_mapping(const char* line, Mapping& mapping) {
    mapping.start = parse_hex(line);
    if (*line++ != '-') return false;
    mapping.end = parse_hex(line);
    if (*line++ != ' ') return false;
    mapping.readable = line[0] == 'r';
    mapping.executable = line[0] != '\0' && line[1] != '\0' && line[2] == 'x';
    for (int spaces = 0; *line != '\0' && spaces < 1; line++)
        spaces += *line == ' ';
    mapping.offset = parse_hex(line);
    while (*line != '\0' && *line != '/')
        line++;
    mapping.path = line;
    mapping.path_bytes = __builtin_strlen(line);
    return *line == '/';
}

// Collects the mappings of one file and adds an entry when the next file begins.
class ObjectList {
public:
    explicit ObjectList(uint32_t sessions) : sessions_(sessions) {}

    void add(const Mapping& mapping) {
        plumb_entry_object& entry = object_entry.fixed;
        if (!current_ || mapping.path_bytes != path_bytes_ ||
            __builtin_memcmp(entry.path, mapping.path, path_bytes_) != 0) {
            finish();
            if (mapping.offset != 0 || !mapping.readable) return;
            __builtin_memset(&object_entry, 0, sizeof(plumb_entry_object));
            entry.entry.type = PLUMB_ENTRY_OBJECT;
            entry.entry.thread_id = sys::thread_id();
            entry.base = mapping.start;
            path_bytes_ = copy_path(entry.path, mapping.path, mapping.path_bytes);
            first_end_ = mapping.end;
            current_ = true;
        }
        entry.bytes = mapping.end - entry.base;
        executable_ |= mapping.executable;
    }

    void finish() {
        plumb_entry_object& entry = object_entry.fixed;
        if (current_ && executable_ && is_new(entry.base)) {
            read_elf_header(reinterpret_cast<const unsigned char*>(entry.base),
                            reinterpret_cast<const unsigned char*>(first_end_), entry);
            const uint32_t bytes =
                entry_bytes(sizeof(entry), offsetof(plumb_entry_object, path), path_bytes_);
            for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
                if ((sessions_ >> s & 1) != 0) add_entry(runtime.attachments[s], entry.entry, bytes);
            }
        }
        current_ = executable_ = false;
    }

    bool everything = true; // false: only what is not in known_objects

private:
    bool is_new(uint64_t base) const {
        for (uint32_t i = 0; i < known_object_count; i++) {
            if (known_objects[i] == base) return everything;
        }
        if (known_object_count < known_objects_max) known_objects[known_object_count++] = base;
        return true;
    }

    uint32_t sessions_;
    bool current_ = false;
    bool executable_ = false;
    size_t path_bytes_ = 0;
    uint64_t first_end_ = 0;
};

void introduce_objects(uint32_t sessions, bool everything) {
    static char buffer[2 * path_bytes_max + 1];
    const int fd = sys::open("/proc/self/maps", O_RDONLY);
    if (fd < 0) return;
    ObjectList objects(sessions);
    objects.everything = everything;
    size_t used = 0;
    for (;;) {
        const long got = sys::read(fd, buffer + used, sizeof(buffer) - 1 - used);
        if (got <= 0) break;
        used += static_cast<size_t>(got);
        size_t line = 0;
        for (size_t i = 0; i < used; i++) {
            if (buffer[i] != '\n') continue;
            buffer[i] = '\0';
            Mapping mapping;
            if (parse_mapping(buffer + line, mapping)) objects.add(mapping);
            line = i + 1;
        }
        if (line == 0) break; // a line longer than any path can be
        __builtin_memmove(buffer, buffer + line, used - line);
        used -= line;
    }
    objects.finish();
    sys::close(fd);
}

} // namespace

void know_executable() {
    if (runtime.executable_known) return;
    char* to = runtime.request.executable;
    const long bytes = sys::read_link("/proc/self/exe", to, sizeof(runtime.request.executable) - 1);
    to[bytes > 0 ? bytes : 0] = '\0';
    runtime.executable_known = true;
}

void introduce_process(Attachment& attachment, bool with_objects) {
    know_executable();
    plumb_entry_process& entry = process_entry.fixed;
    __builtin_memset(&entry, 0, sizeof(entry));
    entry.entry.type = PLUMB_ENTRY_PROCESS;
    entry.entry.thread_id = sys::thread_id();
    entry.parent_process_id = static_cast<uint32_t>(sys::call(SYS_getppid));
    entry.user_id = static_cast<uint32_t>(sys::call(SYS_getuid));
    const int fd = sys::open("/proc/self/comm", O_RDONLY);
    if (fd >= 0) {
        const long bytes = sys::read(fd, entry.name, sizeof(entry.name) - 1);
        if (bytes > 0 && entry.name[bytes - 1] == '\n') entry.name[bytes - 1] = '\0';
        sys::close(fd);
    }
    const char* path = runtime.request.executable;
    const size_t path_bytes = copy_path(entry.executable, path, __builtin_strlen(path));
    add_entry(attachment, entry.entry,
              entry_bytes(sizeof(entry), offsetof(plumb_entry_process, executable), path_bytes));
    if (with_objects) introduce_objects(1u << (&attachment - runtime.attachments), true);
}

void introduce_new_objects() {
    uint32_t sessions = 0;
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        if (runtime.attachments[s].usable != 0) sessions |= 1u << s;
    }
    if (sessions != 0) introduce_objects(sessions, false);
}

void introduce_thread() {
    plumb_thread& self = plumb_thread_self;
    if (self.id == 0) store_relaxed(self.id, sys::thread_id());
    const uint32_t known = self.epoch;
    // First: a signal handler that traces in the middle of this may introduce the thread twice, but never not
    // at all.
    uint32_t newest = known;
    for (Attachment& attachment : runtime.attachments) {
        const uint32_t epoch = load_acquire(attachment.epoch);
        if (load_acquire(attachment.usable) == 0 || epoch <= known) continue;
        plumb_entry_thread entry = {};
        entry.entry.type = PLUMB_ENTRY_THREAD;
        entry.entry.thread_id = self.id;
        sys::call(SYS_prctl, PR_GET_NAME, entry.name, 0, 0, 0);
        add_entry(attachment, entry.entry, sizeof(entry));
        if (epoch > newest) newest = epoch;
    }
    store_relaxed(self.epoch, newest);
}

} // namespace plumb
