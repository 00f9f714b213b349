// cmake-once
// Messages that control sessions: taken in pieces, and what is none is refused before it is kept; a description is given as it was
// taken.
#include "consumerd/daemon/message.h"
#include "consumerd/daemon/session_description.h"

#include <gmock/gmock.h>

#include <string>

using namespace plumb;
using ::testing::HasSubstr;

namespace {

const char* const description =
    R"({"format":1,"name":"web","output":"/tmp/web","mode":"block","block_timeout_ns":5,"clock":"tsc","rules":[)"
    R"({"event":"shop:*","filter":"id > 7","log_level":"warning","process":42},{"event":"!shop:noise"}],"started":true})";

std::string why_refused(const std::string& change_from, const std::string& change_to) {
    std::string text = description;
    const std::size_t at = text.find(change_from);
    EXPECT_NE(at, std::string::npos) << change_from;
    text.replace(at, change_from.size(), change_to);
    const auto object = parse_message(text);
    if (!object) return object.error().message();
    const auto session = read_description(*object);
    return session ? "" : session.error().message();
}

TEST(ControlMessage, ComesInPieces) {
    const std::string bytes = encode_message("{\"a\":1}") + encode_message("{}");
    MessageReader reader(100);
    std::vector<std::string> taken;
    for (const char byte : bytes) {
        reader.add({&byte, 1});
        auto text = reader.next();
        ASSERT_TRUE(text);
        if (*text) taken.push_back(**text);
    }
    EXPECT_EQ(taken, (std::vector<std::string>{"{\"a\":1}", "{}"}));
    EXPECT_FALSE(reader.has_part());
}

TEST(ControlMessage, WhatIsNoneIsRefusedAtItsFirstByte) {
    MessageReader reader(100);
    reader.add("G");
    EXPECT_FALSE(reader.next());
}

TEST(ControlMessage, OneThatIsTooLongIsRefusedByItsHead) {
    MessageReader reader(100);
    reader.add(encode_message(std::string(101, ' ')).substr(0, message_head_bytes));
    const auto text = reader.next();
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().message(), HasSubstr("101 bytes is too long"));
}

TEST(ControlMessage, AnotherVersionIsNamed) {
    std::string bytes = encode_message("{}");
    bytes[4] = 9;
    MessageReader reader(100);
    reader.add(bytes);
    const auto text = reader.next();
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().message(), HasSubstr("version 9"));
}

TEST(ControlMessage, AnAnswerIsAResultOrAnError) {
    const auto good = result_of_answer(text_of(good_answer({{"directory", "/tmp"}})));
    ASSERT_TRUE(good);
    EXPECT_EQ(text_of(*good), R"({"directory":"/tmp"})");
    const auto bad = result_of_answer(text_of(bad_answer(Error("It is gone.").as(2))));
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().message(), "It is gone.");
    EXPECT_EQ(bad.error().number(), 2);
}

TEST(SessionDescriptionTest, IsGivenAsItWasTaken) {
    const auto session = read_description(*parse_message(description));
    ASSERT_TRUE(session) << session.error().message();
    EXPECT_EQ(text_of(description_as_json(*session, false)), description);
}

TEST(SessionDescriptionTest, WhatMakesNoSenseIsNamed) {
    EXPECT_THAT(why_refused("\"format\":1", "\"format\":2"), HasSubstr("format 2"));
    EXPECT_THAT(why_refused("\"web\"", "\"../web\""), HasSubstr("can not be the name"));
    EXPECT_THAT(why_refused("\"web\"", "\"w\\u0000b\""), HasSubstr("without NUL"));
    EXPECT_THAT(why_refused("\"/tmp/web\"", "\"web\""), HasSubstr("no path from the root"));
    EXPECT_THAT(why_refused("\"block\"", "\"sideways\""), HasSubstr("There is no mode"));
    EXPECT_THAT(why_refused("\"tsc\"", "7"), HasSubstr("\"clock\" is not a text"));
    EXPECT_THAT(why_refused("id > 7", "id >"), HasSubstr("The filter of shop:*"));
    EXPECT_THAT(why_refused("\"process\":42", "\"process\":-42"), HasSubstr("\"process\" is not a number"));
    EXPECT_THAT(why_refused("\"process\":42", "\"process\":42,\"executable\":\"x\""),
                HasSubstr("not for two of these"));
    EXPECT_THAT(why_refused("\"started\"", "\"sTarted\""), HasSubstr("\"sTarted\" is not known"));
    EXPECT_THAT(why_refused("\"block_timeout_ns\":5", "\"rotate_period_ns\":5"), HasSubstr("at least 100ms"));
}

} // namespace
