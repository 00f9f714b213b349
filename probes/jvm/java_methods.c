#include "java_methods.h"

#include "text.h"
#include "vm_table.h"

#include <string.h>

enum {
    METHOD_CONST,
    METHOD_ACCESS,
    CONST_CONSTANTS,
    CONST_WORDS,
    CONST_FLAGS,
    CONST_CODE_BYTES,
    CONST_NAME,
    POOL_HOLDER,
    POOL_LENGTH,
    CLASS_CONSTANTS,
    CLASS_NAME,
    SYMBOL_LENGTH,
    SYMBOL_BODY,
    FIELD_COUNT
};

static struct plumb_vm_field fields[FIELD_COUNT] = {
    [METHOD_CONST] = {"Method", "_constMethod", "ConstMethod*", false, false, 0},
    [METHOD_ACCESS] = {"Method", "_access_flags", "AccessFlags", false, false, 0},
    [CONST_CONSTANTS] = {"ConstMethod", "_constants", "ConstantPool*", false, false, 0},
    [CONST_WORDS] = {"ConstMethod", "_constMethod_size", "int", false, false, 0},
    [CONST_FLAGS] = {"ConstMethod", "_flags", "u2", false, false, 0},
    [CONST_CODE_BYTES] = {"ConstMethod", "_code_size", "u2", false, false, 0},
    [CONST_NAME] = {"ConstMethod", "_name_index", "u2", false, false, 0},
    [POOL_HOLDER] = {"ConstantPool", "_pool_holder", "InstanceKlass*", false, false, 0},
    [POOL_LENGTH] = {"ConstantPool", "_length", "int", false, false, 0},
    [CLASS_CONSTANTS] = {"InstanceKlass", "_constants", "ConstantPool*", false, false, 0},
    [CLASS_NAME] = {"Klass", "_name", "Symbol*", false, false, 0},
    [SYMBOL_LENGTH] = {"Symbol", "_length", "u2", false, false, 0},
    [SYMBOL_BODY] = {"Symbol", "_body[0]", "u1", false, false, 0},
};

enum { METHOD, CONST_METHOD, POOL, TYPE_COUNT };
static struct plumb_vm_type types[TYPE_COUNT] = {[METHOD] = {"Method", 0, false},
                                                 [CONST_METHOD] = {"ConstMethod", 0, false},
                                                 [POOL] = {"ConstantPool", 0, false}};

enum { has_lines = 0x1, is_native = 0x100 }; /* ConstMethod._flags; JVM_ACC_NATIVE */
enum { name_bytes_max = 640 };

bool plumb_java_methods_prepare(jvmtiEnv* jvmti) {
    plumb_vm_table_read(jvmti, fields, FIELD_COUNT, types, TYPE_COUNT);
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!fields[i].found) return false;
    }
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (!types[i].found) return false;
    }
    return true;
}

static const void* at(uintptr_t structure, int field) {
    return (const void*)(structure + fields[field].at); /* NOLINT(performance-no-int-to-ptr) */
}
static uintptr_t word_of(uintptr_t structure, int field) {
    return *(const uintptr_t*)at(structure, field);
}
static int32_t int_of(uintptr_t structure, int field) {
    return *(const int32_t*)at(structure, field);
}
static uint16_t half_of(uintptr_t structure, int field) {
    return *(const uint16_t*)at(structure, field);
}

static bool load(struct plumb_stack_walk* walk, uintptr_t structure, int field, uintptr_t* word) {
    return structure != 0 && structure % sizeof(*word) == 0 &&
           walk->read(walk, structure + fields[field].at, word, sizeof(*word));
}

static bool is_there(struct plumb_stack_walk* walk, uintptr_t structure, uint64_t bytes) {
    uint8_t last;
    return walk->read(walk, structure + bytes - 1, &last, sizeof(last));
}

