/*
 * The channel: one piece of shared memory that is a complete trace at every instant. Whoever holds its bytes
 * can decode it: no other file, no live process, no daemon. In user space it is a tmpfs file; the kernel
 * module gives the same layout behind a file descriptor.
 *
 *   +--------------------------------+ 0
 *   | plumb_channel_header           |  what is where; clock page; channel-wide counters and futexes
 *   +--------------------------------+ event_slots_offset
 *   | u64 event slot [event_slots]   |  event id -> description in the heap
 *   +--------------------------------+ entry_slots_offset
 *   | u64 entry slot [entry_slots]   |  processes, threads, loaded objects -> entry in the heap
 *   +--------------------------------+ heap_offset
 *   | heap, heap_bytes               |  event descriptions and the entries' blocks
 *   +--------------------------------+ control_offset
 *   | plumb_ring_control [rings]     |  ring_count per-CPU rings, then extra_ring_count rings by owner word
 *   +--------------------------------+ data_offset
 *   | ring 0: subbuf 0 | subbuf 1 .. |  ring_bytes each
 *   | ring 1 ...                     |
 *   +--------------------------------+ data_offset + rings * ring_bytes
 *   | guard, PLUMB_CHANNEL_GUARD     |  never read: where a writer ends up if a ring's position is damaged
 *   +--------------------------------+ total_bytes
 *
 * Who may write what:
 *
 *   header            the creator, before the file has its name; later only the fields marked "shared"
 *   event slots       any writer, 0 -> value, once, by compare-and-swap
 *   entry slots       as drawn below
 *   heap              the writer that reserved the bytes by adding to heap_used, or claimed their slot; not once
 *                     a slot names them
 *   ring write_pos    the writer: an rseq section on that CPU, or the thread in `owner`
 *   ring limit        the same; and the consumer, to 0, when it closes the channel
 *   ring consumed     the consumer
 *   ring memory       the writer that enters a sub-buffer; and the creator
 *   ring lost[]       any writer, atomic add
 *   clock page        the consumer
 *
 * As long as its creator lives, it holds flock(LOCK_EX) on the file, from before the file has its name. Whoever wants to
 * know whether a channel still has a reader tries for LOCK_SH, on an open file description of his own: that works across
 * process-id namespaces, where numbers do not.
 *
 * A live consumer that finds a write_pos or limit that cannot be stores limit = 0, then a good write_pos.
 *
 * A slot holds (offset from the channel's start << 24) | size; 0: never used. Filling an event slot is one store:
 * a writer killed before it leaves only unused heap bytes, and one killed after it leaves a complete description.
 *
 * An entry slot keeps its block of the heap for good, and comes round:
 *
 *         0 --claim--> CLAIMED --publish--> (offset, size) --free--> FREE | (offset, capacity)
 *                         ^                                                        |
 *                         +-------------------------claim--------------------------+
 *
 *   claim     a writer, by compare-and-swap; it alone may write to the block then. A slot without a block, or with one
 *             that is too small, gets a new one from the heap, of PLUMB_ENTRY_CAPACITY(size) bytes
 *   publish   that writer, one store; if it is killed before, slot and block are lost, and nothing else
 *   free      the consumer, by compare-and-swap, once who the entry speaks of is gone and all that he wrote was read
 *
 * No step depends on what was read before it, so it does not matter that a slot may have gone round in between.
 *
 * Positions (write_pos, limit, consumed) are byte counts since the channel was made; they only grow. The byte
 * at position p of a ring is at p % ring_bytes of its data. A writer may write below `limit` without further
 * checks:
 *
 *   consumed <= write_pos <= limit <= consumed + ring_bytes        (discard and block)
 *
 * `limit` is always on a sub-buffer boundary. To enter a sub-buffer a writer first publishes limit = its end.
 *
 * A ring is a hole in the file until it is written: what stands before data_offset, and the guard, have their memory from the
 * beginning, a sub-buffer gets it before `limit` first lets anybody write there, by whoever enters it or by the creator, who
 * may be ahead. So where there is none left, an event is lost with a name, and nobody gets a SIGBUS. The first `memory` bytes
 * of a ring have theirs: it is raised behind that, by compare-and-swap, and is never lowered.
 * In overwrite mode `limit` does not wait for `consumed`; the bytes from limit - ring_bytes to write_pos are
 * then the ring's content, and a reader that has copied some checks `limit` again before it believes them.
 */
