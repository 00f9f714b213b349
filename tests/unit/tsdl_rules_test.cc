// cmake-once
/* Every rule of the metadata's language: a text that has all of them, as it is understood; what it is without any one sign of it;
 * and for each mistake the sentence that tells it. */
#include "trace/ctf/tsdl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstring>

namespace plumb::tsdl {
namespace {

using ::testing::HasSubstr;

std::string shown(const TypePtr& type) {
    if (!type) return "none";
    const Type& t = *type;
    const auto fields = [&] {
        std::string all;
        for (const Field& field : t.fields)
            all += fmt::format(" {}:{};", field.name, shown(field.type));
        return all;
    };
    const char* const order = t.byte_order == ByteOrder::little ? "le"
                              : t.byte_order == ByteOrder::big  ? "be"
                                                                : "";
    const std::string end = fmt::format("@{}", t.alignment_bits);
    switch (t.kind) {
    case Kind::integer:
        return fmt::format("{}{}{}b{}{}{}{}", t.is_signed ? "i" : "u", t.size_bits, order, t.base,
                           t.is_text ? "text" : "", t.clock.empty() ? "" : "<" + t.clock + ">", end);
    case Kind::floating:
        return fmt::format("f{}{}{}", t.size_bits, order, end);
    case Kind::string:
        return fmt::format("string{}{}", t.is_text ? "" : "?", end);
    case Kind::enumeration: {
        std::string labels;
        for (const Label& label : t.labels)
            labels += fmt::format(" {}={}..{}", label.name, static_cast<int64_t>(label.first),
                                  static_cast<int64_t>(label.last));
        return fmt::format("{}{}({}{})", t.has_flags ? "flags" : "enum", end, shown(t.element), labels);
    }
    case Kind::structure:
        return fmt::format("struct{}{{{} }}", end, fields());
    case Kind::variant:
        return fmt::format("variant<{}>{{{} }}", t.reference, fields());
    case Kind::array:
        return fmt::format("{}[{}]", shown(t.element), t.length);
    case Kind::sequence:
        return fmt::format("{}[{}]", shown(t.element), t.reference);
    }
    return "?";
}

std::string shown(const Metadata& all) {
    std::string text = fmt::format("{}.{} {} header {}\n", all.major, all.minor, all.big_endian ? "be" : "le",
                                   shown(all.packet_header));
    for (const auto& [name, value] : all.environment)
        text += fmt::format("env {} = {}\n", name,
                            all.environment_text(name) + (value.index() == 0 ? "" : " (text)"));
    for (const Clock& clock : all.clocks)
        text += fmt::format("clock {} '{}' {} Hz {} s {} {}\n", clock.name, clock.description,
                            clock.frequency_hz, clock.offset_s, clock.offset_cycles, clock.absolute);
    for (const StreamClass& stream : all.streams)
        text +=
            fmt::format("stream {} packet {} header {} context {}\n", stream.id, shown(stream.packet_context),
                        shown(stream.event_header), shown(stream.event_context));
    for (const EventClass& event : all.events)
        text += fmt::format("event {}/{} '{}' level {} context {} fields {}\n", event.stream_id, event.id,
                            event.name, event.log_level ? std::to_string(*event.log_level) : "?",
                            shown(event.context), shown(event.fields));
    return text;
}

std::string understood(std::string_view text) {
    Result<Metadata> parsed = parse(text);
    return parsed ? shown(*parsed) : parsed.error().message();
}

constexpr std::string_view everything = R"(/* CTF 1.8 */
typealias integer { size = 8; } := u8;
typealias integer { size = 32; align = 32; signed = true; byte_order = be; base = octal; } := long signed int;
typedef integer { size = 5; } five, pair[2];
typedef floating_point { exp_dig = 11; mant_dig = 53; align = 64; byte_order = le; } real;
struct inner { u8 a, b[3]; five c; } align(16);
variant choice { u8 A; string { encoding = ASCII; } B; };
enum kind : u8 { A, B = 3 ... 5, "C c" = -1, };
env { text = "t\"\n"; number = -5; plus = +7; word = a.b; };
clock { name = mono; description = "d"; uuid = "x"; freq = 1000; offset_s = -3; offset = 4; absolute = true;
  precision = 1; };
stream { id = 0x10; packet.context := struct { integer { size = 64; map = clock.mono.value; } t; };
  event.header := struct { enum kind k; variant choice <k> v; };
  event.context := struct { const u8 c; integer { size = 8; encoding = UTF8; } name[16]; };
  typealias integer { size = 16; } := u16; };
event { name = "a:b"; id = 7; stream_id = 16; loglevel = -2; context := struct { u8 x; };
  fields := struct { struct inner i; long signed int j; u8 n; string s[n]; real r[2][i.a];
    variant <stream.event.header.k> { u8 A; pair B; } v; enum : five { X } e; struct own { u8 q; }; struct own o; }; };
callsite { a = 1; b { c = 2; }; };
trace { major = 1; minor = 8; byte_order = be; uuid = "00112233-4455-6677-8899-aabbccddeeff";
  packet.header := struct { u8 magic; }; };
)";

TEST(TsdlRules, UnderstandAllThatTheLanguageHas) {
    EXPECT_EQ(
        understood(everything),
        "1.8 be header struct@8{ magic:u8b10@8; }\n"
        "env text = t\"\n (text)\nenv number = -5\nenv plus = 7\nenv word = a.b (text)\n"
        "clock mono 'd' 1000 Hz -3 s 4 true\n"
        "stream 16 packet struct@8{ t:u64b10<mono>@8; } header struct@8{ k:enum@8(u8b10@8 A=0..0 B=3..5 C "
        "c=-1..-1); "
        "v:variant<k>{ A:u8b10@8; B:string@8; }; } context struct@8{ c:u8b10@8; name:u8b10text@8[16]; }\n"
        "event 16/7 'a:b' level -2 context struct@8{ x:u8b10@8; } fields struct@64{ "
        "i:struct@16{ a:u8b10@8; b:u8b10@8[3]; c:u5b10@1; }; j:i32beb8@32; n:u8b10@8; s:string@8[n]; "
        "r:f64le@64[i.a][2]; v:variant<stream.event.header.k>{ A:u8b10@8; B:u5b10@1[2]; }; "
        "e:enum@1(u5b10@1 X=0..0); o:struct@8{ q:u8b10@8; }; }\n");
}

/* Cut behind any word or sign. Only between two blocks does what is left make sense, but for the trace block that is missing. */
TEST(TsdlRules, SayThatTheTextEndsWhereverItIsCut) {
    const auto is_of_word = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    std::size_t between = 0;
    const std::size_t last = everything.rfind(';');
    for (std::size_t end = std::strlen("/* CTF 1.8 */"); end <= last; end++) {
        const char before = everything[end - 1], behind = everything[end];
        if ((is_of_word(before) && is_of_word(behind)) || behind == '=' || behind == '.' || before == '.')
            continue;
        const std::string message = understood(everything.substr(0, end));
        if (message == "The metadata has no trace block, so the byte order is not known.") {
            between++;
            continue;
        }
        const bool is_told = message.find("the end of the text stands where") != std::string::npos ||
                             message.find("a string has no end") != std::string::npos ||
                             message.find("there is no type `") != std::string::npos;
        EXPECT_TRUE(is_told) << end << ": " << everything.substr(0, end) << "\n" << message;
    }
    EXPECT_EQ(between, 27u) << "before and behind the end of the line of each block but the last";
}

TEST(TsdlRules, NeedEachSignOnce) {
    int depth = 0;
    bool in_text = false;
    const std::size_t unknown_begin = everything.find("callsite"), unknown_end = everything.find("trace {");
    for (std::size_t at = std::strlen("/* CTF 1.8 */"); at < everything.size(); at++) {
        if (at >= unknown_begin && at < unknown_end) continue; /* a later version may write it so */
        const char c = everything[at];
        if (c == '"' && everything[at - 1] != '\\') in_text = !in_text;
        if (in_text || std::strchr("{}()[]<>;:=,", c) == nullptr) continue;
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        const bool is_free = c == ';' && depth == 0, may_end = c == ',' && everything.substr(at, 3) == ", }";
        std::string less(everything), more(everything);
        less.erase(at, 1);
        more.insert(at, 1, c);
        if (!may_end) {
            EXPECT_THAT(understood(less), HasSubstr("The metadata, line ")) << less.substr(at - 10, 20);
        }
        if (!is_free) {
            EXPECT_THAT(understood(more), HasSubstr("The metadata, line ")) << more.substr(at - 10, 20);
        }
    }
}

std::string integer(std::string_view attributes) {
    const std::string all =
        understood(fmt::format("trace {{ byte_order = le; major = 1; packet.header := struct {{ "
                               "integer {{ {} }} x; }}; }};",
                               attributes));
    const std::size_t at = all.find("x:");
    return at == std::string::npos ? all : all.substr(at + 2, all.find("; }") - at - 2);
}

TEST(TsdlRules, KnowEachAttributeOfIntegers) {
    const std::pair<const char*, const char*> cases[] = {
        {"size = 1;", "u1b10@1"},
        {"size = 64;", "u64b10@8"},
        {"size = 7;", "u7b10@1"},
        {"size = 24;", "u24b10@8"},
        {"size = 8; align = 1;", "u8b10@1"},
        {"align = 4096; size = 8;", "u8b10@4096"},
        {"size = 8; signed = true;", "i8b10@8"},
        {"size = 8; signed = TRUE;", "i8b10@8"},
        {"size = 8; signed = 1;", "i8b10@8"},
        {"size = 8; signed = false;", "u8b10@8"},
        {"size = 8; signed = FALSE;", "u8b10@8"},
        {"size = 8; signed = 0;", "u8b10@8"},
        {"size = 8; byte_order = le;", "u8leb10@8"},
        {"size = 8; byte_order = be;", "u8beb10@8"},
        {"size = 8; byte_order = network;", "u8beb10@8"},
        {"size = 8; byte_order = native;", "u8b10@8"},
        {"size = 8; encoding = none;", "u8b10@8"},
        {"size = 8; encoding = UTF8;", "u8b10text@8"},
        {"size = 8; encoding = utf8;", "u8b10text@8"},
        {"size = 8; encoding = ASCII;", "u8b10text@8"},
        {"size = 8; encoding = ascii;", "u8b10text@8"},
        {"size = 8; map = clock.c.value;", "u8b10<c>@8"},
        {"size = 8; map = clock.c;", "u8b10<c>@8"},
        {"size = 8; other = 5;", "u8b10@8"},
        {"size = 0;", "The metadata, line 1: an integer has at least one bit."},
        {"size = 65;", "The metadata, line 1: the number is not between 0 and 64."},
        {"size = -1;", "The metadata, line 1: the number is not between 0 and 64."},
        {"size = -0;", "The metadata, line 1: an integer has at least one bit."},
        {"size = x;", "The metadata, line 1: a number is needed here."},
        {"align = 8;", "The metadata, line 1: the integer has no size."},
        {"size = 8; align = 0;", "The metadata, line 1: an alignment is a power of two."},
        {"size = 8; align = 24;", "The metadata, line 1: an alignment is a power of two."},
        {"size = 8; align = 8192;", "The metadata, line 1: the number is not between 0 and 4096."},
        {"size = 8; signed = 2;", "The metadata, line 1: true or false is needed here."},
        {"size = 8; signed = -1;", "The metadata, line 1: true or false is needed here."},
        {"size = 8; signed = yes;", "The metadata, line 1: true or false is needed here."},
        {"size = 8; byte_order = middle;",
         "The metadata, line 1: a byte order is `le`, `be`, `network` or `native`."},
        {"size = 8; map = mono.value;", "The metadata, line 1: an integer is mapped to clock.NAME.value."},
    };
    for (const auto& [attributes, what] : cases)
        EXPECT_EQ(integer(attributes), what) << attributes;
    const std::pair<int, std::vector<const char*>> bases[] = {
        {16, {"hex", "hexadecimal", "x", "X", "p", "16", "0x10"}},
        {8, {"octal", "oct", "o", "8", "010"}},
        {2, {"binary", "b", "2"}},
        {10, {"decimal", "dec", "d", "i", "u", "10", "7", "266"}}};
    for (const auto& [base, names] : bases)
        for (const char* const name : names)
            EXPECT_EQ(integer(fmt::format("size = 8; base = {};", name)), fmt::format("u8b{}@8", base))
                << name;
}

/* A text of one line that is wrong, and how that is told. */
TEST(TsdlRules, SayWhatIsWrong) {
    const std::string start = "trace { major = 1; minor = 8; byte_order = le; }; ";
    const std::string u8 = "typealias integer { size = 8; } := u8; ";
    const auto fields = [&](const std::string& text) {
        return start + u8 + "event { name = e; fields := struct { " + text + " }; };";
    };
    const std::pair<std::string, const char*> cases[] = {
        {"trace { major = 1; minor = 8; byte_order = native; };",
         "the trace itself needs a byte order, `le` or `be`"},
        {"trace { major = 256; };", "the number is not between 0 and 255"},
        {"trace { minor = 256; };", "the number is not between 0 and 255"},
        {"trace { minor = 255; major = 255; byte_order = le; };",
         "this is version 255.255 of the Common Trace Format; version 1.8 is understood"},
        {start + start, "there is a second trace block"},
        {"trace { major = 1; };", "the trace block has no byte_order"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeef\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff0\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeefg\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeef/\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeef:\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeefG\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeef@\"; };", "this is not a UUID"},
        {"trace { uuid = \"00112233-4455-6677-8899-aabbccddeef`\"; };", "this is not a UUID"},
        {"env { a = 9223372036854775808; };", "the number needs more than 64 bits with a sign"},
        {"env { a = -9223372036854775809; };", "the number needs more than 64 bits with a sign"},
        {"env { a = ; };", "`;` stands where a value should be"},
        {"env { a = - x; };", "`x` stands where a number should be"},
        {"env { a = + -5; };", "`-` stands where a number should be"},
        {"env { a.5 = 1; };", "5 stands where a name should be"},
        {"clock { };", "the clock has no name"},
        {"clock { name = c; freq = 0; };", "a clock needs a frequency above 0"},
        {"clock { name = c; freq = -1; };", "the number is not between 0 and 18446744073709551615"},
        {"clock { name = c; absolute = maybe; };", "true or false is needed here"},
        {"clock { name = c; }; clock { name = c; };", "there is a second clock c"},
        {start + "event { id = 5; };", "the event has no name"},
        {start + "event { name = e; id = x; };", "a number is needed here"},
        {start + "event { name = e; loglevel = x; };", "a number is needed here"},
        {start + "stream { id = -1; };", "the number is not between 0 and 18446744073709551615"},
        {"5", "5 stands where a block should be"},
        {"\"text\"", "\"text\" stands where a block should be"},
        {"block;", "`;` stands where `{` should be"},
        {fields("u8;"), "`;` stands where a type and a name should be"},
        {fields("u8 5;"), "5 stands where a type and a name should be"},
        {fields("nothing a;"), "there is no type `nothing`"},
        {fields("const nothing more a;"), "there is no type `nothing more`"},
        {fields("integer { size = 8; } 5;"), "5 stands where the name of a field should be"},
        {fields("u8 a, 5;"), "5 stands where the name of a field should be"},
        {fields("u8 a[-1];"), "`-` stands where a name should be"},
        {fields("u8 a[5;"), "`;` stands where `]` should be"},
        {start + "struct", "the end of the text stands where a name or `{` should be"},
        {start + "variant", "the end of the text stands where a name or `{` should be"},
        {start + "enum", "the end of the text stands where a name or `{` should be"},
        {fields("struct nothing a;"), "there is no type `struct nothing`"},
        {fields("variant nothing a;"), "there is no type `variant nothing`"},
        {fields("enum nothing a;"), "there is no type `enum nothing`"},
        {start + "typealias string := text; enum e : text { A };", "an enumeration needs an integer type"},
        {fields("enum { A } a;"), "an enumeration needs an integer type"},
        {fields("enum : u8 { 5 } a;"), "5 stands where a label should be"},
        {fields("enum : u8 { A = x } a;"), "a label stands for a number"},
        {fields("enum : u8 { A = 1 ... x } a;"), "a label stands for a number"},
        {fields("enum : u8 { A = 1 .. 5 } a;"), "`.` stands where `}` should be"},
        {fields("enum : u8 { A = 1 .5 } a;"), "`.` stands where `}` should be"},
        {fields("enum : u8 { A B } a;"), "`B` stands where `}` should be"},
        {fields("struct { } align(3) a;"), "an alignment is a power of two"},
        {fields("struct { } align 8 a;"), "8 stands where `(` should be"},
        {fields("floating_point { exp_dig = 8; mant_dig = 23; } a;"),
         "a floating-point number with 8 + 23 bits is not understood, only 8 + 24 and 11 + 53"},
        {fields("floating_point { exp_dig = 11; mant_dig = 24; } a;"),
         "a floating-point number with 11 + 24 bits is not understood, only 8 + 24 and 11 + 53"},
        {fields("floating_point { exp_dig = 8; mant_dig = 53; } a;"),
         "a floating-point number with 8 + 53 bits is not understood, only 8 + 24 and 11 + 53"},
        {fields("floating_point { exp_dig = 129; } a;"), "the number is not between 0 and 128"},
        {fields("floating_point { exp_dig = 128; mant_dig = 1; } a;"),
         "a floating-point number with 128 + 1 bits is not understood, only 8 + 24 and 11 + 53"},
        {fields("floating_point { align = 3; } a;"), "an alignment is a power of two"},
        {fields("floating_point { byte_order = x; } a;"),
         "a byte order is `le`, `be`, `network` or `native`"},
        {start + u8 + "typealias string := ;", "`;` stands where the name of a type should be"},
        {start + u8 + "typealias string := u8;", "the type `u8` is defined a second time"},
        {start + u8 + "typedef string u8;", "the type `u8` is defined a second time"},
        {start + "struct s { }; struct s { };", "the type `struct s` is defined a second time"},
        {start + "variant s { }; variant s { };", "the type `variant s` is defined a second time"},
        {start + u8 + "enum s : u8 { A }; enum s : u8 { A };", "the type `enum s` is defined a second time"},
        {start + "event { name = e; fields := 5; };", "5 stands where a type should be"},
        {start + "event { name = e; fields := nothing; };", "there is no type `nothing`"},
        {"env { a = 0x; };", "a number has no digits"},
        {"env { a = 08; };", "a number has no digits"},
        {"env { a = 019; };", "a number is followed by letters"},
        {"env { a = 5x; };", "a number is followed by letters"},
        {"env { a = 0xfg; };", "a number is followed by letters"},
        {"env { a = 18446744073709551616; };", "a number needs more than 64 bits"},
        {"env { a = \"b", "a string has no end"},
        {"env { a = \"b\\", "a string has no end"},
        {"env { a = \"b\\\n\"; };", "a string has no end"},
        {"env { a = \"b\n\"; };", "a string has no end"},
        {"/* a * /", "a comment has no end"},
        {"/*/", "a comment has no end"},
        {"env { a = #; };", "the character 0x23 has no meaning here"},
        {"env { a = \xc3\xa4; };", "the character 0xc3 has no meaning here"},
        {"env { [; };", "`[` stands where a name should be"},
        {"env { ] ; };", "`]` stands where a name should be"},
    };
    for (const auto& [text, what] : cases)
        EXPECT_EQ(understood(text), fmt::format("The metadata, line 1: {}.", what)) << text;
    EXPECT_EQ(understood(start + "stream { id = 3; }; stream { id = 3; };"),
              "The metadata describes stream 3 twice.");
    EXPECT_EQ(
        understood(start +
                   "event { name = a; id = 4; stream_id = 3; }; event { name = b; id = 4; stream_id = 3; };"),
        "The metadata describes two events with id 4 in stream 3.");
    EXPECT_THAT(
        understood(start +
                   "event { name = a; id = 4; stream_id = 3; }; event { name = b; id = 4; stream_id = 2; };"),
        HasSubstr("event 2/4 'b'"));
}

TEST(TsdlRules, CountLinesWhereverTheyEnd) {
    const std::string lines = "// one\n/* two\nthree */ env { a = \"\\n\"; };\n\r\n\t\v\f // five\n";
    EXPECT_EQ(understood(lines + "@"), "The metadata, line 6: the character 0x40 has no meaning here.");
    EXPECT_EQ(understood("env {\n a = 5;\n b = \"open\n"), "The metadata, line 3: a string has no end.");
    EXPECT_EQ(understood("\n/* \n"), "The metadata, line 2: a comment has no end.");
    EXPECT_EQ(
        understood("trace {\n byte_order = le;\n major = 2; };"),
        "The metadata, line 1: this is version 2.0 of the Common Trace Format; version 1.8 is understood.");
    EXPECT_EQ(understood("clock {\n offset = x;\n };"), "The metadata, line 2: a number is needed here.");
    EXPECT_EQ(understood("typealias\ninteger {\n align = 8; } := x;"),
              "The metadata, line 2: the integer has no size.");
    EXPECT_EQ(understood("env { a = " + std::string(41, '_') + "5 b; };"),
              "The metadata, line 1: `b` stands where `;` should be.");
    EXPECT_EQ(understood("env { a = 5 " + std::string(41, 'b') + "; };"),
              "The metadata, line 1: `" + std::string(40, 'b') + "` stands where `;` should be.");
}

TEST(TsdlRules, UnderstandNumbersAndTexts) {
    const auto value = [](std::string_view text) {
        const std::string all =
            understood(fmt::format("env {{ a = {}; }}; trace {{ byte_order = le; major = 1; }};", text));
        const std::size_t at = all.find("env a = ");
        return at == std::string::npos ? all : all.substr(at + 8, all.find("\nstream") - at - 8);
    };
    const std::pair<const char*, const char*> cases[] = {
        {"0", "0"},
        {"00", "0"},
        {"0777", "511"},
        {"0xfF", "255"},
        {"0XfF", "255"},
        {"12uUlL", "12"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"+5", "5"},
        {"-0", "0"},
        {R"("\a\b\f\n\r\t\v\"\\\q")", "\a\b\f\n\r\t\v\"\\q (text)"},
        {"\"// no /* comment\"", "// no /* comment (text)"},
        {"aZ_09", "aZ_09 (text)"},
        {"_", "_ (text)"},
        {"a . b . c", "a.b.c (text)"},
    };
    for (const auto& [text, wanted] : cases)
        EXPECT_EQ(value(text), wanted) << text;
}

