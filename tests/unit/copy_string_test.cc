// How a string gets from the program into the payload: whole if it fits, cut at exactly the room there is,
// always ended by a NUL, without reading a page that the string does not reach into.
// cmake-link: plumb::tp-async_static
#include "tests/support/guarded_memory.h"

#include <plumb/runtime.h>

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr unsigned char untouched = 0xa5;
// What plumb_copy_string may write behind the end; PLUMB_SLACK leaves more than that.
constexpr std::size_t written_behind_max = 16;

struct Destination {
    std::vector<unsigned char> bytes;
    explicit Destination(std::size_t room) : bytes(room + 64, untouched) {}

    // "" if it holds `text` and a NUL, and nothing was written far behind them.
    std::string problem(std::string_view text) const {
        if (memcmp(bytes.data(), text.data(), text.size()) != 0) return "other bytes";
        if (bytes[text.size()] != 0) return "no NUL behind the text";
        const auto behind = bytes.begin() + static_cast<std::ptrdiff_t>(text.size() + written_behind_max + 1);
        if (std::any_of(behind, bytes.end(), [](unsigned char byte) { return byte != untouched; }))
            return "written too far behind";
        return "";
    }
};

std::string sample(std::size_t bytes) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; i++)
        text[i] = static_cast<char>('a' + i % 26);
    return text;
}

constexpr std::size_t room_max = 70;
constexpr std::size_t text_max = 90;

TEST(CopyString, KeepsOrCutsEveryLengthAtEveryRoom) {
    plumb::test::GuardedMemory memory;
    for (const std::size_t distance : {0u, 1u, 15u, 16u, 17u, 2000u}) {
        for (std::size_t length = 0; length <= text_max; length++) {
            const std::string text = sample(length);
            const auto with_nul = std::as_bytes(std::span(text.c_str(), length + 1));
            const auto* from = reinterpret_cast<const char*>(memory.at_end(with_nul, distance).data());
            for (std::size_t room = 0; room <= room_max; room++) {
                Destination to(room);
                const std::uint64_t copied = plumb_copy_string(to.bytes.data(), from, room);
                ASSERT_EQ(copied, std::min(length, room + 1)) << length << " bytes, room " << room;
                ASSERT_EQ(to.problem(std::string_view(text).substr(0, room)), "")
                    << length << " bytes, room " << room << ", " << distance << " before the page's end";
            }
        }
    }
}

TEST(CopyString, ShowsThatThereIsNoString) {
    for (std::size_t room = 0; room <= room_max; room++) {
        Destination to(room);
        const std::string_view text = "(null)";
        EXPECT_EQ(plumb_copy_string(to.bytes.data(), nullptr, room), std::min(text.size(), room + 1));
        EXPECT_EQ(to.problem(text.substr(0, room)), "") << room;
    }
}

TEST(CopyString, ReadsNothingBehindAView) {
    plumb::test::GuardedMemory memory;
    for (std::size_t length = 0; length <= text_max; length++) {
        const std::string text = sample(length);
        const auto* from =
            reinterpret_cast<const char*>(memory.at_end(std::as_bytes(std::span(text))).data());
        for (std::size_t room = 0; room <= room_max; room++) {
            Destination to(room);
            ASSERT_EQ(plumb_copy_view(to.bytes.data(), from, length, room), std::min(length, room + 1));
            ASSERT_EQ(to.problem(std::string_view(text).substr(0, room)), "") << length << ", room " << room;
        }
    }
}

TEST(CopyString, EndsAViewAtItsFirstNul) {
    const std::string_view text("one\0two", 7);
    for (std::size_t room = 0; room <= room_max; room++) {
        Destination to(room);
        EXPECT_EQ(plumb_copy_view(to.bytes.data(), text.data(), text.size(), room), room < 3 ? room + 1 : 3)
            << room;
        EXPECT_EQ(to.problem(std::string_view("one").substr(0, room)), "") << room;
    }
}

// A text over two pages, the second of which can not be read at first: whoever reaches it finds that the program has
// put a NUL into the first page meanwhile, as another thread may at any time.
struct ChangingText {
    static constexpr std::size_t page = 4096;
    static constexpr std::size_t bytes = 400;
    static inline char* start; // half of the bytes are in each page

    ChangingText() {
        void* const at = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        start = static_cast<char*>(at) + page - bytes / 2;
        memset(start, 'x', bytes);
        struct sigaction action {};
        action.sa_handler = [](int) {
            mprotect(start + bytes / 2, page, PROT_READ | PROT_WRITE);
            start[100] = '\0';
        };
        sigaction(SIGSEGV, &action, &before);
        mprotect(start + bytes / 2, page, PROT_NONE);
    }
    ~ChangingText() {
        sigaction(SIGSEGV, &before, nullptr);
        munmap(start + bytes / 2 - page, 2 * page);
    }
    ChangingText(const ChangingText&) = delete;
    ChangingText& operator=(const ChangingText&) = delete;

private:
    struct sigaction before;
};

// What is said of the copy is true of the copy, or the record would not parse.
TEST(CopyString, SaysWhatItCopiedThoughTheTextChanges) {
    for (const std::size_t room : {300u, 500u}) {
        Destination view(room);
        Destination string(room);
        {
            const ChangingText text;
            const std::uint64_t said = plumb_copy_view(view.bytes.data(), text.start, text.bytes, room);
            EXPECT_EQ(text.start[100], '\0');
            EXPECT_EQ(strlen(reinterpret_cast<char*>(view.bytes.data())), std::min(said, room)) << room;
        }
        const ChangingText text; // the rest of the second page is zeros, which end it
        const std::uint64_t said = plumb_copy_string(string.bytes.data(), text.start, room);
        EXPECT_EQ(strlen(reinterpret_cast<char*>(string.bytes.data())), std::min(said, room)) << room;
    }
}

} // namespace
