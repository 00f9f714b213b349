// cmake-once
//
// What a list of strings that a system call was given looks like, however little of it was told.
#include "consumerd/kernel/list_text.h"

#include <gtest/gtest.h>

#include <string>

namespace plumb {
namespace {

using End = ListText::End;

ListText list_of(std::initializer_list<const char*> elements) {
    ListText list;
    unsigned number = 0;
    for (const char* const element : elements)
        list.add(++number, element, false);
    return list;
}

std::string ended(ListText list, unsigned element, End how) {
    list.end(element, how);
    EXPECT_TRUE(list.is_ended());
    return list.text();
}

TEST(ListText, IsWrittenAsInC) {
    EXPECT_EQ(ended(list_of({}), 1, End::whole), "[]");
    EXPECT_EQ(ended(list_of({"ls", "-l"}), 3, End::whole), R"(["ls", "-l"])");
    EXPECT_EQ(ended(list_of({"", "a \"b\"", "\\", "\n\t\x1b\xff", "caf\xc3\xa9"}), 6, End::whole),
              R"(["", "a \"b\"", "\\", "\n\t\x1b\xff", "café"])");
}

TEST(ListText, SaysWhatIsMissing) {
    EXPECT_EQ(ended(list_of({"ls"}), 2, End::more), R"(["ls", ...])");
    EXPECT_EQ(ended(list_of({}), 1, End::more), "[...]");
    EXPECT_EQ(ended(list_of({}), 1, End::not_read), "(not read)");
    EXPECT_EQ(ended(list_of({"ls"}), 2, End::not_read), R"(["ls", (not read), ...])");
    EXPECT_EQ(ended(list_of({"ls"}), 4, End::whole), R"(["ls", (not read), (not read)])");
    ListText list = list_of({"ls"});
    list.add_not_read(2);
    list.add(4, "-l", false);
    EXPECT_EQ(ended(list, 5, End::whole), R"(["ls", (not read), (not read), "-l"])");
}

TEST(ListText, JoinsThePiecesOfAString) {
    ListText list;
    list.add(1, "caf\xc3", true);
    list.add(1, "\xa9", false);
    list.add(2, "cut", true);
    list.add_not_read(2);
    list.add(3, "lost", true);
    list.add(4, "behind", false);
    list.add(5, "open", true);
    EXPECT_EQ(ended(list, 6, End::whole), R"(["café", "cut"..., "lost"..., "behind", "open"...])");
}

TEST(ListText, WhoseEndWasNotToldMayHaveMore) {
    ListText list = list_of({"ls"});
    list.add(2, "-", true);
    list.end_untold();
    EXPECT_EQ(list.text(), R"(["ls", "-"..., ...])");
    ListText none;
    none.end_untold();
    EXPECT_FALSE(none.is_ended());
}

TEST(ListText, TakesNoElementTwice) {
    ListText list = list_of({"ls"});
    EXPECT_FALSE(list.takes(1));
    EXPECT_TRUE(list.takes(2));
    list.add(2, "-", true);
    EXPECT_TRUE(list.takes(2));
    EXPECT_FALSE(list.takes(1));
}

TEST(ListText, HasRoomInARecordWhateverIsInIt) {
    for (const char byte : {'x', '\x01', '"'}) {
        ListText list;
        for (unsigned element = 1; element <= 60; element++)
            for (unsigned piece = 0; piece < 100; piece++)
                list.add(element, std::string(383, byte), piece < 99);
        const std::string text = ended(list, 61, End::whole);
        EXPECT_LE(text.size(), 32768u);
        EXPECT_GT(text.size(), 20000u);
        EXPECT_TRUE(text.ends_with(R"("..., ...])")) << text.substr(text.size() - 20);
    }
}

} // namespace
} // namespace plumb