/* Labels count on from the one before; without an integer type they are of what is called `int`. */
TEST(TsdlRules, CountLabels) {
    const auto of = [](std::string_view type) {
        const std::string all = understood(
            fmt::format("typealias integer {{ size = 24; }} := int;\n"
                        "trace {{ byte_order = le; major = 1; packet.header := struct {{ {} x; }}; }};",
                        type));
        return all.substr(all.find("x:") + 2, all.find("; }") - all.find("x:") - 2);
    };
    EXPECT_EQ(of("enum { A, B = 5, C, D = 7 ... 9, \"E\", F = -2, G, H, I }"),
              "enum@8(u24b10@8 A=0..0 B=5..5 C=6..6 D=7..9 E=10..10 F=-2..-2 G=-1..-1 H=0..0 I=1..1)");
    EXPECT_EQ(of("enum { A ... 5, B = -3 ... -1 }"), "enum@8(u24b10@8 A=0..5 B=-3..-1)");
    EXPECT_EQ(of("enum { }"), "enum@8(u24b10@8)");
}

/* How many bits a value takes at least; what is bounded by it is in the packets. */
TEST(TsdlRules, KnowTheFewestBitsOfAType) {
    const auto bits = [](std::string_view field) {
        Result<Metadata> parsed = parse(fmt::format(
            "typealias integer {{ size = 8; }} := u8; trace {{ byte_order = le; major = 1; packet.header := "
            "struct {{ u8 n; enum : u8 {{ A }} k; {} x; }}; }};",
            field));
        if (!parsed) return std::string(parsed.error().message());
        const Type& header = *parsed->packet_header;
        const uint64_t inner = header.fields[2].type->min_bits;
        EXPECT_EQ(header.min_bits, inner > UINT64_MAX - 16 ? UINT64_MAX : inner + 16);
        return fmt::format("{} {}", header.fields[2].type->min_bits, header.fields[2].type->depth);
    };
    EXPECT_EQ(bits("u8"), "8 1");
    EXPECT_EQ(bits("integer { size = 5; }"), "5 1");
    EXPECT_EQ(bits("floating_point { exp_dig = 8; mant_dig = 24; }"), "32 1");
    EXPECT_EQ(bits("enum : u8 { A }"), "8 1");
    EXPECT_EQ(bits("string"), "8 1");
    EXPECT_EQ(bits("struct { u8 a; string b; struct { u8 c; integer { size = 3; } d; } e; }"), "27 3");
    EXPECT_EQ(bits("struct { struct { u8 c; } a; u8 b[7]; }"), "64 3");
    EXPECT_EQ(bits("struct { u8 b[7][3]; u8 c[n]; }"), "168 4");
    EXPECT_EQ(bits("variant <k> { u8 A; }"), "0 2");
    EXPECT_EQ(bits("struct { u8 b[18446744073709551615]; u8 c[18446744073709551615]; }"),
              "18446744073709551615 3");
}

