/* Where the kernel dropped events since its buffer was full: by when each page was read. */
#include "consumerd/kernel/drop_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
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

/* Of the page that had to be read before the next one could be written, when it was read; two pages are to spare. */
TEST(DropPlaces, AreWhereAPageHadToWaitForThatOneBufferBeforeIt) {
    std::uint64_t seed = 1;
    const auto random = [&](std::uint64_t below) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        return (seed >> 33) % below;
    };
    for (const std::size_t pages : {2, 3, 8, 12}) {
        DropPlaces places(pages);
        std::vector<std::uint64_t> read_at;
        std::size_t taken = 0, found = 0;
        std::uint64_t last = 0;
        for (int turn = 0; turn < 500; turn++) {
            const std::size_t more = random(4);
            const std::uint64_t now = 10u * static_cast<unsigned>(turn);
            places.read(more, now);
            read_at.insert(read_at.end(), more, now);
            for (std::size_t i = random(4); i > 0 && taken < read_at.size(); i--) {
                bool expected = false;
                if (taken + 2 >= pages)
                    expected = read_at[std::min(taken + 2 - pages, read_at.size() - 1)] > last;
                ASSERT_EQ(places.may_have_dropped(), expected) << pages << " pages, " << taken << " taken";
                found += expected;
                /* It was written before it was read: at most as long before as the buffer takes. */
                const std::uint64_t time = read_at[taken] - std::min(random(10 * pages), read_at[taken]);
                const bool is_whole = random(5) != 0;
                places.take(time, is_whole);
                last = std::max(last, time); /* time does not go back */
                taken += is_whole;
            }
        }
        EXPECT_GT(found, 10u) << pages;
    }
    DropPlaces nothing_read(4);
    for (int i = 0; i < 10; i++) {
        EXPECT_FALSE(nothing_read.may_have_dropped());
        nothing_read.take(1);
    }
}

TEST(DropPlaces, KeepAFewForEachThatMayFollowWithinTheBuffer) {
    constexpr std::uint64_t few = 6;
    DropPlaces places(20);
    places.tell(0);
    EXPECT_EQ(places.told(), 0u);
    places.tell(1);
    EXPECT_EQ(places.told(), 1u) << "there are no others";
    places.take(1);
    places.tell(4);
    EXPECT_EQ(places.told(), 2u) << "each has one at least";
    places.take(1);
    std::uint64_t dropped = 0;
    for (std::uint64_t before = 2; before < 12; before++) {
        dropped = 100 * before;
        places.tell(dropped);
        EXPECT_EQ(places.untold(dropped), std::max(few, before))
            << "of as many places as were in the last buffer";
        places.take(1);
    }
    /* They were at pages 0 to 11, and fall out of the buffer one after the other. */
    for (int page = 12; page < 25; page++)
        places.take(1);
    places.tell(2000);
    EXPECT_EQ(places.untold(2000), 12u - 5) << "those of pages 0 to 4 are far behind";
    for (int page = 25; page < 50; page++)
        places.take(1);
    places.tell(3000);
    EXPECT_EQ(places.untold(3000), few);
}

TEST(DropPlaces, AreExpectedForAsLongAsTheBufferIs) {
    DropPlaces places(4);
    places.tell(100); /* at page 0 */
    for (int page = 0; page < 4; page++) {
        places.take(1);
        places.settle(100);
        EXPECT_EQ(places.untold(100), 6u);
    }
    places.take(1);
    places.settle(100);
    EXPECT_EQ(places.untold(100), 0u);
    for (const std::size_t pages : {1, 2}) { /* however small it is */
        DropPlaces small(pages);
        small.tell(100);
        small.settle(100);
        EXPECT_EQ(small.untold(100), 6u);
    }
}

/* Who reads was interrupted behind the read, before he looked at the clock: each page until then may have waited. */
TEST(DropPlaces, WhereTheTimeIsTooShortForAllGetAFew) {
    constexpr std::uint64_t distance = 10, events = 90, false_places = 14;
    for (const std::uint64_t dropped : {20u, 100u, 5000u}) {
        DropPlaces places(17);
        std::uint64_t time = 1000;
        const auto take_page = [&] {
            time += distance * events;
            places.take(time);
            places.know_events(events, distance * (events - 1));
        };
        for (int page = 0; page < 17; page++)
            take_page();
        for (std::uint64_t page = 0; page < false_places; page++) {
            places.tell(dropped, distance);
            EXPECT_EQ(places.told(), page + 1);
            take_page();
        }
        const std::uint64_t left = places.untold(dropped);
        places.tell(dropped, distance * dropped / 2);
        EXPECT_EQ(places.untold(dropped), std::min<std::uint64_t>(left - 1, false_places))
            << "the rest is there";
    }
    /* What a place can not have as a whole, it has in part. */
    DropPlaces places(17);
    places.take(1000);
    places.know_events(101, 1000);
    places.tell(1000, 2400);
    EXPECT_EQ(places.told(), 240u * 4 / 16);
    places.tell(1000, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(places.untold(1000), 6u);
}

TEST(DropPlaces, GoByTheDistanceOfEventsWhereTheyWereClose) {
    const auto told_of = [](std::uint64_t pages_behind, std::uint64_t count) {
        DropPlaces places(100);
        places.know_events(101, 1000);
        for (std::uint64_t page = 0; page < pages_behind; page++)
            places.know_events(count, 1000 * (count - 1)); /* there are pauses in it */
        places.tell(10000, 20000);
        return places.told();
    };
    EXPECT_EQ(told_of(0, 100), 20000u / 10 * 4 / 16);
    EXPECT_EQ(told_of(1, 100), 20000u / 11 * 4 / 16) << "it is forgotten, bit by bit";
    EXPECT_EQ(told_of(1000, 100), 20000u / 1000 * 4 / 16);
    EXPECT_EQ(told_of(1000, 7), 20000u / 10 * 4 / 16) << "of few events nothing is known";
    DropPlaces unknown(4);
    unknown.tell(100, 1);
    EXPECT_EQ(unknown.told(), 94u);
}

TEST(DropPlaces, TakeNothingBackOfWhatWasTold) {
    DropPlaces places(4);
    places.finish(1000);
    EXPECT_EQ(places.untold(3), 0u);
    places.tell(3);
    EXPECT_EQ(places.told(), 1000u);
    places.settle(3);
    EXPECT_EQ(places.told(), 1000u);
    places.finish(3);
    EXPECT_EQ(places.told(), 1000u);
    EXPECT_EQ(places.untold(1001), 1u);
}

TEST(DropPlaces, OfABufferThatOverwritesAllIsToldAtOnce) {
    DropPlaces places;
    places.read(100, 1);
    EXPECT_FALSE(places.may_have_dropped());
    places.tell(7);
    places.settle(7);
    EXPECT_EQ(places.told(), 7u);
    for (int i = 0; i < 5; i++)
        places.take(0);
    places.read(100, 1);
    EXPECT_FALSE(places.may_have_dropped());
    places.settle(7);
    EXPECT_EQ(places.told(), 7u);
}

} // namespace
} // namespace plumb
