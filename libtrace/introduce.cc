// Says who writes: a channel gets an entry for the process and its loaded objects when the process attaches,
// and one for each thread before its first record, so that every record can be attributed after both are
// gone.
//
// The loaded objects come from /proc/self/maps and their headers in memory: dl_iterate_phdr() takes a lock of
// the dynamic linker, and this may run in a signal handler.
#include "bytes.h"
#include "known_objects.h"
#include "open_file.h"
#include "runtime.h"

#include <elf.h>
#include <link.h>
#include <sys/prctl.h>

namespace plumb {

namespace {

constexpr uint32_t path_bytes_max = 4096;
constexpr uint64_t page_bytes = 4096;
constexpr uint64_t object_bytes_max = uint64_t{1} << 40; // more is damage

// Large structs: static, used by the owner of `updating` alone.
struct ProcessEntry {
    plumb_entry_process fixed;
    char rest[path_bytes_max];
} process_entry;
struct ObjectEntry {
    plumb_entry_object fixed;
    char rest[path_bytes_max];
} object_entry;

constinit KnownObjects known_objects;

uint64_t hash_path(const char* path, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ static_cast<unsigned char>(path[i])) * 0x100000001b3u;
    return hash;
}

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

// A removed file is called so in /proc. What executables are called by is without it whether they are removed or not, as it is for
// the recorder (base/processes.h).
size_t bytes_without_deleted(const char* path, size_t bytes) {
    static constexpr char mark[] = " (deleted)";
    constexpr size_t mark_bytes = sizeof(mark) - 1;
    if (bytes <= mark_bytes || !are_same(path + bytes - mark_bytes, mark, mark_bytes)) return bytes;
    return bytes - mark_bytes;
}

bool take_build_id(const unsigned char* note, size_t bytes, plumb_entry_object& entry) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) header;
        __builtin_memcpy(&header, note, sizeof(header));
        const size_t name_bytes = (size_t{header.n_namesz} + 3) & ~size_t{3};
        const size_t content_bytes = (size_t{header.n_descsz} + 3) & ~size_t{3};
        const size_t all_bytes = sizeof(header) + name_bytes + content_bytes;
        if (all_bytes > bytes) return false;
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
            are_same(note + sizeof(header), "GNU", 4) && header.n_descsz <= sizeof(entry.build_id)) {
            entry.build_id_bytes = static_cast<uint8_t>(header.n_descsz);
            __builtin_memcpy(entry.build_id, note + sizeof(header) + name_bytes, header.n_descsz);
            return true;
        }
        note += all_bytes;
        bytes -= all_bytes;
    }
    return false;
}

// `base` is where a file is mapped from its offset 0, `bytes` long. Linkers put the program headers into its
// first page, and nearly always the notes as well. They know where the object ends: its .bss is not mapped from the
// file, and in /proc/self/maps it looks like anybody's memory; and what is mapped behind it may read the file as data. By this
// thread, which `entry` names.
void look_at_headers(uint64_t base, uint64_t bytes, plumb_entry_object& entry) {
    alignas(8) static unsigned char start[4096];
    static unsigned char notes[1024];
    if (bytes < sizeof(start) || !copy_memory(entry.entry.thread_id, base, start, sizeof(start))) return;
    ElfW(Ehdr) header;
    __builtin_memcpy(&header, start, sizeof(header));
    if (!are_same(header.e_ident, ELFMAG, SELFMAG) || header.e_phentsize != sizeof(ElfW(Phdr))) return;
    uint64_t first = UINT64_MAX, object_bytes = 0;
    for (uint64_t i = 0; i < header.e_phnum; i++) {
        if (header.e_phoff > sizeof(start) || (i + 1) * sizeof(ElfW(Phdr)) > sizeof(start) - header.e_phoff)
            return;
        ElfW(Phdr) segment;
        __builtin_memcpy(&segment, start + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_LOAD) {
            const uint64_t page = segment.p_vaddr & ~(page_bytes - 1);
            if (page < first) first = page;
            const uint64_t end = segment.p_vaddr + segment.p_memsz - first;
            if (end > object_bytes && end < object_bytes_max) entry.bytes = object_bytes = end;
        }
        if (entry.build_id_bytes != 0 || segment.p_type != PT_NOTE || segment.p_offset > bytes ||
            segment.p_filesz > bytes - segment.p_offset)
            continue;
        const size_t length = segment.p_filesz < sizeof(notes) ? segment.p_filesz : sizeof(notes);
        if (segment.p_offset + length <= sizeof(start))
            __builtin_memcpy(notes, start + segment.p_offset, length);
        else if (!copy_memory(entry.entry.thread_id, base + segment.p_offset, notes, length))
            continue;
        take_build_id(notes, length, entry);
    }
}

