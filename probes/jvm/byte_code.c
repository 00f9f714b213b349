#include "byte_code.h"

static uint32_t switch_padding(uint32_t pc) {
    return 3 - pc % 4;
}

static uint64_t switch_bytes(const struct plumb_byte_code* code, uint32_t pc, uint32_t* cases) {
    const uint32_t fixed = pc + 1 + switch_padding(pc);
    const bool is_table = code->at[pc] == PLUMB_TABLE_SWITCH;
    const uint32_t head = is_table ? 12 : 8;
    if (fixed + head > code->bytes) return 0;
    const int32_t first = (int32_t)plumb_u32_at(code->at + fixed + 4);
    const int64_t count = is_table ? (int64_t)(int32_t)plumb_u32_at(code->at + fixed + 8) - first + 1 : first;
    if (count < 0 || count > code->bytes) return 0;
    *cases = (uint32_t)count;
    return 1 + switch_padding(pc) + head + (uint64_t)count * (is_table ? 4 : 8);
}

/* Of those whose length goes by the opcode. */
static uint32_t bytes_of_opcode(uint32_t opcode) {
    switch (opcode) {
    case 16: /* bipush */
    case 18: /* ldc */
    case PLUMB_RET:
    case 188: /* newarray */
        return 2;
    case 17: /* sipush */
    case PLUMB_LDC_W:
    case 20:  /* ldc2_w */
    case 132: /* iinc */
    case PLUMB_NEW:
    case 189: /* anewarray */
    case 192: /* checkcast */
    case 193: /* instanceof */
    case PLUMB_IF_NULL:
    case PLUMB_IF_NOT_NULL:
        return 3;
    case 197: /* multianewarray */
        return 4;
    case 185: /* invokeinterface */
    case 186: /* invokedynamic */
    case PLUMB_GOTO_W:
    case PLUMB_JSR_W:
        return 5;
    default:
        break;
    }
    if ((opcode >= 21 && opcode <= 25) || (opcode >= 54 && opcode <= 58)) return 2; /* loads, stores */
    if ((opcode >= PLUMB_IF_FIRST && opcode <= PLUMB_JSR) || (opcode >= 178 && opcode <= PLUMB_INVOKE_STATIC))
        return 3; /* jumps, fields, calls */
    return opcode <= PLUMB_JSR_W ? 1 : 0;
}

uint32_t plumb_instruction_bytes(const struct plumb_byte_code* code, uint32_t pc) {
    const uint32_t opcode = code->at[pc];
    uint64_t bytes = bytes_of_opcode(opcode);
    uint32_t cases;
    if (opcode == PLUMB_TABLE_SWITCH || opcode == PLUMB_LOOKUP_SWITCH) bytes = switch_bytes(code, pc, &cases);
    if (opcode == PLUMB_WIDE) bytes = pc + 1 < code->bytes && code->at[pc + 1] == 132 ? 6 : 4;
    return bytes <= code->bytes - pc ? (uint32_t)bytes : 0;
}

static bool has_two_byte_offset(uint32_t opcode) {
    return (opcode >= PLUMB_IF_FIRST && opcode <= PLUMB_JSR) || opcode == PLUMB_IF_NULL ||
           opcode == PLUMB_IF_NOT_NULL;
}

static bool is_switch(uint32_t opcode) {
    return opcode == PLUMB_TABLE_SWITCH || opcode == PLUMB_LOOKUP_SWITCH;
}

bool plumb_is_jump(uint32_t opcode) {
    return has_two_byte_offset(opcode) || is_switch(opcode) || opcode == PLUMB_GOTO_W ||
           opcode == PLUMB_JSR_W;
}

