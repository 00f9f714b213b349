// cmake-once
//
// Strings of system calls: which arguments are some, what is told of them, and what becomes of it in the records.
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/syscall_arguments.h"
#include "consumerd/kernel/syscall_texts.h"
#include "consumerd/kernel/translator.h"
#include "tests/support/kernel_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asm/unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace plumb {

static bool operator==(const TextArgument& a, const TextArgument& b) {
    return a.index == b.index && a.name == b.name && a.is_list == b.is_list;
}

namespace {

using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

const char* const marker = "plumb_r1_2_3_cookie";
const uint16_t id_printk = 550, id_rename = 700;
const uint32_t call_rename = __NR_rename;

const char* const call_fields = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n";
const std::string rename_format =
    format_of("sys_enter_rename", "700",
              std::string(call_fields) + "\tfield:const char * oldname;\toffset:16;\tsize:8;\tsigned:0;\n"
                                         "\tfield:const char * newname;\toffset:24;\tsize:8;\tsigned:0;\n");

std::string format_with(const std::string& fields) {
    return format_of("any", "1", call_fields + fields);
}

TEST(text_arguments, are_those_that_the_kernel_only_reads) {
    EXPECT_THAT(text_arguments_of("rename", rename_format),
                ElementsAre(TextArgument{0, "oldname"}, TextArgument{1, "newname"}));
    EXPECT_THAT(
        text_arguments_of("execve",
                          format_with("\tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n"
                                      "\tfield:const char *const * argv;\toffset:24;\tsize:8;\tsigned:0;\n"
                                      "\tfield:const char *const * envp;\toffset:32;\tsize:8;\tsigned:0;\n")),
        ElementsAre(TextArgument{0, "filename"}, TextArgument{1, "argv", true}));
    EXPECT_THAT(text_arguments_of("readlink",
                                  format_with("\tfield:const char * path;\toffset:16;\tsize:8;\tsigned:0;\n"
                                              "\tfield:char * buf;\toffset:24;\tsize:8;\tsigned:0;\n")),
                ElementsAre(TextArgument{0, "path"}));
}

TEST(text_arguments, are_no_data_but_names_of_old_calls) {
    const std::string write = format_with("\tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;\n");
    EXPECT_THAT(text_arguments_of("write", write), IsEmpty());
    const std::string umount = format_with("\tfield:char * name;\toffset:16;\tsize:8;\tsigned:0;\n");
    EXPECT_THAT(text_arguments_of("umount", umount), ElementsAre(TextArgument{0, "name"}));
    EXPECT_THAT(text_arguments_of("sethostname", umount), IsEmpty());
}

TEST(syscall_number, is_that_of_the_headers_also_under_the_kernels_own_names) {
    EXPECT_EQ(syscall_number("openat"), uint32_t{__NR_openat});
    EXPECT_EQ(syscall_number("newfstatat"), uint32_t{__NR_newfstatat});
    EXPECT_EQ(syscall_number("umount"), uint32_t{__NR_umount2});
    EXPECT_EQ(syscall_number("no_such_call"), std::nullopt);
}

/* ---- what stands before a text ---- */

std::string shown(const TextTag& tag) {
    return fmt::format("call {} argument {} element {}{}{}{} state {}", tag.call, tag.index, tag.element,
                       tag.is_end ? " end" : "", tag.is_further ? " further" : "", tag.is_late ? " late" : "",
                       static_cast<int>(tag.state));
}

TEST(text_tag, has_each_of_its_parts_in_bits_of_its_own) {
    EXPECT_EQ(shown(TextTag::from(0)), "call 0 argument 0 element 0 state 0");
    EXPECT_EQ(shown(TextTag::from(~uint64_t{0})), "call 1023 argument 7 element 63 end further late state 3");
    for (uint64_t value = 0; value < 8; value++) {
        EXPECT_EQ(shown(TextTag::from(value)), fmt::format("call 0 argument {} element 0 state 0", value));
        EXPECT_EQ(shown(TextTag::from(value << TextTag::call_shift)),
                  fmt::format("call {} argument 0 element 0 state 0", value));
        EXPECT_EQ(shown(TextTag::from(value << TextTag::element_shift)),
                  fmt::format("call 0 argument 0 element {} state 0", value));
    }
    for (uint64_t value = 0; value < 4; value++)
        EXPECT_EQ(shown(TextTag::from(value << TextTag::state_shift)),
                  fmt::format("call 0 argument 0 element 0 state {}", value));
    EXPECT_EQ(shown(TextTag::from(1 << TextTag::end_shift)), "call 0 argument 0 element 0 end state 0");
    EXPECT_EQ(shown(TextTag::from(1 << TextTag::late_shift)), "call 0 argument 0 element 0 late state 0");
    EXPECT_EQ(shown(TextTag::from(512 << TextTag::call_shift)), "call 512 argument 0 element 0 state 0");
    EXPECT_EQ(shown(TextTag::from(32 << TextTag::element_shift)), "call 0 argument 0 element 32 state 0");
    EXPECT_EQ(shown(TextTag::from(1 << TextTag::further_shift)),
              "call 0 argument 0 element 0 further state 0");
}

TEST(texts_of_a_call, are_of_as_many_arguments_as_a_call_may_have) {
    TextsOfCall texts;
    const auto tell = [&](uint8_t index, std::string_view text,
                          TextTag::State state = TextTag::State::whole) {
        TextTag tag;
        tag.call = 5;
        tag.index = index;
        tag.state = state;
        texts.add({tag, text});
    };
    EXPECT_EQ(texts.longest(), std::string_view("(not read)").size());
    tell(6, "beyond");
    tell(7, "beyond");
    EXPECT_TRUE(texts.is_of(0));
    tell(0, "first");
    tell(5, "the last one of six");
    tell(2, "part", TextTag::State::goes_on);
    EXPECT_TRUE(texts.is_of(5));
    EXPECT_FALSE(texts.is_of(0));
    EXPECT_EQ(texts.longest(), 19u);
    for (unsigned index = 0; index < 9; index++) {
        EXPECT_EQ(texts.is_told(index), index == 0 || index == 2 || index == 5) << index;
        EXPECT_EQ(texts.is_whole(index), index == 0 || index == 5) << index;
        EXPECT_EQ(texts.text(index), index == 0   ? "first"
                                     : index == 2 ? "part"
                                     : index == 5 ? "the last one of six"
                                                  : "(not read)");
    }
    texts.end(); /* of lists alone something is missing then */
    EXPECT_EQ(texts.text(2), "part");
}

TEST(told_text, is_behind_the_marker_and_a_number) {
    const auto told = [](const std::string& message) {
        const auto text = told_text(message, "mark");
        return text ? fmt::format("{}: {}", shown(text->tag), text->text) : "none";
    };
    EXPECT_EQ(told("mark 102:a:b"), "call 1 argument 2 element 0 state 0: a:b");
    EXPECT_EQ(told("mark 0:"), "call 0 argument 0 element 0 state 0: ");
    for (const char* const other :
         {"", "mark", "mark ", "mark1:a", "mark  1:a", "mark 1", "mark 1 :a", "mark :a", "mark x:a",
          "mar 1:a", " mark 1:a", "mark 11111111111111111:a", "mark -1:a"})
        EXPECT_EQ(told(other), "none") << other;
}

class SyscallTextsTest : public testing::Test {
protected:
    SyscallTextsTest() {
        FormatParser parser;
        parser.know_told_texts({{"rename", {{0, "oldname"}, {1, "newname"}}}});
        add(parser.parse("syscalls", rename_format));
        add(parser.parse(
            "bpf_trace",
            format_of("bpf_trace_printk", "550",
                      "\tfield:__data_loc char[] bpf_string;\toffset:8;\tsize:4;\tsigned:0;\n")));
        events_.back().is_ours = true;
        events_.push_back(late_text_event());
    }

