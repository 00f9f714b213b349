// cmake-once
/* How what the metadata describes becomes steps to take through a packet: which numbers mean something to the reader, what may be
 * read as it stands, what says only how long another field is, what a stream's clock is, and what events are of the tracer's own. */
#include "trace/ctf/trace_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumb {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view start =
    "typealias integer { size = 8; } := u8; typealias integer { size = 16; } := u16;\n"
    "typealias integer { size = 32; } := u32; typealias integer { size = 64; } := u64;\n";

Result<std::unique_ptr<TraceLayout>> try_layout(const std::string& text, uint32_t first_index = 0) {
    Result<tsdl::Metadata> metadata = tsdl::parse(std::string(start) + text);
    if (!metadata) return metadata.error();
    return TraceLayout::make(std::move(*metadata), first_index);
}
const std::string le = "trace { major = 1; minor = 8; byte_order = le; };\n";

std::unique_ptr<TraceLayout> layout_of(const std::string& text, uint32_t first_index = 0) {
    auto layout = try_layout(text, first_index);
    if (!layout) ADD_FAILURE() << layout.error().message() << text;
    return layout ? std::move(*layout) : std::make_unique<TraceLayout>();
}
std::string mistake(const std::string& text) {
    const auto layout = try_layout(le + text);
    return layout ? "none" : layout.error().message();
}

/* "name:role " of each that has one. */
std::string roles_of(const Plan& plan) {
    constexpr const char* names[] = {"none",        "magic",     "uuid",       "stream_id",
                                     "instance",    "begin",     "end",        "content_size",
                                     "packet_size", "seq_num",   "discarded",  "cpu_id",
                                     "event_id",    "thread_id", "process_id", "process_name"};
    std::string all;
    for (const Step& step : plan.steps)
        if (step.role != Role::none)
            all += fmt::format("{}:{} ", step.name, names[static_cast<std::size_t>(step.role)]);
    return all;
}

TEST(LayoutRules, KnowWhatNumbersMeanByWhereTheyStand) {
    const std::string all =
        "u8 magic; u8 uuid[2]; u8 stream_id; u8 stream_instance_id; u8 timestamp_begin; u8 timestamp_end; u8 "
        "content_size; u8 packet_size; u8 packet_seq_num; u8 events_discarded; u8 cpu_id; u8 id; u8 vtid; u8 "
        "_tid; u8 vpid; u8 pid; string procname; u8 other;";
    const auto layout = layout_of(
        "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { " + all +
        " }; };\nstream { packet.context := struct { " + all + " }; event.header := struct { " + all +
        " }; event.context := struct { " + all + " }; };\nevent { name = e; context := struct { " + all +
        " }; fields := struct { " + all + " }; };\n");
    EXPECT_EQ(roles_of(layout->packet_header()),
              "magic:magic uuid:uuid :uuid stream_id:stream_id stream_instance_id:instance ");
    const StreamLayout& stream = *layout->streams().at(0);
    EXPECT_EQ(roles_of(stream.packet_context),
              "timestamp_begin:begin timestamp_end:end content_size:content_size packet_size:packet_size "
              "packet_seq_num:seq_num "
              "events_discarded:discarded cpu_id:cpu_id ");
    EXPECT_EQ(roles_of(stream.event_header), "id:event_id ");
    EXPECT_EQ(roles_of(stream.event_context),
              "vtid:thread_id tid:thread_id vpid:process_id pid:process_id procname:process_name ");
    EXPECT_EQ(roles_of(layout->events().at(0)->context), "");
    EXPECT_EQ(roles_of(layout->events().at(0)->fields), "");
}

std::string fields_of(const std::string& fields, const std::string& order = "le") {
    const auto layout =
        layout_of("trace { major = 1; minor = 8; byte_order = " + order + "; };\n" +
                  "clock { name = c; };\nevent { name = e; fields := struct { " + fields + " }; };");
    if (layout->events().empty()) return "";
    std::string all;
    for (const Step& step : layout->events()[0]->fields.steps)
        all += fmt::format("{}:{}{}{}{}{}{}@{} ", step.name, step.size_bits, step.big_endian ? "be" : "",
                           step.is_signed ? "s" : "", step.direct ? "d" : "", step.maps_clock ? "c" : "",
                           step.is_length ? "l" : "", step.align_mask + 1);
    return all;
}

