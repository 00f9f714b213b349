// How a string gets from the program into the payload: whole if it fits, cut at exactly the room there is,
// always ended by a NUL, without reading a page that the string does not reach into.
// cmake-link: plumb::tp-async_static
#include <plumb/runtime.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <vector>

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr unsigned char untouched = 0xa5;
// What plumb_copy_string may write behind the end; PLUMB_SLACK leaves more than that.
constexpr std::size_t written_behind_max = 16;

// A page, behind which nothing may be read.
class GuardedPage {
public:
    GuardedPage()
        : start_(static_cast<char*>(
              mmap(nullptr, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        EXPECT_EQ(mprotect(start_ + page_bytes, page_bytes, PROT_NONE), 0);
        memset(start_, 'x', page_bytes);
    }
    ~GuardedPage() { munmap(start_, 2 * page_bytes); }
    GuardedPage(const GuardedPage&) = delete;
    GuardedPage& operator=(const GuardedPage&) = delete;

    // The `bytes` before `distance` bytes before the page's end.
    char* before_end(std::size_t bytes, std::size_t distance = 0) {
        return start_ + page_bytes - distance - bytes;
    }

private:
    char* start_;
};

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
    GuardedPage page;
    for (const std::size_t distance : {0u, 1u, 15u, 16u, 17u, 2000u}) {
        for (std::size_t length = 0; length <= text_max; length++) {
            const std::string text = sample(length);
            char* from = page.before_end(length + 1, distance);
            memcpy(from, text.c_str(), length + 1);
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
    GuardedPage page;
    for (std::size_t length = 0; length <= text_max; length++) {
        const std::string text = sample(length);
        char* from = page.before_end(length);
        memcpy(from, text.data(), length);
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

} // namespace
