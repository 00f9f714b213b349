// cmake-once
/* What each packet of a stream says of itself, one behind the other; and what is left of a stream whose writer is killed. */
#include "base/ctf_layout.h"
#include "consumerd/sink/ctf_stream.h"
#include "consumerd/sink/ctf_writer.h"
#include "consumerd/sink/stream_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Seen {
    uint64_t sequence, begin, end, discarded, record_bytes;
    bool operator==(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    return out << "{" << seen.sequence << ", " << seen.begin << ", " << seen.end << ", " << seen.discarded
               << ", " << seen.record_bytes << "}";
}

/* Of a whole stream file; every packet is checked to be as long as it says, and padded with zeros. */
std::vector<Seen> packets_in(const std::string& all, size_t start_bytes = ctf_start_bytes) {
    std::vector<Seen> found;
    size_t at = 0;
    while (at < all.size()) {
        CtfPacketStart packet{};
        std::memcpy(&packet, all.data() + at, std::min(start_bytes, all.size() - at));
        const size_t content = packet.context.content_size / 8, size = packet.context.packet_size / 8;
        EXPECT_EQ(packet.header.magic, ctf_magic);
        EXPECT_EQ(size % 8, 0u);
        EXPECT_LE(content, size);
        EXPECT_LT(size, std::max(content, start_bytes) + 8);
        if (size == 0 || size > all.size() - at) {
            ADD_FAILURE() << "a packet of " << size << " bytes, of which " << all.size() - at << " are there";
            break;
        }
        for (size_t behind = std::max(content, start_bytes); behind < size; behind++)
            EXPECT_EQ(all[at + behind], '\0');
        found.push_back({packet.context.packet_seq_num, packet.context.timestamp_begin,
                         packet.context.timestamp_end, packet.context.events_discarded,
                         content > start_bytes ? content - start_bytes : 0});
        at += size;
    }
    return found;
}