TEST(LayoutRules, KnowWhatMayBeReadAsItStands) {
    EXPECT_EQ(fields_of("u8 a; u16 b; u32 c; u64 d; integer { size = 24; } e;"),
              "a:8d@8 b:16d@8 c:32d@8 d:64d@8 e:24@8 ");
    EXPECT_EQ(fields_of("u8 a; u16 b; u32 c; u64 d; integer { size = 24; } e;", "be"),
              "a:8bed@8 b:16be@8 c:32be@8 d:64be@8 e:24be@8 ");
    EXPECT_EQ(
        fields_of(
            "integer { size = 16; align = 1; } a; integer { size = 16; align = 16; signed = true; } b;"),
        "a:16@1 b:16sd@16 ");
    EXPECT_EQ(fields_of("integer { size = 16; align = 4; } a; integer { size = 12; } b; enum : u16 { A } c;"),
              "a:16@4 b:12@1 c:16d@8 ");
    EXPECT_EQ(
        fields_of("integer { size = 16; byte_order = be; } a; integer { size = 8; byte_order = be; } b;"),
        "a:16be@8 b:8bed@8 ");
    EXPECT_EQ(fields_of("integer { size = 16; byte_order = le; } a;", "be"), "a:16d@8 ");
    EXPECT_EQ(fields_of("integer { size = 64; map = clock.c.value; } a; enum : integer { size = 8; signed = "
                        "true; } { A } b;"),
              "a:64dc@8 b:8sd@8 ");
}

TEST(LayoutRules, KnowWhatOnlySaysHowLongAnotherFieldIs) {
    EXPECT_EQ(fields_of("u8 __n; u8 a[__n];"), "_n:8dl@8 a:0@8 :8d@8 ");
    EXPECT_EQ(fields_of("u8 n; u8 a[n];"), "n:8d@8 a:0@8 :8d@8 ") << "it has a name of its own";
    EXPECT_EQ(fields_of("u8 __n; u8 x; u8 a[__n];"), "_n:8d@8 x:8d@8 a:0@8 :8d@8 ")
        << "another one stands between";
    EXPECT_EQ(fields_of("u8 _n; u8 a[_n];"), "n:8d@8 a:0@8 :8d@8 ");
    EXPECT_EQ(fields_of("u8 __n; integer { size = 8; encoding = UTF8; } a[__n];"), "_n:8dl@8 a:0@8 ");
    EXPECT_EQ(fields_of("integer { size = 8; encoding = UTF8; align = 16; } a[2]; integer { size = 16; "
                        "encoding = UTF8; } b[2];"),
              "a:0@16 :8d@16 b:0@8 :16d@8 ")
        << "no texts";
    EXPECT_EQ(fields_of("u8 _; u8 __; u8 ___x;"), "_:8d@8 _:8d@8 __x:8d@8 ");
}

TEST(LayoutRules, TakeTheClockThatEventsAreMappedTo) {
    const auto clock = [](const std::string& stream, const std::string& clocks = "") {
        const auto layout =
            layout_of(le +
                      (clocks.empty() ? "clock { name = a; freq = 1000000000; offset_s = 1; };\n"
                                        "clock { name = b; freq = 1000000000; offset_s = 2; offset = 5; };\n"
                                        "clock { name = c; freq = 500000000; offset_s = 3; };\n"
                                      : clocks) +
                      "stream { " + stream + " };");
        return layout->streams().at(0)->clock(1000);
    };
    constexpr int64_t second = 1'000'000'000;
    EXPECT_EQ(clock(""), second + 1000) << "the first";
    EXPECT_EQ(clock("event.header := struct { integer { size = 64; map = clock.b.value; } t; };"),
              2 * second + 1005);
    EXPECT_EQ(clock("packet.context := struct { integer { size = 64; map = clock.c.value; } t; };"),
              3 * second + 2000);
    EXPECT_EQ(clock("packet.context := struct { integer { size = 64; map = clock.c.value; } t; };"
                    "event.header := struct { u8 x; struct { u8 y; integer { size = 64; map = clock.b.value; "
                    "} t; } s; };"),
              2 * second + 1005);
    EXPECT_EQ(clock("event.header := struct { integer { size = 64; map = clock.none.value; } t; };"),
              second + 1000);
    EXPECT_EQ(clock("", " "), 1000) << "without any, a count is nanoseconds";
}

