/*
 * The preprocessor's part: apply a macro to each of up to 32 arguments, with and without commas, in C11 and
 * C++20, without compiler extensions. Fields are parenthesised, which is what tells "no field" from "one
 * field".
 */
#ifndef PLUMB_DETAIL_FOR_EACH_H
#define PLUMB_DETAIL_FOR_EACH_H

#define PLUMB_CAT_(a, b) a##b
#define PLUMB_CAT(a, b) PLUMB_CAT_(a, b)
#define PLUMB_STRING_(x) #x
#define PLUMB_STRING(x) PLUMB_STRING_(x)
#define PLUMB_STRIP_(...) __VA_ARGS__
#define PLUMB_FIRST_(first, ...) first
#define PLUMB_SECOND_(first, second, ...) second
#define PLUMB_FOURTH_(first, second, third, fourth, ...) fourth

/* 1 if the argument starts with a parenthesis, else 0. */
#define PLUMB_PROBE_PAREN_(...) ~, 1
#define PLUMB_IS_PAREN_(...) PLUMB_SECOND_(__VA_ARGS__, 0, ~)
#define PLUMB_IS_PAREN(x) PLUMB_IS_PAREN_(PLUMB_PROBE_PAREN_ x)
/* 1 if the argument, which starts with no parenthesis, is nothing at all, else 0. */
#define PLUMB_IS_EMPTY(x) PLUMB_IS_PAREN(x())

/* How many arguments: 1 to 32. */
#define PLUMB_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, \
                     _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, N, ...)              \
    N
