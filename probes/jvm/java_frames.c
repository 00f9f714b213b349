/*
 * HotSpot keeps all code that it makes in its code cache, as blobs that say what they are. Their structures are read where they are, by
 * the offsets that the JVM itself tells (vm_table.h); what it does not tell is as in JDK 17 on x86-64, so another JVM's stacks end here.
 *
 * Why nothing here can fault: the cache grows and never shrinks; a blob stays while a thread returns to it, and so do the methods of
 * the frame. What lies on the stack is read through the walk, and a word of the interpreter's is believed to be a method only if the
 * kernel says that there is memory, and that memory leads back to it. While a compiled frame is turned into interpreted ones, those
 * are half made.
 *
 * A frame of compiled code is as large as its blob says where it has a map of references (as for a collection, which walks there as we
 * do). Calls without one leave the stack pointer anywhere, and end the stack.
 */
#include "java_frames.h"

#include "java_methods.h"
#include "vm_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

enum {
    /* of the JVM */
    VERSION,
    HEAPS,
    LOW_BOUND,
    HIGH_BOUND,
    INTERPRETER,
    CALL_STUB,
    HEAPS_COUNT,
    HEAPS_DATA,
    /* of a heap of code */
    HEAP_MEMORY,
    HEAP_MAP,
    HEAP_SEGMENT_BITS,
    SPACE_LOW,
    SPACE_HIGH,
    BLOCK_IS_USED,
    /* of the interpreter */
    QUEUE_BUFFER,
    QUEUE_LIMIT,
    /* of a blob */
    BLOB_NAME,
    BLOB_FRAME_WORDS,
    BLOB_CODE,
    BLOB_MAPS,
    MAPS_COUNT,
    MAP_PLACE,
    /* of a compiled method */
    CODE_METHOD,
    CODE_SCOPES,
    CODE_DEOPT,
    CODE_DEOPT_INVOKE,
    CODE_RETURN_PLACE,
    CODE_METADATA,
    CODE_PLACES,
    CODE_PLACES_END,
    PLACE_CODE,
    PLACE_SCOPE,
    FIELD_COUNT
};

static struct plumb_vm_field fields[FIELD_COUNT] = {
    [VERSION] = {"Abstract_VM_Version", "_vm_major_version", "int", true, false, 0},
    [HEAPS] = {"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", true, false, 0},
    [LOW_BOUND] = {"CodeCache", "_low_bound", "address", true, false, 0},
    [HIGH_BOUND] = {"CodeCache", "_high_bound", "address", true, false, 0},
    [INTERPRETER] = {"AbstractInterpreter", "_code", "StubQueue*", true, false, 0},
    [CALL_STUB] = {"StubRoutines", "_call_stub_return_address", "address", true, false, 0},
    [HEAPS_COUNT] = {"GrowableArrayBase", "_len", "int", false, false, 0},
    [HEAPS_DATA] = {"GrowableArray<int>", "_data", "int*", false, false, 0},
    [HEAP_MEMORY] = {"CodeHeap", "_memory", "VirtualSpace", false, false, 0},
    [HEAP_MAP] = {"CodeHeap", "_segmap", "VirtualSpace", false, false, 0},
    [HEAP_SEGMENT_BITS] = {"CodeHeap", "_log2_segment_size", "int", false, false, 0},
    [SPACE_LOW] = {"VirtualSpace", "_low", "char*", false, false, 0},
    [SPACE_HIGH] = {"VirtualSpace", "_high", "char*", false, false, 0},
    [BLOCK_IS_USED] = {"HeapBlock::Header", "_used", "bool", false, false, 0},
    [QUEUE_BUFFER] = {"StubQueue", "_stub_buffer", "address", false, false, 0},
    [QUEUE_LIMIT] = {"StubQueue", "_buffer_limit", "int", false, false, 0},
    [BLOB_NAME] = {"CodeBlob", "_name", "const char*", false, false, 0},
    [BLOB_FRAME_WORDS] = {"CodeBlob", "_frame_size", "int", false, false, 0},
    [BLOB_CODE] = {"CodeBlob", "_code_begin", "address", false, false, 0},
    [BLOB_MAPS] = {"CodeBlob", "_oop_maps", "ImmutableOopMapSet*", false, false, 0},
    [MAPS_COUNT] = {"ImmutableOopMapSet", "_count", "int", false, false, 0},
    [MAP_PLACE] = {"ImmutableOopMapPair", "_pc_offset", "int", false, false, 0},
    [CODE_METHOD] = {"CompiledMethod", "_method", "Method*", false, false, 0},
    [CODE_SCOPES] = {"CompiledMethod", "_scopes_data_begin", "address", false, false, 0},
    [CODE_DEOPT] = {"CompiledMethod", "_deopt_handler_begin", "address", false, false, 0},
    [CODE_DEOPT_INVOKE] = {"CompiledMethod", "_deopt_mh_handler_begin", "address", false, false, 0},
    [CODE_RETURN_PLACE] = {"nmethod", "_orig_pc_offset", "int", false, false, 0},
    [CODE_METADATA] = {"nmethod", "_metadata_offset", "int", false, false, 0},
    [CODE_PLACES] = {"nmethod", "_scopes_pcs_offset", "int", false, false, 0},
    [CODE_PLACES_END] = {"nmethod", "_dependencies_offset", "int", false, false, 0},
    [PLACE_CODE] = {"PcDesc", "_pc_offset", "int", false, false, 0},
    [PLACE_SCOPE] = {"PcDesc", "_scope_decode_offset", "int", false, false, 0},
};

