// cmake-once
//
// The events of a file, struct by struct: what each field of them means, and what is said of those that can not be shown. For how
// programs are linked: elf_events_test.cc.
#include "consumerd/event/elf_events.h"

#include "tests/support/elf_header.h"

#include <plumb/abi/event.h>
#include <plumb/runtime.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/* As they lie in a program, with addresses for pointers. */
struct Label {
    int64_t value;
    uint64_t name;
};
struct Field {
    uint64_t name, labels;
    uint16_t label_count, array_length;
    uint8_t type, size, flags, reserved;
};
struct Info {
    uint64_t provider, name, source_file, format, fields;
    uint32_t source_line;
    uint16_t field_count;
    uint8_t log_level, version;
};
static_assert(sizeof(Label) == sizeof(plumb_event_label) && sizeof(Field) == sizeof(plumb_event_field) &&
              sizeof(Info) == sizeof(plumb_event_info));

/* A program that is loaded where it is linked for, in one piece. */
class Program {
public:
    static constexpr uint64_t begin = 0x400000;

    Program() : bytes_(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)) {}
    template <typename T>
    uint64_t add(const T& value) {
        return add_bytes(std::as_bytes(std::span(&value, 1)));
    }
    uint64_t string(const std::string& text) {
        return add_bytes(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
    }
    uint64_t event(uint64_t info) {
        plumb_event event{};
        std::memcpy(reinterpret_cast<std::byte*>(&event) + offsetof(plumb_event, info), &info, sizeof(info));
        return add(event);
    }
    uint64_t fields(const std::vector<Field>& all) { return add_bytes(std::as_bytes(std::span(all))); }
    Info info(const std::string& provider, const std::string& name) {
        Info info{};
        info.provider = string(provider);
        info.name = string(name);
        info.log_level = 6;
        info.version = PLUMB_RUNTIME_VERSION;
        return info;
    }
    /* An event of it; what is said of it is said of its number. */
    void add_event(const Info& info) { entries_.push_back(event(add(info))); }
    void add_entry(uint64_t event) { entries_.push_back(event); }

    /* `change`: of section plumb_events. */
    ElfEvents read(const std::function<void(Elf64_Shdr&)>& change = {},
                   const char* section = "plumb_events") {
        Elf64_Shdr headers[3]{};
        const std::string names = std::string(1, '\0') + section + '\0' + ".shstrtab" + '\0';
        headers[1].sh_name = 1;
        headers[1].sh_type = SHT_PROGBITS;
        headers[1].sh_flags = SHF_ALLOC;
        headers[1].sh_addr = add_bytes(std::as_bytes(std::span(entries_)));
        headers[1].sh_size = entries_.size() * 8;
        if (change) change(headers[1]);
        headers[2].sh_name = static_cast<uint32_t>(2 + std::strlen(section));
        headers[2].sh_type = SHT_STRTAB;
        headers[2].sh_offset = add_bytes(std::as_bytes(std::span(names))) - begin;
        headers[2].sh_size = names.size();
        Elf64_Ehdr header = test::elf_header(1, add(headers) - begin, 3, 2);
        header.e_type = ET_EXEC;
        Elf64_Phdr segment{};
        segment.p_type = PT_LOAD;
        segment.p_vaddr = begin;
        segment.p_filesz = segment.p_memsz = bytes_.size();
        std::memcpy(bytes_.data(), &header, sizeof(header));
        std::memcpy(bytes_.data() + sizeof(header), &segment, sizeof(segment));
        const auto found = elf_events_of_bytes(bytes_, "program");
        EXPECT_TRUE(found) << found.error().message();
        return found ? *found : ElfEvents{};
    }

private:
    uint64_t add_bytes(std::span<const std::byte> content) {
        bytes_.resize((bytes_.size() + 15) / 16 * 16);
        const uint64_t address = begin + bytes_.size();
        bytes_.insert(bytes_.end(), content.begin(), content.end());
        return address;
    }
    std::vector<std::byte> bytes_;
    std::vector<uint64_t> entries_;
};

std::vector<std::string> names_of(const ElfEvents& found) {
    std::vector<std::string> names;
    for (const EventDescription& event : found.events)
        names.push_back(event.full_name());
    return names;
}

