// cmake-once
// Call stacks of events joined into a tree: where each was, how often or with which sum of a field, whose it was, and how many had
// no stack, no weight, or too much of it.
#include "tests/support/kernel_like_trace.h"
#include "trace/answers/call_tree.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plumb {
namespace {

using namespace test;

constexpr const char* stack = "u64 callstack_user[3]; u8 callstack_user_end;";

/* Of addresses alone, the innermost first, as they are recorded; `end`: where it could not be followed, 0 if it could. */
Payload stack_of(uint64_t innermost, uint64_t middle, uint64_t outermost, uint8_t end = 0) {
    return Payload().add(innermost).add(middle).add(outermost).add(end);
}

struct Counted {
    std::string folded;
    uint64_t stacks, without_stack, without_weight, beyond_sum, unended;
};
Counted count(const Opened& trace, const CallTreeOptions& options = {},
              const std::function<void(const CallNode&)>& look = nullptr) {
    auto reader = trace.open();
    EXPECT_TRUE(reader) << reader.error().message();
    CallTree tree(*reader, options);
    while (const Event* const event = reader->next())
        tree.add(*event);
    if (look) look(tree.root());
    return {tree.folded(),         tree.stack_count(), tree.without_stack(),
            tree.without_weight(), tree.beyond_sum(),  tree.unended()};
}

TEST(CallTree, JoinsStacksFromTheOutermostFunction) {
    KernelLikeTrace trace;
    const uint32_t with = trace.add("with", "u8 x;", stack), without = trace.add("without", "u8 x;");
    trace.event(with, 1, 7, stack_of(0x10, 0x20, 0x30).add(uint8_t{0}));
    trace.event(with, 2, 8, stack_of(0x10, 0x20, 0x30).add(uint8_t{0}));
    trace.event(with, 3, 7, stack_of(0x11, 0x20, 0x30).add(uint8_t{0}));
    trace.event(with, 4, 7, stack_of(0x10, 0x21, 0x30).add(uint8_t{0}));
    trace.event(without, 5, 7, Payload().add(uint8_t{0}));
    const Counted counted = count(trace.made(), {}, [](const CallNode& root) {
        EXPECT_EQ(root.weight.whole, 4u);
        EXPECT_TRUE(root.own.empty());
        ASSERT_EQ(root.callees.size(), 1u);
        const CallNode& outermost = *root.callees.begin()->second;
        EXPECT_EQ(outermost.weight.whole, 4u);
        EXPECT_TRUE(outermost.own.empty());
        EXPECT_EQ(outermost.callees.size(), 2u);
    });
    EXPECT_EQ(counted.folded, "0x30;0x20;0x10 2\n0x30;0x20;0x11 1\n0x30;0x21;0x10 1\n");
    EXPECT_EQ(counted.stacks, 4u);
    EXPECT_EQ(counted.without_stack, 1u);
    EXPECT_EQ(counted.without_weight + counted.beyond_sum + counted.unended, 0u);
}

/* One that ends in the middle of others has a weight of its own. */
TEST(CallTree, AFunctionMayCallAndBeTheLastOne) {
    KernelLikeTrace trace;
    const uint32_t three = trace.add("three", "", stack),
                   two = trace.add("two", "", "u64 callstack_user[2];");
    trace.event(three, 1, 7, stack_of(0x10, 0x20, 0x30));
    trace.event(two, 2, 7, Payload().add(uint64_t{0x20}).add(uint64_t{0x30}));
    EXPECT_EQ(count(trace.made()).folded, "0x30;0x20 1\n0x30;0x20;0x10 1\n");
}

TEST(CallTree, SaysWhichStacksDoNotReachTheOutermostFunction) {
    KernelLikeTrace trace;
    const uint32_t event = trace.add("event", "", stack);
    trace.event(event, 1, 7, stack_of(0x10, 0x20, 0x30, 1));
    trace.event(event, 2, 7, stack_of(0x10, 0x20, 0x30, 0));
    const Counted counted = count(trace.made());
    EXPECT_EQ(counted.folded, "0x30;0x20;0x10 1\n[not known];0x30;0x20;0x10 1\n");
    EXPECT_EQ(counted.unended, 1u);
    EXPECT_EQ(counted.stacks, 2u);
}

TEST(CallTree, ProcessesAndThreadsAreTheOutermost) {
    KernelLikeTrace trace;
    const uint32_t event = trace.add("event", "", stack);
    trace.event(event, 1, 7, stack_of(0x10, 0x20, 0x30), 5);
    trace.event(event, 2, 8, stack_of(0x10, 0x20, 0x30), 5);
    trace.event(event, 3, 9, stack_of(0x10, 0x20, 0x30), 6);
    const Opened made = trace.made();
    const auto ends =
        [](const std::string& folded) { /* of each line what stands before the stack */
                                        std::string all;
                                        for (std::size_t at = 0; at < folded.size();
                                             at = folded.find('\n', at) + 1)
                                            all += folded.substr(at, folded.find(";0x30", at) - at) +
                                                   folded.substr(folded.find("0x10", at) + 4, 2) + ",";
                                        return all;
        };
    CallTreeOptions options;
    options.by_process = true;
    EXPECT_EQ(ends(count(made, options).folded), "? 5 2,? 6 1,")
        << "names of processes are not in this trace";
    options.by_thread = true;
    EXPECT_EQ(ends(count(made, options).folded), "? 5;? 7 1,? 5;? 8 1,? 6;? 9 1,");
    options.by_process = false;
    EXPECT_EQ(ends(count(made, options).folded), "? 7 1,? 8 1,? 9 1,");
}

TEST(CallTree, WeighsByAField) {
    KernelLikeTrace trace;
    const uint32_t bytes = trace.add("bytes", "u64 bytes; u8 other;", stack),
                   less = trace.add("less", "i32 bytes;", stack),
                   real = trace.add("real", "floating_point { exp_dig = 11; mant_dig = 53; } bytes;", stack),
                   text = trace.add("text", "string bytes;", stack),
                   none = trace.add("none", "u64 others;", stack);
    trace.event(bytes, 1, 7, stack_of(0x10, 0x20, 0x30).add(uint64_t{7}).add(uint8_t{100}));
    trace.event(bytes, 2, 7, stack_of(0x10, 0x20, 0x30).add(uint64_t{0}).add(uint8_t{100}));
    trace.event(less, 3, 7, stack_of(0x10, 0x20, 0x30).add(int32_t{-7}));
    trace.event(less, 4, 7, stack_of(0x10, 0x20, 0x30).add(int32_t{3}));
    trace.event(real, 5, 7, stack_of(0x10, 0x20, 0x30).add(0.25));
    trace.event(real, 6, 7, stack_of(0x10, 0x20, 0x30).add(-1.0));
    trace.event(text, 7, 7, stack_of(0x10, 0x20, 0x30).string("9"));
    trace.event(none, 8, 7, stack_of(0x10, 0x20, 0x30).add(uint64_t{9}));
    CallTreeOptions options;
    options.weight = "bytes";
    const Counted counted = count(trace.made(), options);
    EXPECT_EQ(counted.folded, "0x30;0x20;0x10 10.25\n");
    EXPECT_EQ(counted.stacks, 3u);
    EXPECT_EQ(counted.without_weight, 5u);
}

/* A sum of integers is exact, and never more than 64 bits have. */
TEST(CallTree, LeavesOutWhatWouldMakeASumTooLarge) {
    KernelLikeTrace trace;
    const uint32_t whole = trace.add("whole", "u64 w;", stack),
                   real = trace.add("real", "floating_point { exp_dig = 11; mant_dig = 53; } w;", stack);
    const auto add = [&](uint64_t value) { trace.event(whole, 1, 7, stack_of(0x10, 0x20, 0x30).add(value)); };
    add(UINT64_MAX - 5);
    add(6);
    add(5);
    add(1);
    trace.event(real, 2, 7, stack_of(0x10, 0x20, 0x30).add(0.5));
    CallTreeOptions options;
    options.weight = "w";
    const Counted counted = count(trace.made(), options);
    EXPECT_EQ(counted.folded, "0x30;0x20;0x10 18446744073709551615\n");
    EXPECT_EQ(counted.stacks, 2u);
    EXPECT_EQ(counted.beyond_sum, 3u);
}

TEST(CallTree, LeavesOutFractionsWithWhichASumWouldBeTooLarge) {
    KernelLikeTrace trace;
    const uint32_t whole = trace.add("whole", "u64 w;", stack),
                   real = trace.add("real", "floating_point { exp_dig = 11; mant_dig = 53; } w;", stack);
    trace.event(whole, 1, 7, stack_of(0x10, 0x20, 0x30).add(uint64_t{1} << 63));
    trace.event(real, 2, 7, stack_of(0x10, 0x20, 0x30).add(1e19));
    trace.event(real, 3, 7, stack_of(0x10, 0x20, 0x30).add(9e18));
    CallTreeOptions options;
    options.weight = "w";
    const Counted counted = count(trace.made(), options);
    EXPECT_EQ(counted.stacks, 2u);
    EXPECT_EQ(counted.beyond_sum, 1u);
}

} // namespace
} // namespace plumb
