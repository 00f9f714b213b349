// cmake-once
// For which times a trace of the kernel knows the names of threads: what its writer says of that, packet by packet, and what a
// reader makes of it. Nothing is behind the last packet, or between two of them.
#include "base/ctf_layout.h"
#include "base/file.h"
#include "consumerd/drain/kernel_source.h"
#include "consumerd/sink/ctf_writer.h"
#include "trace/trace_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Span = std::pair<uint64_t, uint64_t>;

constexpr uint64_t ever = UINT64_MAX;
constexpr uint32_t thread = 7;

class NamedSpans : public testing::Test {
protected:
    NamedSpans() {
        char pattern[] = "/tmp/plumb-names-test-XXXXXX";
        EXPECT_NE(mkdtemp(pattern), nullptr);
        directory_ = pattern;
        clock_.mode = PLUMB_CLOCK_MONOTONIC;
        clock_.frequency_hz = 1'000'000'000;
        ChannelEvent call;
        call.id = 10;
        call.description.name = "call";
        described_.push_back(std::move(call));
    }
    ~NamedSpans() override { std::filesystem::remove_all(directory_); }

    std::string statedump() const { return directory_ + "/kernel/statedump"; }
    void create(uint64_t began = 100) {
        auto made = CtfWriter::create(directory_, kernel_identity({}), 1, 0);
        ASSERT_TRUE(made) << made.error().message();
        writer_ = std::move(*made);
        ASSERT_TRUE(writer_->write_metadata(clock_, described_));
        writer_->began(began);
    }
    /* As who goes on behind a kill, who was told of the statedump as of then. */
    void open_left(const StreamPlace& place, const StreamPlace& ring) {
        TraceIdentity identity = writer_->identity();
        identity.folder = "kernel";
        auto opened = CtfWriter::open_left(directory_, identity, 1, 0);
        ASSERT_TRUE(opened) << opened.error().message();
        writer_ = std::move(*opened);
        ASSERT_TRUE(writer_->go_on_with_statedump(place));
        ASSERT_TRUE(writer_->go_on(0, ring));
    }
    Status name(uint64_t time, const std::string& name, uint32_t of = thread) {
        return writer_->write_kernel_statedump(encode_named_threads({{time, of, 5, name}}));
    }
    void call(uint64_t time) {
        const plumb_record record{time, 10, sizeof(plumb_record), thread};
        Piece piece;
        piece.records = std::as_bytes(std::span(&record, 1));
        piece.record_count = 1;
        piece.first_timestamp = piece.last_timestamp = time;
        ASSERT_TRUE(writer_->write_records(0, piece, 0, 0));
    }
    std::vector<Span> spans() const {
        std::vector<Span> found;
        const Result<std::string> file = read_small_file(statedump(), size_t{1} << 20);
        for (size_t at = 0; file && at + ctf_start_bytes <= file->size();) {
            CtfPacketStart start;
            std::memcpy(&start, file->data() + at, sizeof(start));
            found.push_back({start.context.timestamp_begin, start.context.timestamp_end});
            at += start.context.packet_size / 8;
        }
        return found;
    }
    /* Who made each call; behind them, how many nobody is known to have made. */
    std::vector<std::string> calls() const {
        std::vector<std::string> found;
        auto reader = TraceReader::open(directory_);
        EXPECT_TRUE(reader) << reader.error().message();
        while (const Event* const event = reader ? reader->next() : nullptr) {
            if (event->stream->is_statedump) continue;
            const ThreadRecord* const who = reader->thread_of(*event);
            found.push_back(fmt::format("{} {}", event->cycles, who != nullptr ? who->name : "?"));
            EXPECT_EQ(reader->process_id_of(*event), who != nullptr ? 5u : 0u);
        }
        found.push_back(fmt::format("nameless {}", reader->events_without_names()));
        return found;
    }

    std::string directory_;
    plumb_clock_page clock_{};
    std::deque<ChannelEvent> described_;
    std::unique_ptr<CtfWriter> writer_;
};

/* As a recorder that is killed leaves it. */
TEST_F(NamedSpans, AreKnownUntilTheLastTimeThatWasTold) {
    create();
    call(900);
    ASSERT_TRUE(name(1000, "first"));
    call(1500);
    call(3000);
    ASSERT_TRUE(writer_->tell_names_until(2000));
    EXPECT_THAT(spans(), ElementsAre(Span{100, 2000}));
    EXPECT_THAT(calls(), ElementsAre("900 first", "1500 first", "3000 ?", "nameless 1"));
    ASSERT_TRUE(name(2500, "second"));
    call(5000);
    ASSERT_TRUE(writer_->tell_names_until(4000));
    EXPECT_THAT(spans(), ElementsAre(Span{100, 2000}, Span{2000, 4000}));
    EXPECT_THAT(calls(), ElementsAre("900 first", "1500 first", "3000 second", "5000 ?", "nameless 1"));
}