static bool is_symbol(struct plumb_stack_walk* walk, uintptr_t symbol) {
    uint16_t bytes;
    return symbol != 0 && walk->read(walk, symbol + fields[SYMBOL_LENGTH].at, &bytes, sizeof(bytes)) &&
           is_there(walk, symbol + fields[SYMBOL_BODY].at, bytes);
}

static uintptr_t end_of(uintptr_t fixed) {
    return fixed + (uintptr_t)(uint32_t)int_of(fixed, CONST_WORDS) * sizeof(uintptr_t);
}

static uintptr_t name_of(uintptr_t fixed, uintptr_t constants) {
    const uintptr_t names = constants + types[POOL].bytes;
    return *(const uintptr_t*)(names + half_of(fixed, CONST_NAME) * sizeof(uintptr_t)); /* NOLINT */
}

/* A method's constants lead to its class, which has the same ones, or others since it was changed, that lead to it, too; and no other word of
 * memory leads in such a circle. */
bool plumb_is_java_method(struct plumb_stack_walk* walk, uintptr_t word) {
    uintptr_t fixed, constants, holder, current, same, class_name, name;
    if (!load(walk, word, METHOD_CONST, &fixed) || !is_there(walk, word, types[METHOD].bytes) ||
        !load(walk, fixed, CONST_CONSTANTS, &constants) ||
        !is_there(walk, fixed, types[CONST_METHOD].bytes) || !load(walk, constants, POOL_HOLDER, &holder) ||
        !is_there(walk, constants, types[POOL].bytes) || !load(walk, holder, CLASS_CONSTANTS, &current) ||
        !load(walk, current, POOL_HOLDER, &same) || same != holder)
        return false;
    const uintptr_t names = constants + types[POOL].bytes;
    return half_of(fixed, CONST_NAME) < int_of(constants, POOL_LENGTH) &&
           is_there(walk, fixed, end_of(fixed) - fixed) && load(walk, holder, CLASS_NAME, &class_name) &&
           is_symbol(walk, class_name) &&
           walk->read(walk, names + half_of(fixed, CONST_NAME) * sizeof(name), &name, sizeof(name)) &&
           is_symbol(walk, name);
}

bool plumb_java_method_is_native(uintptr_t method) {
    return (int_of(method, METHOD_ACCESS) & is_native) != 0;
}

static uintptr_t byte_code_of(uintptr_t fixed) {
    return fixed + types[CONST_METHOD].bytes;
}

int32_t plumb_java_index_of(uintptr_t method, uintptr_t byte_code) {
    const uintptr_t fixed = word_of(method, METHOD_CONST), begin = byte_code_of(fixed);
    return byte_code >= begin && byte_code - begin < half_of(fixed, CONST_CODE_BYTES)
               ? (int32_t)(byte_code - begin)
               : -1;
}

static uint8_t next_byte(struct plumb_packed_numbers* numbers) {
    return numbers->at < numbers->end ? *numbers->at++ : 0;
}

uint32_t plumb_next_packed(struct plumb_packed_numbers* numbers) {
    enum { low_codes = 192, bits = 6, bytes_max = 5 };
    uint32_t sum = 0;
    for (uint32_t i = 0; i < bytes_max; i++) {
        const uint32_t byte = next_byte(numbers);
        sum += byte << (bits * i);
        if (byte < low_codes) break;
    }
    return sum;
}

static int32_t next_signed(struct plumb_packed_numbers* numbers) {
    const uint32_t value = plumb_next_packed(numbers);
    return (int32_t)(value >> 1) ^ -(int32_t)(value & 1);
}

