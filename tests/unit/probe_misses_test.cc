// cmake-once
//
// The misses of one recorder's probes, out of the two files in which the kernel tells of all.
#include "consumerd/kernel/probe_misses.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace plumb {
namespace {

const char* const events = "p:plumb_1_20/kprobe_vfs_read vfs_read\n"
                           "r4096:plumb_1_20/kretprobe_vfs_read vfs_read\n"
                           "p:plumb_1_200/kprobe_vfs_read vfs_read\n"
                           "p:others/probe schedule\n";
const char* const profile = "  kprobe_vfs_read                                       103               1\n"
                            "  kretprobe_vfs_read                                      8              92\n"
                            "  kprobe_vfs_read                                       104             400\n"
                            "  probe                                                   5            1000\n";

TEST(ProbeMisses, AreThoseOfOneRecorder) {
    EXPECT_EQ(probe_misses(events, profile, "plumb_1_20"), 93u);
    EXPECT_EQ(probe_misses(events, profile, "plumb_1_200"), 400u);
    EXPECT_EQ(probe_misses(events, profile, "plumb_1_2"), 0u);
}

TEST(ProbeMisses, OfLinesThatDoNotBelongTogetherDoNotCount) {
    const std::string one_is_gone = std::string(profile).substr(std::string(profile).find('\n') + 1);
    EXPECT_EQ(probe_misses(events, one_is_gone, "plumb_1_20"), 0u);
    EXPECT_EQ(probe_misses("", profile, "plumb_1_20"), 0u);
    EXPECT_EQ(probe_misses("nonsense\n", profile, "plumb_1_20"), 0u);
    EXPECT_EQ(probe_misses(events, "", "plumb_1_20"), 0u);
}

TEST(UserProbeHits, AreThoseOfOneRecorder) {
    const std::string of_programs = "p:plumb_1_20/uprobe_f /bin/x:0x10 a=+0(%di):string\n"
                                    "p:others/uprobe_f /bin/x:0x10\n"
                                    "p:plumb_1_20/usdt_a_b /bin/x:0x20(0x30)\n"
                                    "p:plumb_1_20/other /bin/x:0x40\n";
    const std::string counted = "  /bin/x uprobe_f                                        7\n"
                                "  /bin/x uprobe_f                                       90\n"
                                "  /bin/x usdt_a_b                                        8\n"
                                "  /bin/x another                                         9\n";
    using Hits = std::map<std::string, std::uint64_t>;
    EXPECT_EQ(user_probe_hits(of_programs, counted, "plumb_1_20"), (Hits{{"uprobe_f", 7}, {"usdt_a_b", 8}}));
    EXPECT_EQ(user_probe_hits(of_programs, counted, "plumb_1_2"), Hits{});
    EXPECT_EQ(user_probe_hits(of_programs, "", "plumb_1_20"), Hits{});
}

} // namespace
} // namespace plumb
