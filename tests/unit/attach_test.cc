// cmake-once
/* How a channel is made known to the fast path, looked at behind each store: other threads may begin an event there. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plumb {
namespace {

std::function<void()> behind_store;

template <typename T>
void store_and_look(T& word, T value) {
    store_seq_cst(word, value);
    if (behind_store) behind_store();
}

} // namespace
} // namespace plumb

/* All that this file has, so the one of the library stays out of the program. */
#define store_relaxed store_and_look
#define store_release store_and_look
#include "libtrace/attach.cc"
#undef store_relaxed
#undef store_release

namespace plumb {
namespace {

constexpr uint32_t session = 3;

class PublishedWriter : public testing::Test {
protected:
    PublishedWriter() {
        Attachment& attachment = attachments[session];
        attachment.epoch = 7;
        attachment.controls = reinterpret_cast<plumb_ring_control*>(0x10000);
        attachment.data = reinterpret_cast<unsigned char*>(0x20000);
        attachment.ring_bytes = 32768;
        attachment.ring_count = 2;
        attachment.record_limit = 1024;
        attachment.mode = PLUMB_MODE_BLOCK;
        attachment.clock_mode = PLUMB_CLOCK_TSC;
        attachment.thread_tag = 1u << PLUMB_TAG_SHIFT;
        runtime.writers = writers_;
        runtime.rseq_offset = 64;
    }
    ~PublishedWriter() override {
        behind_store = nullptr;
        runtime.writers = nullptr;
        runtime.rseq_offset = 0;
        attachments[session] = {};
    }
    const plumb_writer& writer() const { return writers_[session]; }

private:
    plumb_writer writers_[PLUMB_MAX_SESSIONS] = {};
};

TEST_F(PublishedWriter, has_what_the_channel_has) {
    publish_writer(session);
    EXPECT_EQ(writer().control, reinterpret_cast<unsigned char*>(0x10000));
    EXPECT_EQ(writer().data, reinterpret_cast<unsigned char*>(0x20000));
    EXPECT_EQ(writer().ring_bytes, 32768u);
    EXPECT_EQ(writer().position_mask, 32767u);
    EXPECT_EQ(writer().ring_count, 2u);
    EXPECT_EQ(writer().sequence_rings, 2u);
    EXPECT_EQ(writer().epoch, 7u);
    EXPECT_EQ(writer().record_limit, 1024u);
    EXPECT_EQ(writer().session_bit, 1u << session);
    EXPECT_EQ(writer().id_offset, offsetof(plumb_event, ids[session]));
    EXPECT_EQ(writer().clock_mode, PLUMB_CLOCK_TSC);
    EXPECT_EQ(writer().mode, PLUMB_MODE_BLOCK);
    EXPECT_EQ(writer().thread_tag, 1u << PLUMB_TAG_SHIFT);
}

TEST_F(PublishedWriter, lets_nobody_begin_before_all_of_it_is_there) {
    bool has_begun = false;
    behind_store = [&] {
        if (writer().record_limit == 0) return;
        has_begun = true;
        EXPECT_EQ(writer().session_bit, 1u << session) << "the event is taken for one that is off";
        EXPECT_EQ(writer().epoch, 7u);
        EXPECT_EQ(writer().ring_count, 2u);
        EXPECT_EQ(writer().sequence_rings, 2u);
    };
    publish_writer(session);
    EXPECT_TRUE(has_begun);
}

TEST_F(PublishedWriter, has_no_rings_for_the_fast_path_with_another_clock) {
    attachments[session].clock_mode = PLUMB_CLOCK_MONOTONIC;
    publish_writer(session);
    EXPECT_EQ(writer().ring_count, 0u);
    EXPECT_EQ(writer().sequence_rings, 2u);
}

TEST_F(PublishedWriter, has_none_without_restartable_sequences) {
    runtime.rseq_offset = 0;
    publish_writer(session);
    EXPECT_EQ(writer().ring_count, 0u);
    EXPECT_EQ(writer().sequence_rings, 0u);
}

} // namespace
} // namespace plumb