#ifndef PLUMB_ABI_CHANNEL_H
#define PLUMB_ABI_CHANNEL_H

#include <plumb/abi/base.h>
#include <plumb/abi/clock_page.h>
#include <plumb/abi/context.h>
#include <plumb/abi/event.h>
#include <plumb/abi/record.h>

/* "PLUMBCH1", little-endian. */
#define PLUMB_CHANNEL_MAGIC 0x314843424d554c50ull
#define PLUMB_CHANNEL_VERSION_MAJOR 4u
#define PLUMB_CHANNEL_VERSION_MINOR 1u

#define PLUMB_CHANNEL_HEADER_BYTES 4096u
#define PLUMB_CHANNEL_GUARD 65536u
#define PLUMB_RING_CONTROL_BYTES 256u
#define PLUMB_CHANNEL_MAX_RINGS 4096u
#define PLUMB_SUBBUF_MIN_BYTES 4096u
#define PLUMB_SUBBUF_MAX_BYTES 0x40000000u /* 1 GiB */
#define PLUMB_SUBBUF_MIN_COUNT 2u
#define PLUMB_EVENT_SLOTS_MAX 65536u
/* More than these no channel has, nor as many bytes in its rings: who reads one takes memory and time by them, and whoever
 * may write to it could say anything. */
#define PLUMB_ENTRY_SLOTS_MAX (1u << 24)
#define PLUMB_HEAP_BYTES_MAX (1ull << 32)
#define PLUMB_RINGS_BYTES_MAX (1ull << 40)

/* A record longer than this is cut or dropped (PLUMB_LOST_TOO_LARGE). */
#define PLUMB_RECORD_LIMIT(subbuf_bytes) \
    ((subbuf_bytes) / 4u < PLUMB_RECORD_MAX_BYTES ? (subbuf_bytes) / 4u : PLUMB_RECORD_MAX_BYTES)

/* The owner word of an extra ring: the lower 20 bits of the inode of the process-id namespace (0: not known), process
 * id and thread id in it. Whoever belongs to another namespace can not judge whether the owner lives; a controller that sees
 * everybody gives the ring back when it is gone. */
#define PLUMB_OWNER(space, process_id, thread_id)                                    \
    ((uint64_t)((space)&0xfffffu) << 44 | (uint64_t)((process_id)&0x3fffffu) << 22 | \
     (uint64_t)((thread_id)&0x3fffffu))
#define PLUMB_OWNER_SPACE(owner) ((uint32_t)((owner) >> 44))
#define PLUMB_OWNER_PROCESS(owner) ((uint32_t)((owner) >> 22) & 0x3fffffu)
#define PLUMB_OWNER_THREAD(owner) ((uint32_t)(owner)&0x3fffffu)

/* Block mode. When the consumer has handed nothing back for a whole time-out, the writer that waited says so in
 * `gave_up`, and while space_futex still is what it saw, nobody waits: the consumer was killed, or is stopped. */
#define PLUMB_GAVE_UP(space_futex) ((uint32_t)(space_futex) << 1 | 1u)
/* The same of loaded objects, which have half of the entries' room only. */
#define PLUMB_OBJECTS_FULL(entries_freed) ((uint32_t)(entries_freed) << 1 | 1u)

