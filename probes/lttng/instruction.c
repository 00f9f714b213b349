#include "instruction.h"

#include <string.h>

enum { AX, CX, DX, BX, SP, BP, NO_REGISTER = 255 };

#define LENGTH_MAX 15u
#define IS_ONE_OF(opcode, bytes) (memchr(bytes, opcode, sizeof(bytes) - 1) != NULL)

/* What stands behind the opcode, besides the operand in memory. */
enum shape {
    BAD = 0, /* there is none in 64-bit mode, or compilers do not write it */
    PLAIN,
    MODRM,
    IMM8,
    IMM32, /* 16 bits with the prefix for it */
    MODRM_IMM8,
    MODRM_IMM32,
    OTHER /* is looked at by itself */
};

struct operand {
    uint8_t mod, reg, rm; /* with REX */
    uint8_t base;
    bool has_index;
    int32_t displacement;
};

struct reading {
    const unsigned char* at;
    const unsigned char* end;
    uint8_t rex;
    bool has_16_bits, has_segment, has_repeat, has_short_addresses, has_lock, is_bad;
    bool has_frame_pointer;
    struct operand operand;
    struct instruction found;
};

static uint8_t take(struct reading* from) {
    if (from->at == from->end) {
        from->is_bad = true;
        return 0;
    }
    return *from->at++;
}

static int32_t take_signed(struct reading* from, unsigned bytes) {
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint32_t)take(from) << (8 * i);
    if (bytes == 1) return (int8_t)value;
    return bytes == 2 ? (int16_t)value : (int32_t)value;
}

static void take_operand(struct reading* from) {
    struct operand* const to = &from->operand;
    const uint8_t modrm = take(from);
    to->mod = modrm >> 6;
    to->reg = (uint8_t)((modrm >> 3 & 7) | (from->rex & 4) << 1);
    to->rm = (uint8_t)((modrm & 7) | (from->rex & 1) << 3);
    to->base = to->rm;
    to->has_index = false;
    to->displacement = 0;
    if (to->mod == 3) return;
    bool has_base = true;
    if ((modrm & 7) == SP) {
        const uint8_t sib = take(from);
        to->base = (uint8_t)((sib & 7) | (from->rex & 1) << 3);
        to->has_index = (sib >> 3 & 7) != SP || (from->rex & 2) != 0;
        has_base = !(to->mod == 0 && (sib & 7) == BP);
    } else if (to->mod == 0 && (modrm & 7) == BP) { /* behind the instruction */
        has_base = false;
    }
    if (!has_base) to->base = NO_REGISTER;
    if (to->mod == 1) to->displacement = take_signed(from, 1);
    if (to->mod == 2 || !has_base) to->displacement = take_signed(from, 4);
}

static void skip_immediate(struct reading* from, unsigned bytes) {
    for (; bytes != 0; bytes--)
        (void)take(from);
}

static unsigned immediate_bytes(const struct reading* from) {
    return from->has_16_bits && (from->rex & 8) == 0 ? 2 : 4;
}

/* By its distance from there, and not by its address. */
static bool is_behind_instruction(const struct operand* operand) {
    return operand->mod == 0 && (operand->rm & 7) == BP;
}

/* What is written to its operand: nothing else than the function's own knows of it, or it is a register. */
static bool writes_own(struct reading* from) {
    const struct operand* const to = &from->operand;
    if (to->mod == 3) return true;
    if (to->has_index || from->has_segment) return false;
    if (to->base == SP) {
        from->found.stored_at = to->displacement;
        return true;
    }
    /* Above are the caller's frame and what it has handed over. */
    return to->base == BP && from->has_frame_pointer && to->displacement < 0;
}

/* By what else changes these it is not known any more where the frame is, and how large. */
static bool leaves_frame(const struct reading* from, uint8_t changed) {
    return changed != SP && (changed != BP || !from->has_frame_pointer);
}

/* Its operand is where it writes to, which is none of these. */
static bool writes_own_but_frame(struct reading* from) {
    return writes_own(from) && (from->operand.mod != 3 || leaves_frame(from, from->operand.rm));
}

