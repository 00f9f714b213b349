// cmake-once
// By which number a user's directory is named, as /proc/self/uid_map tells it.
#include <plumb/detail/user_map.h>

#include <gtest/gtest.h>

#include <string>

namespace {

constexpr std::uint32_t none = PLUMB_USER_HAS_NO_NUMBER, nobody = 65534;

std::uint32_t outside(const std::string& map, std::uint32_t user_id) {
    return plumb_user_outside(map.data(), static_cast<std::uint32_t>(map.size()), user_id);
}

std::uint32_t in_memory_of(const std::string& map, std::uint32_t owner, std::uint32_t user_id) {
    return plumb_user_in_shared_memory(map.data(), static_cast<std::uint32_t>(map.size()), owner, user_id);
}

const std::string machines = "         0          0 4294967295\n";
const std::string roots = "         0       1234          1\n";   /* unshare -r, by user 1234 */
const std::string callers = "      1000          0          1\n"; /* unshare --map-user=1000, by root */
const std::string rootless = "0 1000 1\n1 100000 65536\n";        /* podman's */
const std::string shifted = "         0     100000      65536\n"; /* a container's */

TEST(UserMap, is_read_line_by_line) {
    EXPECT_EQ(outside(machines, 0), 0u);
    EXPECT_EQ(outside(machines, 4294967294), 4294967294);
    EXPECT_EQ(outside(machines, 4294967295), none);
    EXPECT_EQ(outside(roots, 0), 1234u);
    EXPECT_EQ(outside(roots, 1), none);
    EXPECT_EQ(outside(rootless, 0), 1000u);
    EXPECT_EQ(outside(rootless, 1), 100000u);
    EXPECT_EQ(outside(rootless, 65536), 165535u);
    EXPECT_EQ(outside(rootless, 65537), none);
    EXPECT_EQ(outside(callers, 999), none);
    EXPECT_EQ(outside("", 0), none);
}

TEST(UserMap, what_it_does_not_say_is_nobodys) {
    EXPECT_EQ(outside("0 0", 0), none);
    EXPECT_EQ(outside("0 0 1", 0), none); /* not all of a line */
    EXPECT_EQ(outside("0 0 1 1\n", 0), none);
    EXPECT_EQ(outside("x\n0 5 1\n", 0), 5u);
    EXPECT_EQ(outside("\n\n", 0), none);
}

TEST(UserMap, in_a_memory_from_outside_everybody_has_his_number_there) {
    EXPECT_EQ(in_memory_of(machines, 0, 1000), 1000u);
    EXPECT_EQ(in_memory_of(roots, nobody, 0), 1234u);
    EXPECT_EQ(in_memory_of(callers, 1000, 1000), 0u);
    EXPECT_EQ(in_memory_of(rootless, nobody, 0), 1000u);
    EXPECT_EQ(in_memory_of(rootless, nobody, 33), 100032u);
    EXPECT_EQ(in_memory_of("", nobody, nobody), none);
    EXPECT_EQ(in_memory_of(callers, nobody, 1000),
              none); /* root of a namespace around it, and not where the memory is from */
    EXPECT_EQ(in_memory_of(machines, nobody, 0), none);
}

TEST(UserMap, in_one_of_their_own_they_have_their_own_numbers) {
    EXPECT_EQ(in_memory_of(shifted, 0, 0), 0u);
    EXPECT_EQ(in_memory_of(shifted, 0, 33), 33u);
    EXPECT_EQ(in_memory_of(rootless, 0, 0), 0u);
    EXPECT_EQ(in_memory_of(rootless, 5, 0), 0u);
}

} // namespace