/* Numbers of processes and threads, in records and entries: those of the writer's own process-id namespace. They have 22
 * bits at most, and the 10 above are a tag that tells namespaces apart, so that equal numbers of two are two threads: 0 is
 * the creator's namespace, any other an index into `namespaces` of the header. */
#define PLUMB_TAG_SHIFT 22
#define PLUMB_TAG(number) ((uint32_t)(number) >> PLUMB_TAG_SHIFT)
#define PLUMB_UNTAGGED(number) ((uint32_t)(number)&0x3fffffu)
#define PLUMB_NAMESPACES 64u
#define PLUMB_TAG_UNKNOWN 1023u /* it does not know its namespace, or there was no room for it */

#define PLUMB_SLOT(offset, bytes) (((uint64_t)(offset) << 24) | (uint64_t)(bytes))
#define PLUMB_SLOT_OFFSET(slot) ((uint64_t)(slot) >> 24)
#define PLUMB_SLOT_BYTES(slot) ((uint32_t)((slot)&0xffffffu))

/* Entry slots only: see above. No offset reaches so far. */
#define PLUMB_SLOT_FREE (1ull << 63)
#define PLUMB_SLOT_CLAIMED (1ull << 62)

#define PLUMB_ENTRY_MAX_BYTES 4608u
/* Few sizes, so that a block that was freed fits the next entry. */
#define PLUMB_ENTRY_CAPACITY(bytes) \
    ((bytes) <= 64u ? 64u : (bytes) <= 256u ? 256u : (bytes) <= 1024u ? 1024u : PLUMB_ENTRY_MAX_BYTES)

enum plumb_domain { PLUMB_DOMAIN_USER = 1, PLUMB_DOMAIN_KERNEL = 2 };

/* What a writer does when its ring is full. */
enum plumb_ring_mode {
    PLUMB_MODE_DISCARD = 1,   /* drop the new event, count it */
    PLUMB_MODE_OVERWRITE = 2, /* drop the oldest sub-buffer, count it */
    PLUMB_MODE_BLOCK = 3,     /* wait up to block_timeout_ns, then as discard */
    PLUMB_MODE_COUNT = 4      /* no ring: <plumb/abi/counts.h> */
};

/* Why an event is missing, or not whole. One counter each, in every ring, but for what the consumer counts. */
enum plumb_loss {
    PLUMB_LOST_FULL = 0,          /* events: ring full in discard mode */
    PLUMB_LOST_BLOCK_TIMEOUT = 1, /* events: ring still full when the time-out of block mode ended */
    PLUMB_LOST_TOO_LARGE = 2,     /* events: larger than a quarter of a sub-buffer, and could not be cut */
    PLUMB_LOST_CONTENDED = 3, /* events: no ring could be had (only without rseq), or no guard or buffer */
    PLUMB_LOST_NO_MEMORY = 4, /* events: there was no shared memory left for the sub-buffer */
    PLUMB_CUT = 5,            /* events: recorded, but a string, text or sequence was shortened */
    PLUMB_LOST_CLOCK = 6,     /* events: the process is held, and the clock takes a system call to read */
    PLUMB_LOST_HELD = 7, /* events: the process is held; of its new threads, or a wait or memory was needed */
    PLUMB_LOSS_COUNTERS = 8,
    PLUMB_LOST_OVERWRITTEN = 8, /* sub-buffers: overwritten before they were read; counted by the consumer */
    PLUMB_LOSS_CAUSES = 9
};

/* Why something could not be described. One counter each, in the header. */
enum plumb_refusal {
    PLUMB_REFUSED_EVENT_SLOTS = 0, /* events left off: all event slots are taken */
    PLUMB_REFUSED_HEAP = 1,        /* events left off: heap full */
    PLUMB_REFUSED_ENTRY_SLOTS = 2, /* processes, threads or objects not written: no slot or block free */
    PLUMB_REFUSED_CLOCK = 3, /* processes that forbade reading the cycle counter while they were recorded */
    PLUMB_REFUSALS = 4
};