TEST(TsdlRules, BoundNestingToTheLevel) {
    const auto nested = [](int structs, int dimensions) {
        std::string type = "u8 x", whole;
        for (int i = 0; i < dimensions; i++)
            type += "[1]";
        for (int i = 0; i < structs; i++)
            type = "struct { " + type + "; } x";
        return understood("typealias integer { size = 8; } := u8; trace { byte_order = le; major = 1; "
                          "packet.header := struct { " +
                          type + "; }; };");
    };
    const auto is_too_deep = [](const std::string& message) {
        return message == "The metadata, line 1: types are nested deeper than 32.";
    };
    /* The struct that they are in is a level, and so is the integer in the innermost. */
    EXPECT_FALSE(is_too_deep(nested(30, 0))) << nested(30, 0);
    EXPECT_TRUE(is_too_deep(nested(31, 0))) << nested(31, 0);
    EXPECT_FALSE(is_too_deep(nested(0, 30)));
    EXPECT_TRUE(is_too_deep(nested(0, 31)));
    EXPECT_FALSE(is_too_deep(nested(15, 15)));
    EXPECT_TRUE(is_too_deep(nested(16, 15)));
    EXPECT_TRUE(is_too_deep(nested(15, 16)));
}

/* Labels of integers as Plumb writes them beside an event. */
TEST(TsdlRules, GiveLabelsToIntegersThatAreLikeThem) {
    const auto with = [](std::string_view alias, std::string_view of, std::string_view field) {
        const std::string all = understood(fmt::format("trace {{ byte_order = le; major = 1; }}; event {{ "
                                                       "name = e; typealias {} := {}; fields := struct {{ "
                                                       "string a; {}; string z; }}; }};",
                                                       of, alias, field));
        const std::size_t at = all.find("a:string@8; ");
        if (at == std::string::npos) return all;
        const std::string last = "; z:string@8; }\n";
        EXPECT_TRUE(all.ends_with(last)) << all;
        return all.substr(at + 12, all.size() - last.size() - at - 12);
    };
    const std::string u16 = "enum : integer { size = 16; } { T = 1 }";
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 16; } vec"), "vec:enum@8(u16b10@8 T=1..1)");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 16; } _vec"),
              "_vec:enum@8(u16b10@8 T=1..1)");
    EXPECT_EQ(with("plumb_flags_of_vec", u16, "integer { size = 16; } _vec"),
              "_vec:flags@8(u16b10@8 T=1..1)");
    EXPECT_EQ(with("plumb_labels_of_other", u16, "integer { size = 16; } _vec"), "_vec:u16b10@8");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 16; } __vec"), "__vec:u16b10@8");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 32; } vec"), "vec:u32b10@8");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 16; signed = true; } vec"), "vec:i16b10@8");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 16; align = 16; } vec"), "vec:u16b10@16");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "string vec"), "vec:string@8");
    EXPECT_EQ(with("plumb_labels_of_vec", "integer { size = 16; }", "integer { size = 16; } vec"),
              "vec:u16b10@8");
    EXPECT_EQ(with("plumb_labels_of_vec", u16, "integer { size = 16; } other, vec, last"),
              "other:u16b10@8; vec:enum@8(u16b10@8 T=1..1); last:u16b10@8");
}

} // namespace
} // namespace plumb::tsdl
