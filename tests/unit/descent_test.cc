// cmake-once
/* Whether a process descends from a session's controller, by what /proc says of parents. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <unistd.h>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/descent.cc"

namespace plumb {
namespace {

uint32_t parent_in_text(const std::string& text) {
    return parent_in(text.data(), static_cast<long>(text.size()));
}

TEST(Parents, AreReadBehindAnyName) {
    EXPECT_EQ(parent_in_text("17 (shop) S 4711 17 17 0 -1"), 4711u);
    EXPECT_EQ(parent_in_text("17 () R 1 17"), 1u);
    EXPECT_EQ(parent_in_text("17 (a) S 12 (b)) S 34 5"), 34u);
    EXPECT_EQ(parent_in_text("17 (a b) Z 0 5"), 0u);
}

TEST(Parents, AreNotKnownWithoutAName) {
    for (const char* text : {"", "1", "17 shop S 4711 17", "17 (shop)", "17 (shop) S", "17 (shop) S "})
        EXPECT_EQ(parent_in_text(text), 0u) << text;
}

class Descent : public testing::Test {
protected:
    Descent() {
        runtime.process_id = sys::process_id();
        session_.cookie = ++last_cookie;
        session_.controller_namespace = process_namespace();
    }
    ~Descent() override {
        runtime.process_id = 0;
        runtime.process_namespace = 0;
    }
    bool descends_from(uint32_t process_id) {
        session_.controller_process_id = process_id;
        return descends_from_controller(session_, 0);
    }

    static inline uint64_t last_cookie = 0;
    plumb_session session_{};
};

TEST_F(Descent, IsFromAParent) {
    EXPECT_TRUE(descends_from(static_cast<uint32_t>(::getppid())));
}

TEST_F(Descent, IsFromTheParentsParent) {
    const uint32_t grandparent = parent_of(static_cast<uint32_t>(::getppid()));
    if (grandparent == 0) GTEST_SKIP() << "it has none";
    EXPECT_TRUE(descends_from(grandparent));
}

TEST_F(Descent, IsNotFromAnybodyElse) {
    EXPECT_FALSE(descends_from(sys::process_id())) << "nor from itself";
    session_.cookie = ++last_cookie;
    EXPECT_FALSE(descends_from(0));
    session_.cookie = ++last_cookie;
    session_.controller_namespace++;
    EXPECT_FALSE(descends_from(static_cast<uint32_t>(::getppid()))) << "a number of another namespace";
    session_.cookie = ++last_cookie;
    session_.controller_namespace = 0;
    EXPECT_FALSE(descends_from(static_cast<uint32_t>(::getppid())));
}

TEST_F(Descent, IsLookedForOnceInASession) {
    EXPECT_TRUE(descends_from(static_cast<uint32_t>(::getppid())));
    EXPECT_TRUE(descends_from(sys::process_id())) << "it was found before";
    session_.cookie = ++last_cookie;
    EXPECT_FALSE(descends_from(sys::process_id()));
    EXPECT_FALSE(descends_from(static_cast<uint32_t>(::getppid())));
}

} // namespace
} // namespace plumb