enum { HEAP_BLOCK, MAP_SET, MAP_PAIR, PLACE, TYPE_COUNT };
static struct plumb_vm_type types[TYPE_COUNT] = {
    [HEAP_BLOCK] = {"HeapBlock", 0, false},
    [MAP_SET] = {"ImmutableOopMapSet", 0, false},
    [MAP_PAIR] = {"ImmutableOopMapPair", 0, false},
    [PLACE] = {"PcDesc", 0, false},
};

enum { known_version = 17, word_bytes = 8, heaps_max = 8 };

static uintptr_t heaps[heaps_max];
static int heap_count;
static uintptr_t interpreter_begin, interpreter_end, call_stub_return;

/* Of memory that stays; others may write to some of it. */
static uintptr_t word_at(uintptr_t address) {
    return __atomic_load_n((const uintptr_t*)address,
                           __ATOMIC_RELAXED); /* NOLINT(performance-no-int-to-ptr) */
}
static int32_t int_at(uintptr_t address) {
    return __atomic_load_n((const int32_t*)address, __ATOMIC_RELAXED); /* NOLINT(performance-no-int-to-ptr) */
}
static uint8_t byte_at(uintptr_t address) {
    return __atomic_load_n((const uint8_t*)address, __ATOMIC_RELAXED); /* NOLINT(performance-no-int-to-ptr) */
}
static uintptr_t word_of(uintptr_t structure, int field) {
    return word_at(structure + fields[field].at);
}
static int32_t int_of(uintptr_t structure, int field) {
    return int_at(structure + fields[field].at);
}

/* Where a call returns to. */
struct place {
    uintptr_t blob;
    uintptr_t address;
    uint32_t offset; /* from where its code begins */
};

/* The map of a heap has a byte for each segment: how far back its block's begin is, at least; 0 there, 0xff in none. */
static uintptr_t block_of(uintptr_t heap, uintptr_t address) {
    enum { no_block = 0xff };
    const uintptr_t memory = heap + fields[HEAP_MEMORY].at,
                    map = word_of(heap + fields[HEAP_MAP].at, SPACE_LOW);
    const uintptr_t low = word_of(memory, SPACE_LOW);
    const int32_t bits = int_of(heap, HEAP_SEGMENT_BITS);
    if (address < low || address >= word_of(memory, SPACE_HIGH)) return 0;
    uintptr_t segment = (address - low) >> bits;
    for (uint8_t back = byte_at(map + segment); back != 0; back = byte_at(map + segment)) {
        if (back == no_block || back > segment) return 0;
        segment -= back;
    }
    const uintptr_t block = low + (segment << bits);
    return byte_at(block + fields[BLOCK_IS_USED].at) != 0 ? block : 0;
}