/* ---- one byte ---- */

static enum shape shape_of_one(uint8_t opcode) {
    if (opcode < 0x40) {
        static const uint8_t shapes[8] = {MODRM, MODRM, MODRM, MODRM, IMM8, IMM32, BAD, BAD};
        return (enum shape)shapes[opcode & 7];
    }
    if (opcode >= 0x50 && opcode < 0x60) return PLAIN;
    if (opcode >= 0x70 && opcode < 0x80) return OTHER;
    if (opcode >= 0x90 && opcode < 0x9a) return PLAIN;
    if (opcode >= 0xa4 && opcode < 0xb0) return opcode == 0xa8 ? IMM8 : opcode == 0xa9 ? IMM32 : PLAIN;
    if (opcode >= 0xb0 && opcode < 0xb8) return IMM8;
    if (opcode >= 0xb8 && opcode < 0xc0) return OTHER;
    if (opcode >= 0xd8 && opcode < 0xe0) return MODRM;
    if (IS_ONE_OF(opcode, "\x63\x84\x85\x86\x87\x88\x89\x8a\x8b\x8d\x8f\xd0\xd1\xd2\xd3\xfe")) return MODRM;
    if (IS_ONE_OF(opcode, "\x6b\x80\x83\xc0\xc1\xc6")) return MODRM_IMM8;
    if (IS_ONE_OF(opcode, "\x69\x81\xc7")) return MODRM_IMM32;
    if (IS_ONE_OF(opcode, "\x6a\xcd")) return IMM8;
    if (opcode == 0x68) return IMM32;
    if (IS_ONE_OF(opcode, "\x9b\x9c\x9d\x9e\x9f\xc3\xc9\xcc\xf4\xf5\xf8\xf9\xfc\xfd")) return PLAIN;
    return IS_ONE_OF(opcode, "\xc2\xe0\xe1\xe2\xe3\xe8\xe9\xeb\xf6\xf7\xff") ? OTHER : BAD;
}

static void take_jump(struct reading* from, enum flow flow, unsigned bytes) {
    const int32_t distance = take_signed(from, bytes);
    if (bytes == 4 && from->has_16_bits && (from->rex & 8) == 0)
        from->is_bad = true; /* two bytes, for some makers */
    from->found.flow = (uint8_t)flow;
    from->found.target = from->at + distance;
    from->found.is_pure = flow != FLOW_CALL;
}

/* inc, dec, call, jmp, push */
static void take_group_5(struct reading* from) {
    take_operand(from);
    const struct operand* const operand = &from->operand;
    struct instruction* const found = &from->found;
    switch (operand->reg & 7) {
    case 0:
    case 1:
        found->is_pure = writes_own_but_frame(from);
        return;
    case 2: /* by what a register leads to; any other may be that as well, looked up before */
        found->flow = FLOW_UNKNOWN;
        if (operand->mod == 3 || operand->has_index || operand->base == SP ||
            (operand->base == BP && from->has_frame_pointer))
            return;
        found->flow = operand->base == NO_REGISTER ? FLOW_CALL : FLOW_CALL_BY;
        found->displacement = operand->displacement;
        if (is_behind_instruction(operand)) found->pointer = from->at + operand->displacement;
        return;
    case 4: /* by a pointer, which may be one to a place here, as one of a table is */
        found->flow = FLOW_UNKNOWN;
        return;
    case 6:
        found->is_pure = true;
        found->frame_bytes = 8;
        return;
    default:
        from->is_bad = true;
    }
}

