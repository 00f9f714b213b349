// cmake-once
// What is in a channel that a killed recorder left: how much of it nobody has read, which losses nobody has told, which of
// its memory is needed for that, and for how long it is kept.
#include "consumerd/control/channel.h"
#include "consumerd/control/left_channel.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstddef>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <vector>

using namespace plumb;
using plumb::test::State;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

namespace {

const std::string longest_name(sizeof(plumb_channel_header::session_name) - 1, 'n');

constexpr std::uint64_t ring_bytes = 64 << 10, page_bytes = 4096;
constexpr std::uint32_t rings = 3;

class LeftContent : public State {
protected:
    struct Content {
        plumb_channel_header& header;
        plumb_ring_control* ring;
        std::byte* data;
    };
    // As a killed recorder leaves it; its file's name.
    std::string kill_recorder(const std::function<void(Content&)>& change = {},
                              plumb_ring_mode mode = PLUMB_MODE_DISCARD) {
        ChannelConfig config;
        config.session_name = longest_name;
        config.mode = mode;
        config.subbuf_bytes = 16 << 10;
        config.subbuf_count = 4;
        config.ring_count = rings - 1;
        config.extra_ring_count = 1;
        Result<Channel> channel = Channel::create(*directory_, config);
        EXPECT_TRUE(channel) << channel.error().message();
        std::byte* const base = channel->bytes().data();
        auto& header = *reinterpret_cast<plumb_channel_header*>(base);
        Content content{header, reinterpret_cast<plumb_ring_control*>(base + header.control_offset),
                        base + header.data_offset};
        if (change) change(content);
        cookie_ = channel->cookie();
        data_offset_ = header.data_offset;
        return channel_file_name(cookie_);
    }
    LeftChannel left(const std::function<void(Content&)>& change, plumb_ring_mode mode = PLUMB_MODE_DISCARD) {
        const std::string name = kill_recorder(
            [&](Content& content) {
                note_kernel_events(content.header); // it is kept whatever is in it
                change(content);
            },
            mode);
        EXPECT_TRUE(retire_dead_channel(*directory_, name));
        const auto all = left_channels(*directory_);
        EXPECT_THAT(*all, SizeIs(1));
        EXPECT_TRUE(directory_->unlink_file(left_name()));
        return all && !all->empty() ? all->front() : LeftChannel{};
    }
    /* Whether it is kept. */
    bool keeps(const std::function<void(Content&)>& change) {
        const std::string name = kill_recorder(change);
        EXPECT_TRUE(retire_dead_channel(*directory_, name));
        EXPECT_THAT(names(), Not(Contains(name)));
        const bool is_kept = is_channel_kept_here();
        EXPECT_TRUE(directory_->unlink_file(left_name()));
        return is_kept;
    }
    bool is_channel_kept_here() { return ::access(directory_->path_of_file(left_name()).c_str(), F_OK) == 0; }
    std::vector<std::string> names() { return *directory_->file_names(); }
    std::string left_name() const { return fmt::format("left-{:016x}", cookie_); }
    void set_age(const std::string& name, std::uint64_t age_s) {
        const timespec found{::time(nullptr) - static_cast<time_t>(age_s), 0};
        const timespec times[2] = {found, found};
        ASSERT_EQ(::utimensat(directory_->fd(), name.c_str(), times, 0), 0);
    }
    /* Of each page of the rings, whether its memory is there: "x", or given back: ".". */
    std::string memory() {
        const FileDescriptor file(::openat(directory_->fd(), left_name().c_str(), O_RDONLY | O_CLOEXEC));
        std::string text;
        for (std::uint64_t page = 0; page < rings * ring_bytes / page_bytes; page++) {
            const auto at = static_cast<off_t>(data_offset_ + page * page_bytes);
            text += ::lseek(file.get(), at, SEEK_DATA) == at ? 'x' : '.';
        }
        return text;
    }

    std::uint64_t cookie_ = 0, data_offset_ = 0;
};

} // namespace

