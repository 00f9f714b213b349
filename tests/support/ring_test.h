/*
 * One ring of a channel in memory, its writer and its reader: what the tests of reading rings share. Each record holds a
 * number, from which its time follows too.
 */
#ifndef PLUMB_TESTS_SUPPORT_RING_TEST_H
#define PLUMB_TESTS_SUPPORT_RING_TEST_H

#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/ring_reader.h"
#include "tests/support/channel_builder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plumb::test {

/* Reads everything; collects the first field, a u64, of each record. */
class RingTest : public testing::Test {
protected:
    void make(const BuilderConfig& config = {}) {
        channel_ = std::make_unique<ChannelBuilder>(config);
        id_ = channel_->add_event("step", {integer("n", 8)});
    }
    void open(bool live = false) {
        auto opened = ChannelReader::open(
            channel_->bytes(), {live ? channel_->bytes().data() : nullptr, [this](const std::string& l) {
                                    log_ += l + "\n";
                                    if (when_told_) when_told_();
                                }});
        ASSERT_TRUE(opened) << opened.error().message();
        reader_ = std::make_unique<ChannelReader>(std::move(*opened));
        ring_ = std::make_unique<RingReader>(*reader_, 0);
    }
    bool write(uint64_t n) { return channel_->write(0, id_, base_ + 1000 + n, Payload().put(n).bytes()); }
    void write_range(uint64_t from, uint64_t to) {
        for (uint64_t n = from; n < to; n++)
            ASSERT_TRUE(write(n));
    }
    std::vector<uint64_t> read(ReadWhat what = ReadWhat::everything) {
        std::vector<uint64_t> found;
        for (int pieces = 0; auto piece = ring_->next(what, buffer_); pieces++) {
            EXPECT_LT(pieces, 1000) << "the reader does not end";
            if (pieces >= 1000) break;
            uint64_t in_piece = 0;
            for_each_record(*piece, [&](const plumb_record& record) {
                found.push_back(record.timestamp - 1000 - base_);
                in_piece++;
            });
            EXPECT_EQ(in_piece, piece->record_count);
        }
        return found;
    }
    uint64_t damage(Damage kind) const { return reader_->damage()[static_cast<size_t>(kind)]; }
    plumb_record* record_at(uint64_t position) {
        return reinterpret_cast<plumb_record*>(channel_->ring(0) + position);
    }
    void release() { /* as a consumer does */
        channel_->control(0).consumed = ring_->releasable();
        ring_->set_released(ring_->releasable());
    }

    std::unique_ptr<ChannelBuilder> channel_;
    std::unique_ptr<ChannelReader> reader_;
    std::unique_ptr<RingReader> ring_;
    ReadBuffer buffer_;
    uint16_t id_ = 0;
    uint64_t base_ = 0; /* of time */
    std::string log_;
    std::function<void()> when_told_; /* of what was logged */
};

/* [from, to) */
inline std::vector<uint64_t> numbers(uint64_t from, uint64_t to) {
    std::vector<uint64_t> result;
    for (uint64_t n = from; n < to; n++)
        result.push_back(n);
    return result;
}

} // namespace plumb::test

#endif