/* What a session adds is each event's, wherever the metadata has it; but it is no record of Plumb's if an event needs it for more. */
TEST(LayoutRules, KnowWhatIsAddedToRecordsOfPlumb) {
    const auto layout = [](const std::string& added, const std::string& event) {
        return try_layout(
            le +
            "clock { name = c; };\nenv { plumb_version = \"1\"; };\n"
            "stream { event.header := struct { integer { size = 64; map = clock.c.value; } timestamp; u16 "
            "id; } align(64);\n event.context := struct { integer { size = 32; align = 32; } vtid; " +
            added + " }; };\nevent { name = e; " + event + " fields := struct { u8 own; }; };");
    };
    const auto context_of = [](const Result<std::unique_ptr<TraceLayout>>& made) {
        std::string names;
        if (!made) return made.error().message();
        for (const Step& step : (*made)->events().at(0)->context.steps)
            names += fmt::format("{}>{} ", step.name, step.next);
        EXPECT_EQ((*made)->streams()[0]->event_context.steps.size(), 1u);
        return names + ((*made)->has_only_plumb_records() ? "plumb" : "other");
    };
    EXPECT_EQ(context_of(layout("", "")), "plumb");
    EXPECT_EQ(context_of(layout("u8 n; u64 s[n]; string t;", "")), "n>1 s>3 >3 t>4 plumb");
    EXPECT_EQ(context_of(layout("", "context := struct { u8 n; u64 s[n]; };")), "n>1 s>3 >3 plumb");
    EXPECT_EQ(context_of(layout("u8 n;", "context := struct { u8 m; };")),
              "Event e: its context and that of its stream are two.");
    const auto fields_of = [](const std::string& event) {
        return "context := struct { u8 n; }; fields := struct { " + event +
               " }; }; event { name = f; id = 5;";
    };
    EXPECT_EQ(context_of(layout("", fields_of("u8 m; u8 s[m];"))), "n>1 plumb");
    EXPECT_EQ(context_of(layout("", fields_of("u8 s[n];"))), "n>1 other");
}

TEST(LayoutRules, KnowTheTracersOwnEvents) {
    const auto kind = [](const std::string& name, bool is_of_plumb) {
        const std::string record =
            "stream { event.header := struct { integer { size = 64; map = clock.c.value; } timestamp; u16 "
            "id; } align(64);"
            " event.context := struct { integer { size = 32; align = 32; } vtid; }; };\n";
        const auto layout = layout_of(le + "clock { name = c; };\n" +
                                      (is_of_plumb ? "env { plumb_version = \"1\"; };\n" : "") + record +
                                      "event { name = \"" + name + "\"; };");
        const EventInfo& event = *layout->events().at(0);
        EXPECT_EQ(layout->has_only_plumb_records(), is_of_plumb);
        EXPECT_EQ(layout->is_of_plumb(), is_of_plumb);
        EXPECT_EQ(layout->streams()[0]->is_statedump, is_of_plumb && event.is_statedump);
        constexpr const char* names[] = {"", "process", "thread", "object", "kernel"};
        return fmt::format("{}{}", event.is_statedump ? "own " : "",
                           names[static_cast<int>(event.statedump)]);
    };
    const std::tuple<const char*, const char*, const char*> cases[] = {
        {"plumb_statedump:process", "own process", "own process"},
        {"plumb_statedump:thread", "own thread", "own thread"},
        {"plumb_statedump:object", "own object", "own object"},
        {"plumb_statedump:namespace", "own ", "own "},
        {"plumb_statedump_thread", "own kernel", ""},
        {"plumb_statedump_other", "own ", ""},
        {"lttng_statedump_process_state", "own kernel", ""},
        {"lttng_statedump_end", "own ", ""},
        {"shop:process", "", ""},
        {"process", "", ""},
    };
    for (const auto& [name, of_plumb, of_another] : cases) {
        EXPECT_EQ(kind(name, true), of_plumb) << name;
        EXPECT_EQ(kind(name, false), of_another) << name;
    }
}

TEST(LayoutRules, NumberEventsAndStreams) {
    const auto layout =
        layout_of(le + "stream { id = 3; }; stream { id = 70000; };\n"
                       "event { name = a; id = 5; stream_id = 3; loglevel = 6; };\n"
                       "event { name = b; id = 65535; stream_id = 70000; loglevel = 255; };\n"
                       "event { name = c; id = 65536; stream_id = 3; loglevel = 256; };\n"
                       "event { name = d; id = 5; stream_id = 70000; loglevel = -1; };\n"
                       "event { name = f; id = 18446744073709551615; stream_id = 3; loglevel = 0; };\n"
                       "event { name = lost; id = 1; stream_id = 4; };\n",
                  100);
    std::string all;
    for (const auto& event : layout->events())
        all += fmt::format("{} {} {} ", event->name, event->index, event->log_level);
    EXPECT_EQ(all, "a 100 6 c 101 -1 f 102 0 b 103 255 d 104 -1 ");
    const StreamLayout &three = *layout->find_stream(3), &big = *layout->find_stream(70000);
    const auto name = [](const StreamLayout& stream, uint64_t id) {
        const EventInfo* const event = stream.find_event(id);
        return event == nullptr ? "none" : event->name;
    };
    EXPECT_EQ(name(three, 5) + name(three, 65536) + name(three, UINT64_MAX), "acf");
    EXPECT_EQ(name(big, 5) + name(big, 65535), "db");
    for (const uint64_t id : {uint64_t{0}, uint64_t{4}, uint64_t{6}, uint64_t{65535}, uint64_t{65537}})
        EXPECT_EQ(name(three, id), "none") << id;
    EXPECT_EQ(name(big, 65536), "none");
}

