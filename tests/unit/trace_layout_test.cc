// cmake-once
/* What plans of decoding promise: lengths and tags are those that the metadata names, the nearest first, and a small
 * metadata takes neither much memory nor much time, whoever wrote it. */
#include "trace/ctf/trace_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <set>

namespace plumb {
namespace {

using ::testing::HasSubstr;

Result<std::unique_ptr<TraceLayout>> layout_of(const std::string& text) {
    Result<tsdl::Metadata> metadata =
        tsdl::parse("typealias integer { size = 8; } := u8;\n"
                    "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u8 n; }; };\n" +
                    text);
    if (!metadata) return metadata.error();
    return TraceLayout::make(std::move(*metadata), 0);
}

const Step& step_of(const Plan& plan, std::string_view name) {
    for (const Step& step : plan.steps)
        if (step.name == name) return step;
    ADD_FAILURE() << name;
    return plan.steps.at(0);
}

double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/* One type of long names, of which there are 256 MB if each use has its own. The first test, since what
 * others took would hide it. */
TEST(TraceLayout, TakesNoMoreMemoryForNamesThanTheMetadataHas) {
    std::string text = "stream { };\nstruct big {";
    for (int i = 0; i < 250; i++)
        text += fmt::format("u8 {}{:04};", std::string(1000, 'a'), i);
    text += "};\n";
    for (int i = 0; i < 1000; i++)
        text += fmt::format("event {{ name = \"e\"; id = {}; fields := struct big; }};\n", i);
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    const auto layout = layout_of(text);
    getrusage(RUSAGE_SELF, &after);
    EXPECT_TRUE(layout) << layout.error().message();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what was freed */
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 150 * 1024);      /* KiB */
#endif
}

/* They have the same room for what their own fields keep. */
TEST(TraceLayout, KeepsWhatIsOfThePacketFromOneEventToTheNext) {
    const auto layout =
        layout_of("stream { packet.context := struct { u8 m; u8 n; }; };\n"
                  "event { name = \"a\"; id = 0; fields := struct { u8 x; u8 a[x]; u8 y; u8 b[y]; }; };\n"
                  "event { name = \"b\"; id = 1; fields := struct { u8 x; u8 a[x]; u8 b[n]; }; };\n"
                  "event { name = \"c\"; id = 2; fields := struct { u8 x; u8 a[x]; u8 y; u8 b[y]; }; };\n"
                  "event { name = \"d\"; id = 3; fields := struct { u8 a[m]; u8 x; u8 b[x]; }; };\n");
    ASSERT_TRUE(layout) << layout.error().message();
    const auto slot_of = [&](std::size_t event, std::string_view name) {
        return step_of((*layout)->events().at(event)->fields, name).from_slot;
    };
    std::set<int32_t> own;
    for (const std::size_t event : {0, 2})
        for (const std::string_view name : {"a", "b"})
            own.insert(slot_of(event, name));
    own.insert({slot_of(1, "a"), slot_of(3, "b")});
    const int32_t n = slot_of(1, "b"), m = slot_of(3, "a");
    EXPECT_NE(n, m);
    EXPECT_FALSE(own.contains(n));
    EXPECT_FALSE(own.contains(m));
    EXPECT_LT(std::max({n, m, *own.rbegin()}), static_cast<int32_t>((*layout)->packet_header_slot_count()));
    EXPECT_LT((*layout)->packet_header_slot_count(), 10u);
}

TEST(TraceLayout, TakesTheNearestOfEqualNames) {
    const auto layout = layout_of("stream { packet.context := struct { u8 n; }; };\n"
                                  "event { name = \"a\"; id = 0; fields := struct { u8 a[n]; u8 n; u8 b[n];"
                                  "  struct { u8 m; u8 n; u8 c[n]; u8 d[stream.packet.context.n]; } s;"
                                  "  u8 e[n]; u8 f[s.n]; u8 g[trace.packet.header.n]; u8 h[s.m]; }; };\n"
                                  "event { name = \"b\"; id = 1; fields := struct { u8 a[n]; }; };\n");
    ASSERT_TRUE(layout) << layout.error().message();
    const Plan& plan = (*layout)->events().at(0)->fields;
    const auto slot_of = [&](std::string_view name) { return step_of(plan, name).from_slot; };
    EXPECT_EQ(slot_of("a"), slot_of("d"));
    EXPECT_EQ(slot_of("b"), slot_of("e"));
    EXPECT_EQ(slot_of("c"), slot_of("f"));
    EXPECT_EQ(
        std::set<int32_t>({slot_of("a"), slot_of("b"), slot_of("c"), slot_of("g"), slot_of("h")}).size(), 5u);
    EXPECT_EQ((*layout)->events().at(1)->fields.steps.at(0).from_slot, slot_of("a")) << "not another event's";
}

TEST(TraceLayout, SeesNoFieldsOfOtherEventsOrStreams) {
    for (const std::string first :
         {"event { name = \"a\"; id = 0; stream_id = 1; fields := struct { u8 k; }; };",
          "stream { id = 0; packet.context := struct { u8 k; }; };"}) {
        const auto layout =
            layout_of(first + "stream { id = 1; };\n event { name = \"b\"; id = 1; stream_id = 1;"
                              "fields := struct { u8 a[k]; }; };");
        ASSERT_FALSE(layout);
        EXPECT_THAT(layout.error().message(), HasSubstr("no integer `k` before it"));
    }
}

TEST(TraceLayout, FindsALengthAmongThousandsOfLikeNamesInNoTime) {
    const std::string name(250, 'a');
    std::string inner;
    for (int i = 1; i < 1300; i++)
        inner += fmt::format("u8 {}{:04};", name, i);
    for (int i = 1; i < 1300; i++)
        inner += fmt::format("u8 s{}[{}0000];", i, name);
    std::string text = "stream { };\nstruct d0 {" + inner + "};\n";
    constexpr int depth = 20;
    for (int i = 1; i < depth; i++)
        text += fmt::format("struct d{} {{ struct d{} x; }};\n", i, i - 1);
    text += fmt::format("struct big {{ u8 {}0000; struct d{} x; }};\n", name, depth - 1);
    for (int i = 0; i < 20; i++)
        text += fmt::format("event {{ name = \"e\"; id = {}; fields := struct big; }};\n", i);
    const double before = cpu_seconds();
    const auto layout = layout_of(text);
    EXPECT_TRUE(layout) << layout.error().message();
    EXPECT_LT(cpu_seconds() - before, 3); /* 30 times what it takes: a sanitizer's build is slow, too */
}

TEST(TraceLayout, BoundsHowLongItLooks) {
    std::string text = "stream { };\nstruct one { u8 a; };\nstruct big { struct one x;";
    for (int i = 0; i < 1000; i++)
        text += fmt::format("struct one y{}; ", i);
    for (int i = 0; i < 1000; i++)
        text += fmt::format("u8 s{}[x.a];", i);
    text += "};\n";
    for (int i = 0; i < 60; i++)
        text += fmt::format("event {{ name = \"e\"; id = {}; fields := struct big; }};\n", i);
    const auto layout = layout_of(text);
    ASSERT_FALSE(layout);
    EXPECT_THAT(layout.error().message(), HasSubstr("too many"));
}

TEST(TraceLayout, BoundsLabelsOfTags) {
    std::string text = "stream { };\nevent { name = \"e\"; fields := struct { enum : u8 { ";
    for (int i = 0; i < 30000; i++)
        text += "a = 1, ";
    text += "b } t; ";
    for (int i = 0; i < 1000; i++)
        text += fmt::format("variant <t> {{ u8 a; }} v{};", i);
    const auto layout = layout_of(text + "}; };");
    ASSERT_FALSE(layout);
    EXPECT_THAT(layout.error().message(), HasSubstr("too many"));
}

TEST(TraceLayout, FindsEachStreamAndTheFirstOfEqualIds) {
    const auto layout = layout_of("stream { id = 7; event.header := struct { u8 a; }; };\n"
                                  "stream { id = 3; };\nstream { id = 9; };\n");
    ASSERT_TRUE(layout) << layout.error().message();
    EXPECT_EQ((*layout)->find_stream(7)->event_header.steps.size(), 1u);
    EXPECT_EQ((*layout)->find_stream(9)->id, 9u);
    EXPECT_EQ((*layout)->find_stream(8), nullptr);
}

} // namespace
} // namespace plumb
