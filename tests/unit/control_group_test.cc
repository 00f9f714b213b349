// cmake-once
// Control groups of rules: what a person calls one, what processes in other cgroup namespaces call it, and whether a process finds
// that it is in one.
#include "consumerd/control/control_groups.h"
#include "libtrace/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <unistd.h>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/control_group.cc"

namespace plumb {
namespace {

using testing::HasSubstr;

std::string path_of(const std::string& text) {
    const auto path = control_group_path(text);
    return path ? *path : path.error().message();
}

TEST(ControlGroup, IsNamedInManyWays) {
    for (const char* text : {"system.slice/nginx.service", "/system.slice/nginx.service",
                             "0::/system.slice/nginx.service", "system.slice//nginx.service/"})
        EXPECT_EQ(path_of(text), "/system.slice/nginx.service") << text;
    EXPECT_EQ(path_of("/"), "/");
    EXPECT_EQ(path_of("0::/"), "/");
    for (const char* text : {"", "../other", "a/./b", "a\nb"})
        EXPECT_THAT(path_of(text), HasSubstr("can not be a control group")) << text;
}

TEST(ControlGroup, ThatIsNotThereIsAnErrorThatSaysWhatToDo) {
    const Status there = check_control_group("/no/such/group");
    ASSERT_FALSE(there);
    EXPECT_THAT(there.error().message(), testing::AnyOf(HasSubstr("mkdir"), HasSubstr("mount -t cgroup2")));
}

TEST(ControlGroup, HasThoseBelowInIt) {
    const plumb_rule_cgroup group = encode_control_group("/a/b");
    for (const char* path : {"/a/b", "/a/b/c", "/a/b/c/d"})
        EXPECT_EQ(is_in(group, path), true) << path;
    for (const char* path : {"/", "/a", "/a/bc", "/b", "/x/a/b"})
        EXPECT_EQ(is_in(group, path), false) << path;
    EXPECT_EQ(is_in(encode_control_group("/"), "/a"), true);
    EXPECT_EQ(is_in(encode_control_group("/"), "/"), true);
    EXPECT_EQ(is_in(plumb_rule_cgroup{}, "/a/b"), std::nullopt) << "it is not named to us";
    EXPECT_TRUE(is_within("/a/b/c", "/a/b"));
    EXPECT_TRUE(is_within("/a", "/"));
    EXPECT_FALSE(is_within("/a/bc", "/a/b"));
}

std::uint64_t called(const std::string& path) {
    return encode_control_group(path).path_hash[0];
}

TEST(ControlGroup, IsCalledByWhatIsLeftBelowANamespacesRoot) {
    EXPECT_EQ(hash_in_namespace("/a/b", "/a/b/c/d", 0), called("/")) << "all of the namespace is in it";
    EXPECT_EQ(hash_in_namespace("/a/b", "/a/b/c", 1), called("/"));
    EXPECT_EQ(hash_in_namespace("/a/b", "/a/b/c", 2), called("/b")) << "the root is /a";
    EXPECT_EQ(hash_in_namespace("/a/b", "/a/x", 1), called("/b"));
    EXPECT_EQ(hash_in_namespace("/a/b", "/c", 1), called("/a/b")) << "the root is that of all";
    EXPECT_EQ(hash_in_namespace("/a/b", "/a/c", 0), 0u) << "it has nothing to do with it";
    EXPECT_EQ(hash_in_namespace("/", "/a/c", 1), called("/"));
}

TEST(ControlGroup, IsNamedToSoManyNamespaces) {
    plumb_rule_cgroup group = encode_control_group("/a");
    const std::uint32_t ours = group.name_space[0];
    EXPECT_FALSE(add_place(group, ours, 7)) << "it is there";
    for (std::uint32_t i = 1; i < PLUMB_CGROUP_PLACES; i++)
        EXPECT_TRUE(add_place(group, ours + i, i == 3 ? 0 : 7));
    EXPECT_FALSE(add_place(group, ours + 2, 7));
    EXPECT_FALSE(add_place(group, ours + 100, 0));
    EXPECT_TRUE(add_place(group, ours + 100, 7)) << "in the place of one that has nothing to do with it";
    EXPECT_FALSE(add_place(group, ours + 101, 7));
    EXPECT_EQ(group.name_space[0], ours);
}

OwnGroup read(const std::string& text) {
    OwnGroup group{};
    group.depth = depth_unknown;
    GroupReader reader(group);
    for (const char c : text)
        if (!reader.is_over()) reader.take(c);
    return group;
}

TEST(OwnControlGroup, IsReadFromTheLineOfVersion2) {
    const OwnGroup group = read("9:name=systemd:/0::/x\n4:memory:/a/b\n0::/a/b\n1:cpu:/c\n");
    ASSERT_EQ(group.depth, 2u);
    EXPECT_EQ(group.beginnings[0], called("/"));
    EXPECT_EQ(group.beginnings[1], called("/a"));
    EXPECT_EQ(group.beginnings[2], called("/a/b"));
    EXPECT_EQ(read("0::/\n").depth, 0u);
    EXPECT_EQ(read("0::/...\n").depth, 1u);
}

TEST(OwnControlGroup, IsNotKnownWhereNothingCanBeTold) {
    std::string deep = "0::";
    for (std::uint32_t i = 0; i + 1 < depth_unknown; i++)
        deep += "/a";
    EXPECT_EQ(read(deep + "\n").depth, depth_unknown - 1);
    for (const std::string& text : {std::string(), std::string("4:memory:/a\n"), std::string("0::/a"),
                                    std::string("0::/../other\n"), std::string("0::/..\n"), deep + "/a\n"})
        EXPECT_EQ(read(text).depth, depth_unknown) << text;
}

TEST(OwnControlGroup, IsComparedInTheNamespaceThatItIsIn) {
    own = read("0::/a/b\n");
    own.is_looked_at = true;
    own.name_space = 4711;
    plumb_rule_cgroup group{};
    EXPECT_EQ(membership_in(group), Membership::not_known);
    EXPECT_EQ(control_group_error(), PLUMB_ERROR_NO_CGROUP(2));
    group.name_space[0] = 4712;
    group.path_hash[0] = called("/a");
    EXPECT_EQ(membership_in(group), Membership::not_known);
    group.name_space[8] = 4711;
    group.path_hash[8] = called("/b");
    EXPECT_EQ(membership_in(group), Membership::is_out);
    for (const char* path : {"/", "/a", "/a/b"}) {
        group.path_hash[8] = called(path);
        EXPECT_EQ(membership_in(group), Membership::is_in) << path;
    }
    group.path_hash[8] = 0; /* a namespace that has nothing to do with it */
    EXPECT_EQ(membership_in(group), Membership::is_out);
    forget_control_group();
}

TEST(OwnControlGroup, IsWhatTheControllerSees) {
    const auto path = control_group_of(static_cast<std::uint32_t>(::getpid()));
    if (!path) GTEST_SKIP() << "no control groups of version 2";
    forget_control_group();
    EXPECT_EQ(membership_in(encode_control_group(*path)), Membership::is_in);
    EXPECT_EQ(membership_in(encode_control_group(*path + "/below")), Membership::is_out);
}

} // namespace
} // namespace plumb