TEST(LayoutRules, SayWhatCanNotBeRead) {
    const auto fields = [](const std::string& text) {
        return mistake("event { name = e; fields := struct { " + text + " }; };");
    };
    EXPECT_EQ(fields("u8 a[n];"), "Event e: The length of a: The metadata has no integer `n` before it.");
    EXPECT_EQ(fields("u8 a[n]; u8 n;"),
              "Event e: The length of a: The metadata has no integer `n` before it.");
    EXPECT_EQ(fields("string n; u8 a[n];"),
              "Event e: The length of a: The metadata has no integer `n` before it.");
    EXPECT_EQ(fields("variant { u8 A; } v;"), "Event e: The variant v has no tag.");
    EXPECT_EQ(fields("u8 t; variant <t> { u8 A; } v;"), "Event e: The tag of v is not an enumeration.");
    EXPECT_EQ(fields("variant <t> { u8 A; } v;"),
              "Event e: The tag of v: The metadata has no integer `t` before it.");
    EXPECT_EQ(mistake("stream { event.header := u8; };"),
              "The metadata's stream.event.header is not a struct.");
    EXPECT_EQ(mistake("event { name = e; context := string; };"),
              "Event e: The metadata's event.context is not a struct.");
    EXPECT_EQ(mistake("event { name = e; fields := u8; };"),
              "Event e: The metadata's event.fields is not a struct.");
}

/* "s.n", "stream.packet.context.n": the nearest first, the whole path from its begin. */
TEST(LayoutRules, FindLengthsByTheirWholePath) {
    const auto plan = [](const std::string& length) {
        const auto layout = try_layout(
            "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u8 n; u8 h; }; };\n"
            "stream { packet.context := struct { u8 n; u8 p; struct { u8 deep; } s; }; event.header := "
            "struct { u8 n; u8 q; };"
            "  event.context := struct { u8 n; u8 r; }; };\n"
            "event { name = e; context := struct { u8 n; u8 o; }; fields := struct { u8 n; struct { u8 n; u8 "
            "x; } s;"
            " struct { u8 n; u8 x; struct { u8 y; u8 a[" +
            length + "]; } in; } t; }; };");
        if (!layout) return std::string("none");
        const auto& stream = *(*layout)->streams().at(0);
        const auto& event = *(*layout)->events().at(0);
        std::string found;
        const auto look = [&](const Plan& steps, const char* name) {
            for (std::size_t i = 0; i < steps.steps.size(); i++)
                if (steps.steps[i].slot >= 0) found += fmt::format("{}{}", name, i);
        };
        look((*layout)->packet_header(), "header");
        look(stream.packet_context, "packet");
        look(stream.event_header, "event header");
        look(stream.event_context, "stream context");
        look(event.context, "context");
        look(event.fields, "fields");
        return found;
    };
    const std::pair<const char*, const char*> cases[] = {
        {"y", "fields8"},
        {"n", "fields5"},
        {"x", "fields6"},
        {"in.y", "fields8"},
        {"t.n", "fields5"},
        {"t.in.y", "fields8"},
        {"s.n", "fields2"},
        {"s.x", "fields3"},
        {"s.deep", "packet3"},
        {"event.fields.n", "fields0"},
        {"event.fields.s.x", "fields3"},
        {"event.fields.t.x", "fields6"},
        {"event.context.n", "context0"},
        {"o", "context1"},
        {"stream.event.context.n", "stream context0"},
        {"r", "stream context1"},
        {"stream.event.header.n", "event header0"},
        {"q", "event header1"},
        {"stream.packet.context.n", "packet0"},
        {"stream.packet.context.s.deep", "packet3"},
        {"p", "packet1"},
        {"trace.packet.header.n", "header0"},
        {"h", "header1"},
        {"s.y", "none"},
        {"x.n", "none"},
        {"in.n", "none"},
        {"deep", "none"},
        {"event.fields.x", "none"},
        {"event.fieldsn", "none"},
        {"stream.packet.context.deep", "none"},
        {"trace.packet.header.p", "none"},
        {"other.n", "none"},
    };
    for (const auto& [length, where] : cases)
        EXPECT_EQ(plan(length), where) << length;
}

} // namespace
} // namespace plumb
