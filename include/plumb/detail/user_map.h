/*
 * Who a user is outside of his user namespace, by /proc/self/uid_map: where the shared memory is one from outside, a directory there by his
 * number inside would be in another one's way.
 */
#ifndef PLUMB_DETAIL_USER_MAP_H
#define PLUMB_DETAIL_USER_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* Enough for all lines but of maps with hundreds; whom a line names that is not there has no number outside. */
#define PLUMB_USER_MAP_BYTES 1024u
#define PLUMB_USER_HAS_NO_NUMBER UINT32_MAX
/* Whom the kernel shows in place of one who has no number here (/proc/sys/kernel/overflowuid), and who may be another as well. */
#define PLUMB_USER_UNKNOWN 65534u

/* `map`: lines of a number inside, one outside, and how many from there on, as the kernel writes them; `bytes` of it. */
static inline uint32_t plumb_user_outside(const char* map, uint32_t bytes, uint32_t user_id) {
    uint64_t numbers[3] = {0, 0, 0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        if (map[i] >= '0' && map[i] <= '9') {
            const bool is_first_digit = i == 0 || map[i - 1] < '0' || map[i - 1] > '9';
            if (is_first_digit && count == 3) return PLUMB_USER_HAS_NO_NUMBER;
            if (is_first_digit) numbers[count++] = 0;
            numbers[count - 1] = numbers[count - 1] * 10 + (uint64_t)(map[i] - '0');
        } else if (map[i] == '\n') {
            if (count == 3 && user_id >= numbers[0] && user_id - numbers[0] < numbers[2])
                return (uint32_t)(numbers[1] + user_id - numbers[0]);
            count = 0;
        }
    }
    return PLUMB_USER_HAS_NO_NUMBER;
}

/* By which number the user's directory is named in a shared memory that belongs to `owner`; PLUMB_USER_HAS_NO_NUMBER: that can not be known, as
 * of who has no number outside. One that belongs to the root of outside is one from there, or may be, and so is one of whose owner nothing is
 * known here: there, everybody goes by his number outside. The map tells that of the namespace around this one, and no more: who is its
 * root is root of where the memory is from only if that is his, as in one namespace alone. */
static inline uint32_t plumb_user_in_shared_memory(const char* map, uint32_t bytes, uint32_t owner,
                                                   uint32_t user_id) {
    const uint32_t owner_outside = plumb_user_outside(map, bytes, owner);
    const bool is_from_outside =
        owner == PLUMB_USER_UNKNOWN || owner_outside == 0 || owner_outside == PLUMB_USER_HAS_NO_NUMBER;
    const uint32_t number = plumb_user_outside(map, bytes, user_id);
    if (!is_from_outside) return user_id;
    return number == 0 && owner != user_id ? PLUMB_USER_HAS_NO_NUMBER : number;
}

#endif
