#include "count.h"
#include "../bytes.h"

#include "sequence.h"
#include "what.h"

#include "../ring/inject.h"

namespace plumb {

using count::What;

namespace {

constexpr int sequence_tries = 64;
constexpr uint64_t cell_bytes = sizeof(plumb_count);

// A table as the numbers of the channel say; what they are good for is looked at in each sequence.
struct Table {
    unsigned char* at;
    uint32_t event_slots;
    uint32_t slots;
    uint64_t slot_bytes;

    plumb_count* of_event(uint16_t id) const { return reinterpret_cast<plumb_count*>(at + id * cell_bytes); }
    plumb_count_slot* slot(uint32_t index) const {
        return reinterpret_cast<plumb_count_slot*>(at + event_slots * cell_bytes + index * slot_bytes);
    }
    static plumb_count* in_slot(plumb_count_slot* slot, uint32_t bucket) {
        return reinterpret_cast<plumb_count*>(slot + 1) + bucket;
    }
};

Table table_of(const Attachment& attachment, uint32_t ring) {
    return {attachment.data + ring * attachment.ring_bytes, attachment.event_slot_count,
            load_relaxed(attachment.count_slots),
            PLUMB_COUNT_SLOT_BYTES(load_relaxed(attachment.count_buckets))};
}

// A slot as it is looked for, and as it is written.
struct Name {
    uint64_t tag;
    plumb_count_slot slot; // its tag is not written with the rest
    uint32_t key_words;
};

uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

Name name_of(uint16_t event_id, const count::Key& key) {
    Name name;
    name.slot.tag = 0;
    name.slot.event_id = event_id;
    name.slot.kind = key.kind;
    name.slot.reserved = 0;
    name.slot.key_bytes = key.bytes;
    name.key_words = (key.bytes + 7) / 8;
    uint64_t hash = mixed(0xcbf29ce484222325u, uint64_t{event_id} << 8 | key.kind);
    for (uint32_t i = 0; i < name.key_words; i++) {
        uint64_t word;
        __builtin_memcpy(&word, key.text + 8 * i, 8);
        __builtin_memcpy(name.slot.key + 8 * i, &word, 8);
        hash = mixed(hash, word);
    }
    hash = mixed(hash, key.bytes);
    name.tag = mixed(hash, hash >> 32) | 1;
    return name;
}

bool is_named(const plumb_count_slot& slot, const Name& name) {
    return slot.tag == name.tag && slot.event_id == name.slot.event_id && slot.kind == name.slot.kind &&
           slot.key_bytes == name.slot.key_bytes &&
           are_same(slot.key, name.slot.key, size_t{8} * name.key_words);
}

uint32_t first_slot(const Name& name, uint32_t slots) {
    return static_cast<uint32_t>(static_cast<unsigned __int128>(name.tag) * slots >> 64);
}

uint32_t probes_of(const Table& table) {
    return table.slots < PLUMB_COUNT_PROBES ? table.slots : PLUMB_COUNT_PROBES;
}

// One try on the CPU of `commit`: nothing is known any more behind a sequence that was aborted.
class OnCpu {
public:
    OnCpu(const Table& table, const Commit& commit) : table_(table), commit_(commit) {}

    Sequence count(uint16_t event_id, const What& what) {
        plumb_count* cell = table_.of_event(event_id);
        if (what.has_slot) {
            plumb_count_slot* slot = nullptr;
            const Sequence found = find(name_of(event_id, what.key), slot);
            if (found != Sequence::done) return found;
            if (slot != nullptr) cell = Table::in_slot(slot, what.bucket);
        }
        inject(InjectionPoint::count_placed);
        return what.sums_floats ? add_double(cell, what.sum) : add(cell, what.sum);
    }

private:
    // nullptr: all are taken.
    Sequence find(const Name& name, plumb_count_slot*& found) {
        uint32_t index = first_slot(name, table_.slots);
        for (uint32_t probes = probes_of(table_); probes != 0; probes--) {
            plumb_count_slot* const slot = table_.slot(index);
            plumb_count_slot there;
            const Sequence looked = copy_in_sequence(runtime.rseq_offset, commit_, slot, &there,
                                                     offsetof(plumb_count_slot, key) + 8 * name.key_words);
            if (looked != Sequence::done) return looked;
            if (there.tag == 0)
                if (const Sequence taken = take(name, *slot); taken != Sequence::done) return taken;
            if (there.tag == 0 || is_named(there, name)) {
                found = slot;
                return Sequence::done;
            }
            if (++index == table_.slots) index = 0;
        }
        return Sequence::done;
    }