/* Pairs of an index and a line, behind the byte code: what has no pair is of the nearest one before it, as in HotSpot. */
static uint32_t line_of(uintptr_t fixed, int32_t index) {
    enum { end_of_pairs = 0, long_pair = 0xff };
    if ((half_of(fixed, CONST_FLAGS) & has_lines) == 0) return 0;
    const uintptr_t begin = byte_code_of(fixed) + half_of(fixed, CONST_CODE_BYTES);
    struct plumb_packed_numbers numbers = {(const uint8_t*)begin, (const uint8_t*)end_of(fixed)}; /* NOLINT */
    int32_t at_index = 0, at_line = 0, best_index = 0, best_line = 0;
    for (uint8_t next = next_byte(&numbers); next != end_of_pairs; next = next_byte(&numbers)) {
        at_index += next == long_pair ? next_signed(&numbers) : next >> 3;
        at_line += next == long_pair ? next_signed(&numbers) : next & 7;
        if (at_index == index) return (uint32_t)at_line;
        if (at_index < index && at_index >= best_index) {
            best_index = at_index;
            best_line = at_line;
        }
    }
    return best_line > 0 ? (uint32_t)best_line : 0;
}

static size_t put_hash(const unsigned char* text, size_t bytes, char* to) {
    static const char digits[] = "0123456789abcdef";
    const uint64_t hash = plumb_hash_of_text((const char*)text, bytes);
    for (int shift = 28; shift >= 0; shift -= 4)
        *to++ = digits[hash >> shift & 15];
    return 8;
}

/* One that has no room is cut between two characters, and ends in "~" and eight digits, by which it differs from others that begin so. */
static size_t put_symbol(uintptr_t symbol, char* to, size_t room) {
    enum { tail_bytes = 9 };
    const unsigned char* const text = at(symbol, SYMBOL_BODY);
    const size_t bytes = half_of(symbol, SYMBOL_LENGTH);
    if (bytes <= room) {
        memcpy(to, text, bytes);
        return bytes;
    }
    size_t kept = room - tail_bytes;
    while (kept > 0 && (text[kept] & 0xc0) == 0x80)
        kept--;
    if (kept >= 3 && text[kept - 3] == 0xed && text[kept - 2] >= 0xa0 && text[kept - 2] < 0xb0)
        kept -= 3; /* half of a pair of surrogates */
    memcpy(to, text, kept);
    to[kept++] = '~';
    return kept + put_hash(text, bytes, to + kept);
}

enum { hidden_tail_bytes = 19 }; /* "+0x" and sixteen digits */
static bool ends_as_hidden(const char* name, size_t bytes) {
    if (bytes <= hidden_tail_bytes || memcmp(name + bytes - hidden_tail_bytes, "+0x", 3) != 0) return false;
    for (size_t i = bytes - hidden_tail_bytes + 3; i < bytes; i++) {
        if (!strchr("0123456789abcdef", name[i])) return false;
    }
    return true;
}

/* As Class.getName(): in the JVM a hidden class has "+" before its number. */
static void make_class_name(char* name, size_t bytes) {
    const bool is_hidden = ends_as_hidden(name, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] == '/') name[i] = '.';
    }
    if (is_hidden) name[bytes - hidden_tail_bytes] = '/';
}

static void put_method(struct plumb_stack_walk* walk, uintptr_t method, uint32_t line) {
    char name[name_bytes_max + 2];
    const uintptr_t fixed = word_of(method, METHOD_CONST), constants = word_of(fixed, CONST_CONSTANTS);
    const uintptr_t holder = word_of(constants, POOL_HOLDER);
    size_t bytes = put_symbol(word_of(holder, CLASS_NAME), name, name_bytes_max / 2);
    make_class_name(name, bytes);
    name[bytes++] = '.';
    bytes += put_symbol(name_of(fixed, constants), name + bytes, name_bytes_max - bytes);
    name[bytes] = '\0';
    const struct plumb_text text = plumb_utf8_in_place(name);
    walk->put(walk, text.at, (uint32_t)text.bytes, line);
}

void plumb_put_java_method(struct plumb_stack_walk* walk, uintptr_t method, int32_t index) {
    put_method(walk, method, line_of(word_of(method, METHOD_CONST), index < 0 ? 0 : index));
}

void plumb_put_native_java_method(struct plumb_stack_walk* walk, uintptr_t method) {
    put_method(walk, method, 0);
}