    void add(Result<KernelEvent> event) {
        ASSERT_TRUE(event) << event.error().message();
        events_.push_back(std::move(*event));
    }

    Translator& translator() {
        if (!translator_) translator_.emplace(events_, nullptr, nullptr, marker);
        return *translator_;
    }
    void page(std::vector<std::byte> raw) {
        const std::vector<std::byte> bytes = PageBuilder(time_ += 10).event(0, raw).page();
        RawPage page(bytes, {});
        EXPECT_TRUE(translator().translate(page, *to_));
    }
    void print(uint32_t thread, const std::string& message) {
        Bytes raw;
        raw.put(id_printk).put(uint16_t{0}).put(thread);
        raw.put(static_cast<uint32_t>((message.size() + 1) << 16 | 12)).text(message).put('\0');
        page(raw.vector());
    }
    void tell(uint32_t thread, unsigned argument, const std::string& text,
              TextTag::State state = TextTag::State::whole, bool late = false, uint32_t call = call_rename) {
        const bool is_further =
            std::exchange(goes_on_[{thread, argument, late}], state == TextTag::State::goes_on);
        const auto tag = uint64_t{call} << TextTag::call_shift | uint64_t{late} << TextTag::late_shift |
                         uint64_t{is_further} << TextTag::further_shift |
                         static_cast<uint64_t>(state) << TextTag::state_shift | argument;
        print(thread, fmt::format("{} {:x}:{}", marker, tag, text));
    }
    void tell_element(unsigned element, const std::string& text, TextTag::State state = TextTag::State::whole,
                      bool is_end = false, bool late = false) {
        const bool is_further =
            std::exchange(goes_on_[{7, element << 8, late}], !is_end && state == TextTag::State::goes_on);
        const auto tag =
            uint64_t{element} << TextTag::element_shift | uint64_t{is_further} << TextTag::further_shift |
            uint64_t{call_rename} << TextTag::call_shift | uint64_t{late} << TextTag::late_shift |
            uint64_t{is_end} << TextTag::end_shift | static_cast<uint64_t>(state) << TextTag::state_shift | 1;
        print(7, fmt::format("{} {:x}:{}", marker, tag, text));
    }
    void rename_begins(uint32_t thread) {
        page(Bytes()
                 .put(id_rename)
                 .put(uint16_t{0})
                 .put(thread)
                 .put(call_rename)
                 .put(uint32_t{0})
                 .put(uint64_t{0x1000})
                 .put(uint64_t{0x2000})
                 .vector());
    }
    /* "thread event: first|second|" */
    std::vector<std::string> records() const {
        std::vector<std::string> found;
        const std::span<const std::byte> all = to_->piece().records;
        for (size_t at = 0; at < all.size(); at = (at + 7) & ~size_t{7}) {
            plumb_record record;
            std::memcpy(&record, all.data() + at, sizeof(record));
            std::string fields(reinterpret_cast<const char*>(all.data()) + at + sizeof(record),
                               record.length - sizeof(record));
            std::replace(fields.begin(), fields.end(), '\0', '|');
            found.push_back(fmt::format("{} {}: {}", record.thread_id, record.event_id, fields));
            at += record.length;
        }
        return found;
    }

