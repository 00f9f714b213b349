// cmake-once
// The words of --context: each stands for one thing that records have, LTTng's names for the same.
#include "consumerd/control/context_names.h"

#include <plumb/abi/context.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string chosen(const std::vector<std::string>& lists) {
    const auto choice = parse_context(lists);
    return choice ? fmt::format("{:x} depth {}", choice->context, choice->callstack_depth)
                  : choice.error().message();
}

TEST(ContextNames, StandForOneThingEach) {
    const std::pair<std::uint32_t, std::vector<const char*>> all[] = {
        {PLUMB_CONTEXT_VPID, {"vpid"}},
        {PLUMB_CONTEXT_PROCNAME, {"procname"}},
        {PLUMB_CONTEXT_CPU, {"cpu", "cpu_id"}},
        {PLUMB_CONTEXT_UID, {"uid", "vuid"}},
        {PLUMB_CONTEXT_EUID, {"euid", "veuid"}},
        {PLUMB_CONTEXT_GID, {"gid", "vgid"}},
        {PLUMB_CONTEXT_EGID, {"egid", "vegid"}},
        {PLUMB_CONTEXT_PID_NS, {"pid_ns"}},
        {PLUMB_CONTEXT_USER_NS, {"user_ns"}},
        {PLUMB_CONTEXT_MNT_NS, {"mnt_ns"}},
        {PLUMB_CONTEXT_NET_NS, {"net_ns"}},
        {PLUMB_CONTEXT_IPC_NS, {"ipc_ns"}},
        {PLUMB_CONTEXT_UTS_NS, {"uts_ns"}},
        {PLUMB_CONTEXT_CGROUP_NS, {"cgroup_ns"}},
        {PLUMB_CONTEXT_TIME_NS, {"time_ns"}},
        {PLUMB_CONTEXT_CGROUP, {"cgroup"}},
        {PLUMB_CONTEXT_CALLSTACK, {"callstack", "callstack-user", "callstack_user"}},
        {0, {"vtid"}}, /* which every record has */
    };
    std::uint32_t namespaces = 0;
    for (const auto& [context, names] : all)
        for (const std::string name : names) {
            EXPECT_EQ(chosen({name}), fmt::format("{:x} depth 0", context)) << name;
            if (name.ends_with("_ns")) namespaces |= context;
            EXPECT_THAT(chosen({name + "x"}), StartsWith("There is no context \"" + name + "x\"."));
            EXPECT_THAT(parse_context({"?"}).error().message(),
                        HasSubstr(name == names.front() && context != 0 ? name : "vpid"));
        }
    EXPECT_EQ(chosen({"namespaces"}), fmt::format("{:x} depth 0", namespaces));
}

TEST(ContextNames, OfAllListsAreChosen) {
    const std::string both = fmt::format("{:x} depth 0", PLUMB_CONTEXT_VPID | PLUMB_CONTEXT_CPU);
    EXPECT_EQ(chosen({}), "0 depth 0");
    EXPECT_EQ(chosen({"vpid,cpu"}), both);
    EXPECT_EQ(chosen({"vpid", "cpu"}), both);
    EXPECT_EQ(chosen({"vpid,vpid,vtid", "cpu,vpid"}), both);
    for (const char* const wrong : {"", ",", "vpid,", ",vpid", "vpid,,cpu", " vpid", "VPID"})
        EXPECT_THAT(chosen({wrong}), StartsWith("There is no context \"")) << wrong;
}

TEST(ContextNames, ACallStackHasADepth) {
    const auto depth = [](unsigned frames) {
        return fmt::format("{:x} depth {}", PLUMB_CONTEXT_CALLSTACK, frames);
    };
    EXPECT_EQ(chosen({"callstack:1"}), depth(1));
    EXPECT_EQ(chosen({fmt::format("callstack:{}", PLUMB_CALLSTACK_MAX_DEPTH)}),
              depth(PLUMB_CALLSTACK_MAX_DEPTH));
    EXPECT_EQ(chosen({"callstack-user:32,callstack:7"}), depth(7)) << "the last one counts";
    EXPECT_EQ(chosen({"callstack:32,callstack"}), depth(32));
    const std::string deeper = std::to_string(PLUMB_CALLSTACK_MAX_DEPTH + 1);
    for (const std::string& wrong :
         std::vector<std::string>{"0", "", "x", "-1", "1x", "1 ", "99999999999", deeper})
        EXPECT_THAT(chosen({"callstack:" + wrong}),
                    StartsWith("callstack:" + wrong + ": a depth is a number of frames from 1 to"));
    EXPECT_THAT(chosen({"vpid:3"}), StartsWith("vpid:3: nothing is counted there."));
}

} // namespace
} // namespace plumb
