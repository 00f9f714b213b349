/* Where the kernel dropped events since its buffer was full: by when each page was read. */
#include "consumerd/kernel/drop_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plumb {
namespace {

constexpr std::size_t buffer_pages = 8;

/* A buffer as the kernel has it: each page takes 10 of time to fill, and as long as all are full, each event is dropped. */
class Kernel {
public:
    explicit Kernel(std::size_t pages) : places_(pages) {}

    /* Until then it writes: pages, and events of which some are dropped. */
    void run_until(std::uint64_t time) {
        while (now_ < time) {
            if (written_ - read_ == buffer_pages) {
                dropped_ += time - now_;
                is_behind_drops_ = true;
                now_ = time;
            } else {
                now_ += 10;
                ends_.push_back(now_);
                behind_drops_.push_back(is_behind_drops_);
                is_behind_drops_ = false;
                written_++;
            }
        }
    }
    void read(std::size_t pages) {
        pages = std::min(pages, written_ - read_);
        read_ += pages;
        places_.read(pages, now_);
    }
    /* The recorder looks at what it has read: at which pages it was told of, and how many. */
    void take() {
        for (; taken_ < read_; taken_++) {
            const std::uint64_t before = places_.told();
            const bool may_be = places_.may_have_dropped() && places_.untold(dropped_) != 0;
            if (may_be) places_.tell(dropped_);
            told_at_.push_back(may_be ? places_.told() - before : 0);
            places_.take(ends_[taken_]);
        }
    }
    void finish() {
        run_until(now_ + 1000);
        while (read_ < written_)
            read(1);
        take();
        places_.settle(dropped_);
    }

    DropPlaces places_;
    std::uint64_t now_ = 0, dropped_ = 0;
    std::size_t written_ = 0, read_ = 0, taken_ = 0;
    bool is_behind_drops_ = false;
    std::vector<std::uint64_t> ends_, told_at_;
    std::vector<bool> behind_drops_;
};

TEST(DropPlaces, ThereAreNoneWhereTheBufferWasNeverFull) {
    Kernel kernel(buffer_pages);
    for (int turn = 0; turn < 100; turn++) {
        kernel.run_until(kernel.now_ + 30);
        kernel.read(3);
        kernel.take();
    }
    EXPECT_EQ(kernel.dropped_, 0u);
    EXPECT_EQ(std::count(kernel.told_at_.begin(), kernel.told_at_.end(), 0u), 300);
}

TEST(DropPlaces, APlaceHasNearlyAllThatWasDroppedThere) {
    Kernel kernel(buffer_pages);
    kernel.run_until(580); /* 80 for the pages */
    kernel.read(buffer_pages);
    kernel.run_until(600);
    kernel.take();
    kernel.read(buffer_pages);
    kernel.take();
    EXPECT_EQ(kernel.dropped_, 500u);
    ASSERT_GE(kernel.told_at_.size(), 9u);
    EXPECT_GE(kernel.told_at_[6] + kernel.told_at_[7] + kernel.told_at_[8], 490u);
    EXPECT_GT(kernel.told_at_[8], 0u);
}

TEST(DropPlaces, EachPlaceHasSomeAndTheirSumIsRight) {
    for (const std::size_t at_once : {1, 2, 5, 8})
        for (const std::uint64_t pause : {15, 40, 90, 200}) {
            Kernel kernel(buffer_pages);
            for (int turn = 0; turn < 200; turn++) {
                kernel.run_until(kernel.now_ + pause);
                kernel.read(at_once);
                kernel.take();
            }
            const std::uint64_t dropped = kernel.dropped_;
            std::uint64_t without = 0, sum = 0;
            for (std::size_t page = 0; page < kernel.told_at_.size(); page++) {
                without += kernel.behind_drops_[page] && kernel.told_at_[page] == 0;
                sum += kernel.told_at_[page];
            }
            EXPECT_EQ(without, 0u) << at_once << " at once, every " << pause;
            EXPECT_LE(sum, dropped);
            kernel.finish();
            kernel.places_.finish(kernel.dropped_);
            EXPECT_EQ(kernel.places_.told(), kernel.dropped_);
        }
}

TEST(DropPlaces, WhatIsKeptForOthersIsToldWhenNoneCanFollow) {
    Kernel kernel(buffer_pages);
    kernel.run_until(580);
    kernel.read(buffer_pages);
    kernel.take();
    for (int turn = 0; turn < 30; turn++) {
        kernel.run_until(kernel.now_ + 20);
        kernel.read(2);
        kernel.take();
        kernel.places_.settle(kernel.dropped_);
    }
    EXPECT_EQ(kernel.dropped_, 500u);
    EXPECT_EQ(kernel.places_.told(), 500u);
}

TEST(DropPlaces, OfABufferThatOverwritesAllIsToldAtOnce) {
    DropPlaces places;
    places.read(100, 1);
    EXPECT_FALSE(places.may_have_dropped());
    places.settle(7);
    EXPECT_EQ(places.told(), 7u);
}

} // namespace
} // namespace plumb