    std::vector<KernelEvent> events_;
    std::optional<Translator> translator_;
    TranslatedRecords records_, others_{1};
    TranslatedRecords* to_ = &records_; /* by CPU */
    uint64_t time_ = 0;
    std::map<std::tuple<uint32_t, unsigned, bool>, bool> goes_on_; /* by thread, what, and whether late */
};

/* What was told of a call whose event was lost is not the next call's, though both are renames. */
TEST_F(SyscallTextsTest, AreForgottenWhereEventsWereLost) {
    to_ = &others_;
    tell(7, 0, "/old/from");
    to_ = &records_; /* its thread is on another CPU by now */
    translator().forget_texts();
    tell(7, 1, "/to");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: (not read)|/to|"));
}

TEST_F(SyscallTextsTest, OfWhichTheFirstPieceWasLostAreNotShownByTheirRest) {
    tell(7, 0, "/from/", TextTag::State::goes_on);
    tell(7, 1, "/to");
    translator().forget_texts();
    tell(7, 0, "and", TextTag::State::goes_on);
    tell(7, 0, "so on");
    tell(7, 1, "/to");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: (not read)|/to|"));
}

/* The end of the first one was lost, with its event. */
TEST_F(SyscallTextsTest, BeginAnewWithAFirstPiece) {
    tell(7, 0, "/old/", TextTag::State::goes_on);
    goes_on_.clear();
    tell(7, 0, "/new/", TextTag::State::goes_on);
    tell(7, 0, "from");
    tell(7, 1, "/to");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /new/from|/to|"));
}

TEST_F(SyscallTextsTest, StandInPlaceOfThePointers) {
    tell(7, 0, "/from");
    tell(7, 1, "/to");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /from|/to|"));
    EXPECT_EQ(translator_->seen_events(), 3u);
    EXPECT_EQ(translator_->left_out_events(), 2u);
}

TEST_F(SyscallTextsTest, AreThoseOfTheThread) {
    tell(7, 0, "/seven");
    tell(8, 0, "/eight");
    tell(8, 1, "");
    tell(7, 1, "/:colon");
    rename_begins(8);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("8 700: /eight||", "7 700: /seven|/:colon|"));
}