struct Mapping {
    uint64_t start, end, offset, inode;
    char permissions[4];
    const char* path; // not NUL-terminated
    size_t path_bytes;

    bool is_readable() const { return permissions[0] == 'r'; }
    bool is_executable() const { return permissions[2] == 'x'; }
};

uint64_t parse_decimal(const char*& at) {
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        value = value * 10 + static_cast<uint64_t>(*at - '0');
    return value;
}

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

// One line of /proc/self/maps, NUL-terminated: start-end perms offset device inode path. The path is as the kernel writes it there.
bool parse_mapping(const char* line, Mapping& mapping) {
    mapping.start = parse_hex(line);
    if (*line++ != '-') return false;
    mapping.end = parse_hex(line);
    if (*line++ != ' ') return false;
    for (char& permission : mapping.permissions) {
        if (*line == '\0') return false;
        permission = *line++;
    }
    for (int spaces = 0; *line != '\0' && spaces < 1; line++)
        spaces += *line == ' ';
    mapping.offset = parse_hex(line);
    while (*line == ' ')
        line++;
    while (*line != '\0' && *line != ' ') // the device
        line++;
    while (*line == ' ')
        line++;
    mapping.inode = parse_decimal(line);
    while (*line == ' ')
        line++;
    mapping.path = line; // or a name that is none: "[anon:a/b]"
    mapping.path_bytes = length_of(line);
    return *line == '/';
}

bool is_path_of(const char* path, uint64_t inode) {
    struct stat info;
    return sys::status_of(path, &info) == 0 && info.st_ino == inode;
}

constexpr char escape[] = "\\012";
constexpr size_t escape_bytes = sizeof(escape) - 1;

bool has_escape_in(const char* path) {
    while (*path != '\0' && !begins_with(path, escape))
        path++;
    return *path != '\0';
}

// The bytes that are left of a path in which newlines are escaped, as they, and nothing else, are in /proc/self/maps.
size_t put_newlines_back(char* path) {
    char* to = path;
    for (const char* from = path; *from != '\0'; to++) {
        const bool is_escaped = begins_with(from, escape);
        *to = is_escaped ? '\n' : *from;
        from += is_escaped ? escape_bytes : 1;
    }
    *to = '\0';
    return static_cast<size_t>(to - path);
}

// A file may bear the very name that the kernel makes of another one's, so it is looked which of them is there. `path` is the
// mapping's own, and is changed.
void find_path(Mapping& mapping, char* path) {
    const bool has_mark = bytes_without_deleted(path, mapping.path_bytes) != mapping.path_bytes;
    const bool has_escape = has_escape_in(path);
    if ((!has_mark && !has_escape) || is_path_of(path, mapping.inode)) return;
    if (has_escape) mapping.path_bytes = put_newlines_back(path);
    if (has_mark && !(has_escape && is_path_of(path, mapping.inode)))
        mapping.path_bytes = bytes_without_deleted(path, mapping.path_bytes);
}