class StreamPackets : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-packets-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
        auto opened = Folder::open(root_);
        ASSERT_TRUE(opened);
        folder_.emplace(std::move(*opened));
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    static CtfPacketStart start() {
        CtfPacketStart start{};
        start.header.magic = ctf_magic;
        return start;
    }
    CtfStream stream() const { return {*folder_, "ring_0", start(), ctf_start_bytes}; }
    std::string content(const std::string& name = "ring_0") const {
        std::ifstream file(root_ + "/" + name, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    std::vector<Seen> packets() const { return packets_in(content()); }

    std::string root_;
    std::optional<Folder> folder_;
    const std::vector<std::byte> records_ = std::vector<std::byte>(64, std::byte{7});
    std::span<const std::byte> records(size_t bytes) const { return std::span(records_).first(bytes); }
};

TEST_F(StreamPackets, AreCountedAndNeverGoBackInTime) {
    CtfStream stream = this->stream();
    EXPECT_EQ(stream.first_timestamp(), UINT64_MAX);
    EXPECT_TRUE(stream.write({records(24), 100, 200, 0, 0}));
    EXPECT_TRUE(stream.write({records(17), 150, 180, 0, 0})); /* of a time that was told of */
    EXPECT_TRUE(stream.write({records(64), 300, 400, 5, 2}));
    EXPECT_TRUE(stream.write({records(1), 500, 600, 5, 2}));
    EXPECT_THAT(packets(), ElementsAre(Seen{0, 100, 200, 0, 24}, Seen{1, 200, 200, 0, 17},
                                       Seen{4, 300, 400, 5, 64}, Seen{5, 500, 600, 5, 1}));
    EXPECT_EQ(stream.packets(), 4u);
    EXPECT_EQ(stream.bytes(), content().size());
    EXPECT_EQ(stream.first_timestamp(), 100u);
    EXPECT_EQ(stream.last_timestamp(), 600u);
    EXPECT_EQ(content().substr(ctf_start_bytes, 24), std::string(24, '\x07'));
    EXPECT_TRUE(stream.close());
}

TEST_F(StreamPackets, TellOfLossesBeforeTheFirstOneInAnEmptyOne) {
    for (const auto& [discarded, lost] : {std::pair<uint64_t, uint64_t>{3, 0}, {0, 2}}) {
        CtfStream stream = this->stream();
        stream.began(50);
        EXPECT_TRUE(stream.write({records(24), 100, 200, discarded, lost}));
        EXPECT_THAT(packets(), ElementsAre(Seen{0, 50, 50, 0, 0}, Seen{1 + lost, 100, 200, discarded, 24}));
        std::filesystem::remove(root_ + "/ring_0");
    }
    CtfStream none = stream();
    none.began(50);
    EXPECT_TRUE(none.write({records(24), 100, 200, 0, 0}));
    EXPECT_THAT(packets(), ElementsAre(Seen{0, 50, 200, 0, 24}));
}

TEST_F(StreamPackets, TellOfLossesOnlyIfThereAreMore) {
    CtfStream stream = this->stream();
    EXPECT_TRUE(stream.write_losses(0, 0, 10, 20));
    EXPECT_THAT(packets(), IsEmpty());
    EXPECT_TRUE(stream.write({records(24), 100, 200, 4, 1}));
    EXPECT_TRUE(stream.write_losses(4, 1, 10, 300));
    EXPECT_EQ(packets().size(), 2u);
    EXPECT_TRUE(stream.write_losses(5, 1, 10, 300));
    EXPECT_TRUE(stream.write_losses(5, 3, 10, 250));
    EXPECT_THAT(packets(), ElementsAre(Seen{0, 100, 100, 0, 0}, Seen{2, 100, 200, 4, 24},
                                       Seen{3, 300, 300, 5, 0}, Seen{6, 300, 300, 5, 0}));
    /* What the last one tells of stays, up to the end. */
    EXPECT_TRUE(stream.end_at(300));
    EXPECT_TRUE(stream.end_at(400));
    EXPECT_EQ(packets().back(), (Seen{7, 300, 400, 5, 0}));
}

TEST_F(StreamPackets, LeaveAGapWhereOneCouldNotBeWritten) {
    CtfStream stream = this->stream();
    EXPECT_TRUE(stream.write({records(24), 100, 200, 0, 0}));
    const std::span<const std::byte> unreadable(reinterpret_cast<const std::byte*>(8), 4096);
    EXPECT_FALSE(stream.write({unreadable, 300, 400, 0, 0}));
    EXPECT_TRUE(stream.end_at(500));
    EXPECT_EQ(packets().size(), 1u) << "it would show no gap";
    EXPECT_TRUE(stream.write_losses(9, 0, 0, 600));
    EXPECT_THAT(packets(), ElementsAre(Seen{0, 100, 200, 0, 24}, Seen{2, 600, 600, 9, 0}));
    EXPECT_TRUE(stream.write({records(24), 700, 800, 9, 1}));
    EXPECT_EQ(packets().back(), (Seen{4, 700, 800, 9, 24}));
    EXPECT_TRUE(stream.write_losses(9, 1, 0, 900));
    EXPECT_EQ(packets().size(), 3u);
    /* A first one that could not be written leaves no file, and is a gap of what comes then. */
    CtfStream other(*folder_, "ring_1", start(), ctf_start_bytes);
    EXPECT_FALSE(other.write({unreadable, 300, 400, 0, 0}));
    EXPECT_FALSE(folder_->has("ring_1"));
    EXPECT_TRUE(other.write({records(24), 500, 600, 0, 0}));
    EXPECT_THAT(packets_in(content("ring_1")),
                ElementsAre(Seen{0, 500, 500, 0, 0}, Seen{2, 500, 600, 0, 24}));
}

TEST_F(StreamPackets, SayWhatHasHappenedToTheirFile) {
    const auto complaint = [&](const std::function<void(const std::string&)>& what) {
        CtfStream stream = this->stream();
        EXPECT_TRUE(stream.check()) << "there is none yet";
        EXPECT_TRUE(stream.write({records(24), 100, 200, 0, 0}));
        EXPECT_TRUE(stream.check());
        what(root_ + "/ring_0");
        const Status checked = stream.check();
        std::filesystem::remove(root_ + "/ring_0");
        return checked ? "" : checked.error().message();
    };
    const std::string path = root_ + "/ring_0", meanwhile = " while the trace was written.";
    EXPECT_EQ(complaint([](auto&) {}), "");
    EXPECT_EQ(complaint([](auto& file) { std::filesystem::remove(file); }),
              path + " was removed" + meanwhile);
    EXPECT_EQ(complaint([](auto& file) { std::filesystem::resize_file(file, 111); }),
              path + " was truncated" + meanwhile);
    EXPECT_EQ(complaint([](auto& file) { std::filesystem::resize_file(file, 112); }), "");
    EXPECT_EQ(complaint([](auto& file) { std::filesystem::resize_file(file, 1000); }), "");
    EXPECT_EQ(complaint([](auto& file) { std::filesystem::rename(file, file + "x"); }),
              path + " was moved" + meanwhile);
    /* What is appended to a file that was cut would hide that. */
    CtfStream stream = this->stream();
    EXPECT_TRUE(stream.write({records(24), 100, 200, 0, 0}));
    std::filesystem::resize_file(path, 50);
    const Status written = stream.write({records(24), 300, 400, 0, 0});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message(), path + " was truncated" + meanwhile);
    EXPECT_EQ(content().size(), 50u);
}