TEST(ElfEventStructs, AreShownAsTheRuntimeWouldDescribeThem) {
    Program program;
    const uint64_t labels =
        program.add(std::array{Label{-5, program.string("low")}, Label{300, program.string("high")}});
    Info info = program.info("shop", "sold");
    const auto field = [&](const std::string& name, plumb_field_type type, uint8_t size, uint8_t flags = 0,
                           uint16_t array_length = 0, uint16_t label_count = 0) {
        return Field{program.string(name),       labels, label_count, array_length,
                     static_cast<uint8_t>(type), size,   flags,       0};
    };
    const std::vector<Field> fields{field("a", PLUMB_FIELD_INTEGER, 2),
                                    field("b", PLUMB_FIELD_INTEGER, 4, PLUMB_FIELD_SIGNED),
                                    field("c", PLUMB_FIELD_INTEGER, 8, PLUMB_FIELD_HEX),
                                    field("d", PLUMB_FIELD_ARRAY, 1, 0, 12),
                                    field("e", PLUMB_FIELD_ENUM, 2, PLUMB_FIELD_SIGNED, 0, 2),
                                    field("f", PLUMB_FIELD_ENUM, 2, 0, 0, 0),
                                    field("g", PLUMB_FIELD_INTEGER, 2, 0, 0, 2),
                                    field("h", PLUMB_FIELD_SEQUENCE, 4)};
    info.fields = program.fields(fields);
    info.field_count = static_cast<uint16_t>(fields.size());
    info.source_file = program.string("shop.c");
    info.source_line = 70'000;
    info.log_level = 3;
    program.add_event(info);
    const ElfEvents found = program.read();
    EXPECT_TRUE(found.links_plumb);
    EXPECT_THAT(found.notes, IsEmpty());
    ASSERT_EQ(found.events.size(), 1u);
    const EventDescription& event = found.events[0];
    EXPECT_EQ(event.full_name(), "shop:sold");
    EXPECT_EQ(event.log_level, 3);
    EXPECT_EQ(event.source_file, "shop.c");
    EXPECT_EQ(event.source_line, 70'000u);
    std::vector<std::string> shown;
    for (const EventField& each : event.fields)
        shown.push_back(each.name + " " + each.type_name());
    EXPECT_THAT(shown,
                ElementsAre("a u16", "b i32", "c x64", "d u8[12]", "e enum i16 { low = -5, high = 300 }",
                            "f enum u16 {  }", "g u16", "h u32[]"));
    EXPECT_THAT(event.fields[6].labels, IsEmpty()) << "of enumerations alone";
}

/* "enum i64 { low = 1 ... 2 }"; nothing, if the event can not be read. */
std::string type_of_ranges(int64_t first, int64_t last, uint8_t flags, const char* other_name = "low",
                           uint16_t label_count = 2) {
    Program program;
    Info info = program.info("shop", "sold");
    const uint64_t labels =
        program.add(std::array{Label{first, program.string("low")}, Label{last, program.string(other_name)}});
    info.fields = program.fields({{program.string("e"), labels, label_count, 0, PLUMB_FIELD_ENUM, 8,
                                   static_cast<uint8_t>(PLUMB_FIELD_RANGES | flags), 0}});
    info.field_count = 1;
    program.add_event(info);
    const ElfEvents found = program.read();
    EXPECT_EQ(found.events.size() + found.notes.size(), 1u);
    return found.events.empty() ? "" : found.events[0].fields[0].type_name();
}

TEST(ElfEventStructs, HaveRangesOfValues) {
    EXPECT_EQ(type_of_ranges(-9, 9, PLUMB_FIELD_SIGNED), "enum i64 { low = -9 ... 9 }");
    EXPECT_EQ(type_of_ranges(9, 9, PLUMB_FIELD_SIGNED), "enum i64 { low = 9 }");
    EXPECT_EQ(type_of_ranges(9, -1, 0), "enum u64 { low = 9 ... 18446744073709551615 }");
    EXPECT_EQ(type_of_ranges(9, -1, PLUMB_FIELD_SIGNED), "") << "it ends before it begins";
    EXPECT_EQ(type_of_ranges(-1, 9, 0), "");
    EXPECT_EQ(type_of_ranges(1, 9, 0, "high"), "");
    EXPECT_EQ(type_of_ranges(1, 9, 0, "low", 1), "") << "it has no end";
}

TEST(ElfEventStructs, AreShownOnceInTheOrderOfTheirNames) {
    Program program;
    program.add_event(program.info("b", "z"));
    program.add_event(program.info("b", "a"));
    program.add_event(program.info("a", "z"));
    program.add_event(program.info("b", "a")); /* as in another source file */
    Info other = program.info("b", "a");
    other.log_level = 7;
    program.add_event(other); /* no more the same */
    const uint64_t info = program.add(program.info("c", "once")), event = program.event(info);
    program.add_entry(event);
    program.add_entry(event);
    program.add_entry(program.event(info));
    program.add_entry(0); /* what the linker leaves between sections */
    program.add_entry(program.event(0));
    program.add_entry(0x900000);
    const ElfEvents found = program.read();
    EXPECT_THAT(names_of(found), ElementsAre("a:z", "b:a", "b:a", "b:z", "c:once"));
    EXPECT_THAT(found.notes, ElementsAre("The description of event 9 lies outside of the file."));
    EXPECT_EQ(found.events[0].source_file, "");
    Program with_fields;
    Info first = with_fields.info("p", "n"), second = first;
    const std::vector<Field> one{{with_fields.string("f"), 0, 0, 0, PLUMB_FIELD_INTEGER, 4, 0, 0}};
    first.fields = with_fields.fields(one);
    first.field_count = 1;
    with_fields.add_event(first);
    with_fields.add_event(second);
    EXPECT_EQ(with_fields.read().events.size(), 2u);
}

/* Each one that can not be shown is said, and the others are shown. */
TEST(ElfEventStructs, ThatCanNotBeShownAreSaidByTheirNumbers) {
    const auto note_after = [](const std::function<void(Program&, Info&)>& change) {
        Program program;
        program.add_event(program.info("a", "sound"));
        Info info = program.info("b", "changed");
        change(program, info);
        program.add_event(info);
        const ElfEvents found = program.read();
        EXPECT_EQ(found.events.size(), found.notes.empty() ? 2u : 1u);
        EXPECT_LE(found.notes.size(), 1u);
        return found.notes.empty() ? "" : found.notes[0];
    };
    const auto after_field = [&](const std::function<void(Program&, Field&)>& change) {
        return note_after([&](Program& program, Info& info) {
            Field field{program.string("f"), 0, 0, 0, PLUMB_FIELD_INTEGER, 4, 0, 0};
            change(program, field);
            info.fields = program.fields({field});
            info.field_count = 1;
        });
    };
    EXPECT_EQ(note_after([](Program&, Info&) {}), "");
    for (const int version : {PLUMB_RUNTIME_VERSION - 1, PLUMB_RUNTIME_VERSION + 1})
        EXPECT_EQ(note_after([=](Program&, Info& info) { info.version = static_cast<uint8_t>(version); }),
                  fmt::format("Event 1 was compiled against version {} of Plumb's runtime; this plumb "
                              "understands version {}.",
                              version, PLUMB_RUNTIME_VERSION));
    const std::string nameless = "Event 1 has no name.";
    EXPECT_EQ(note_after([](Program&, Info& info) { info.provider = 0; }), nameless);
    EXPECT_EQ(note_after([](Program&, Info& info) { info.name = 0; }), nameless);
    EXPECT_EQ(note_after([](Program& program, Info& info) { info.provider = program.string(""); }), nameless);
    EXPECT_EQ(note_after([](Program& program, Info& info) { info.name = program.string(""); }), nameless);
    EXPECT_EQ(note_after([](Program&, Info& info) { info.name = 0x900000; }), nameless);
    EXPECT_EQ(note_after([](Program&, Info& info) { info.source_file = 0x900000; }), "");

    const auto with_fields = [&](uint16_t count) {
        return note_after([=](Program& program, Info& info) {
            info.fields = program.fields(
                std::vector<Field>(count, {program.string("f"), 0, 0, 0, PLUMB_FIELD_INTEGER, 4, 0, 0}));
            info.field_count = count;
        });
    };
    EXPECT_EQ(with_fields(PLUMB_EVENT_MAX_FIELDS), "");
    EXPECT_EQ(with_fields(PLUMB_EVENT_MAX_FIELDS + 1),
              fmt::format("b:changed has {} fields, more than {}.", PLUMB_EVENT_MAX_FIELDS + 1,
                          PLUMB_EVENT_MAX_FIELDS));
    const std::string unreadable = "The fields of b:changed can not be read.";
    EXPECT_EQ(after_field([](Program&, Field&) {}), "");
    EXPECT_EQ(note_after([](Program&, Info& info) { info.field_count = 1; }), unreadable)
        << "they are nowhere";
    for (const int type : {PLUMB_FIELD_INTEGER - 1, PLUMB_FIELD_SEQUENCE + 1})
        EXPECT_EQ(after_field([=](Program&, Field& field) { field.type = static_cast<uint8_t>(type); }),
                  unreadable);
    EXPECT_EQ(after_field([](Program&, Field& field) { field.name = 0; }), unreadable)
        << "and no format names it";
    const auto with_labels = [&](uint64_t labels, uint16_t count) {
        return after_field([=](Program&, Field& field) {
            field.type = PLUMB_FIELD_ENUM;
            field.labels = labels;
            field.label_count = count;
        });
    };
    EXPECT_EQ(with_labels(0x900000, 0), "");
    EXPECT_EQ(with_labels(0x900000, 1), unreadable);
    EXPECT_EQ(after_field([](Program& program, Field& field) {
                  field.type = PLUMB_FIELD_ENUM;
                  field.labels = program.add(Label{1, 0});
                  field.label_count = 1;
              }),
              unreadable)
        << "a label without a name";
}

/* Its format names the fields. */
TEST(ElfEventStructs, OfAMarkerHaveTheNamesOfItsFormat) {
    Program program;
    Info info = program.info("shop", "login");
    info.format = program.string("id %d path %s");
    info.fields = program.fields({{0, 0, 0, 0, PLUMB_FIELD_INTEGER, 4, PLUMB_FIELD_SIGNED, 0},
                                  {0, 0, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0}});
    info.field_count = 2;
    program.add_event(info);
    const ElfEvents found = program.read();
    ASSERT_EQ(found.events.size(), 1u);
    EXPECT_EQ(found.events[0].fields[0].name, "id");
    EXPECT_EQ(found.events[0].fields[1].name, "path");
}

TEST(ElfEventStructs, OfWhatLiesOutsideOfTheFileAreFew) {
    Program program;
    program.add_event(program.info("a", "first"));
    program.add_entry(program.event(0x900000));
    ElfEvents found = program.read();
    EXPECT_THAT(names_of(found), ElementsAre("a:first"));
    EXPECT_THAT(found.notes, ElementsAre("The description of event 1 lies outside of the file."));
    Program short_one;
    short_one.add_event(short_one.info("a", "first"));
    found = short_one.read([](Elf64_Shdr& section) { section.sh_addr = 0x900000; });
    EXPECT_THAT(found.events, IsEmpty());
    EXPECT_THAT(found.notes, ElementsAre("Entry 0 leads out of the file."));
    /* Not a section of ours: it is left after as many. */
    Program long_one;
    found = long_one.read([](Elf64_Shdr& section) {
        section.sh_addr = 0x900000;
        section.sh_size = 8 << 20;
    });
    ASSERT_EQ(found.notes.size(), 20u);
    EXPECT_EQ(found.notes.front(), "Entry 0 leads out of the file.");
    EXPECT_EQ(found.notes.back(), "Entry 19 leads out of the file.");
    Program too_long;
    found = too_long.read([](Elf64_Shdr& section) {
        section.sh_addr = 0x900000;
        section.sh_size = (8 << 20) + 8;
    });
    ASSERT_EQ(found.notes.size(), 20u);
    EXPECT_EQ(found.notes.front(), "Only the first 1048576 events are shown.");
    EXPECT_EQ(found.notes.back(), "Entry 18 leads out of the file.");
}

/* Each of them is read as far as a string may go. */
TEST(ElfEventStructs, OfStringsWithoutAnEndAreFew) {
    constexpr std::size_t few = (std::size_t{64} << 20) / (PLUMB_EVENT_MAX_DESCRIPTION_BYTES + 3 * 64);
    const auto notes = [](std::size_t count) {
        Program program;
        Info info = program.info("shop", "event");
        info.source_file = program.string(std::string(PLUMB_EVENT_MAX_DESCRIPTION_BYTES + 1, 'x'));
        for (std::size_t i = 0; i < count; i++)
            program.add_event(info);
        const ElfEvents found = program.read();
        EXPECT_THAT(names_of(found), ElementsAre("shop:event")) << "without its place";
        return found.notes;
    };
    EXPECT_THAT(notes(few - 2), IsEmpty());
    EXPECT_THAT(notes(few), ElementsAre("Its events have too many strings; the others are not shown."));
}

TEST(ElfEventStructs, AreNoneWithoutTheirSection) {
    Program program;
    program.add_event(program.info("a", "first"));
    const ElfEvents found = program.read({}, "other_events");
    EXPECT_FALSE(found.links_plumb);
    EXPECT_THAT(found.events, IsEmpty());
    EXPECT_THAT(found.notes, IsEmpty());
}

} // namespace
} // namespace plumb