/* One ring's control block. Each line of 64 bytes has one kind of writer, so that they do not share cache
 * lines. */
struct plumb_ring_control {
    /* line 0: the writer */
    uint64_t write_pos; /* the one store to this word publishes a record */
    uint64_t limit;     /* writing below this needs no check */
    uint64_t owner;     /* extra rings: the thread that holds it, PLUMB_OWNER(); 0: free */
    uint64_t
        memory; /* bytes of the ring, from its beginning, that have their memory; whoever gives it says so */
    uint64_t reserved0[4];
    /* line 1: the consumer */
    uint64_t consumed; /* whole sub-buffers handed back */
    uint64_t taken;    /* what the consumer has stored elsewhere; 0: it does not say. No writer looks at it */
    uint64_t
        not_stored; /* events that it took and could not store, and told nowhere yet; no writer looks at it */
    uint64_t reserved1[5];
    /* line 2: losses; not on the path of an event that is recorded */
    uint64_t lost[PLUMB_LOSS_COUNTERS]; /* by enum plumb_loss */
    /* line 3: the consumer */
    uint64_t told[PLUMB_LOSS_COUNTERS]; /* of `lost`, what it has stored elsewhere; no writer looks at it */
};

struct plumb_channel_header {
    uint64_t magic;
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint32_t domain; /* enum plumb_domain */
    uint32_t mode;   /* enum plumb_ring_mode */

    uint32_t ring_count;       /* per-CPU rings: CPU c writes ring c */
    uint32_t extra_ring_count; /* rings taken by owner word */
    uint32_t subbuf_bytes;     /* a power of two */
    uint32_t subbuf_count;     /* a power of two */
    uint64_t ring_bytes;       /* subbuf_bytes * subbuf_count */
    uint64_t event_slots_offset;

    uint64_t entry_slots_offset;
    uint64_t heap_offset;
    uint64_t heap_bytes;
    uint64_t control_offset;
    uint64_t data_offset;
    uint32_t event_slots; /* a power of two */
    uint32_t entry_slots;

    uint64_t block_timeout_ns; /* PLUMB_MODE_BLOCK */
    uint64_t session_cookie;   /* random, not 0: tells this session from every other */
    uint8_t trace_uuid[16];
    uint64_t created_realtime_ns;
    uint32_t creator_pid;
    uint32_t creator_namespace; /* inode of its process-id namespace; 0: not known */
    uint8_t boot_id[16];        /* of the machine, from /proc/sys/kernel/random/boot_id */
    char session_name[64];      /* NUL-terminated */
    char host_name[64];         /* NUL-terminated */

    PLUMB_ABI_ALIGNED(64) struct plumb_clock_page clock; /* shared: the consumer */

    /* Shared: any writer. */
    PLUMB_ABI_ALIGNED(64) uint64_t heap_used; /* atomic add reserves; may go past heap_bytes when full */
    uint32_t entry_hint;                      /* where to begin to look for a free entry slot */
    uint32_t creator_user;                    /* the creator: its effective user id */
    uint64_t refused[PLUMB_REFUSALS];         /* by enum plumb_refusal; atomic add */
    uint64_t
        entries_added; /* atomic add, behind each publishing of an entry and before a record that needs it */
    uint64_t
        left_off; /* atomic add: children of held processes, and objects loaded there, that are not traced */