// Collects the mappings of one image of a file, and adds an entry when the next one begins.
class ObjectList {
public:
    // Sessions that are told of everything, and of what is not known.
    ObjectList(uint32_t told_all, uint32_t told_new) : told_all_(told_all), told_new_(told_new) {}

    void add(const Mapping& mapping) {
        plumb_entry_object& entry = object_entry.fixed;
        if (!goes_on(mapping)) {
            finish();
            if (mapping.offset != 0 || !mapping.is_readable()) return;
            __builtin_memset(&object_entry, 0, sizeof(plumb_entry_object));
            entry.entry.type = PLUMB_ENTRY_OBJECT;
            entry.entry.thread_id = thread_id_;
            entry.base = mapping.start;
            path_bytes_ = copy_path(entry.path, mapping.path, mapping.path_bytes);
            first_end_ = mapping.end;
            inode_ = mapping.inode;
            current_ = true;
        }
        entry.bytes = mapping.end - entry.base;
        executable_ |= mapping.is_executable();
        is_first_page_ = mapping.offset == 0 && mapping.end - mapping.start == page_bytes;
        __builtin_memcpy(permissions_, mapping.permissions, sizeof(permissions_));
    }

    void finish() {
        plumb_entry_object& entry = object_entry.fixed;
        // A file that was built anew is another one, under the same path.
        if (current_ && executable_) tell(hash_path(entry.path, path_bytes_) ^ inode_ * 0x9e3779b97f4a7c15u);
        current_ = executable_ = false;
    }

private:
    void tell(uint64_t file_hash) {
        plumb_entry_object& entry = object_entry.fixed;
        const bool is_new = !known_objects.has(entry.base, file_hash);
        const uint32_t sessions = is_new ? told_all_ | told_new_ : told_all_;
        if (sessions == 0) return;
        look_at_headers(entry.base, first_end_ - entry.base, entry);
        const uint32_t bytes = entry_bytes(sizeof(entry), offsetof(plumb_entry_object, path), path_bytes_);
        for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
            if ((sessions >> s & 1) != 0) add_entry(attachments[s], entry.entry, bytes);
        }
        // Last: a child that another thread forks in between knows nothing of it, and tells it itself.
        if (is_new) known_objects.add(entry.base, entry.base + entry.bytes, file_hash);
    }

    // What begins at the file's start is the next image, or reads the file as data, also where there is no gap. In an image whose
    // first segments share the file's first page, other permissions come with each (base/mapped_file.cc has the same rule).
    bool goes_on(const Mapping& mapping) const {
        const plumb_entry_object& entry = object_entry.fixed;
        if (!current_ || mapping.path_bytes != path_bytes_ ||
            !are_same(entry.path, mapping.path, path_bytes_))
            return false;
        return mapping.offset != 0 || (is_first_page_ && mapping.start == entry.base + entry.bytes &&
                                       !are_same(permissions_, mapping.permissions, sizeof(permissions_)));
    }

    const uint32_t told_all_, told_new_;
    const uint32_t thread_id_ = sys::thread_id();
    bool current_ = false;
    bool executable_ = false;
    bool is_first_page_ = false; // of the file, and nothing else, was the last mapping
    char permissions_[4] = {};   // of the last mapping
    size_t path_bytes_ = 0;
    uint64_t first_end_ = 0, inode_ = 0;
};

void introduce_objects(uint32_t told_all, uint32_t told_new) {
    static char buffer[2 * path_bytes_max + 1];
    const OpenFile maps("/proc/thread-self/maps", O_RDONLY); // what is in "self" ends with the first thread
    if (maps.number() < 0) return;
    known_objects.begin_look();
    ObjectList objects(told_all, told_new);
    size_t used = 0;
    long got;
    while ((got = sys::read(maps.number(), buffer + used, sizeof(buffer) - 1 - used)) > 0) {
        used += static_cast<size_t>(got);
        size_t line = 0;
        for (size_t i = 0; i < used; i++) {
            if (buffer[i] != '\n') continue;
            buffer[i] = '\0';
            Mapping mapping;
            if (parse_mapping(buffer + line, mapping)) {
                find_path(mapping, buffer + (mapping.path - buffer));
                objects.add(mapping);
            }
            line = i + 1;
        }
        if (line == 0) break; // a line longer than any path can be
        __builtin_memmove(buffer, buffer + line, used - line);
        used -= line;
    }
    objects.finish();
    if (got == 0) known_objects.end_look();
}