TEST_F(LeftContent, is_told_with_whose_it_was) {
    const LeftChannel channel = left([](Content&) {});
    EXPECT_EQ(channel.file_name, left_name());
    EXPECT_EQ(channel.session_name, longest_name);
    EXPECT_EQ(channel.recorder_process_id, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(channel.recorder_user_id, ::geteuid());
    EXPECT_EQ(channel.cookie, cookie_);
    EXPECT_TRUE(channel.has_kernel_events);
    EXPECT_EQ(channel.unread_bytes, 0u);
    EXPECT_EQ(channel.untold_losses, 0u);
    EXPECT_GE(channel.memory_bytes, rings * ring_bytes);
    EXPECT_LT(channel.age_s, 60u);
    EXPECT_FALSE(channel.problem);
}

TEST_F(LeftContent, is_unread_from_what_was_taken_to_what_was_written) {
    struct Ring {
        std::uint64_t consumed, taken, written, unread;
    };
    constexpr std::uint64_t far = std::uint64_t{5} << 40;
    for (const Ring& each : {Ring{0, 0, 100, 100},
                             {100, 0, 300, 200},
                             {100, 250, 300, 50},
                             {250, 100, 300, 50},
                             {300, 300, 300, 0},
                             {far, far + 8, far + ring_bytes, ring_bytes - 8},
                             {far, 0, far + ring_bytes, ring_bytes},
                             /* These make no sense: all of it may be unread. */
                             {far, 0, far + ring_bytes + 1, ring_bytes},
                             {301, 0, 300, ring_bytes}})
        for (std::uint32_t ring = 0; ring < rings; ring++) {
            const LeftChannel channel = left([&](Content& content) {
                content.ring[ring].consumed = each.consumed;
                content.ring[ring].taken = each.taken;
                content.ring[ring].write_pos = each.written;
            });
            EXPECT_EQ(channel.unread_bytes, each.unread) << ring << ": " << each.written;
        }
    const LeftChannel several = left([](Content& content) {
        for (std::uint32_t ring = 0; ring < rings; ring++)
            content.ring[ring].write_pos = 8u << ring;
    });
    EXPECT_EQ(several.unread_bytes, 8u + 16u + 32u);
}

TEST_F(LeftContent, of_rings_that_are_overwritten_is_the_last_of_it) {
    const auto unread = [&](std::uint64_t taken, std::uint64_t written) {
        return left(
                   [&](Content& content) {
                       content.ring[1].taken = taken;
                       content.ring[1].write_pos = written;
                   },
                   PLUMB_MODE_OVERWRITE)
            .unread_bytes;
    };
    EXPECT_EQ(unread(0, 100), 100u);
    EXPECT_EQ(unread(0, ring_bytes), ring_bytes);
    EXPECT_EQ(unread(0, 10 * ring_bytes + 8), ring_bytes);
    EXPECT_EQ(unread(10 * ring_bytes, 10 * ring_bytes + 8), 8u);
    EXPECT_EQ(unread(11, 10), ring_bytes);
}

TEST_F(LeftContent, has_the_losses_that_nobody_told) {
    const auto losses = [&](const std::function<void(Content&)>& change) {
        return left(change).untold_losses;
    };
    for (std::size_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
        EXPECT_EQ(losses([&](Content& content) {
                      content.ring[rings - 1].lost[cause] = 1000 + cause;
                      content.ring[rings - 1].told[cause] = 900;
                  }),
                  100 + cause);
    EXPECT_EQ(losses([](Content& content) { content.ring[rings - 1].not_stored = 17; }), 17u);
    for (std::size_t refusal = 0; refusal < PLUMB_REFUSALS; refusal++)
        EXPECT_EQ(losses([&](Content& content) { content.header.refused[refusal] = 3 + refusal; }),
                  3 + refusal);
    EXPECT_EQ(losses([](Content& content) { content.header.left_off = 5; }), 5u);
    EXPECT_EQ(losses([](Content& content) {
                  content.ring[0].lost[0] = 1;
                  content.ring[1].lost[1] = 10;
                  content.ring[1].not_stored = 100;
                  content.header.refused[0] = 1000;
                  content.header.left_off = 10000;
              }),
              11111u);
    /* A counter that went back, or that no time allows, is damaged, which is a loss. */
    EXPECT_EQ(losses([](Content& content) { content.ring[0].told[0] = 1; }), 1u);
    EXPECT_EQ(losses([](Content& content) { content.header.refused[0] = ~std::uint64_t{0}; }), 1u);
    EXPECT_EQ(losses([](Content& content) { content.header.left_off = std::uint64_t{1} << 63; }), 1u);
}

TEST_F(LeftContent, is_kept_for_any_of_it_and_removed_for_none) {
    EXPECT_FALSE(keeps({}));
    EXPECT_FALSE(keeps([](Content& content) { /* all of it was read, and told */
                                              content.ring[0].write_pos = content.ring[0].taken = 512;
                                              content.ring[0].lost[0] = content.ring[0].told[0] = 7;
    }));
    EXPECT_TRUE(keeps([](Content& content) { content.ring[rings - 1].write_pos = 8; }));
    EXPECT_TRUE(keeps([](Content& content) { content.ring[rings - 1].lost[0] = 1; }));
    EXPECT_TRUE(keeps([](Content& content) { content.header.left_off = 1; }));
    EXPECT_TRUE(keeps([](Content& content) { note_kernel_events(content.header); }));
}

TEST_F(LeftContent, is_closed_for_those_that_still_write) {
    const std::string name = kill_recorder([](Content& content) {
        content.ring[0].write_pos = 8;
        for (std::uint32_t ring = 0; ring < rings; ring++)
            content.ring[ring].limit = 4096;
    });
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    const FileDescriptor file(::openat(directory_->fd(), left_name().c_str(), O_RDONLY | O_CLOEXEC));
    plumb_channel_header header;
    ASSERT_EQ(::pread(file.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
    EXPECT_EQ(header.closed, 1u);
    for (std::uint32_t ring = 0; ring < rings; ring++) {
        plumb_ring_control control;
        ASSERT_EQ(::pread(file.get(), &control, sizeof(control),
                          static_cast<off_t>(header.control_offset + ring * sizeof(control))),
                  static_cast<ssize_t>(sizeof(control)));
        EXPECT_EQ(control.limit, 0u) << ring;
    }
}

TEST_F(LeftContent, that_bears_no_number_is_not_kept) {
    const std::string name = kill_recorder([](Content& content) { content.ring[0].write_pos = 8; });
    ASSERT_EQ(::renameat(directory_->fd(), name.c_str(), directory_->fd(), "channel-x"), 0);
    EXPECT_TRUE(retire_dead_channel(*directory_, "channel-x"));
    EXPECT_THAT(names(), ElementsAre("state"));
}

// The header, the description of events and the rest of a ring stay.
TEST_F(LeftContent, keeps_the_memory_of_what_is_unread_alone) {
    struct Ring {
        std::uint64_t taken, written;
        const char* expected; /* of 16 pages */
    };
    for (const Ring& each : {Ring{0, 0, "................"},
                             {0, 1, "x..............."},
                             {0, 4096, "x..............."},
                             {0, 4097, "xx.............."},
                             {4095, 8193, "xxx............."},
                             {4096, 8192, ".x.............."},
                             {0, ring_bytes, "xxxxxxxxxxxxxxxx"},
                             {ring_bytes - 1, ring_bytes, "...............x"},
                             /* Round the end. */
                             {ring_bytes - 4096, ring_bytes + 4096, "x..............x"},
                             {ring_bytes - 4097, ring_bytes + 4097, "xx............xx"},
                             {7 * ring_bytes + 40960, 8 * ring_bytes + 8192, "xx........xxxxxx"},
                             {7 * ring_bytes + 8192, 8 * ring_bytes + 8192, "xxxxxxxxxxxxxxxx"},
                             /* Nonsense. */
                             {2, 1, "xxxxxxxxxxxxxxxx"}})
        for (std::uint32_t ring = 0; ring < rings; ring++) {
            const std::string name = kill_recorder([&](Content& content) {
                note_kernel_events(content.header);
                std::memset(content.data, 1, rings * ring_bytes);
                content.ring[ring].taken = each.taken;
                content.ring[ring].write_pos = each.written;
            });
            ASSERT_TRUE(retire_dead_channel(*directory_, name));
            EXPECT_EQ(memory(), std::string(rings * 16, 'x'));
            ASSERT_THAT(tidy_left_channels(*directory_), IsEmpty());
            std::string expected(rings * 16, '.');
            expected.replace(ring * 16, 16, each.expected);
            EXPECT_EQ(memory(), expected) << each.taken << " to " << each.written << " of ring " << ring;
            const auto kept = left_channels(*directory_);
            ASSERT_THAT(*kept, SizeIs(1));
            EXPECT_FALSE(kept->front().problem);
            EXPECT_TRUE(directory_->unlink_file(left_name()));
        }
}

// A page that is made anew where there is no room would end a writer that has not noticed yet.
TEST_F(LeftContent, keeps_all_of_its_memory_while_somebody_maps_it) {
    const std::string name = kill_recorder([](Content& content) {
        note_kernel_events(content.header);
        std::memset(content.data, 1, rings * ring_bytes);
    });
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    const FileDescriptor file(::openat(directory_->fd(), left_name().c_str(), O_RDWR | O_CLOEXEC));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
        (void)!::write(ends[1], "", 1);
        for (;;)
            ::pause();
    }
    char byte;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
    EXPECT_EQ(memory(), std::string(rings * 16, 'x'));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
    EXPECT_EQ(memory(), std::string(rings * 16, '.'));
    for (const int end : ends)
        ::close(end);
}

TEST_F(LeftContent, is_kept_for_an_hour) {
    const std::string name = kill_recorder([](Content& content) { content.ring[0].write_pos = 24; });
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    set_age(left_name(), 3500);
    EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
    EXPECT_GE(left_channels(*directory_)->front().age_s, 3500u);
    set_age(left_name(), 3700);
    EXPECT_THAT(tidy_left_channels(*directory_, true), IsEmpty()) << "whoever wants all of it gets it";
    EXPECT_TRUE(is_channel_kept_here());
    const std::vector<Error> removed = tidy_left_channels(*directory_);
    ASSERT_THAT(removed, SizeIs(1));
    EXPECT_EQ(
        removed.front().message(),
        fmt::format("What killed process {} (session {}) had not written was removed, 24 bytes: the last 4 "
                    "are kept, for an hour.",
                    ::getpid(), longest_name));
    EXPECT_FALSE(is_channel_kept_here());
    EXPECT_THAT(*left_channels(*directory_), IsEmpty());
}

TEST_F(LeftContent, is_kept_of_the_last_four) {
    std::vector<std::string> newest_first;
    for (std::uint64_t i = 0; i < 6; i++) {
        const std::string name = kill_recorder([](Content& content) { content.ring[0].write_pos = 8; });
        ASSERT_TRUE(retire_dead_channel(*directory_, name));
        set_age(left_name(), 100 + (i * 5 % 7) * 100); /* not in the order of their names */
    }
    const auto all = left_channels(*directory_);
    ASSERT_THAT(*all, SizeIs(6));
    for (std::size_t i = 0; i < all->size(); i++) {
        newest_first.push_back((*all)[i].file_name);
        if (i > 0) {
            EXPECT_GT((*all)[i].age_s, (*all)[i - 1].age_s);
        }
    }
    EXPECT_THAT(tidy_left_channels(*directory_, true), IsEmpty());
    EXPECT_THAT(tidy_left_channels(*directory_), SizeIs(2));
    std::vector<std::string> left;
    const auto kept = left_channels(*directory_);
    for (const LeftChannel& each : *kept)
        left.push_back(each.file_name);
    newest_first.resize(4);
    EXPECT_EQ(left, newest_first);
}

// What is found there although it is no channel, as long as anybody may have written it.
TEST_F(LeftContent, that_is_no_channel_is_removed_whatever_its_header_says) {
    const auto problem = [&](const std::function<void(Content&)>& change) {
        const std::string name = kill_recorder(change);
        EXPECT_TRUE(retire_dead_channel(*directory_, name));
        const std::vector<Error> removed = tidy_left_channels(*directory_);
        EXPECT_THAT(removed, SizeIs(1));
        EXPECT_FALSE(is_channel_kept_here());
        const std::string text = removed.empty() ? "" : removed.front().message();
        const std::string path = directory_->path_of_file(left_name());
        return text.starts_with(path) ? text.substr(path.size()) : text;
    };
    EXPECT_THAT(problem([](Content& it) { it.header.magic ^= 1; }),
                HasSubstr(" is no channel. It was removed."));
    const std::string damaged = " is damaged. It was removed.";
    EXPECT_EQ(problem([](Content& it) { it.header.ring_count = it.header.extra_ring_count = 0; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.ring_count = PLUMB_CHANNEL_MAX_RINGS; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.control_offset += 8; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.control_offset = std::uint64_t{1} << 40; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.control_offset = it.header.total_bytes - 64; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.data_offset += 2048; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.data_offset = std::uint64_t{1} << 40; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.data_offset += PLUMB_CHANNEL_GUARD + page_bytes; }),
              damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.ring_bytes = 48 << 10; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.ring_bytes = 2048; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.ring_bytes *= 2; }), damaged);
    EXPECT_EQ(problem([](Content& it) { it.header.ring_bytes = 0; }), damaged);
    /* Smaller than it was is whole, as far as it goes. */
    const LeftChannel smaller = left([](Content& it) { it.header.ring_bytes /= 2; });
    EXPECT_FALSE(smaller.problem);
    const FileDescriptor file(
        ::openat(directory_->fd(), "left-0000000000000007", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::ftruncate(file.get(), PLUMB_CHANNEL_HEADER_BYTES - 1), 0);
    const std::vector<Error> removed = tidy_left_channels(*directory_);
    ASSERT_THAT(removed, SizeIs(1));
    EXPECT_THAT(removed.front().message(),
                HasSubstr(fmt::format("is no channel: it has {} bytes. It was removed.",
                                      PLUMB_CHANNEL_HEADER_BYTES - 1)));
}