    // The words of the slot behind its tag are written as a record is, and the tag published as a position.
    Sequence take(const Name& name, plumb_count_slot& slot) {
        inject(InjectionPoint::count_slot_free);
        Commit commit = commit_;
        commit.control = reinterpret_cast<plumb_ring_control*>(&slot);
        static_assert(offsetof(plumb_ring_control, write_pos) == offsetof(plumb_count_slot, tag));
        commit.expected_pos = 0;
        commit.word = &slot.tag;
        commit.value = name.tag;
        commit.at = reinterpret_cast<unsigned char*>(&slot) + sizeof(slot.tag);
        __builtin_memcpy(&commit.timestamp, &name.slot.event_id, 8);
        commit.header = 0;
        if (name.key_words != 0) __builtin_memcpy(&commit.header, name.slot.key, 8);
        commit.payload = name.slot.key + 8;
        commit.payload_bytes = name.key_words > 1 ? uint64_t{8} * (name.key_words - 1) : 0;
        return commit_in_sequence(runtime.rseq_offset, commit);
    }

    Sequence add(plumb_count* cell, uint64_t sum) {
        const plumb_count added = {1, sum};
        return add_in_sequence(runtime.rseq_offset, commit_, cell, added);
    }
    Sequence add_double(plumb_count* cell, uint64_t sum) {
        plumb_count there;
        const Sequence looked = copy_in_sequence(runtime.rseq_offset, commit_, cell, &there, sizeof(there));
        if (looked != Sequence::done) return looked;
        const plumb_count next = {there.count + 1, sum_of_doubles(there.sum, sum)};
        return replace_in_sequence(runtime.rseq_offset, commit_, cell, there.count, next);
    }

    const Table& table_;
    const Commit& commit_;
};

// In the table of those who have no sequences, by steps that anybody may take at the same time.
class Shared {
public:
    explicit Shared(const Table& table) : table_(table) {}

    void count(uint16_t event_id, const What& what) {
        plumb_count* cell = table_.of_event(event_id);
        if (what.has_slot)
            if (plumb_count_slot* const slot = find(name_of(event_id, what.key)))
                cell = Table::in_slot(slot, what.bucket);
        plumb_count there = {load_relaxed(cell->count), load_relaxed(cell->sum)};
        plumb_count next;
        do {
            next.count = there.count + 1;
            next.sum = what.sums_floats ? sum_of_doubles(there.sum, what.sum) : there.sum + what.sum;
        } while (!replace_at_once(*cell, there, next));
    }

private:
    plumb_count_slot* find(const Name& name) {
        uint32_t index = first_slot(name, table_.slots);
        for (uint32_t probes = probes_of(table_); probes != 0; probes--) {
            plumb_count_slot& slot = *table_.slot(index);
            uint64_t tag = load_acquire(slot.tag);
            if (tag == 0 && compare_exchange(slot.tag, tag, uint64_t{PLUMB_COUNT_CLAIMED})) {
                inject(InjectionPoint::count_slot_claimed);
                __builtin_memcpy(&slot.event_id, &name.slot.event_id, 8 + size_t{8} * name.key_words);
                store_release(slot.tag, name.tag);
                return &slot;
            }
            if (tag == name.tag) {
                plumb_count_slot there;
                there.tag = tag;
                __builtin_memcpy(&there.event_id, &slot.event_id, 8 + size_t{8} * name.key_words);
                if (is_named(there, name)) return &slot;
            }
            if (++index == table_.slots) index = 0;
        }
        return nullptr;
    }