uint32_t usable_sessions() {
    uint32_t sessions = 0;
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++)
        if (attachments[s].usable != 0) sessions |= 1u << s;
    return sessions;
}

// In a handler that runs in the middle of vfork().
bool is_in_vfork() {
    const uint64_t frame = load_relaxed(plumb_thread_self.in_vfork);
    if (frame == 0) return false;
    if (is_word_there(frame - PLUMB_VFORK_MARK, frame)) return true;
    store_relaxed(plumb_thread_self.in_vfork, uint64_t{0}); // a handler has jumped out of it
    return false;
}

void introduce_thread() {
    plumb_thread& self = plumb_thread_self;
    const uint32_t known = self.introduced;
    // Read before the attachments: sessions become usable in the order of their epochs, so all up to this one
    // are seen below. One that comes meanwhile may be told of this thread twice, but never not at all.
    const uint32_t newest = load_acquire(runtime.epoch);
    for (Attachment& attachment : attachments) {
        if (load_acquire(attachment.usable) == 0 || attachment.epoch <= known) continue;
        plumb_entry_thread entry = {};
        entry.entry.type = PLUMB_ENTRY_THREAD;
        entry.entry.thread_id = self.id;
        sys::call(SYS_prctl, PR_GET_NAME, entry.name, 0, 0, 0);
        add_entry(attachment, entry.entry, sizeof(entry));
    }
    self.introduced = newest;
    store_relaxed(self.epoch, is_in_vfork() ? 0 : newest);
}

// A process is called as its first thread is; false where there is no /proc.
bool read_name_of_first_thread(char* name, size_t bytes) {
    const OpenFile file("/proc/self/comm", O_RDONLY);
    const long read = sys::read(file.number(), name, bytes - 1);
    if (read > 0 && name[read - 1] == '\n') name[read - 1] = '\0';
    return read > 0;
}

// What a child of vfork has of its parent that another one with the same number has not: by how many there were, of the process if our vfork()
// is in front, else of the thread.
static uint64_t which_borrower(const Writer& writer) {
    const plumb_thread& parent = plumb_thread_self;
    const uint64_t words[] = {load_acquire(runtime.epoch), load_relaxed(runtime.vforks), parent.vforks,
                              reinterpret_cast<uint64_t>(&parent)};
    uint64_t hash = writer.thread_id;
    for (const uint64_t each : words)
        hash = (hash ^ each) * 0x9e3779b97f4a7c15u;
    return hash;
}

// It keeps no data of its own, so it is the process that remembers the last ones. Two of them that share a place and take turns, and one
// that is there while another thread calls vfork(), are told of more than once.
void introduce_borrower(const Writer& writer) {
    static uint64_t known[64]; // by thread id
    uint64_t& last = known[writer.thread_id % (sizeof(known) / sizeof(known[0]))];
    const uint64_t now = which_borrower(writer);
    if (exchange_seq_cst(last, now) == now) return;
    plumb_entry_process process = {};
    process.entry.type = PLUMB_ENTRY_PROCESS;
    process.entry.process_id = writer.process_id;
    process.entry.thread_id = writer.thread_id;
    process.parent_process_id = static_cast<uint32_t>(sys::call(SYS_getppid));
    process.user_id = static_cast<uint32_t>(sys::call(SYS_getuid));
    sys::call(SYS_prctl, PR_GET_NAME, process.name, 0, 0, 0);
    const size_t path_bytes = length_of(request.executable);
    if (path_bytes < sizeof(process.executable))
        __builtin_memcpy(process.executable, request.executable, path_bytes);
    plumb_entry_thread thread = {};
    thread.entry.type = PLUMB_ENTRY_THREAD;
    thread.entry.process_id = writer.process_id;
    thread.entry.thread_id = writer.thread_id;
    __builtin_memcpy(thread.name, process.name, sizeof(thread.name));
    for (Attachment& attachment : attachments) {
        if (load_acquire(attachment.usable) == 0) continue;
        add_entry(attachment, process.entry, sizeof(process));
        add_entry(attachment, thread.entry, sizeof(thread));
    }
}

} // namespace