#define PLUMB_COUNT(...)                                                                                  \
    PLUMB_COUNT_(__VA_ARGS__, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, \
                 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

/* PLUMB_FOR_EACH(m, c, (a), (b)) is m(c, (a)) m(c, (b)); with an empty list nothing. */
#define PLUMB_FOR_EACH(m, c, ...) \
    PLUMB_CAT(PLUMB_FOR_EACH_IF_, PLUMB_IS_PAREN(PLUMB_FIRST_(__VA_ARGS__, ~)))(m, c, __VA_ARGS__)
#define PLUMB_FOR_EACH_IF_0(m, c, ...)
#define PLUMB_FOR_EACH_IF_1(m, c, ...) PLUMB_CAT(PLUMB_EACH_, PLUMB_COUNT(__VA_ARGS__))(m, c, __VA_ARGS__)
#define PLUMB_EACH_1(m, c, x) m(c, x)
#define PLUMB_EACH_2(m, c, x, ...) m(c, x) PLUMB_EACH_1(m, c, __VA_ARGS__)
#define PLUMB_EACH_3(m, c, x, ...) m(c, x) PLUMB_EACH_2(m, c, __VA_ARGS__)
#define PLUMB_EACH_4(m, c, x, ...) m(c, x) PLUMB_EACH_3(m, c, __VA_ARGS__)
#define PLUMB_EACH_5(m, c, x, ...) m(c, x) PLUMB_EACH_4(m, c, __VA_ARGS__)
#define PLUMB_EACH_6(m, c, x, ...) m(c, x) PLUMB_EACH_5(m, c, __VA_ARGS__)
#define PLUMB_EACH_7(m, c, x, ...) m(c, x) PLUMB_EACH_6(m, c, __VA_ARGS__)
#define PLUMB_EACH_8(m, c, x, ...) m(c, x) PLUMB_EACH_7(m, c, __VA_ARGS__)
#define PLUMB_EACH_9(m, c, x, ...) m(c, x) PLUMB_EACH_8(m, c, __VA_ARGS__)
#define PLUMB_EACH_10(m, c, x, ...) m(c, x) PLUMB_EACH_9(m, c, __VA_ARGS__)
#define PLUMB_EACH_11(m, c, x, ...) m(c, x) PLUMB_EACH_10(m, c, __VA_ARGS__)
#define PLUMB_EACH_12(m, c, x, ...) m(c, x) PLUMB_EACH_11(m, c, __VA_ARGS__)
#define PLUMB_EACH_13(m, c, x, ...) m(c, x) PLUMB_EACH_12(m, c, __VA_ARGS__)
#define PLUMB_EACH_14(m, c, x, ...) m(c, x) PLUMB_EACH_13(m, c, __VA_ARGS__)
#define PLUMB_EACH_15(m, c, x, ...) m(c, x) PLUMB_EACH_14(m, c, __VA_ARGS__)
#define PLUMB_EACH_16(m, c, x, ...) m(c, x) PLUMB_EACH_15(m, c, __VA_ARGS__)
#define PLUMB_EACH_17(m, c, x, ...) m(c, x) PLUMB_EACH_16(m, c, __VA_ARGS__)
#define PLUMB_EACH_18(m, c, x, ...) m(c, x) PLUMB_EACH_17(m, c, __VA_ARGS__)
#define PLUMB_EACH_19(m, c, x, ...) m(c, x) PLUMB_EACH_18(m, c, __VA_ARGS__)
#define PLUMB_EACH_20(m, c, x, ...) m(c, x) PLUMB_EACH_19(m, c, __VA_ARGS__)
#define PLUMB_EACH_21(m, c, x, ...) m(c, x) PLUMB_EACH_20(m, c, __VA_ARGS__)
#define PLUMB_EACH_22(m, c, x, ...) m(c, x) PLUMB_EACH_21(m, c, __VA_ARGS__)
#define PLUMB_EACH_23(m, c, x, ...) m(c, x) PLUMB_EACH_22(m, c, __VA_ARGS__)
#define PLUMB_EACH_24(m, c, x, ...) m(c, x) PLUMB_EACH_23(m, c, __VA_ARGS__)
#define PLUMB_EACH_25(m, c, x, ...) m(c, x) PLUMB_EACH_24(m, c, __VA_ARGS__)
#define PLUMB_EACH_26(m, c, x, ...) m(c, x) PLUMB_EACH_25(m, c, __VA_ARGS__)
#define PLUMB_EACH_27(m, c, x, ...) m(c, x) PLUMB_EACH_26(m, c, __VA_ARGS__)
#define PLUMB_EACH_28(m, c, x, ...) m(c, x) PLUMB_EACH_27(m, c, __VA_ARGS__)
#define PLUMB_EACH_29(m, c, x, ...) m(c, x) PLUMB_EACH_28(m, c, __VA_ARGS__)
#define PLUMB_EACH_30(m, c, x, ...) m(c, x) PLUMB_EACH_29(m, c, __VA_ARGS__)
#define PLUMB_EACH_31(m, c, x, ...) m(c, x) PLUMB_EACH_30(m, c, __VA_ARGS__)
#define PLUMB_EACH_32(m, c, x, ...) m(c, x) PLUMB_EACH_31(m, c, __VA_ARGS__)

/* The same with commas between; `empty` stands for an empty list. */
#define PLUMB_LIST(m, c, empty, ...) \
    PLUMB_CAT(PLUMB_LIST_IF_, PLUMB_IS_PAREN(PLUMB_FIRST_(__VA_ARGS__, ~)))(m, c, empty, __VA_ARGS__)
#define PLUMB_LIST_IF_0(m, c, empty, ...) empty
#define PLUMB_LIST_IF_1(m, c, empty, ...) PLUMB_CAT(PLUMB_LIST_, PLUMB_COUNT(__VA_ARGS__))(m, c, __VA_ARGS__)
#define PLUMB_LIST_1(m, c, x) m(c, x)
#define PLUMB_LIST_2(m, c, x, ...) m(c, x), PLUMB_LIST_1(m, c, __VA_ARGS__)
#define PLUMB_LIST_3(m, c, x, ...) m(c, x), PLUMB_LIST_2(m, c, __VA_ARGS__)
#define PLUMB_LIST_4(m, c, x, ...) m(c, x), PLUMB_LIST_3(m, c, __VA_ARGS__)
#define PLUMB_LIST_5(m, c, x, ...) m(c, x), PLUMB_LIST_4(m, c, __VA_ARGS__)
#define PLUMB_LIST_6(m, c, x, ...) m(c, x), PLUMB_LIST_5(m, c, __VA_ARGS__)
#define PLUMB_LIST_7(m, c, x, ...) m(c, x), PLUMB_LIST_6(m, c, __VA_ARGS__)
#define PLUMB_LIST_8(m, c, x, ...) m(c, x), PLUMB_LIST_7(m, c, __VA_ARGS__)
#define PLUMB_LIST_9(m, c, x, ...) m(c, x), PLUMB_LIST_8(m, c, __VA_ARGS__)
#define PLUMB_LIST_10(m, c, x, ...) m(c, x), PLUMB_LIST_9(m, c, __VA_ARGS__)
#define PLUMB_LIST_11(m, c, x, ...) m(c, x), PLUMB_LIST_10(m, c, __VA_ARGS__)
#define PLUMB_LIST_12(m, c, x, ...) m(c, x), PLUMB_LIST_11(m, c, __VA_ARGS__)
#define PLUMB_LIST_13(m, c, x, ...) m(c, x), PLUMB_LIST_12(m, c, __VA_ARGS__)
#define PLUMB_LIST_14(m, c, x, ...) m(c, x), PLUMB_LIST_13(m, c, __VA_ARGS__)
#define PLUMB_LIST_15(m, c, x, ...) m(c, x), PLUMB_LIST_14(m, c, __VA_ARGS__)
#define PLUMB_LIST_16(m, c, x, ...) m(c, x), PLUMB_LIST_15(m, c, __VA_ARGS__)
#define PLUMB_LIST_17(m, c, x, ...) m(c, x), PLUMB_LIST_16(m, c, __VA_ARGS__)
#define PLUMB_LIST_18(m, c, x, ...) m(c, x), PLUMB_LIST_17(m, c, __VA_ARGS__)
#define PLUMB_LIST_19(m, c, x, ...) m(c, x), PLUMB_LIST_18(m, c, __VA_ARGS__)
#define PLUMB_LIST_20(m, c, x, ...) m(c, x), PLUMB_LIST_19(m, c, __VA_ARGS__)
#define PLUMB_LIST_21(m, c, x, ...) m(c, x), PLUMB_LIST_20(m, c, __VA_ARGS__)
#define PLUMB_LIST_22(m, c, x, ...) m(c, x), PLUMB_LIST_21(m, c, __VA_ARGS__)
#define PLUMB_LIST_23(m, c, x, ...) m(c, x), PLUMB_LIST_22(m, c, __VA_ARGS__)
#define PLUMB_LIST_24(m, c, x, ...) m(c, x), PLUMB_LIST_23(m, c, __VA_ARGS__)
#define PLUMB_LIST_25(m, c, x, ...) m(c, x), PLUMB_LIST_24(m, c, __VA_ARGS__)
#define PLUMB_LIST_26(m, c, x, ...) m(c, x), PLUMB_LIST_25(m, c, __VA_ARGS__)
#define PLUMB_LIST_27(m, c, x, ...) m(c, x), PLUMB_LIST_26(m, c, __VA_ARGS__)
#define PLUMB_LIST_28(m, c, x, ...) m(c, x), PLUMB_LIST_27(m, c, __VA_ARGS__)
#define PLUMB_LIST_29(m, c, x, ...) m(c, x), PLUMB_LIST_28(m, c, __VA_ARGS__)
#define PLUMB_LIST_30(m, c, x, ...) m(c, x), PLUMB_LIST_29(m, c, __VA_ARGS__)
#define PLUMB_LIST_31(m, c, x, ...) m(c, x), PLUMB_LIST_30(m, c, __VA_ARGS__)
#define PLUMB_LIST_32(m, c, x, ...) m(c, x), PLUMB_LIST_31(m, c, __VA_ARGS__)

/* The same over arguments of any form, numbered from 0: m(c, 0, x) m(c, 1, y); for markers. At least one. */
#define PLUMB_NUMBERED(m, c, ...) PLUMB_CAT(PLUMB_NUMBERED_, PLUMB_COUNT(__VA_ARGS__))(m, c, __VA_ARGS__)
#define PLUMB_NUMBERED_1(m, c, x0) m(c, 0, x0)
#define PLUMB_NUMBERED_2(m, c, x0, x1) m(c, 0, x0) m(c, 1, x1)
#define PLUMB_NUMBERED_3(m, c, x0, x1, x2) m(c, 0, x0) m(c, 1, x1) m(c, 2, x2)
#define PLUMB_NUMBERED_4(m, c, x0, x1, x2, x3) m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3)
#define PLUMB_NUMBERED_5(m, c, x0, x1, x2, x3, x4) m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4)
#define PLUMB_NUMBERED_6(m, c, x0, x1, x2, x3, x4, x5) \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5)
#define PLUMB_NUMBERED_7(m, c, x0, x1, x2, x3, x4, x5, x6) \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6)
#define PLUMB_NUMBERED_8(m, c, x0, x1, x2, x3, x4, x5, x6, x7) \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7)
#define PLUMB_NUMBERED_9(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8)                                  \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8)
#define PLUMB_NUMBERED_10(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9)                             \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8) m(c, 9, x9)
#define PLUMB_NUMBERED_11(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10)                        \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8) m(c, 9, x9) m(c, 10, x10)
#define PLUMB_NUMBERED_12(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11)                   \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8) m(c, 9, x9) m(c, 10, x10) m(c, 11, x11)
#define PLUMB_NUMBERED_13(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12)              \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8) m(c, 9, x9) m(c, 10, x10) m(c, 11, x11) m(c, 12, x12)
#define PLUMB_NUMBERED_14(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13)         \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8) m(c, 9, x9) m(c, 10, x10) m(c, 11, x11) m(c, 12, x12) m(c, 13, x13)
#define PLUMB_NUMBERED_15(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14)    \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7) \
        m(c, 8, x8) m(c, 9, x9) m(c, 10, x10) m(c, 11, x11) m(c, 12, x12) m(c, 13, x13) m(c, 14, x14)
#define PLUMB_NUMBERED_16(m, c, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15) \
    m(c, 0, x0) m(c, 1, x1) m(c, 2, x2) m(c, 3, x3) m(c, 4, x4) m(c, 5, x5) m(c, 6, x6) m(c, 7, x7)   \
        m(c, 8, x8) m(c, 9, x9) m(c, 10, x10) m(c, 11, x11) m(c, 12, x12) m(c, 13, x13) m(c, 14, x14) \
            m(c, 15, x15)

/* PLUMB_EACH once more under another name: a macro can not expand inside itself, and enums are lists in a list. */
#define PLUMB_INNER_EACH(m, c, ...) PLUMB_CAT(PLUMB_INNER_, PLUMB_COUNT(__VA_ARGS__))(m, c, __VA_ARGS__)
#define PLUMB_INNER_1(m, c, x) m(c, x)
#define PLUMB_INNER_2(m, c, x, ...) m(c, x) PLUMB_INNER_1(m, c, __VA_ARGS__)
#define PLUMB_INNER_3(m, c, x, ...) m(c, x) PLUMB_INNER_2(m, c, __VA_ARGS__)
#define PLUMB_INNER_4(m, c, x, ...) m(c, x) PLUMB_INNER_3(m, c, __VA_ARGS__)
#define PLUMB_INNER_5(m, c, x, ...) m(c, x) PLUMB_INNER_4(m, c, __VA_ARGS__)
#define PLUMB_INNER_6(m, c, x, ...) m(c, x) PLUMB_INNER_5(m, c, __VA_ARGS__)
#define PLUMB_INNER_7(m, c, x, ...) m(c, x) PLUMB_INNER_6(m, c, __VA_ARGS__)
#define PLUMB_INNER_8(m, c, x, ...) m(c, x) PLUMB_INNER_7(m, c, __VA_ARGS__)
#define PLUMB_INNER_9(m, c, x, ...) m(c, x) PLUMB_INNER_8(m, c, __VA_ARGS__)
#define PLUMB_INNER_10(m, c, x, ...) m(c, x) PLUMB_INNER_9(m, c, __VA_ARGS__)
#define PLUMB_INNER_11(m, c, x, ...) m(c, x) PLUMB_INNER_10(m, c, __VA_ARGS__)
#define PLUMB_INNER_12(m, c, x, ...) m(c, x) PLUMB_INNER_11(m, c, __VA_ARGS__)
#define PLUMB_INNER_13(m, c, x, ...) m(c, x) PLUMB_INNER_12(m, c, __VA_ARGS__)
#define PLUMB_INNER_14(m, c, x, ...) m(c, x) PLUMB_INNER_13(m, c, __VA_ARGS__)
#define PLUMB_INNER_15(m, c, x, ...) m(c, x) PLUMB_INNER_14(m, c, __VA_ARGS__)
#define PLUMB_INNER_16(m, c, x, ...) m(c, x) PLUMB_INNER_15(m, c, __VA_ARGS__)
#define PLUMB_INNER_17(m, c, x, ...) m(c, x) PLUMB_INNER_16(m, c, __VA_ARGS__)
#define PLUMB_INNER_18(m, c, x, ...) m(c, x) PLUMB_INNER_17(m, c, __VA_ARGS__)
#define PLUMB_INNER_19(m, c, x, ...) m(c, x) PLUMB_INNER_18(m, c, __VA_ARGS__)
#define PLUMB_INNER_20(m, c, x, ...) m(c, x) PLUMB_INNER_19(m, c, __VA_ARGS__)
#define PLUMB_INNER_21(m, c, x, ...) m(c, x) PLUMB_INNER_20(m, c, __VA_ARGS__)
#define PLUMB_INNER_22(m, c, x, ...) m(c, x) PLUMB_INNER_21(m, c, __VA_ARGS__)
#define PLUMB_INNER_23(m, c, x, ...) m(c, x) PLUMB_INNER_22(m, c, __VA_ARGS__)
#define PLUMB_INNER_24(m, c, x, ...) m(c, x) PLUMB_INNER_23(m, c, __VA_ARGS__)
#define PLUMB_INNER_25(m, c, x, ...) m(c, x) PLUMB_INNER_24(m, c, __VA_ARGS__)
#define PLUMB_INNER_26(m, c, x, ...) m(c, x) PLUMB_INNER_25(m, c, __VA_ARGS__)
#define PLUMB_INNER_27(m, c, x, ...) m(c, x) PLUMB_INNER_26(m, c, __VA_ARGS__)
#define PLUMB_INNER_28(m, c, x, ...) m(c, x) PLUMB_INNER_27(m, c, __VA_ARGS__)
#define PLUMB_INNER_29(m, c, x, ...) m(c, x) PLUMB_INNER_28(m, c, __VA_ARGS__)
#define PLUMB_INNER_30(m, c, x, ...) m(c, x) PLUMB_INNER_29(m, c, __VA_ARGS__)
#define PLUMB_INNER_31(m, c, x, ...) m(c, x) PLUMB_INNER_30(m, c, __VA_ARGS__)
#define PLUMB_INNER_32(m, c, x, ...) m(c, x) PLUMB_INNER_31(m, c, __VA_ARGS__)

#endif
