// cmake-once
// What a trace says of itself, word by word: readers of other makers take it as it stands.
#include "consumerd/sink/ctf_metadata.h"
#include "tests/support/channel_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/utsname.h>

#include <deque>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using test::field;
using test::integer;
using testing::HasSubstr;
using testing::Not;

TraceIdentity some_identity() {
    TraceIdentity identity;
    for (uint8_t i = 0; i < 16; i++) {
        identity.uuid[i] = static_cast<uint8_t>(i * 17);
        identity.boot_id[i] = static_cast<uint8_t>(0xf0 - i);
    }
    identity.host_name = "here";
    identity.domain = "ust";
    identity.trace_name = "a \"name\" \\ with\n";
    identity.created_realtime_ns = 1'700'000'000'999'999'999;
    identity.environment = {{"more", "of it"}};
    return identity;
}

plumb_clock_page some_clock() {
    plumb_clock_page clock{};
    clock.mode = PLUMB_CLOCK_MONOTONIC;
    clock.mult = 1;
    clock.frequency_hz = 1'000'000'000;
    clock.base_cycles = clock.base_monotonic_ns = 5;
    clock.realtime_offset_ns = 1'700'000'000'123'456'789;
    return clock;
}

std::string metadata(const TraceIdentity& identity, const plumb_clock_page& clock = some_clock(),
                     const std::deque<ChannelEvent>& events = {}) {
    return make_ctf_metadata(identity, clock, events);
}

std::string event_block(std::vector<EventField> fields) {
    EventDescription event;
    event.provider = "shop";
    event.name = "sold";
    event.log_level = 13;
    event.fields = std::move(fields);
    const std::string all = metadata(some_identity(), some_clock(), {{7, event, {}}});
    return all.substr(all.rfind("event {"));
}

EventDescription with_context(const std::string& name, bool has_context) {
    EventField number{"vpid", PLUMB_FIELD_INTEGER, 4, true, false, 0, {}};
    EventField stack{"stack", PLUMB_FIELD_SEQUENCE, 8, false, true, 0, {}};
    number.is_context = stack.is_context = true;
    EventDescription event;
    event.provider = "shop";
    event.name = name;
    event.log_level = 13;
    if (has_context) event.fields = {number, stack};
    event.fields.push_back({"vpid", PLUMB_FIELD_INTEGER, 1, false, false, 0, {}});
    return event;
}

/* Where all events have the same, it is the stream's; where they do not, each one's. */
TEST(CtfMetadata, HasContextWhereReadersLookForIt) {
    const std::string context =
        "        integer { size = 32; align = 8; signed = true; encoding = none; base = 10; } _vpid;\n"
        "        integer { size = 16; align = 8; signed = false; encoding = none; base = 10; } "
        "__stack_length;\n"
        "        integer { size = 64; align = 8; signed = false; encoding = none; base = 16; } _stack[ "
        "__stack_length ];\n"
        "    };\n";
    const std::string fields = "    fields := struct {\n"
                               "        integer { size = 8; align = 8; signed = false; encoding = none; base "
                               "= 10; } _vpid;\n    };\n";
    const auto all = [](bool second) {
        return metadata(some_identity(), some_clock(),
                        {{7, with_context("sold", true), {}}, {8, with_context("paid", second), {}}});
    };
    EXPECT_NE(all(true).find(" _vtid;\n" + context + "};\n"), std::string::npos) << all(true);
    EXPECT_NE(all(true).find("    loglevel = 13;\n" + fields), std::string::npos);
    EXPECT_EQ(all(false).find(" _vtid;\n" + context), std::string::npos);
    EXPECT_NE(all(false).find("    loglevel = 13;\n    context := struct {\n" + context + fields),
              std::string::npos);
    EXPECT_NE(all(false).find("    loglevel = 13;\n" + fields), std::string::npos);
}