static uintptr_t blob_of(uintptr_t address) {
    for (int i = 0; i < heap_count; i++) {
        const uintptr_t block = block_of(heaps[i], address);
        if (block != 0) return block + types[HEAP_BLOCK].bytes;
    }
    return 0;
}

static bool is_called(uintptr_t blob, const char* name) {
    const char* const own = (const char*)word_of(blob, BLOB_NAME); /* NOLINT(performance-no-int-to-ptr) */
    return own && strcmp(own, name) == 0;
}

static bool find_place(uintptr_t blob, uintptr_t address, struct place* place) {
    const uintptr_t code = word_of(blob, BLOB_CODE);
    if (address < code || address - code > INT32_MAX) return false;
    *place = (struct place){blob, address, (uint32_t)(address - code)};
    return true;
}

static bool has_map(const struct place* place) {
    const uintptr_t maps = word_of(place->blob, BLOB_MAPS);
    if (maps == 0) return false;
    const int32_t count = int_of(maps, MAPS_COUNT);
    uintptr_t pair = maps + types[MAP_SET].bytes;
    for (int32_t i = 0; i < count; i++, pair += types[MAP_PAIR].bytes) {
        if (int_of(pair, MAP_PLACE) == (int32_t)place->offset) return true;
    }
    return false;
}

static void forget_kept(struct plumb_stack_walk* walk) {
    walk->known = 0; /* Java code keeps none of its caller's registers */
}

/* To the caller of a frame that is as large as its blob says. */
static enum plumb_step leave_sized(struct plumb_stack_walk* walk, uintptr_t blob) {
    uintptr_t saved[2]; /* the frame pointer, and where it returns to */
    const int32_t words = int_of(blob, BLOB_FRAME_WORDS);
    if (words < 2) return PLUMB_STEP_UNKNOWN;
    const uint64_t stack = walk->stack + (uint64_t)words * word_bytes;
    if (!walk->read(walk, stack - sizeof(saved), saved, sizeof(saved))) return PLUMB_STEP_UNREADABLE;
    walk->frame = saved[0];
    walk->instruction = saved[1];
    walk->stack = stack;
    forget_kept(walk);
    return PLUMB_STEP_THERE;
}