bool plumb_place_code(const struct plumb_byte_code* code, const struct plumb_insertions* insertions,
                      int32_t* places) {
    uint32_t next_pc = 0;
    for (uint32_t pc = 0, bytes; pc < code->bytes; pc += bytes) {
        bytes = plumb_instruction_bytes(code, pc);
        if (bytes == 0) return false;
        if (pc == insertions->entry_pc) next_pc += insertions->entry.bytes;
        places[pc] = (int32_t)next_pc;
        for (uint32_t i = 1; i < bytes; i++)
            places[pc + i] = plumb_no_place;
        if (plumb_is_return(code->at[pc])) next_pc += insertions->exit.bytes;
        if (is_switch(code->at[pc])) next_pc += switch_padding(next_pc) - switch_padding(pc);
        next_pc += bytes;
    }
    places[code->bytes] = (int32_t)next_pc;
    return true;
}

/* Of a jump that is at `pc`: how far it is then. Where it leads nowhere, 0, and `is_right` becomes false. */
static int32_t moved_offset(const struct plumb_byte_code* code, const int32_t* places, uint32_t pc,
                            int32_t offset, bool* is_right) {
    const int64_t target = (int64_t)pc + offset;
    if (target < 0 || target >= code->bytes || places[target] == plumb_no_place) {
        *is_right = false;
        return 0;
    }
    return places[target] - places[pc];
}

static bool put_switch(struct plumb_class_output* output, const struct plumb_byte_code* code, uint32_t pc,
                       const int32_t* places) {
    static const uint8_t padding[3] = {0, 0, 0};
    const bool is_table = code->at[pc] == PLUMB_TABLE_SWITCH;
    const uint8_t* from = code->at + pc + 1 + switch_padding(pc);
    uint32_t cases = 0;
    bool is_right = true;
    switch_bytes(code, pc, &cases);
    plumb_write_u8(output, code->at[pc]);
    plumb_write_bytes(output, padding, switch_padding((uint32_t)places[pc]));
    plumb_write_u32(output, (uint32_t)moved_offset(code, places, pc, (int32_t)plumb_u32_at(from), &is_right));
    plumb_write_bytes(output, from + 4, is_table ? 8 : 4);
    from += is_table ? 12 : 8;
    for (uint32_t i = 0; i < cases; i++) {
        if (!is_table) {
            plumb_write_bytes(output, from, 4);
            from += 4;
        }
        plumb_write_u32(output,
                        (uint32_t)moved_offset(code, places, pc, (int32_t)plumb_u32_at(from), &is_right));
        from += 4;
    }
    return is_right;
}

static bool put_jump(struct plumb_class_output* output, const struct plumb_byte_code* code, uint32_t pc,
                     const int32_t* places) {
    const uint32_t opcode = code->at[pc];
    bool is_right = true;
    plumb_write_u8(output, opcode);
    if (!has_two_byte_offset(opcode)) {
        const int32_t offset = (int32_t)plumb_u32_at(code->at + pc + 1);
        plumb_write_u32(output, (uint32_t)moved_offset(code, places, pc, offset, &is_right));
        return is_right;
    }
    const int32_t offset =
        moved_offset(code, places, pc, (int16_t)plumb_u16_at(code->at + pc + 1), &is_right);
    plumb_write_u16(output, (uint32_t)offset);
    return is_right && offset == (int16_t)offset;
}

bool plumb_put_moved_code(struct plumb_class_output* output, const struct plumb_byte_code* code,
                          const struct plumb_insertions* insertions, const int32_t* places) {
    for (uint32_t pc = 0, bytes; pc < code->bytes; pc += bytes) {
        const uint32_t opcode = code->at[pc];
        bool is_right = true;
        bytes = plumb_instruction_bytes(code, pc);
        if (pc == insertions->entry_pc)
            plumb_write_bytes(output, insertions->entry.at, insertions->entry.bytes);
        if (plumb_is_return(opcode)) plumb_write_bytes(output, insertions->exit.at, insertions->exit.bytes);
        if (is_switch(opcode))
            is_right = put_switch(output, code, pc, places);
        else if (plumb_is_jump(opcode))
            is_right = put_jump(output, code, pc, places);
        else
            plumb_write_bytes(output, code->at + pc, bytes);
        if (!is_right) return false;
    }
    return true;
}