TEST(CtfMetadata, BeginsWithTheTraceAndItsEnvironment) {
    utsname system{};
    ::uname(&system);
    const std::string begin = R"(/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;

trace {
    major = 1;
    minor = 8;
    uuid = "00112233-4455-6677-8899-aabbccddeeff";
    byte_order = le;
    packet.header := struct {
        uint32_t magic;
        uint8_t uuid[16];
        uint32_t stream_id;
        uint64_t stream_instance_id;
    };
};

env {
    hostname = "here";
    domain = "ust";
    plumb_version = ")" PLUMB_VERSION R"(";
    tracer_name = "plumb";
    tracer_major = 0;
    tracer_minor = 1;
    tracer_patchlevel = 0;
    tracer_buffering_scheme = "uid";
    trace_name = "a \"name\" \\ with?";
    trace_creation_datetime = "20231114T221320+0000";
)";
    const std::string rest =
        fmt::format("    sysname = \"{}\";\n    kernel_release = \"{}\";\n", system.sysname, system.release);
    const std::string end = R"(    architecture_bit_width = 64;
    monotonic_zero_realtime_ns = 1700000000123456789;
    more = "of it";
};

clock {
    name = "monotonic";
    uuid = "f0efeeed-eceb-eae9-e8e7-e6e5e4e3e2e1";
    description = "CLOCK_MONOTONIC";
    freq = 1000000000;
    offset_s = 1700000000;
    offset = 123456789;
    absolute = TRUE;
};

/* The rings, one stream each. */
)";
    const std::string all = metadata(some_identity());
    EXPECT_EQ(all.substr(0, begin.size()), begin);
    EXPECT_EQ(all.substr(begin.size(), rest.size()), rest);
    EXPECT_THAT(all, HasSubstr(end));
}

TEST(CtfMetadata, DescribesItsStreams) {
    const std::string all = metadata(some_identity());
    EXPECT_THAT(all, HasSubstr(R"(stream {
    id = 0;
    packet.context := struct {
        integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } timestamp_begin;
        integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } timestamp_end;
        uint64_t content_size;
        uint64_t packet_size;
        uint64_t packet_seq_num;
        uint64_t events_discarded;
        uint32_t cpu_id;
    };
    event.header := struct {
        integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } timestamp;
        uint16_t id;
    } align(64);
    event.context := struct {
        integer { size = 32; align = 32; signed = false; } _vtid;
    };
};

/* Which processes and threads wrote, and the objects they had loaded. */
stream {
    id = 1;
)"));
    EXPECT_THAT(all, HasSubstr("        uint64_t events_discarded;\n    };\n")) << "no CPU of the statedump";
    EXPECT_THAT(all, HasSubstr(R"(event {
    name = "plumb_statedump:object";
    id = 3;
    stream_id = 1;
    loglevel = 13;
    fields := struct {
        integer { size = 32; align = 8; signed = false; encoding = none; base = 10; } _pid;
        integer { size = 64; align = 8; signed = false; encoding = none; base = 16; } _base;
        integer { size = 64; align = 8; signed = false; encoding = none; base = 10; } _size;
        string _build_id;
        string _path;
    };
};
)"));
    for (const char* event :
         {"process\";\n    id = 1;", "thread\";\n    id = 2;", "namespace\";\n    id = 4;"})
        EXPECT_THAT(all, HasSubstr(std::string("plumb_statedump:") + event));
}

TEST(CtfMetadata, OfCompactRecordsHasTheirHeader) {
    TraceIdentity identity = some_identity();
    EXPECT_THAT(metadata(identity), Not(HasSubstr("plumb_record_layout")));
    identity.is_compact = true;
    const std::string all = metadata(identity);
    EXPECT_THAT(all, HasSubstr("    plumb_record_layout = \"compact\";\n"));
    EXPECT_THAT(all, HasSubstr(R"(    event.header := struct {
        enum : integer { size = 5; align = 1; signed = false; } {
            near = 0 ... 29, far = 30, whole = 31
        } id;
        variant <id> {
            struct { integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } timestamp; } near;
            struct { integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } timestamp; integer { size = 16; align = 1; signed = false; } id; } far;
            struct { integer { size = 16; align = 8; signed = false; } id; integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } timestamp; } whole;
        } v;
    } align(8);
    event.context := struct {
        integer { size = 32; align = 8; signed = false; } _vtid;
    };
};
)"));
    EXPECT_THAT(all, HasSubstr("    } align(64);\n")) << "of the statedump";
}

