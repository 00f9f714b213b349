/*
 * Byte code into which other code is inserted: where each instruction comes to stand, and the code with its jumps as they are then.
 */
#ifndef PLUMB_PROBES_JVM_BYTE_CODE_H
#define PLUMB_PROBES_JVM_BYTE_CODE_H

#include "class_bytes.h"

enum plumb_instruction {
    PLUMB_LDC_W = 19,
    PLUMB_LLOAD = 22,
    PLUMB_LSTORE = 55,
    PLUMB_ASTORE = 58,
    PLUMB_ASTORE_FIRST = 75, /* to a local up to the third */
    PLUMB_ASTORE_LAST = 78,
    PLUMB_DUP = 89,
    PLUMB_IF_FIRST = 153,
    PLUMB_GOTO = 167,
    PLUMB_JSR = 168,
    PLUMB_RET = 169,
    PLUMB_TABLE_SWITCH = 170,
    PLUMB_LOOKUP_SWITCH = 171,
    PLUMB_RETURN_FIRST = 172,
    PLUMB_RETURN_LAST = 177,
    PLUMB_INVOKE_SPECIAL = 183,
    PLUMB_INVOKE_STATIC = 184,
    PLUMB_NEW = 187,
    PLUMB_ATHROW = 191,
    PLUMB_WIDE = 196,
    PLUMB_IF_NULL = 198,
    PLUMB_IF_NOT_NULL = 199,
    PLUMB_GOTO_W = 200,
    PLUMB_JSR_W = 201
};

struct plumb_byte_code {
    const uint8_t* at;
    uint32_t bytes; /* at most 65535 */
};

/* With its operands; 0: it is none, or is cut off. */
uint32_t plumb_instruction_bytes(const struct plumb_byte_code* code, uint32_t pc);
static inline bool plumb_is_return(uint32_t opcode) {
    return opcode >= PLUMB_RETURN_FIRST && opcode <= PLUMB_RETURN_LAST;
}
/* Anything after which another instruction than the next may run. */
bool plumb_is_jump(uint32_t opcode);

struct plumb_insertion {
    const uint8_t* at;
    uint32_t bytes;
};

/* What is inserted: once before an instruction, so that no jump comes to it; and before each return, in its place for all who jump. */
struct plumb_insertions {
    uint32_t entry_pc;
    struct plumb_insertion entry, exit;
};

enum { plumb_no_place = -1 };

/* By old pc, up to the code's end: the new one. plumb_no_place: no instruction begins there. False: the code makes no sense. */
bool plumb_place_code(const struct plumb_byte_code* code, const struct plumb_insertions* insertions,
                      int32_t* places);

/* False: a jump is too far for its two bytes, or leads nowhere. */
bool plumb_put_moved_code(struct plumb_class_output* output, const struct plumb_byte_code* code,
                          const struct plumb_insertions* insertions, const int32_t* places);

#endif