static void take_other(struct reading* from, uint8_t opcode) {
    struct instruction* const found = &from->found;
    if (opcode >= 0x70 && opcode < 0x80) return take_jump(from, FLOW_BRANCH, 1);
    if (opcode >= 0xb8 && opcode < 0xc0) {
        skip_immediate(from, (from->rex & 8) != 0 ? 8 : immediate_bytes(from));
        found->is_pure = leaves_frame(from, (uint8_t)((opcode & 7) | (from->rex & 1) << 3));
        return;
    }
    if (opcode == 0xc2) {
        skip_immediate(from, 2);
        found->flow = FLOW_LEAVE;
    } else if (opcode < 0xe4) {
        take_jump(from, FLOW_BRANCH, 1);
    } else if (opcode == 0xe8) {
        take_jump(from, FLOW_CALL, 4);
    } else if (opcode == 0xe9 || opcode == 0xeb) {
        take_jump(from, FLOW_JUMP, opcode == 0xe9 ? 4 : 1);
    } else if (opcode == 0xff) {
        take_group_5(from);
    } else { /* test, not, neg, mul, div */
        take_operand(from);
        const unsigned kind = from->operand.reg & 7;
        if (kind < 2) skip_immediate(from, opcode == 0xf6 ? 1 : immediate_bytes(from));
        found->is_pure = kind < 2 || kind > 3 || writes_own_but_frame(from);
    }
}

/* add, or, ..., cmp of a constant */
static bool is_group_1_pure(struct reading* from, int32_t constant) {
    const unsigned kind = from->operand.reg & 7;
    if (kind == 7) return true;
    if (from->operand.mod == 3 && from->operand.rm == SP) {
        const bool grows = kind == 5 ? constant > 0 : constant < 0; /* sub; add, and */
        const uint32_t bytes = (uint32_t)(constant < 0 ? -(int64_t)constant : constant);
        if (kind != 0 && kind != 4 && kind != 5) return false;
        if (grows)
            from->found.frame_bytes = bytes;
        else
            from->found.freed_bytes = bytes;
        return kind != 4 || constant < 0;
    }
    return writes_own_but_frame(from);
}

/* lea: places on the stack are computed by it, too. */
static bool is_lea_pure(struct reading* from) {
    const struct operand* const operand = &from->operand;
    if (operand->reg != SP) return leaves_frame(from, operand->reg);
    if (operand->displacement < 0)
        from->found.frame_bytes = (uint32_t) - (int64_t)operand->displacement;
    else
        from->found.freed_bytes = (uint32_t)operand->displacement;
    return !operand->has_index && operand->base == SP;
}

/* Loads, stores and arithmetic with one operand that may be in memory. */
static bool is_one_pure(struct reading* from, uint8_t opcode) {
    const struct operand* const operand = &from->operand;
    const uint8_t in_opcode = (uint8_t)((opcode & 7) | (from->rex & 1) << 3);
    if (opcode < 0x40) {
        if (opcode >= 0x38 || (opcode & 7) >= 4) return true; /* cmp; of ax */
        return (opcode & 2) != 0 ? leaves_frame(from, operand->reg) : writes_own_but_frame(from);
    }
    if ((opcode >= 0x50 && opcode < 0x58) || opcode == 0x68 || opcode == 0x6a) { /* push */
        from->found.frame_bytes = 8;
        return true;
    }
    if (opcode >= 0x58 && opcode < 0x60) { /* pop */
        from->found.freed_bytes = 8;
        return leaves_frame(from, in_opcode);
    }
    if (opcode >= 0xb0 && opcode < 0xb8) return true;
    if (IS_ONE_OF(opcode, "\x84\x85\x98\x99\xa8\xa9\x90\xf5\xf8\xf9")) return true;
    if (opcode > 0x90 && opcode < 0x98) return leaves_frame(from, in_opcode);
    if (IS_ONE_OF(opcode, "\x63\x69\x6b\x8a\x8b")) return leaves_frame(from, operand->reg);
    if (opcode == 0x86 || opcode == 0x87) /* xchg */
        return operand->mod == 3 && leaves_frame(from, operand->rm) && leaves_frame(from, operand->reg);
    if (opcode == 0x8d) return is_lea_pure(from);
    if (opcode == 0x89 && operand->mod == 3 && operand->reg == SP && operand->rm == BP)
        return true; /* it is set */
    if ((opcode == 0xc6 || opcode == 0xc7) && (operand->reg & 7) != 0) return false;
    if (IS_ONE_OF(opcode, "\x88\x89\xc6\xc7\xc0\xc1\xd0\xd1\xd2\xd3\xfe")) return writes_own_but_frame(from);
    return false;
}