/* Trace Compass knows it by LTTng's name and version. */
TEST(CtfMetadata, OfTheKernelIsCalledAsLttngs) {
    TraceIdentity identity = some_identity();
    identity.domain = "kernel";
    EventDescription first, second;
    first.name = "lttng_statedump_start";
    second.name = "lttng_statedump_end";
    identity.statedump_events = {first, second};
    const std::string all = metadata(identity);
    EXPECT_THAT(all, HasSubstr("    tracer_name = \"lttng-modules\";\n    tracer_major = 2;\n"
                               "    tracer_minor = 13;\n    tracer_patchlevel = 0;\n"));
    EXPECT_THAT(all, HasSubstr("/* What was there already. */\nstream {\n    id = 1;\n"));
    EXPECT_THAT(all, HasSubstr("} _tid;"));
    EXPECT_THAT(all, Not(HasSubstr("} _vtid;")));
    EXPECT_THAT(all, HasSubstr("    name = \"lttng_statedump_start\";\n    id = 1;\n    stream_id = 1;\n"));
    EXPECT_THAT(all, HasSubstr("    name = \"lttng_statedump_end\";\n    id = 2;\n    stream_id = 1;\n"));
    EXPECT_THAT(all, Not(HasSubstr("plumb_statedump:")));
    EXPECT_NE(all.find("cpu_id"), all.rfind("cpu_id")) << "both streams";
}

TEST(CtfMetadata, SaysWhichClockItIs) {
    for (const auto& [mode, name, description] :
         {std::tuple{PLUMB_CLOCK_TSC, "monotonic",
                     "Cycle counter of the processor, converted to CLOCK_MONOTONIC"},
          {PLUMB_CLOCK_MONOTONIC, "monotonic", "CLOCK_MONOTONIC"},
          {PLUMB_CLOCK_BOOTTIME, "boottime", "CLOCK_BOOTTIME"},
          {PLUMB_CLOCK_REALTIME, "realtime", "CLOCK_REALTIME"}}) {
        plumb_clock_page clock = some_clock();
        clock.mode = mode;
        const std::string all = metadata(some_identity(), clock);
        EXPECT_THAT(all, HasSubstr(fmt::format("clock {{\n    name = \"{}\";\n", name)));
        EXPECT_THAT(all, HasSubstr(fmt::format("    description = \"{}\";\n", description)));
        EXPECT_THAT(all, HasSubstr(fmt::format("map = clock.{}.value;", name)));
    }
}

/* To the nearest cycle, whatever its rate is. */
TEST(CtfMetadata, PlacesTheClockToTheNearestCycle) {
    plumb_clock_page clock{};
    clock.frequency_hz = 3;
    clock.realtime_offset_ns = 10'000'000'000;
    for (const auto& [ns, cycles] : {std::pair<uint64_t, uint64_t>{0, 0},
                                     {166'666'666, 0},
                                     {166'666'667, 1},
                                     {333'333'333, 1},
                                     {499'999'999, 1},
                                     {500'000'001, 2},
                                     {833'333'333, 2}}) {
        clock.base_monotonic_ns = ns;
        EXPECT_EQ(ctf_clock_offset(clock).seconds, 10) << ns;
        EXPECT_EQ(ctf_clock_offset(clock).cycles, cycles) << ns;
    }
    clock.base_monotonic_ns = 833'333'334;
    EXPECT_EQ(ctf_clock_offset(clock).seconds, 11);
    EXPECT_EQ(ctf_clock_offset(clock).cycles, 0u);
    clock.base_cycles = 35; /* eleven seconds and two thirds */
    EXPECT_EQ(ctf_clock_offset(clock).seconds, -1);
    EXPECT_EQ(ctf_clock_offset(clock).cycles, 1u);
    clock.frequency_hz = 0;
    EXPECT_EQ(ctf_clock_offset(clock).seconds, 0);
    EXPECT_EQ(ctf_clock_offset(clock).cycles, 0u);
}

EventField with_labels(EventField field, std::vector<EventLabel> labels) {
    field.labels = std::move(labels);
    return field;
}

EventField floats(const std::string& name, uint8_t size) {
    EventField sequence = field(name, PLUMB_FIELD_SEQUENCE, size);
    sequence.has_floats = true;
    return sequence;
}