/* A trace of a recording: what its statedump and its streams say of the time that it tells of. */
TEST_F(StreamPackets, OfAWholeTraceCoverItsTime) {
    TraceIdentity identity;
    identity.domain = "kernel";
    auto writer = CtfWriter::create(root_ + "/trace", identity, 2, 1);
    ASSERT_TRUE(writer) << writer.error().message();
    (*writer)->began(50);
    EXPECT_EQ((*writer)->last_timestamp(), 0u);
    Piece piece;
    piece.records = records(24);
    piece.record_count = 1;
    piece.first_timestamp = 100;
    piece.last_timestamp = 200;
    EXPECT_TRUE((*writer)->write_records(2, piece, 0, 0));
    EXPECT_EQ((*writer)->last_timestamp(), 200u);
    EXPECT_TRUE((*writer)->write_losses(0, 3, 0, 60, 300));
    EXPECT_EQ((*writer)->last_timestamp(), 300u);
    const plumb_record named{400, 1, 16, 5};
    EXPECT_TRUE((*writer)->write_kernel_statedump(std::as_bytes(std::span(&named, 1))));
    EXPECT_EQ((*writer)->last_timestamp(), 400u);
    EXPECT_TRUE((*writer)->check());
    EXPECT_TRUE((*writer)->complete(900));
    EXPECT_THAT(packets_in(content("trace/kernel/extra_ring_0")),
                ElementsAre(Seen{0, 50, 200, 0, 24}, Seen{1, 200, 900, 0, 0}));
    EXPECT_THAT(packets_in(content("trace/kernel/ring_0")),
                ElementsAre(Seen{0, 50, 50, 0, 0}, Seen{1, 60, 300, 3, 0}, Seen{2, 300, 900, 3, 0}));
    EXPECT_FALSE(std::filesystem::exists(root_ + "/trace/kernel/ring_1"));
    EXPECT_THAT(
        packets_in(content("trace/kernel/statedump")),
        ElementsAre(Seen{0, 50, 400, 0, 16}, Seen{1, 900, 900, 0, 0})); /* nobody has told names until then */
    EXPECT_EQ((*writer)->packets(), 7u);
    plumb_clock_page clock{};
    clock.frequency_hz = 1;
    EXPECT_TRUE((*writer)->write_metadata(clock, {}));
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(root_ + "/trace/kernel"))
        if (!file.path().filename().string().starts_with(".")) bytes += file.file_size();
    EXPECT_EQ((*writer)->bytes(), bytes);
}

/* Tools expect a trace to have a stream; and the statedump begins no later than the first of the others. */
TEST_F(StreamPackets, OfATraceBeginWithItsFirstRecord) {
    TraceIdentity identity;
    identity.domain = "ust";
    auto writer = CtfWriter::create(root_ + "/empty", identity, 2, 0);
    ASSERT_TRUE(writer);
    EXPECT_TRUE((*writer)->complete(900));
    EXPECT_THAT(packets_in(content("empty/ust/statedump"), ctf_start_bytes_without_cpu),
                ElementsAre(Seen{0, 900, 900, 0, 0}));
    writer = CtfWriter::create(root_ + "/trace", identity, 2, 0);
    ASSERT_TRUE(writer);
    ChannelEntry entry{};
    entry.type = PLUMB_ENTRY_THREAD;
    entry.timestamp = 500;
    std::vector<ChannelEntry> entries{entry};
    EXPECT_TRUE((*writer)->write_entries(entries));
    for (const uint32_t ring : {0, 1}) {
        Piece piece;
        piece.records = records(24);
        piece.record_count = 1;
        piece.first_timestamp = 200 - ring * 100;
        piece.last_timestamp = 300;
        EXPECT_TRUE((*writer)->write_records(ring, piece, 0, 0));
    }
    EXPECT_TRUE((*writer)->complete(500));
    const auto statedump = packets_in(content("trace/ust/statedump"), ctf_start_bytes_without_cpu);
    ASSERT_EQ(statedump.size(), 1u);
    EXPECT_EQ(statedump[0].begin, 100u);
    EXPECT_EQ(statedump[0].end, 500u);
    EXPECT_THAT(packets_in(content("trace/ust/ring_0")),
                ElementsAre(Seen{0, 200, 300, 0, 24}, Seen{1, 300, 500, 0, 0}));
}

