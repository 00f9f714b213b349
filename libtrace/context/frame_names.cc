// Tells sessions the names of functions in made code, each once. What was told is remembered in a table of fixed size for the process: a
// word for each name and session. A name whose word had to make room is told again; that costs a block of the channel's heap, and
// nothing else.
#include "frame_names.h"

#include "../runtime.h"
#include "../signals_held.h"

#include <plumb/abi/frame_name.h>

namespace plumb::context {

namespace {

constexpr uint32_t name_bytes_max = 768;

class Told {
public:
    // Or there is no table: then nothing is told.
    bool has(uint64_t key) const {
        const uint64_t* const bucket = bucket_of(key);
        if (bucket == nullptr) return true;
        for (uint32_t i = 0; i < places; i++)
            if (load_relaxed(bucket[i]) == key) return true;
        return false;
    }
    // False: somebody else has just done so.
    bool add(uint64_t key) {
        uint64_t* const bucket = bucket_of(key);
        if (has(key)) return false;
        // All take the first free place, so that two who meet at a new name meet at its place.
        for (uint32_t i = 0; i < places; i++) {
            uint64_t there = 0;
            if (compare_exchange(bucket[i], there, key)) return true;
            if (there == key) return false;
        }
        store_relaxed(bucket[(key >> 3) % places], key);
        return true;
    }
    void take_memory() {
        if (words_ != nullptr) return;
        void* const memory =
            sys::map(count * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        store_release(words_, static_cast<uint64_t*>(memory));
    }

private:
    static constexpr uint32_t places = 8, count = 65536;
    uint64_t* bucket_of(uint64_t key) const {
        uint64_t* const words = load_acquire(words_);
        return words == nullptr ? nullptr
                                : words + (key * 0x9e3779b97f4a7c15u >> 40) % (count / places) * places;
    }
    uint64_t* words_ = nullptr;
};
constinit Told told;

uint64_t hash_of(const char* name, uint32_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (uint32_t i = 0; i < bytes; i++)
        hash = (hash ^ static_cast<unsigned char>(name[i])) * 0x100000001b3u;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

// Of a forked child, all sessions have one epoch. Never 0, as functions never are.
uint64_t key_of(uint64_t function, uint32_t session) {
    const uint32_t epoch = load_relaxed(attachments[session].epoch);
    return function ^ uint64_t { epoch } << 8 ^ uint64_t { session } << 40;
}

void add_name(Attachment& attachment, uint64_t function, const char* name, uint32_t bytes) {
    struct {
        plumb_entry_object fixed;
        char rest[name_bytes_max];
    } object;
    __builtin_memset(&object.fixed, 0, sizeof(object.fixed));
    plumb_entry_object& entry = object.fixed;
    entry.entry.type = PLUMB_ENTRY_OBJECT;
    entry.entry.thread_id = sys::thread_id();
    entry.base = function;
    entry.bytes = PLUMB_FRAME_LINES;
    char* const path = reinterpret_cast<char*>(&object) + offsetof(plumb_entry_object, path);
    __builtin_memcpy(path, name, bytes);
    path[bytes] = '\0';
    const auto used = static_cast<uint32_t>(offsetof(plumb_entry_object, path) + bytes + 1);
    add_entry(attachment, entry.entry,
              used < sizeof(plumb_entry_object) ? static_cast<uint32_t>(sizeof(plumb_entry_object)) : used);
}

__attribute__((noinline)) void tell(uint32_t session, uint64_t function, const char* name, uint32_t bytes) {
    const Permit permit;
    const plumb_thread& self = plumb_thread_self;
    if (!permit.given() || writers_are_wiped() || load_relaxed(self.in_vfork) != 0) return;
    const SignalsHeld signals;
    {
        const Guard guard(self.id != 0 ? self.id : runtime.process_id, false);
        Attachment& attachment = attachments[session];
        if (guard.held() && load_seq_cst(attachment.usable) != 0 && told.add(key_of(function, session)))
            add_name(attachment, function, name, bytes);
    }
    if (!writers_are_wiped() && is_last_of_update()) request_update_within();
}

} // namespace

uint64_t name_frame(uint32_t session, const char* function, uint32_t bytes, uint32_t line) {
    if (bytes > name_bytes_max) bytes = name_bytes_max;
    const uint64_t number = PLUMB_FRAME_OF(hash_of(function, bytes), 0);
    if (!told.has(key_of(number, session))) tell(session, number, function, bytes);
    return number | (line < PLUMB_FRAME_LINES ? line : 0);
}

void prepare_frame_names() {
    told.take_memory();
}

} // namespace plumb::context