TEST(CtfMetadata, DeclaresEveryKindOfField) {
    EXPECT_EQ(
        event_block({integer("i", 1, true), integer("x", 8, false, true), field("f", PLUMB_FIELD_FLOAT, 4),
                     field("d", PLUMB_FIELD_FLOAT, 8), field("s", PLUMB_FIELD_STRING, 1),
                     field("t", PLUMB_FIELD_TEXT, 1), field("a", PLUMB_FIELD_ARRAY, 2, 12),
                     field("q", PLUMB_FIELD_SEQUENCE, 4), floats("p", 8)}),
        R"(event {
    name = "shop:sold";
    id = 7;
    stream_id = 0;
    loglevel = 13;
    fields := struct {
        integer { size = 8; align = 8; signed = true; encoding = none; base = 10; } _i;
        integer { size = 64; align = 8; signed = false; encoding = none; base = 16; } _x;
        floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _f;
        floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _d;
        string _s;
        integer { size = 16; align = 8; signed = false; encoding = none; base = 10; } __t_length;
        integer { size = 8; align = 8; signed = false; encoding = UTF8; base = 10; } _t[ __t_length ];
        integer { size = 16; align = 8; signed = false; encoding = none; base = 10; } _a[ 12 ];
        integer { size = 16; align = 8; signed = false; encoding = none; base = 10; } __q_length;
        integer { size = 32; align = 8; signed = false; encoding = none; base = 10; } _q[ __q_length ];
        integer { size = 16; align = 8; signed = false; encoding = none; base = 10; } __p_length;
        floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _p[ __p_length ];
    };
};

)");
}

/* Readers refuse an enumeration with a value that its integer can not have. */
TEST(CtfMetadata, HasLabelsOfValuesThatTheFieldCanHave) {
    const auto labels_of = [](uint8_t size, bool is_signed) {
        EventField field = test::field("e", PLUMB_FIELD_ENUM, size);
        field.is_signed = is_signed;
        const int bits = size * 8;
        const auto half = static_cast<int64_t>(uint64_t{1} << (bits - 1));
        const auto below_half = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
        field.labels = {{-1, "minus"}, {0, "zero"}, {below_half, "below half"}};
        if (size < 8)
            for (const auto& [value, name] : {std::pair{half, "half"},
                                              {2 * half - 1, "last"},
                                              {2 * half, "too large"},
                                              {-half, "least"},
                                              {-half - 1, "too small"}})
                field.labels.emplace_back(value, name);
        const std::string block = event_block({field});
        const size_t begin = block.find("} { ") + 4;
        return block.substr(begin, block.find(" } _e") - begin);
    };
    EXPECT_EQ(labels_of(1, false), R"("zero" = 0, "below half" = 127, "half" = 128, "last" = 255)");
    EXPECT_EQ(labels_of(1, true), R"("minus" = -1, "zero" = 0, "below half" = 127, "least" = -128)");
    EXPECT_EQ(labels_of(2, false), R"("zero" = 0, "below half" = 32767, "half" = 32768, "last" = 65535)");
    EXPECT_EQ(labels_of(4, true),
              R"("minus" = -1, "zero" = 0, "below half" = 2147483647, "least" = -2147483648)");
    EXPECT_EQ(labels_of(8, false),
              R"("minus" = 18446744073709551615, "zero" = 0, "below half" = 9223372036854775807)");
    EXPECT_EQ(labels_of(8, true), R"("minus" = -1, "zero" = 0, "below half" = 9223372036854775807)");
    /* Without one it is an integer. */
    const EventField none = with_labels(field("e", PLUMB_FIELD_ENUM, 1), {{300, "a"}});
    EXPECT_THAT(
        event_block({none}),
        HasSubstr(
            "        integer { size = 8; align = 8; signed = false; encoding = none; base = 10; } _e;\n"));
    /* The same twice is one; a value and a name may come again. */
    const EventField again =
        with_labels(field("e", PLUMB_FIELD_ENUM, 1), {{1, "a"}, {1, "a"}, {2, "a"}, {1, "b\"\\\x7f\x1f"}});
    EXPECT_THAT(event_block({again}), HasSubstr(R"({ "a" = 1, "a" = 2, "b\"\\??" = 1 } _e;)"));
}