    /* Shared: futexes. */
    PLUMB_ABI_ALIGNED(64) uint32_t closed; /* not 0: writers switch this session off for themselves */
    uint32_t data_futex;    /* a writer adds 1 when it enters a sub-buffer, then wakes if data_waiters */
    uint32_t data_waiters;  /* the consumer sets it before it waits on data_futex, and alone clears it */
    uint32_t space_futex;   /* the consumer adds 1 when it has moved `consumed` */
    uint32_t space_waiters; /* a writer sets it before it waits; the consumer swaps in 0 before it adds to
                               space_futex, looks again behind that, and wakes if it was set either time */
    uint32_t gave_up; /* PLUMB_GAVE_UP(space_futex) of a writer for whom a time-out has passed; 0: none */
    uint32_t kernel_events; /* the creator: not 0: a tracing instance of the kernel belongs to it */
    uint32_t memory_wanted; /* not 0: a writer may not take memory itself, the creator is to: for all rings */
    /* Atomic add: events that a process left off, since their conditions are too long together, or had no memory there. */
    uint64_t conditions_refused;
    uint32_t context;         /* the creator: what every record is to have, PLUMB_CONTEXT_* */
    uint32_t callstack_depth; /* the creator: addresses in a call stack at most; 0: PLUMB_CALLSTACK_DEPTH */
    uint32_t reserved3[2];
    uint32_t entries_freed; /* the consumer adds 1 for each */
    uint32_t
        objects_full; /* any writer, that has found no room for a loaded object; until more are freed none
                             * looks again: PLUMB_OBJECTS_FULL(entries_freed); 0: there was room */

    /* Shared: any writer. By tag: inode of a process-id namespace, 0 -> inode, once, by compare-and-swap. */
    PLUMB_ABI_ALIGNED(64) uint32_t namespaces[PLUMB_NAMESPACES];
};

PLUMB_ABI_SIZE(struct plumb_ring_control, PLUMB_RING_CONTROL_BYTES);
PLUMB_ABI_OFFSET(struct plumb_ring_control, write_pos, 0);
PLUMB_ABI_OFFSET(struct plumb_ring_control, limit, 8);
PLUMB_ABI_OFFSET(struct plumb_ring_control, owner, 16);
PLUMB_ABI_OFFSET(struct plumb_ring_control, memory, 24);
PLUMB_ABI_OFFSET(struct plumb_ring_control, consumed, 64);
PLUMB_ABI_OFFSET(struct plumb_ring_control, lost, 128);
PLUMB_ABI_OFFSET(struct plumb_ring_control, not_stored, 80);
PLUMB_ABI_OFFSET(struct plumb_ring_control, told, 192);

PLUMB_ABI_OFFSET(struct plumb_channel_header, version_major, 8);
PLUMB_ABI_OFFSET(struct plumb_channel_header, header_bytes, 12);
PLUMB_ABI_OFFSET(struct plumb_channel_header, total_bytes, 16);
PLUMB_ABI_OFFSET(struct plumb_channel_header, domain, 24);
PLUMB_ABI_OFFSET(struct plumb_channel_header, ring_count, 32);
PLUMB_ABI_OFFSET(struct plumb_channel_header, ring_bytes, 48);
PLUMB_ABI_OFFSET(struct plumb_channel_header, event_slots_offset, 56);
PLUMB_ABI_OFFSET(struct plumb_channel_header, entry_slots_offset, 64);
PLUMB_ABI_OFFSET(struct plumb_channel_header, heap_offset, 72);
PLUMB_ABI_OFFSET(struct plumb_channel_header, control_offset, 88);
PLUMB_ABI_OFFSET(struct plumb_channel_header, data_offset, 96);
PLUMB_ABI_OFFSET(struct plumb_channel_header, event_slots, 104);
PLUMB_ABI_OFFSET(struct plumb_channel_header, block_timeout_ns, 112);
PLUMB_ABI_OFFSET(struct plumb_channel_header, session_cookie, 120);
PLUMB_ABI_OFFSET(struct plumb_channel_header, trace_uuid, 128);
PLUMB_ABI_OFFSET(struct plumb_channel_header, created_realtime_ns, 144);
PLUMB_ABI_OFFSET(struct plumb_channel_header, boot_id, 160);
PLUMB_ABI_OFFSET(struct plumb_channel_header, session_name, 176);
PLUMB_ABI_OFFSET(struct plumb_channel_header, host_name, 240);
PLUMB_ABI_OFFSET(struct plumb_channel_header, clock, 320);
PLUMB_ABI_OFFSET(struct plumb_channel_header, heap_used, 384);
PLUMB_ABI_OFFSET(struct plumb_channel_header, refused, 400);
PLUMB_ABI_OFFSET(struct plumb_channel_header, entries_added, 432);
PLUMB_ABI_OFFSET(struct plumb_channel_header, left_off, 440);
PLUMB_ABI_OFFSET(struct plumb_channel_header, closed, 448);
PLUMB_ABI_OFFSET(struct plumb_channel_header, data_futex, 452);
PLUMB_ABI_OFFSET(struct plumb_channel_header, space_futex, 460);
PLUMB_ABI_OFFSET(struct plumb_channel_header, gave_up, 468);
PLUMB_ABI_OFFSET(struct plumb_channel_header, memory_wanted, 476);
PLUMB_ABI_OFFSET(struct plumb_channel_header, conditions_refused, 480);
PLUMB_ABI_OFFSET(struct plumb_channel_header, entries_freed, 504);
PLUMB_ABI_OFFSET(struct plumb_channel_header, context, 488);
PLUMB_ABI_OFFSET(struct plumb_channel_header, creator_namespace, 156);
PLUMB_ABI_OFFSET(struct plumb_channel_header, namespaces, 512);
PLUMB_ABI_SIZE(struct plumb_channel_header, 768);

