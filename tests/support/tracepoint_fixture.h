// Tests of what tracepoints write: the events of tests/fixtures/kinds_events.h, in a session of the test's own, and its records
// as text.
#pragma once

#include "tests/support/private_shm.h"
#include "tests/support/record_reader.h"
#include "tests/support/test_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plumb::test {

// One number of a field, as text.
inline std::string show_number(const plumb_field& field, const unsigned char* at) {
    uint64_t bits = 0;
    memcpy(&bits, at, field.size);
    char text[64];
    if (field.type == PLUMB_FIELD_FLOAT) {
        float narrow;
        double wide;
        memcpy(&narrow, at, 4);
        if (field.size == 8) memcpy(&wide, at, 8);
        snprintf(text, sizeof(text), "%.17g", field.size == 4 ? static_cast<double>(narrow) : wide);
    } else if ((field.flags & PLUMB_FIELD_HEX) != 0) {
        snprintf(text, sizeof(text), "0x%lx", bits);
    } else if ((field.flags & PLUMB_FIELD_SIGNED) != 0) {
        const int unused = 64 - field.size * 8;
        snprintf(text, sizeof(text), "%ld", static_cast<int64_t>(bits << unused) >> unused);
    } else {
        snprintf(text, sizeof(text), "%lu", bits);
    }
    return text;
}

// "(new)", or nothing.
inline std::string show_labels(const SeenEvent::Field& field, const unsigned char* at) {
    const size_t ends = (field.field.flags & PLUMB_FIELD_RANGES) != 0 ? 2 : 1;
    std::string text;
    for (size_t i = 0; i + ends <= field.labels.size(); i += ends) {
        const auto& [first, label] = field.labels[i];
        const auto& [last, label_again] = field.labels[i + ends - 1];
        EXPECT_EQ(label, label_again);
        const auto value = static_cast<int64_t>(std::stoull(show_number(field.field, at), nullptr, 0));
        if (value >= first && value <= last) text += "(" + label + ")";
    }
    return text;
}

// "provider:event a=1 b=[2 3]", from the channel's own description; checks that the payload ends where it
// should.
inline std::string show(const TestChannel& channel, const SeenRecord& record) {
    const SeenEvent event = describe_event(channel, record.header.event_id);
    std::string text = event.name;
    const unsigned char* at = record.payload;
    for (const SeenEvent::Field& field : event.fields) {
        text += (text.back() == ' ' ? "" : " ") + field.name + "=";
        uint64_t count = 0;
        switch (field.field.type) {
        case PLUMB_FIELD_STRING:
            text += reinterpret_cast<const char*>(at);
            at += strlen(reinterpret_cast<const char*>(at)) + 1;
            continue;
        case PLUMB_FIELD_TEXT:
            memcpy(&count, at, 2);
            text.append(reinterpret_cast<const char*>(at + 2), count);
            at += 2 + count;
            continue;
        case PLUMB_FIELD_SEQUENCE:
            memcpy(&count, at, 2);
            at += 2;
            break;
        case PLUMB_FIELD_ARRAY:
            count = field.field.array_length;
            break;
        default:
            text += show_number(field.field, at);
            text += show_labels(field, at);
            at += field.field.size;
            continue;
        }
        text += "[";
        for (uint64_t i = 0; i < count; i++, at += field.field.size)
            text += (i == 0 ? "" : " ") + show_number(field.field, at);
        text += "]";
    }
    EXPECT_EQ(at, record.payload + record.payload_bytes) << event.name;
    return text;
}

class Tracepoint : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(has_private_shm()); }
    void TearDown() override { off(); }

    void on(const std::vector<TestRule>& rules = {{"kinds:*"}}, const ChannelShape& shape = {}) {
        channel_ = std::make_unique<TestChannel>(shape);
        apply(state_.set(0, channel_->cookie(), rules));
    }
    void off() { apply(state_.remove(0)); }
    void apply(uint64_t generation) {
        state_.signal_all(generation);
        EXPECT_TRUE(state_.wait(generation).empty());
    }
    // All records so far, as text; those of all rings in time order.
    std::vector<std::string> records() {
        std::vector<std::pair<uint64_t, std::string>> seen;
        threads_.clear();
        RecordReader reader(*channel_, [&](const SeenRecord& record) {
            seen.emplace_back(record.header.timestamp, show(*channel_, record));
            threads_.push_back(record.header.thread_id);
        });
        reader.keep = true;
        reader.poll();
        EXPECT_THAT(reader.complaints(), testing::IsEmpty());
        std::sort(seen.begin(), seen.end());
        std::vector<std::string> texts;
        for (auto& [timestamp, text] : seen)
            texts.push_back(text);
        return texts;
    }

    TestState state_;
    std::unique_ptr<TestChannel> channel_;
    std::vector<uint32_t> threads_;
};

inline std::string number(uint64_t n) {
    return "kinds:number n=" + std::to_string(n);
}

} // namespace plumb::test