void know_executable() {
    if (runtime.executable_known) return;
    char* to = request.executable;
    const long bytes = sys::read_link("/proc/thread-self/exe", to, sizeof(request.executable) - 1);
    to[bytes > 0 ? bytes_without_deleted(to, static_cast<size_t>(bytes)) : 0] = '\0';
    runtime.executable_known = true;
}

void introduce_process(Attachment& attachment, bool with_objects) {
    know_executable();
    plumb_entry_process& entry = process_entry.fixed;
    __builtin_memset(&entry, 0, sizeof(entry));
    entry.entry.type = PLUMB_ENTRY_PROCESS;
    const uint32_t thread_id = sys::thread_id(), process_id = sys::process_id();
    entry.entry.thread_id = thread_id;
    if (process_id ==
        runtime.process_id) // else a child of vfork does this, whose parent is the process itself
        entry.parent_process_id = static_cast<uint32_t>(sys::call(SYS_getppid));
    // A daemon's has ended by now: whose objects it has is told all the same, but for one of another namespace.
    if (!with_objects && entry.parent_process_id != 0 && runtime.forked_from != 0)
        entry.parent_process_id = runtime.forked_from;
    entry.user_id = static_cast<uint32_t>(sys::call(SYS_getuid));
    if (thread_id == process_id || !read_name_of_first_thread(entry.name, sizeof(entry.name)))
        sys::call(SYS_prctl, PR_GET_NAME, entry.name, 0, 0, 0); // this thread's, also where there is no /proc
    const char* path = request.executable;
    const size_t path_bytes = copy_path(entry.executable, path, length_of(path));
    add_entry(attachment, entry.entry,
              entry_bytes(sizeof(entry), offsetof(plumb_entry_process, executable), path_bytes));
    const uint32_t own = 1u << (&attachment - attachments);
    // As the first process of a new namespace, it is nobody's child for who reads this.
    if (with_objects || entry.parent_process_id == 0)
        introduce_objects(own, usable_sessions() & ~own); // what is known to one is to all
}

void introduce_new_objects() {
    const uint32_t sessions = usable_sessions();
    if (sessions != 0) introduce_objects(0, sessions);
}

// Looked at closely before a thread's first record, and from the beginning of each vfork() to the first record behind it
// (vfork.cc): the child has this thread's own data before it, and must not leave its id there. And by the thread that forked,
// if it was another one that noticed: what it knows of itself is a copy of what its parent's thread knew.
Writer this_writer() {
    plumb_thread& self = plumb_thread_self;
    const uint32_t forks = fork_count();
    if (self.epoch != 0 && self.forks == forks) return {runtime.process_id, self.id, false};
    const uint32_t thread_id = sys::thread_id();
    const uint32_t process_id = sys::process_id();
    if ((self.id == 0 || self.forks != forks) && process_id == runtime.process_id) {
        store_relaxed(self.epoch, 0u);
        self.introduced = 0;
        store_relaxed(self.id, thread_id);
        self.forks = forks;
    }
    return {process_id, thread_id, self.id != thread_id};
}

void introduce_writer(const Writer& writer, const Attachment& attachment) {
    if (writer.borrowed)
        introduce_borrower(writer);
    else if (plumb_thread_self.epoch < attachment.epoch)
        introduce_thread();
}

} // namespace plumb