/*
 * Entries: who wrote. They start on 8-byte boundaries of the heap. An entry is written by the process it
 * speaks of, before that process's or thread's first record, so every record can be attributed after both are
 * gone. Thread ids may be used again by the kernel: the entry that counts for a record is the last one for
 * its thread id whose timestamp is not after the record's.
 */
enum plumb_entry_type {
    PLUMB_ENTRY_PROCESS = 1,
    PLUMB_ENTRY_THREAD = 2,
    PLUMB_ENTRY_OBJECT = 3 /* a loaded executable or shared object; or a function's name: frame_name.h */
};

struct plumb_entry {
    uint16_t type; /* enum plumb_entry_type */
    uint16_t reserved;
    uint32_t bytes;      /* of the whole entry, strings included */
    uint64_t timestamp;  /* cycles of the channel's clock */
    uint32_t process_id; /* tagged, like a record's thread id */
    uint32_t thread_id;
};

struct plumb_entry_process {
    struct plumb_entry entry;   /* thread_id: the thread that wrote the entry */
    uint32_t parent_process_id; /* 0: it is in another namespace */
    uint32_t user_id;
    char name[16];       /* the command name, NUL-terminated */
    char executable[64]; /* longer in fact: reaches to the end of the entry, NUL-terminated; at least this
                            long */
};

struct plumb_entry_thread {
    struct plumb_entry entry;
    char name[16]; /* NUL-terminated */
};

struct plumb_entry_object {
    struct plumb_entry entry;
    uint64_t base;          /* address of its first loaded byte */
    uint64_t bytes;         /* of address space from base */
    uint8_t build_id_bytes; /* 0: it has none */
    uint8_t build_id[31];
    char path[64]; /* as `executable` above */
};

PLUMB_ABI_SIZE(struct plumb_entry, 24);
PLUMB_ABI_OFFSET(struct plumb_entry, timestamp, 8);
PLUMB_ABI_SIZE(struct plumb_entry_process, 112);
PLUMB_ABI_OFFSET(struct plumb_entry_process, name, 32);
PLUMB_ABI_OFFSET(struct plumb_entry_process, executable, 48);
PLUMB_ABI_SIZE(struct plumb_entry_thread, 40);
PLUMB_ABI_SIZE(struct plumb_entry_object, 136);
PLUMB_ABI_OFFSET(struct plumb_entry_object, build_id_bytes, 40);
PLUMB_ABI_OFFSET(struct plumb_entry_object, path, 72);

#endif