static void take_one(struct reading* from, uint8_t opcode) {
    struct instruction* const found = &from->found;
    const enum shape shape = shape_of_one(opcode);
    if (shape == BAD) from->is_bad = true;
    if (shape == OTHER) return take_other(from, opcode);
    if (shape == MODRM || shape == MODRM_IMM8 || shape == MODRM_IMM32) take_operand(from);
    if (opcode == 0x8f && (from->operand.reg & 7) != 0) from->is_bad = true; /* of AMD's own */
    int32_t constant = 0;
    if (shape == IMM8 || shape == MODRM_IMM8) constant = take_signed(from, 1);
    if (shape == IMM32 || shape == MODRM_IMM32) constant = take_signed(from, immediate_bytes(from));
    if (opcode == 0xc3) {
        found->flow = FLOW_LEAVE;
        return;
    }
    if (opcode == 0xcc ||
        opcode == 0xf4) { /* a handler may go on behind it, and a debugger's breakpoint hides what is there */
        found->flow = FLOW_UNKNOWN;
        return;
    }
    found->is_pure = opcode == 0x80 || opcode == 0x81 || opcode == 0x83 ? is_group_1_pure(from, constant)
                                                                        : is_one_pure(from, opcode);
}

/* ---- 0f and one byte ---- */

static enum shape shape_of_two(uint8_t opcode) {
    if ((opcode >= 0x80 && opcode < 0x90)) return OTHER;
    if (IS_ONE_OF(opcode, "\x70\x71\x72\x73\xa4\xac\xba\xc2\xc4\xc5\xc6")) return MODRM_IMM8;
    if (IS_ONE_OF(opcode, "\x05\x0b\x31\x77\xa2") || (opcode >= 0xc8 && opcode < 0xd0)) return PLAIN;
    /* Not those of one maker alone from 0x78 on, some of which have two bytes more. */
    const bool is_there = (opcode >= 0x10 && opcode < 0x20) || (opcode >= 0x28 && opcode < 0x30) ||
                          (opcode >= 0x40 && opcode < 0x78) || (opcode >= 0x7c && opcode < 0x80) ||
                          (opcode >= 0x90 && opcode < 0xa0) || (opcode >= 0xb0 && opcode < 0xc2) ||
                          opcode >= 0xd0 || IS_ONE_OF(opcode, "\x01\x0d\xa3\xa5\xab\xad\xae\xaf\xc3\xc7");
    return is_there ? MODRM : BAD;
}

static bool is_two_pure(struct reading* from, uint8_t opcode) {
    const struct operand* const operand = &from->operand;
    if ((opcode >= 0x40 && opcode < 0x50) ||
        IS_ONE_OF(opcode, "\x2c\x2d\x50\xaf\xb6\xb7\xb8\xbc\xbd\xbe\xbf\xc5\xd7"))
        return leaves_frame(from, operand->reg);
    if (opcode >= 0x90 && opcode < 0xa0) return writes_own_but_frame(from); /* setcc */
    /* Of bits; with a register for the number these reach far in memory. */
    if (IS_ONE_OF(opcode, "\xab\xb3\xbb\xba"))
        return operand->mod == 3 || (opcode == 0xba && (operand->reg & 7) == 4);
    if (opcode == 0x7e) return from->has_repeat || writes_own(from);
    if (IS_ONE_OF(opcode, "\xa4\xa5\xac\xad\x11\x13\x17\x29\x7f\xd6")) return writes_own_but_frame(from);
    if (opcode >= 0xc8 && opcode < 0xd0) return true; /* bswap */
    if (opcode >= 0x51 && opcode < 0x77) return true;
    if (opcode >= 0xd0 && opcode < 0xff) return !IS_ONE_OF(opcode, "\xe7\xf0\xf7");
    return IS_ONE_OF(opcode, "\x10\x12\x14\x15\x16\x18\x1e\x1f\x28\x2a\x2e\x2f\x7c\x7d\xa3\xc2\xc4\xc6");
}