TEST_F(NamedSpans, AreAllKnownInTheEnd) {
    create();
    ASSERT_TRUE(name(1000, "first"));
    call(3000);
    ASSERT_TRUE(writer_->tell_names_until(ever));
    ASSERT_TRUE(writer_->complete(9000));
    EXPECT_THAT(spans(), ElementsAre(Span{100, 9000}));
    EXPECT_THAT(calls(), ElementsAre("3000 first", "nameless 0"));
}

TEST_F(NamedSpans, AQuietMachineCostsNothing) {
    create();
    ASSERT_TRUE(name(1000, "first"));
    ASSERT_TRUE(writer_->tell_names_until(2000));
    EXPECT_THAT(spans(), ElementsAre(Span{100, 1000})) << "there is no event that needs it";
}

/* The end of a chunk whose rest was not read. */
TEST_F(NamedSpans, AnEndDoesNotTellThem) {
    create();
    ASSERT_TRUE(name(1000, "first"));
    call(3000);
    ASSERT_TRUE(writer_->complete(4000));
    EXPECT_THAT(spans(), ElementsAre(Span{100, 1000}, Span{4000, 4000}));
    EXPECT_THAT(calls(), ElementsAre("3000 ?", "nameless 1"));
}

/* Of the killed one's words the file may know more than the journal. */
TEST_F(NamedSpans, WhoClosesWhatWasLeftClaimsNone) {
    create();
    ASSERT_TRUE(name(1000, "first"));
    const StreamPlace place = writer_->statedump_place();
    call(2500);
    call(3000);
    ASSERT_TRUE(writer_->tell_names_until(2000));
    open_left(place, writer_->place(0));
    EXPECT_EQ(writer_->last_timestamp(), 3000u);
    EXPECT_EQ(writer_->statedump_place().last_timestamp, 2000u);
    ASSERT_TRUE(writer_->complete(3000));
    EXPECT_THAT(spans(), ElementsAre(Span{100, 2000}, Span{3000, 3000}));
    EXPECT_THAT(calls(), ElementsAre("2500 ?", "3000 ?", "nameless 2"));
}

TEST_F(NamedSpans, WhoGoesOnDoesNotKnowThoseThatTheKilledOneRead) {
    create(1000);
    ASSERT_TRUE(writer_->leave_out_names_before(2000));
    call(1500);
    call(2500);
    ASSERT_TRUE(name(1800, "first"));
    ASSERT_TRUE(name(2600, "second"));
    call(3000);
    ASSERT_TRUE(writer_->tell_names_until(ever));
    ASSERT_TRUE(writer_->complete(4000));
    EXPECT_THAT(spans(), ElementsAre(Span{1000, 1000}, Span{2000, 2000}, Span{2000, 4000}));
    EXPECT_THAT(calls(), ElementsAre("1500 ?", "2500 first", "3000 second", "nameless 1"));
}

/* They are not known before there is room for them; then they are told with the next ones. */
TEST_F(NamedSpans, ThatFindNoRoomWaitForIt) {
    create();
    std::filesystem::create_symlink("/dev/full", statedump());
    EXPECT_FALSE(name(1000, "first"));
    call(1500);
    EXPECT_THAT(calls(), ElementsAre("1500 ?", "nameless 0")); /* none are told of anybody */
    std::filesystem::remove(statedump());
    ASSERT_TRUE(name(2000, "second"));
    call(2500);
    ASSERT_TRUE(writer_->tell_names_until(ever));
    EXPECT_THAT(calls(), ElementsAre("1500 first", "2500 second", "nameless 0"));
}

class SilentCarrier : public PacketCarrier {
public:
    size_t records_max() const override { return 4096; }
    Status send_packet(const std::string&, std::span<const std::byte>, std::span<const std::byte>,
                       size_t) override {
        return ok();
    }
    Status send_begin(const std::string&, uint64_t) override { return ok(); }
    Status send_file(const std::string&, std::string_view text) override {
        sent = text;
        return ok();
    }
    std::string sent;
};

/* What was sent can not be told anew. */
TEST_F(NamedSpans, ALineDoesNotSayWhenTheyAreKnown) {
    const auto carrier = std::make_shared<SilentCarrier>();
    auto made = CtfWriter::create(directory_, kernel_identity({}), 1, 0, carrier);
    ASSERT_TRUE(made) << made.error().message();
    ASSERT_TRUE((*made)->write_metadata(clock_, described_));
    EXPECT_THAT(carrier->sent, Not(HasSubstr(named_spans_entry)));
    EXPECT_TRUE((*made)->tell_names_until(ever));
}

} // namespace
} // namespace plumb