    const Table& table_;
};

// False: the link is being changed, or is another session's: the event is not on there any more, or not yet.
bool tell(const Attachment& attachment, const plumb_event& event, uint32_t session, const void* payload,
          uint32_t payload_bytes, What& what) {
    if (load_relaxed(attachment.count_buckets) == 0) return true;
    const count::Link* const link = count::link_of(event, session);
    if (link == nullptr) return true; // there was no memory for one
    return count::tell(*link, load_relaxed(attachment.cookie), attachment, payload, payload_bytes, what) ==
           count::Told::told;
}

Commit conditions_of(const Gate& gate, uint32_t cpu, plumb_ring_control* control) {
    Commit commit = {};
    commit.condition = gate.word;
    commit.mask = gate.mask;
    commit.wanted = gate.wanted;
    commit.cpu = cpu;
    commit.control = control;
    return commit;
}

} // namespace

// The session's epoch is loaded before all else that is known of it, and looked at again in each sequence: then all of
// that was its own, since it changes behind the session's end alone, when the gate is closed.
bool count_quickly(plumb_event& event, uint32_t session, const Gate& gate, const void* payload,
                   uint32_t payload_bytes) {
    if (!uses_sequences()) return false;
    const plumb_writer& writer = runtime.writers[session];
    const Attachment& attachment = attachments[session];
    for (int tries = 0; tries < sequence_tries; tries++) {
        const uint32_t epoch = load_acquire(writer.epoch);
        const uint32_t cpu = current_cpu(runtime.rseq_offset);
        if (epoch == 0 || plumb_thread_self.epoch < epoch || cpu >= load_relaxed(writer.sequence_rings))
            return false;
        What what;
        if (!tell(attachment, event, session, payload, payload_bytes, what)) return false;
        Commit commit = conditions_of(
            gate, cpu, reinterpret_cast<plumb_ring_control*>(load_relaxed(writer.control)) + cpu);
        commit.epoch = epoch;
        commit.epoch_there = &writer.epoch;
        Table table = table_of(attachment, cpu);
        table.at = load_relaxed(writer.data) + cpu * load_relaxed(writer.ring_bytes);
        const Sequence counted = OnCpu(table, commit).count(load_relaxed(event.ids[session]), what);
        if (counted != Sequence::again) return counted == Sequence::done;
    }
    return false;
}

Counted count_guarded(const Attachment& attachment, plumb_event& event, uint32_t session, const Gate& gate,
                      const void* payload, uint32_t payload_bytes, bool has_sequences) {
    What what;
    if (!tell(attachment, event, session, payload, payload_bytes, what)) return Counted::off;
    const uint16_t event_id = load_relaxed(event.ids[session]);
    if (event_id >= attachment.event_slot_count) return Counted::off;
    for (int tries = 0; has_sequences && tries < sequence_tries; tries++) {
        const uint32_t cpu = current_cpu(runtime.rseq_offset);
        if (cpu >= attachment.ring_count) break;
        plumb_ring_control* const control = &attachment.controls[cpu];
        if (load_relaxed(control->limit) == 0) return Counted::closed;
        const Commit commit = conditions_of(gate, cpu, control);
        const Sequence counted = OnCpu(table_of(attachment, cpu), commit).count(event_id, what);
        if (counted == Sequence::done) return Counted::counted;
        if (counted == Sequence::off)
            return load_relaxed(control->limit) == 0 ? Counted::closed : Counted::off;
    }
    const uint32_t last = attachment.ring_count + attachment.extra_ring_count - 1;
    if (load_seq_cst(attachment.controls[last].limit) == 0) return Counted::closed;
    if (!gate.is_open()) return Counted::off;
    Shared(table_of(attachment, last)).count(event_id, what);
    return Counted::counted;
}

} // namespace plumb
