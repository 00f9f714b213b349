// cmake-once
/* A metadata file is a text, or packets of one, of either byte order; what is wrong with the packets is told. And what is asked of
 * the metadata by its name is found by that. */
#include "trace/ctf/tsdl.h"

#include <gtest/gtest.h>

#include <cstring>

namespace plumb::tsdl {
namespace {

std::string packets(std::string_view text, const std::vector<std::size_t>& cuts, bool swap,
                    std::size_t padding) {
    std::string all;
    std::size_t from = 0;
    const auto put = [&](std::string& to, std::size_t at, uint32_t value) {
        if (swap) value = __builtin_bswap32(value);
        std::memcpy(to.data() + at, &value, 4);
    };
    for (const std::size_t cut : cuts) {
        std::string packet(37, '\0');
        put(packet, 0, 0x75d11d57);
        packet += text.substr(from, cut - from);
        put(packet, 24, static_cast<uint32_t>(packet.size() * 8));
        packet.append(padding, '#');
        put(packet, 28, static_cast<uint32_t>(packet.size() * 8));
        all += packet;
        from = cut;
    }
    return all;
}

TEST(MetadataPackets, GiveTheTextThatIsInThem) {
    const std::string text = "/* CTF 1.8 */ some text";
    for (const bool swap : {false, true})
        for (const std::size_t padding : {0, 1, 300}) {
            const auto read = metadata_text(packets(text, {10, 10, text.size()}, swap, padding));
            ASSERT_TRUE(read) << read.error().message();
            EXPECT_EQ(*read, text);
        }
    EXPECT_EQ(*metadata_text(packets("", {0}, false, 0)), "");
    EXPECT_EQ(*metadata_text(std::string(37, 'x')), std::string(37, 'x'));
    EXPECT_EQ(*metadata_text(""), "");
    EXPECT_EQ(*metadata_text(packets("", {0}, false, 0).substr(0, 36)),
              packets("", {0}, false, 0).substr(0, 36));
}

TEST(MetadataPackets, SayWhatIsWrongWithThem) {
    const std::string good = packets("one two", {4, 7}, false, 0);
    const std::size_t second = 41;
    const auto message = [](std::string bytes) {
        const auto text = metadata_text(bytes);
        return text ? "no error" : text.error().message();
    };
    const auto with = [&](std::size_t at, uint32_t value) {
        std::string changed = good;
        std::memcpy(changed.data() + at, &value, 4);
        return message(changed);
    };
    EXPECT_EQ(message(good), "no error");
    EXPECT_EQ(message(good.substr(0, second + 36)),
              "The metadata ends inside the header of a packet, at byte 41.");
    EXPECT_EQ(message(good + "x"), "The metadata ends inside the header of a packet, at byte 81.");
    EXPECT_EQ(with(second, 1), "The metadata has no packet where one should begin, at byte 41.");
    const auto sizes = [](std::size_t content, std::size_t packet) {
        return fmt::format("A packet of the metadata, at byte 41, has impossible sizes ({} of {} bytes).",
                           content, packet);
    };
    EXPECT_EQ(with(second + 24, 36 * 8), sizes(36, 40));
    EXPECT_EQ(with(second + 24, 41 * 8), sizes(41, 40));
    EXPECT_EQ(with(second + 28, 39 * 8), sizes(40, 39));
    EXPECT_EQ(with(second + 28, 41 * 8), sizes(40, 41));
    EXPECT_EQ(with(second + 24, 37 * 8), "no error");
    for (const std::size_t at : {32, 33}) {
        std::string packed = good;
        packed[second + at] = 1;
        EXPECT_EQ(message(packed), "The metadata is compressed or encrypted, which is not understood.");
    }
    std::string other = good;
    other[second + 34] = other[second + 20] = 1; /* checksums, and sizes of them */
    EXPECT_EQ(message(other), "no error");
}

TEST(Metadata, FindsWhatIsAskedForAndNothingElse) {
    Result<Metadata> all = parse("trace { byte_order = le; major = 1; }; clock { name = a; freq = 1; };\n"
                                 "clock { name = b; freq = 2; }; stream { id = 3; }; stream { id = 5; };\n"
                                 "env { text = \"5\"; number = 5; other = 6; number = 7; };");
    ASSERT_TRUE(all) << all.error().message();
    EXPECT_EQ(all->find_clock("a")->frequency_hz, 1u);
    EXPECT_EQ(all->find_clock("b")->frequency_hz, 2u);
    EXPECT_EQ(all->find_clock("c"), nullptr);
    EXPECT_EQ(all->find_stream(3)->id, 3u);
    EXPECT_EQ(all->find_stream(5)->id, 5u);
    EXPECT_EQ(all->find_stream(0), nullptr);
    EXPECT_EQ(all->environment_text("text"), "5");
    EXPECT_EQ(all->environment_text("number"), "5");
    EXPECT_EQ(all->environment_text("none"), "");
    EXPECT_EQ(all->environment_number("number"), 5);
    EXPECT_EQ(all->environment_number("other"), 6);
    EXPECT_EQ(all->environment_number("text"), std::nullopt);
    EXPECT_EQ(all->environment_number("none"), std::nullopt);
}

} // namespace
} // namespace plumb::tsdl
