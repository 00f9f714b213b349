#include "landing_pads.h"

#include <stddef.h>
#include <string.h>

enum {
    ENCODING_ABSOLUTE = 0x00,
    ENCODING_UNSIGNED_4 = 0x03,
    ENCODING_UNSIGNED_8 = 0x04,
    ENCODING_SIGNED_4 = 0x0b,
    ENCODING_SIGNED_8 = 0x0c,
    ENCODING_OMITTED = 0xff,
    index_version = 1,
    index_pointer_encoding = 0x1b, /* relative to where it stands */
    index_table_encoding = 0x3b,   /* relative to the index */
    entry_bytes = 8
};

struct cursor {
    const unsigned char *at, *end;
    bool failed;
};

static const unsigned char* take(struct cursor* from, size_t bytes) {
    if (from->failed || (size_t)(from->end - from->at) < bytes) {
        from->failed = true;
        return NULL;
    }
    from->at += bytes;
    return from->at - bytes;
}

static uint32_t take_u32(struct cursor* from) {
    uint32_t value = 0;
    const unsigned char* const at = take(from, sizeof(value));
    if (at) memcpy(&value, at, sizeof(value));
    return value;
}

static uint8_t take_u8(struct cursor* from) {
    const unsigned char* const at = take(from, 1);
    return at ? *at : 0;
}

static void skip_leb128(struct cursor* from) {
    while ((take_u8(from) & 0x80) != 0) {
    }
}

/* 0: of no known size. */
static size_t bytes_of(uint8_t encoding) {
    switch (encoding & 0x0f) {
    case ENCODING_UNSIGNED_4:
    case ENCODING_SIGNED_4:
        return 4;
    case ENCODING_ABSOLUTE:
    case ENCODING_UNSIGNED_8:
    case ENCODING_SIGNED_8:
        return 8;
    default:
        return 0;
    }
}

/* An entry of .eh_frame, behind its length. */
static struct cursor entry_at(const struct unwind_index* index, const unsigned char* at) {
    struct cursor entry = {at, index->limit, at < index->first || at >= index->limit};
    const uint32_t bytes = take_u32(&entry);
    if (bytes == UINT32_MAX || (size_t)(index->limit - entry.at) < bytes) entry.failed = true;
    if (!entry.failed) entry.end = entry.at + bytes;
    return entry;
}

/* What the entries of many functions have in common. */
struct common {
    bool has_augmentation;
    uint8_t code_encoding, table_encoding;
};

static struct common read_common(struct cursor* entry) {
    struct common common = {false, ENCODING_ABSOLUTE, ENCODING_OMITTED};
    const uint32_t id = take_u32(entry);
    const uint8_t version = take_u8(entry);
    const char* const letters = (const char*)entry->at;
    while (take_u8(entry) != 0) {
    }
    if (entry->failed || id != 0 || (version != 1 && version != 3)) {
        entry->failed = true;
        return common;
    }
    skip_leb128(entry); /* alignment of code */
    skip_leb128(entry); /* and data */
    skip_leb128(entry); /* the register that it returns by; a byte, in version 1 */
    if (letters[0] == '\0') return common;
    if (letters[0] != 'z') entry->failed = true;
    common.has_augmentation = true;
    skip_leb128(entry);
    for (const char* letter = letters + 1; *letter != '\0' && !entry->failed; letter++) {
        if (*letter == 'R')
            common.code_encoding = take_u8(entry);
        else if (*letter == 'L')
            common.table_encoding = take_u8(entry);
        else if (*letter == 'P')
            take(entry, bytes_of(take_u8(entry)));
        else if (*letter != 'S' && *letter != 'B')
            entry->failed = true;
    }
    return common;
}

/* Its entry refers to a table, or can not be read. */
static bool has_table(const struct unwind_index* index, const unsigned char* at) {
    struct cursor entry = entry_at(index, at);
    const unsigned char* const reference = entry.at;
    const uint32_t distance = take_u32(&entry);
    if (entry.failed || distance > (size_t)(reference - index->first)) return true;
    struct cursor common_entry = entry_at(index, reference - distance);
    const struct common common = read_common(&common_entry);
    if (common_entry.failed) return true;
    const size_t code_bytes = bytes_of(common.code_encoding), table_bytes = bytes_of(common.table_encoding);
    if (code_bytes == 0) return true;
    if (!common.has_augmentation || common.table_encoding == ENCODING_OMITTED) return false;
    take(&entry, 2 * code_bytes); /* where it begins, how long it is */
    skip_leb128(&entry);
    const unsigned char* const table = table_bytes == 0 ? NULL : take(&entry, table_bytes);
    if (table == NULL) return true;
    for (size_t i = 0; i < table_bytes; i++)
        if (table[i] != 0) return true;
    return false;
}

bool may_have_landing_pads(const struct unwind_index* index, const void* code) {
    if (index->at == NULL) return true;
    struct cursor head = {index->at, index->end, false};
    const uint8_t version = take_u8(&head), pointer = take_u8(&head), number = take_u8(&head),
                  table = take_u8(&head);
    (void)take_u32(&head); /* .eh_frame */
    const uint32_t count = take_u32(&head);
    if (head.failed || version != index_version || pointer != index_pointer_encoding ||
        number != ENCODING_UNSIGNED_4 || table != index_table_encoding ||
        (size_t)(head.end - head.at) / entry_bytes < count)
        return true;
    const int64_t wanted = (int64_t)((uintptr_t)code - (uintptr_t)index->at);
    int32_t entry[2]; /* where a function begins, and its entry, from the index on */
    uint32_t low = 0, high = count;
    while (low < high) { /* the last one that begins at it or before */
        const uint32_t middle = low + (high - low) / 2;
        memcpy(entry, head.at + (size_t)middle * entry_bytes, sizeof(entry));
        if (entry[0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return false; /* compiled without: nothing passes through it */
    memcpy(entry, head.at + (size_t)(low - 1) * entry_bytes, sizeof(entry));
    return has_table(index, index->at + entry[1]);
}