static uintptr_t scope_of(const struct place* place) {
    const uintptr_t begin = place->blob + (uintptr_t)int_of(place->blob, CODE_PLACES);
    const uint64_t bytes = types[PLACE].bytes;
    uint64_t low = 0, high = (place->blob + (uintptr_t)int_of(place->blob, CODE_PLACES_END) - begin) / bytes;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const int32_t offset = int_of(begin + middle * bytes, PLACE_CODE);
        if (offset == (int32_t)place->offset) return (uintptr_t)int_of(begin + middle * bytes, PLACE_SCOPE);
        if (offset < (int32_t)place->offset)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* The method and all that it was inlined into, each with the place of its call. */
static void put_scopes(struct plumb_stack_walk* walk, const struct place* place) {
    enum { depth_max = 256 };
    const uintptr_t scopes = word_of(place->blob, CODE_SCOPES);
    const uintptr_t scopes_end = place->blob + (uintptr_t)int_of(place->blob, CODE_PLACES);
    const uintptr_t methods = place->blob + (uintptr_t)int_of(place->blob, CODE_METADATA);
    uintptr_t scope = scope_of(place);
    if (scope == 0) return plumb_put_native_java_method(walk, word_of(place->blob, CODE_METHOD));
    for (int i = 0; i < depth_max && scope != 0 && scope < scopes_end - scopes; i++) {
        struct plumb_packed_numbers numbers = {(const uint8_t*)(scopes + scope),
                                               (const uint8_t*)scopes_end}; /* NOLINT */
        scope = plumb_next_packed(&numbers);
        const uint32_t method = plumb_next_packed(&numbers); /* 0: none */
        const int32_t index = (int32_t)plumb_next_packed(&numbers) - 1;
        if (method == 0 || method > (scopes - methods) / word_bytes) return;
        plumb_put_java_method(walk, word_at(methods + (method - 1) * word_bytes), index);
    }
}

/* One that is to be turned into interpreted frames returns to where that is done, and has kept where it would have returned to. */
static enum plumb_step find_own_place(struct plumb_stack_walk* walk, uintptr_t blob, struct place* place) {
    uintptr_t address = walk->instruction;
    if (address == word_of(blob, CODE_DEOPT) || address == word_of(blob, CODE_DEOPT_INVOKE)) {
        const int32_t offset = int_of(blob, CODE_RETURN_PLACE);
        if (offset < 0) return PLUMB_STEP_UNKNOWN;
        if (!walk->read(walk, walk->stack + (uint64_t)offset, &address, sizeof(address)))
            return PLUMB_STEP_UNREADABLE;
    }
    return find_place(blob, address, place) && has_map(place) ? PLUMB_STEP_THERE : PLUMB_STEP_UNKNOWN;
}

static enum plumb_step leave_compiled(struct plumb_stack_walk* walk, uintptr_t blob) {
    struct place place;
    const enum plumb_step found = find_own_place(walk, blob, &place);
    if (found != PLUMB_STEP_THERE) return found;
    put_scopes(walk, &place);
    return leave_sized(walk, blob);
}

/* What calls a native method has a frame pointer; its stack pointer is not always the same. */
static enum plumb_step leave_native_call(struct plumb_stack_walk* walk, uintptr_t blob) {
    uintptr_t saved[2];
    const uint64_t frame = walk->frame;
    if (frame % word_bytes != 0 || frame < walk->stack) return PLUMB_STEP_UNKNOWN;
    plumb_put_native_java_method(walk, word_of(blob, CODE_METHOD));
    if (!walk->read(walk, frame, saved, sizeof(saved))) return PLUMB_STEP_UNREADABLE;
    walk->frame = saved[0];
    walk->instruction = saved[1];
    walk->stack = frame + sizeof(saved);
    forget_kept(walk);
    return PLUMB_STEP_THERE;
}

/* What passes from compiled code to the interpreter asks the JVM to see to its caller, before it has made a frame: that one's is as it
 * was, and r13 where it returns to. */
static enum plumb_step leave_adapter(struct plumb_stack_walk* walk) {
    const uint64_t stack = walk->r13;
    if ((walk->known & PLUMB_KEPT_R13) == 0 || stack % word_bytes != 0 || stack < walk->stack)
        return PLUMB_STEP_UNKNOWN;
    if (!walk->read(walk, stack, &walk->instruction, sizeof(walk->instruction))) return PLUMB_STEP_UNREADABLE;
    walk->stack = stack + word_bytes;
    forget_kept(walk);
    return PLUMB_STEP_THERE;
}

static enum plumb_step leave_stub(struct plumb_stack_walk* walk, uintptr_t blob) {
    struct place place;
    if (!find_place(blob, walk->instruction, &place) || !has_map(&place)) return PLUMB_STEP_UNKNOWN;
    return leave_sized(walk, blob);
}

/* The interpreter has the address of the byte code in r13, and keeps it in its frame when it calls Java. */
static int32_t index_in(const struct plumb_stack_walk* walk, uintptr_t method, uintptr_t kept) {
    if ((walk->known & PLUMB_KEPT_R13) != 0) {
        const int32_t index = plumb_java_index_of(method, walk->r13);
        if (index >= 0) return index;
    }
    return plumb_java_index_of(method, kept);
}

/* From so many words below where the frame pointer leads to. */
static enum plumb_step read_around_frame(struct plumb_stack_walk* walk, uint64_t words_below,
                                         uintptr_t* words, uint32_t bytes) {
    const uint64_t frame = walk->frame;
    if (frame % word_bytes != 0 || frame < walk->stack || frame < words_below * word_bytes)
        return PLUMB_STEP_UNKNOWN;
    return walk->read(walk, frame - words_below * word_bytes, words, bytes) ? PLUMB_STEP_THERE
                                                                            : PLUMB_STEP_UNREADABLE;
}

static enum plumb_step leave_interpreted(struct plumb_stack_walk* walk) {
    enum {
        words_below = 8,
        BYTE_CODE = 0,
        METHOD = 5,
        CALLERS_STACK = 7,
        CALLERS_FRAME = 8,
        RETURN = 9,
        WORDS = 10
    };
    uintptr_t words[WORDS];
    const enum plumb_step read = read_around_frame(walk, words_below, words, sizeof(words));
    if (read != PLUMB_STEP_THERE) return read;
    if (words[CALLERS_STACK] <= walk->frame || words[CALLERS_STACK] % word_bytes != 0 ||
        !plumb_is_java_method(walk, words[METHOD]))
        return PLUMB_STEP_UNKNOWN;
    const int32_t index = index_in(walk, words[METHOD], words[BYTE_CODE]);
    if (plumb_java_method_is_native(words[METHOD]) || index < 0)
        plumb_put_native_java_method(walk, words[METHOD]);
    else
        plumb_put_java_method(walk, words[METHOD], index);
    walk->instruction = words[RETURN];
    walk->frame = words[CALLERS_FRAME];
    walk->stack = words[CALLERS_STACK];
    forget_kept(walk);
    return PLUMB_STEP_THERE;
}

/* Where native code has called Java: what it wants back lies below its frame pointer. */
static enum plumb_step leave_call_stub(struct plumb_stack_walk* walk) {
    enum { words_below = 11, R15 = 0, R14, R13, R12, RBX, FRAME = 11, RETURN, WORDS };
    uintptr_t words[WORDS];
    const enum plumb_step read = read_around_frame(walk, words_below, words, sizeof(words));
    if (read != PLUMB_STEP_THERE) return read;
    walk->rbx = words[RBX];
    walk->r12 = words[R12];
    walk->r13 = words[R13];
    walk->r14 = words[R14];
    walk->r15 = words[R15];
    walk->known = PLUMB_KEPT_RBX | PLUMB_KEPT_R12 | PLUMB_KEPT_R13 | PLUMB_KEPT_R14 | PLUMB_KEPT_R15;
    walk->instruction = words[RETURN];
    walk->stack = walk->frame + (WORDS - words_below) * word_bytes;
    walk->frame = words[FRAME];
    return PLUMB_STEP_THERE;
}

static enum plumb_step leave_java(struct plumb_stack_walk* walk) {
    const uintptr_t address = walk->instruction;
    if (address == call_stub_return) return leave_call_stub(walk);
    if (address >= interpreter_begin && address < interpreter_end) return leave_interpreted(walk);
    const uintptr_t blob = blob_of(address);
    if (blob == 0) return PLUMB_STEP_UNKNOWN;
    if (is_called(blob, "nmethod")) return leave_compiled(walk, blob);
    if (is_called(blob, "native nmethod")) return leave_native_call(walk, blob);
    if (is_called(blob, "I2C/C2I adapters")) return leave_adapter(walk);
    return leave_stub(walk, blob);
}

static bool are_known(jvmtiEnv* jvmti) {
    plumb_vm_table_read(jvmti, fields, FIELD_COUNT, types, TYPE_COUNT);
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!fields[i].found) return false;
    }
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (!types[i].found) return false;
    }
    return int_at(fields[VERSION].at) == known_version && plumb_java_methods_prepare(jvmti);
}

void plumb_java_frames_prepare(jvmtiEnv* jvmti) {
    static struct plumb_made_code code = {0, 0, leave_java, NULL};
    if (!are_known(jvmti)) return;
    const uintptr_t list = word_at(fields[HEAPS].at), queue = word_at(fields[INTERPRETER].at);
    const int32_t count = list != 0 ? int_of(list, HEAPS_COUNT) : 0;
    if (count < 1 || count > heaps_max || queue == 0) return;
    for (int32_t i = 0; i < count; i++)
        heaps[i] = word_at(word_of(list, HEAPS_DATA) + (uintptr_t)i * word_bytes);
    heap_count = count;
    interpreter_begin = word_of(queue, QUEUE_BUFFER);
    interpreter_end = interpreter_begin + (uintptr_t)int_of(queue, QUEUE_LIMIT);
    call_stub_return = word_at(fields[CALL_STUB].at);
    code.begin = word_at(fields[LOW_BOUND].at);
    code.end = word_at(fields[HIGH_BOUND].at);
    plumb_walk_made_code(&code);
}

#else

void plumb_java_frames_prepare(jvmtiEnv* jvmti) {
    (void)jvmti;
}

#endif