TEST_F(SyscallTextsTest, AreOfOneCallAndNoOther) {
    rename_begins(7);
    tell(7, 0, "/once");
    tell(7, 1, "/gone");
    rename_begins(7);
    rename_begins(7);
    tell(7, 0, "/of another call", TextTag::State::whole, false, call_rename + 1);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: (not read)|(not read)|", "7 700: /once|/gone|",
                                       "7 700: (not read)|(not read)|", "7 700: (not read)|(not read)|"));
}

TEST_F(SyscallTextsTest, OfACallThatWasLeftOutAreForgotten) {
    tell(7, 0, "/filtered");
    tell(7, 1, "/out");
    tell(7, 0, "/then");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /then|(not read)|"));
}

/* A virtual machine stands still for as long as another one has its processors. */
TEST_F(SyscallTextsTest, ToldBeforeTheMachineStoodStillCountWhereNothingWasLost) {
    constexpr uint64_t still = 1'000'000'000;
    const auto call_with_pauses = [&] {
        tell(7, 0, "/a", TextTag::State::goes_on);
        time_ += still;
        tell(7, 0, "/b");
        time_ += still;
        tell(7, 1, "/c");
        time_ += still;
        rename_begins(7);
    };
    bool has_lost_events = false;
    translator().ask_for_losses([&] { return has_lost_events; });
    call_with_pauses();
    has_lost_events = true;
    call_with_pauses();
    EXPECT_THAT(records(), ElementsAre("7 700: /a/b|/c|", "7 700: (not read)|(not read)|"));
}

/* What was told of a thread's call on one CPU may be read before its last call, on another CPU, is. */
TEST_F(SyscallTextsTest, AreOfTheCallOnTheirCpu) {
    to_ = &records_;
    time_ = 100;
    tell(7, 0, "/later");
    tell(7, 1, "/later");
    to_ = &others_;
    time_ = 0;
    tell(7, 0, "/earlier");
    tell(7, 1, "/earlier");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /earlier|/earlier|"));
    rename_begins(7); /* what was told of it was lost */
    EXPECT_THAT(records(), ElementsAre("7 700: /earlier|/earlier|", "7 700: (not read)|(not read)|"));
    to_ = &records_;
    time_ = 200;
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /later|/later|"));
}

TEST_F(SyscallTextsTest, AreFoundWhereTheThreadWasMovedFrom) {
    to_ = &others_;
    tell(7, 0, "/moved");
    tell(7, 1, "/moved");
    to_ = &records_;
    rename_begins(7);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /moved|/moved|", "7 700: (not read)|(not read)|"));
}