/* They are cut where the field's values end. */
TEST(CtfMetadata, HasRangesOfValues) {
    const auto labels_of = [](uint8_t size, bool is_signed, std::vector<EventLabel> labels) {
        EventField field = with_labels(test::field("e", PLUMB_FIELD_ENUM, size), std::move(labels));
        field.is_signed = is_signed;
        const std::string block = event_block({field});
        const size_t begin = block.find("} { ") + 4;
        return block.substr(begin, block.find(" } _e") - begin);
    };
    EXPECT_EQ(labels_of(4, false, {{0, 999, "low"}, {1000, "mid"}, {5, 1001, "low"}, {0, 999, "low"}}),
              R"("low" = 0 ... 999, "mid" = 1000, "low" = 5 ... 1001)");
    EXPECT_EQ(
        labels_of(8, false, {{0, -1, "all"}, {INT64_MIN, -2, "upper"}}),
        R"("all" = 0 ... 18446744073709551615, "upper" = 9223372036854775808 ... 18446744073709551614)");
    EXPECT_EQ(labels_of(8, true, {{INT64_MIN, INT64_MAX, "all"}, {-9, -1, "minus"}}),
              R"("all" = -9223372036854775808 ... 9223372036854775807, "minus" = -9 ... -1)");
    const std::vector<EventLabel> around{{-1000, -129, "below"}, {-1000, 5, "least"}, {100, 127, "i"},
                                         {-129, -128, "one"},    {128, 255, "u"},     {250, 1000, "greatest"},
                                         {256, 1000, "above"},   {-1000, 1000, "all"}};
    EXPECT_EQ(labels_of(1, true, around), R"("least" = -128 ... 5, "i" = 100 ... 127, "one" = -128, )"
                                          R"("all" = -128 ... 127)");
    EXPECT_EQ(labels_of(1, false,
                        {{100, 127, "i"}, {128, 255, "u"}, {250, 1000, "greatest"}, {256, 1000, "above"}}),
              R"("i" = 100 ... 127, "u" = 128 ... 255, "greatest" = 250 ... 255)");
    EXPECT_EQ(labels_of(4, true, {{0, 4294967295, "all"}, {2147483647, 2147483648, "one"}}),
              R"("all" = 0 ... 2147483647, "one" = 2147483647)");
}

/* An integer stays one for every reader; who knows Plumb finds its labels beside it. */
TEST(CtfMetadata, HasLabelsOfIntegersBesideThem) {
    EventField flags = with_labels(integer("flags", 4, false, true), {{1, "READ"}});
    EXPECT_THAT(
        event_block({flags}),
        HasSubstr("    typealias enum : integer { size = 32; align = 8; signed = false; encoding = none; "
                  "base = 16; } { \"READ\" = 1 } := plumb_labels_of_flags;\n    fields := struct {\n"));
    flags.has_flags = true;
    EXPECT_THAT(event_block({flags}), HasSubstr(" := plumb_flags_of_flags;\n"));
    EXPECT_THAT(event_block({integer("flags", 4)}), Not(HasSubstr("typealias")));
    EXPECT_THAT(event_block({with_labels(field("e", PLUMB_FIELD_ENUM, 4), {{1, "a"}})}),
                Not(HasSubstr("typealias")));
}

TEST(CtfMetadata, NamesFieldsByIdentifiers) {
    const auto name_of = [](const std::string& name) {
        const std::string block = event_block({integer(name, 1)});
        const size_t begin = block.rfind("} ", block.rfind(";\n    };")) + 2;
        return block.substr(begin, block.find(';', begin) - begin);
    };
    EXPECT_EQ(name_of("azAZ09_"), "_azAZ09_");
    EXPECT_EQ(name_of("a`b{c@d[e/f:g"), "_a_b_c_d_e_f_g");
    EXPECT_EQ(name_of("9"), "_9");
    EXPECT_EQ(name_of(""), "_");
    EXPECT_EQ(name_of("int"), "_int");
}

TEST(CtfMetadata, SaysWhereAnEventStandsInACommentThatNothingEnds) {
    EventDescription event;
    event.name = "n";
    event.source_file = "a*/b\n\x7f~ \x1f";
    event.source_line = 12;
    EXPECT_THAT(metadata(some_identity(), some_clock(), {{7, event, {}}}),
                HasSubstr("/* a?/b??~ ?:12 */\nevent {\n    name = \"n\";\n"));
}

} // namespace
} // namespace plumb
