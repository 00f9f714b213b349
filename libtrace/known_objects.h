// Which loaded objects the channels know, so that a later look at the mappings adds only what is new. An address is used again by
// another object once the first was unloaded, so its file counts, too. Belongs to who owns `updating`.
#ifndef PLUMB_LIBTRACE_KNOWN_OBJECTS_H
#define PLUMB_LIBTRACE_KNOWN_OBJECTS_H

#include <cstdint>

namespace plumb {

class KnownObjects {
public:
    static constexpr uint32_t most = 1024;

    // Before the objects of one look at the mappings are asked for, by rising address.
    void begin_look() { look_++; }

    // When all of them were: what is gone is told again if it comes again, since there may be a session that was never told of it.
    void end_look() {
        for (Object& known : all_)
            if (known.look != look_) known = {};
    }

    bool has(uint64_t base, uint64_t file_hash) {
        for (Object& known : all_) {
            if (known.base != base || known.file_hash != file_hash) continue;
            known.look = look_;
            return true;
        }
        return false;
    }

    // Whoever reads takes what was told last for what is there: of those that lay where this one does, each is told of again
    // when it comes again; but one that was seen in this look is there as well, and reaches over a hole that this one fills. What
    // finds the table full is told at each look.
    void add(uint64_t base, uint64_t end, uint64_t file_hash) {
        Object* place = nullptr;
        for (Object& known : all_) {
            const bool overlaps = known.base < end && base < known.end;
            if (overlaps && (known.base == base || known.look != look_)) known = {};
            if (place == nullptr && known.base == 0) place = &known;
        }
        if (place != nullptr) *place = {base, end, file_hash, look_};
    }

private:
    struct Object {
        uint64_t base; // 0: free
        uint64_t end;
        uint64_t file_hash;
        uint32_t look; // in which it was last seen
    };
    Object all_[most] = {};
    uint32_t look_ = 0;
};

} // namespace plumb

#endif