TEST_F(SyscallTextsTest, ComeInPieces) {
    tell(7, 0, "/a", TextTag::State::goes_on);
    tell(7, 0, "/b", TextTag::State::goes_on);
    tell(7, 0, "/c");
    tell(7, 1, "/half", TextTag::State::goes_on);
    tell(7, 1, "", TextTag::State::not_read);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: /a/b/c|/half...|"));
}

TEST_F(SyscallTextsTest, ThatAreNoneOrNotThereAreSaidToBe) {
    tell(7, 0, "", TextTag::State::null);
    tell(7, 1, "", TextTag::State::not_read);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: (null)|(not read)|"));
}

TEST_F(SyscallTextsTest, ToldLateAreEventsOfTheirOwn) {
    tell(7, 0, "", TextTag::State::not_read);
    tell(7, 1, "/to");
    rename_begins(7);
    tell(7, 0, "/fr", TextTag::State::goes_on, true);
    tell(7, 0, "om", TextTag::State::whole, true);
    EXPECT_THAT(records(), ElementsAre("7 700: (not read)|/to|", "7 65535: rename|oldname|/from|"));
    EXPECT_EQ(translator_->left_out_events(), 3u);
}

TEST_F(SyscallTextsTest, OfAListAreToldOneByOne) {
    tell_element(1, "ls");
    tell_element(2, "-", TextTag::State::goes_on);
    tell_element(2, "l");
    tell_element(3, "", TextTag::State::whole, true);
    tell(7, 0, "/bin/ls");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre(R"(7 700: /bin/ls|["ls", "-l"]|)"));
}

TEST_F(SyscallTextsTest, OfAListThatWasNotReadAreToldLate) {
    tell_element(1, "ls");
    tell_element(2, "", TextTag::State::not_read);
    tell_element(3, "", TextTag::State::goes_on, true);
    rename_begins(7);
    tell_element(1, "ls", TextTag::State::whole, false, true);
    tell_element(2, "-l", TextTag::State::whole, false, true);
    tell_element(3, "", TextTag::State::whole, true, true);
    EXPECT_THAT(records(), ElementsAre(R"(7 700: (not read)|["ls", (not read), ...]|)",
                                       R"(7 65535: rename|newname|["ls", "-l"]|)"));
}

TEST_F(SyscallTextsTest, OfAListAreOfOneCallAndNoOther) {
    tell_element(1, "left");
    tell_element(2, "out");
    tell_element(1, "then");
    rename_begins(7);
    tell_element(1, "left out");
    tell_element(2, "", TextTag::State::whole, true);
    tell_element(1, "", TextTag::State::whole, true);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre(R"(7 700: (not read)|["then", ...]|)", "7 700: (not read)|[]|"));
}

TEST_F(SyscallTextsTest, OfOthersAreNotTakenForOurs) {
    for (const std::string& message :
         {std::string(marker), fmt::format("{} ", marker), fmt::format("{} 10", marker),
          fmt::format("{} :x", marker), fmt::format("{}f 10:x", marker), std::string("anything")})
        print(7, message);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 700: (not read)|(not read)|"));
    EXPECT_EQ(translator_->left_out_events(), 0u);
}

TEST_F(SyscallTextsTest, OfOthersAreInTheTraceIfSomebodyAskedForThem) {
    events_[1].is_ours = false;
    tell(7, 0, "/from");
    print(7, "anything");
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre("7 550: anything|", "7 700: /from|(not read)|"));
}

TEST_F(SyscallTextsTest, WithoutEndAreCut) {
    for (int i = 0; i < 1000; i++)
        tell(7, 0, std::string(383, 'x'), TextTag::State::goes_on);
    rename_begins(7);
    EXPECT_THAT(records(), ElementsAre(testing::SizeIs(testing::Lt(10000u))));
    EXPECT_EQ(translator_->damaged_events(), 0u);
}

} // namespace
} // namespace plumb