TEST_F(StreamPackets, OfATraceNeedADirectoryOfTheirOwn) {
    TraceIdentity identity;
    identity.domain = "ust";
    const auto complaint = [&](const std::string& directory) {
        const auto writer = CtfWriter::create(directory, identity, 1, 0);
        return writer ? "" : writer.error().message();
    };
    EXPECT_EQ(complaint(root_ + "/none/trace"),
              "Could not make the trace directory " + root_ + "/none/trace: No such file or directory.");
    EXPECT_EQ(complaint(root_), "");
    EXPECT_EQ(complaint(root_), "Could not make the trace directory " + root_ + "/ust: File exists.");
    identity.folder = "other";
    EXPECT_EQ(complaint(root_), "");
    auto writer = CtfWriter::create(root_ + "/trace", identity, 1, 0);
    ASSERT_TRUE(writer);
    std::filesystem::remove_all(root_ + "/trace");
    EXPECT_EQ((*writer)->check().error().message(),
              root_ + "/trace/other was removed while the trace was written.");
}

/* Its keeper cuts what the writer could not end any more; it is no child of the one that was killed. */
class KeptStreams : public StreamPackets {
protected:
    /* `what` is done by a process that is killed behind it. */
    void kill_behind(const std::function<void(CtfStream&, CtfStream&)>& what) const {
        const pid_t child = ::fork();
        if (child == 0) {
            start_stream_keeper();
            start_stream_keeper(); /* once is enough */
            CtfStream first = stream(), second(*folder_, "ring_1", start(), ctf_start_bytes);
            if (!first.write({records(24), 1, 2, 0, 0})) ::_exit(1);
            what(first, second);
            if (::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD) ::_exit(2);
            ::kill(::getpid(), SIGKILL);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    }
    bool comes_true(const std::function<bool()>& what) const {
        for (int i = 0; i < 500 && !what(); i++)
            ::usleep(20'000);
        return what();
    }
    void append(const std::string& name, size_t bytes) const {
        std::ofstream(root_ + "/" + name, std::ios::app) << std::string(bytes, 'x');
    }
    static constexpr size_t whole_ = ctf_start_bytes + 24;
};

TEST_F(KeptStreams, EndWithAWholePacket) {
    kill_behind([&](CtfStream&, CtfStream& second) {
        if (!second.write({records(24), 1, 2, 0, 0}) || !second.write({records(24), 3, 4, 0, 0})) ::_exit(3);
        append("ring_0", 1);
        append("ring_1", 5000);
    });
    EXPECT_TRUE(comes_true([&] { return content().size() == whole_; }));
    EXPECT_TRUE(comes_true([&] { return content("ring_1").size() == 2 * whole_; }));
    EXPECT_EQ(packets_in(content("ring_1")).size(), 2u);
}

TEST_F(KeptStreams, AreFollowedToWhereTheyAreMoved) {
    kill_behind([&](CtfStream& first, CtfStream&) {
        std::filesystem::create_directory(root_ + "/elsewhere");
        std::filesystem::rename(root_ + "/ring_0", root_ + "/elsewhere/ring_0");
        std::filesystem::create_symlink("elsewhere/ring_0", root_ + "/ring_0");
        (void)first.check().has_value();
        append("elsewhere/ring_0", 100);
    });
    EXPECT_TRUE(comes_true([&] { return content("elsewhere/ring_0").size() == whole_; }));
}

TEST_F(KeptStreams, ThatAreOverOrSomebodyElsesAreLeftAlone) {
    kill_behind([&](CtfStream& first, CtfStream& second) {
        if (!first.close()) ::_exit(3);
        append("ring_0", 100);
        if (!second.write({records(24), 1, 2, 0, 0})) ::_exit(4);
        std::filesystem::rename(root_ + "/ring_1", root_ + "/moved");
        append("ring_1", 5000); /* another file of that name */
        CtfStream third(*folder_, "ring_2", start(), ctf_start_bytes);
        if (!third.write({records(24), 1, 2, 0, 0})) ::_exit(5);
        append("ring_2", 7);
        ::kill(::getpid(), SIGKILL); /* before the stream ends */
    });
    ASSERT_TRUE(comes_true([&] { return content("ring_2").size() == whole_; }));
    EXPECT_EQ(content().size(), whole_ + 100);
    EXPECT_EQ(content("ring_1").size(), 5000u);
}

} // namespace
} // namespace plumb