/* 0f 38 and 0f 3a, besides moves to memory and what changes more. */
static void take_three(struct reading* from, bool has_immediate) {
    const uint8_t opcode = take(from);
    take_operand(from);
    if (has_immediate) skip_immediate(from, 1);
    from->found.is_pure = has_immediate ? opcode < 0x14 || opcode > 0x17 : opcode < 0x80;
}

static void take_two(struct reading* from) {
    struct instruction* const found = &from->found;
    const uint8_t opcode = take(from);
    if (opcode == 0x38 || opcode == 0x3a) return take_three(from, opcode == 0x3a);
    const enum shape shape = shape_of_two(opcode);
    if (shape == BAD) from->is_bad = true;
    if (shape == OTHER) return take_jump(from, FLOW_BRANCH, 4);
    if (shape == MODRM || shape == MODRM_IMM8) take_operand(from);
    if (shape == MODRM_IMM8) skip_immediate(from, 1);
    if (opcode == 0x0b) found->flow = FLOW_UNKNOWN; /* ud2: as that */
    found->is_pure = is_two_pure(from, opcode);
}

/* ---- VEX and EVEX: their lengths ---- */

static void take_vex(struct reading* from, uint8_t first) {
    unsigned map = 1;
    from->rex = 0;
    if (first == 0xc5) {
        from->rex = (uint8_t)((~take(from) & 0x80) >> 5);
    } else {
        const uint8_t second = take(from);
        map = second & (first == 0x62 ? 7 : 31);
        from->rex = (uint8_t)((~second & 0xe0) >> 5);
        (void)take(from);
        if (first == 0x62) (void)take(from);
    }
    const uint8_t opcode = take(from);
    if (map == 0 || map > 3) from->is_bad = true;
    if (map == 1 && opcode == 0x77) return;
    take_operand(from);
    if (map == 3 || (map == 1 && shape_of_two(opcode) == MODRM_IMM8)) skip_immediate(from, 1);
}

static uint8_t take_prefixes(struct reading* from) {
    for (;;) {
        const uint8_t byte = take(from);
        if (from->is_bad) return 0;
        switch (byte) {
        case 0x66:
            from->has_16_bits = true;
            break;
        case 0x64:
        case 0x65:
            from->has_segment = true;
            break;
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x26:
            break;
        case 0xf0:
            from->has_lock = true;
            break;
        case 0xf2:
            break;
        case 0x67:
            from->has_short_addresses = true;
            break;
        case 0xf3:
            from->has_repeat = true;
            break;
        default:
            if ((byte & 0xf0) != 0x40) return byte;
            from->rex = byte & 15;
            return take(from);
        }
    }
}

struct instruction read_instruction(const unsigned char* at, const unsigned char* end,
                                    bool has_frame_pointer) {
    struct reading from = {.at = at, .end = end, .has_frame_pointer = has_frame_pointer};
    if ((uintptr_t)end - (uintptr_t)at > LENGTH_MAX) from.end = at + LENGTH_MAX;
    from.found.flow = FLOW_ON;
    from.found.stored_at = INT32_MIN;
    const uint8_t opcode = take_prefixes(&from);
    if (opcode == 0xc4 || opcode == 0xc5 || opcode == 0x62)
        take_vex(&from, opcode);
    else if (opcode == 0x0f)
        take_two(&from);
    else
        take_one(&from, opcode);
    if (from.has_lock) from.found.is_pure = false;
    /* The linker fills a call that has become shorter by it; elsewhere compilers hardly use it. */
    if (from.has_short_addresses && from.found.flow != FLOW_CALL && from.found.flow != FLOW_JUMP)
        from.is_bad = true;
    if (from.is_bad) {
        from.found.flow = FLOW_UNKNOWN;
        from.found.is_pure = false;
    } else {
        from.found.length = (uint8_t)(from.at - at);
    }
    return from.found;
}
