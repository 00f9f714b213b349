// cmake-once
/* What a recording puts on a line: as what it comes out there, what is sent again, and how it ends where nobody reads. */
#include "consumerd/line/frame.h"
#include "consumerd/line/serial_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

constexpr std::pair<uint32_t, speed_t> speeds[] = {
    {9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},     {115200, B115200},
    {230400, B230400},   {460800, B460800},   {500000, B500000},   {576000, B576000},   {921600, B921600},
    {1000000, B1000000}, {1152000, B1152000}, {1500000, B1500000}, {2000000, B2000000}, {2500000, B2500000},
    {3000000, B3000000}, {3500000, B3500000}, {4000000, B4000000}};

TEST(SerialPlaceText, NamesEverySpeedThatALineMayHave) {
    std::string all;
    for (const auto& [baud, code] : speeds) {
        const auto place = SerialPlace::parse(fmt::format("/dev/ttyS1:{}", baud));
        ASSERT_TRUE(place) << baud;
        EXPECT_EQ(place->baud, baud);
        EXPECT_EQ(place->path, "/dev/ttyS1");
        all += fmt::format(" {}", baud);
    }
    for (const char* speed : {"9601", "0", "99999999999"})
        EXPECT_EQ(SerialPlace::parse(fmt::format("/dev/ttyS1:{}", speed)).error().message(),
                  fmt::format("\"{}\" is no speed of a line. There are{}.", speed, all));
    for (const char* nothing : {"", ":9600"})
        EXPECT_EQ(SerialPlace::parse(nothing).error().message(),
                  fmt::format("\"{}\" names no line. Name its device, and its speed if that is not 115200: "
                              "/dev/ttyS1:921600.",
                              nothing));
    for (const char* path : {"/dev/ttyS1:", "/dev/x:9600b", "x:1/y"})
        EXPECT_EQ(SerialPlace::parse(path)->path, path) << "no speed at all";
}

TEST(SerialTerminal, CarriesEveryByteAtItsSpeed) {
    for (const auto& [baud, code] : speeds) {
        int master = -1, slave = -1;
        char name[256];
        ASSERT_EQ(::openpty(&master, &slave, name, nullptr, nullptr), 0);
        termios before{};
        ::tcgetattr(slave, &before);
        before.c_cflag |= CSTOPB | CRTSCTS;
        before.c_cflag &= ~static_cast<tcflag_t>(CLOCAL);
        ::tcsetattr(slave, TCSANOW, &before);
        const auto line = open_serial({name, baud}, O_WRONLY);
        ASSERT_TRUE(line) << line.error().message();
        EXPECT_EQ(::fcntl(line->get(), F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_WRONLY | O_NONBLOCK);
        EXPECT_EQ(::fcntl(line->get(), F_GETFD), FD_CLOEXEC);
        termios settings{};
        ASSERT_EQ(::tcgetattr(slave, &settings), 0);
        EXPECT_EQ(::cfgetospeed(&settings), code) << baud;
        EXPECT_EQ(::cfgetispeed(&settings), code) << baud;
        EXPECT_EQ(settings.c_lflag & (ECHO | ICANON | ISIG | IEXTEN), 0u);
        EXPECT_EQ(settings.c_oflag & OPOST, 0u);
        EXPECT_EQ(settings.c_cflag & (CSIZE | PARENB | CSTOPB | CRTSCTS | CLOCAL | CREAD),
                  static_cast<tcflag_t>(CS8 | CLOCAL | CREAD));
        ::close(master);
        ::close(slave);
    }
}

struct Found {
    FrameType type;
    std::string name;
    std::string content;
    bool operator==(const Found&) const = default;
};

class SerialLineTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-serial-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
        path_ = root_ + "/line";
        std::signal(SIGPIPE, SIG_IGN); /* as in every plumb */
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::shared_ptr<SerialLine> open_file() {
        std::ofstream(path_).close();
        return open();
    }
    std::shared_ptr<SerialLine> open() {
        auto line = SerialLine::open({path_, 115200});
        EXPECT_TRUE(line) << line.error().message();
        return *line;
    }
    std::string complaint_of_open() const {
        const auto line = SerialLine::open({path_, 115200});
        return line ? "" : line.error().message();
    }
    /* Whole frames that came out since the last look, which are all that came. */
    std::vector<Found> sent(uint32_t first_number = 0) {
        std::ifstream file(path_);
        const std::string all{std::istreambuf_iterator<char>(file), {}};
        FrameScanner scanner;
        scanner.add(bytes_of(all));
        std::vector<Found> found;
        while (const auto frame = scanner.next()) {
            EXPECT_EQ(frame->number, first_number++);
            found.push_back({frame->type,
                             std::string(frame->name),
                             {reinterpret_cast<const char*>(frame->content.data()), frame->content.size()}});
        }
        EXPECT_EQ(scanner.skipped_bytes(), 0u);
        found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(seen_));
        seen_ += found.size();
        return found;
    }
    static Found part(const std::string& name, FilePart part, const std::string& content) {
        return {FrameType::part, name,
                std::string(reinterpret_cast<const char*>(&part), sizeof(part)) + content};
    }
    static Status send_packet(SerialLine& line, const std::string& records) {
        return line.send_packet("ust/ring_0", bytes_of("start"), bytes_of(records), 3);
    }
    /* A pipe, and who might read from it. */
    int make_pipe() {
        EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
        return ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
    }

    std::string root_, path_;
    size_t seen_ = 0;
};

TEST_F(SerialLineTest, IsWhereItIsSaidToBeAndEmpty) {
    EXPECT_EQ(complaint_of_open(), "Could not open " + path_ + ": No such file or directory.");
    std::ofstream(path_) << "x";
    EXPECT_EQ(complaint_of_open(), "There is something in " + path_ + " already. Send into an empty file.");
    std::filesystem::remove(path_);
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    const auto line = SerialLine::open({path_, 115200});
    ASSERT_FALSE(line);
    EXPECT_EQ(line.error().number(), ENXIO);
    EXPECT_THAT(line.error().message(),
                HasSubstr("Could not open " + path_ + ", which nobody reads, or has no device: "));
    EXPECT_THAT(line.error().message(), HasSubstr("Begin `plumb receive` on the other side first."));
}

TEST_F(SerialLineTest, SendsPacketsAndFilesByParts) {
    const auto line = open_file();
    const std::string a(file_part_bytes, 'a'), b(file_part_bytes, 'b');
    EXPECT_EQ(line->records_max(), 4096u);
    ASSERT_TRUE(line->send_file("ust/metadata", a + b + "c"));
    EXPECT_THAT(sent(),
                ElementsAre(part("ust/metadata", {1, 2049, 0}, a), part("ust/metadata", {1, 2049, 1024}, b),
                            part("ust/metadata", {1, 2049, 2048}, "c")));
    ASSERT_TRUE(line->send_file("ust/metadata", b));
    EXPECT_THAT(sent(), ElementsAre(part("ust/metadata", {2, 1024, 0}, b)));
    ASSERT_TRUE(line->send_file("kernel/metadata", "k"));
    EXPECT_THAT(sent(), ElementsAre(part("kernel/metadata", {1, 1, 0}, "k")));
    ASSERT_TRUE(send_packet(*line, "records"));
    EXPECT_THAT(sent(),
                ElementsAre(Found{FrameType::packet, "ust/ring_0", std::string("startrecords\0\0\0", 15)}));
    const uint64_t timestamp = 0x123456789abcdef0;
    ASSERT_TRUE(line->send_begin("ust/ring_0", timestamp));
    EXPECT_THAT(sent(), ElementsAre(Found{FrameType::begin,
                                          "ust/ring_0",
                                          {reinterpret_cast<const char*>(&timestamp), sizeof(timestamp)}}));
    /* Once more, twice, for whom misses a part of it. */
    ASSERT_TRUE(line->end());
    const Found end{FrameType::end, "", ""}, kernel = part("kernel/metadata", {1, 1, 0}, "k"),
                                             ust = part("ust/metadata", {2, 1024, 0}, b);
    EXPECT_THAT(sent(), ElementsAre(kernel, ust, kernel, ust, end, end));
}

TEST_F(SerialLineTest, SendsWhatIsLongOnceAtTheEnd) {
    for (const size_t parts : {64, 65}) {
        seen_ = 0;
        const auto line = open_file();
        ASSERT_TRUE(line->send_file("ust/metadata", std::string(100'000, 'x')));
        ASSERT_TRUE(line->send_file("ust/metadata", std::string(parts * file_part_bytes, 'x')));
        (void)sent();
        ASSERT_TRUE(line->end());
        EXPECT_EQ(sent().size(), (parts == 64 ? 2 * parts : parts) + 2);
        std::filesystem::remove(path_);
    }
}

/* Whoever begins to listen late has what describes the packets soon; and it is a small part of what is sent. */
TEST_F(SerialLineTest, SendsFilesAgainBetweenPackets) {
    const auto line = open_file();
    ASSERT_TRUE(line->send_file("ust/metadata", std::string(100 * file_part_bytes, 'x')));
    ASSERT_TRUE(line->send_file("ust/metadata", std::string(file_part_bytes, 'y')));
    (void)sent();
    for (int i = 0; i < 200; i++)
        ASSERT_TRUE(send_packet(*line, std::string(2000, 'r')));
    const Found file = part("ust/metadata", {2, file_part_bytes, 0}, std::string(file_part_bytes, 'y'));
    size_t between = 0, times = 0;
    for (const Found& each : sent()) {
        between += each.content.size();
        if (each.type != FrameType::part) continue;
        EXPECT_EQ(each, file);
        if (times++ > 0) {
            EXPECT_GT(between, 8 * file_part_bytes);
        }
        EXPECT_LT(between, 32 * file_part_bytes);
        between = 0;
    }
    EXPECT_GT(times, 10u);
}

TEST_F(SerialLineTest, SendsNoPacketThatIsLargerThanAFrame) {
    const auto line = open_file();
    /* Its name with the length, its start, its padding. */
    const size_t largest = frame_payload_max - 11 - 5 - 3;
    ASSERT_TRUE(send_packet(*line, std::string(largest, 'r')));
    EXPECT_EQ(sent().size(), 1u);
    const Status refused = send_packet(*line, std::string(largest + 1, 'r'));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              fmt::format("A packet of {} bytes is too large for {}.", largest + 1, path_));
    EXPECT_EQ(sent().size(), 0u);
    ASSERT_TRUE(send_packet(*line, "small"));
    EXPECT_EQ(sent().size(), 1u);
}

TEST_F(SerialLineTest, SaysWhyNothingCanBeSent) {
    path_ = "/dev/full";
    EXPECT_EQ(open()->send_begin("ust/ring_0", 1).error().message(),
              "Could not send to /dev/full: No space left on device.");
    path_ = root_ + "/line";
    const int reader = make_pipe();
    const auto line = open();
    ASSERT_TRUE(line->send_begin("ust/ring_0", 1));
    ::close(reader);
    const Status refused = line->send_begin("ust/ring_0", 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "Could not send to " + path_ + ": Broken pipe.");
    EXPECT_EQ(line->end().error().number(), EPIPE);
}

TEST_F(SerialLineTest, LeavesOutTheRestOnceItIsAskedToEnd) {
    const int reader = make_pipe();
    const auto line = open();
    line->end_when([] { return true; });
    int whole = 0;
    while (send_packet(*line, std::string(30'000, 'r')) && whole < 100)
        whole++; /* what there is room for is sent whatever was asked */
    EXPECT_GT(whole, 0);
    const Status cut = send_packet(*line, std::string(30'000, 'r'));
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().message(), "The rest was not sent to " + path_ + ", as it was asked to end.");
    EXPECT_EQ(cut.error().number(), ECANCELED);
    /* What was left out does not come later. */
    line->end_when([] { return false; });
    FrameScanner scanner;
    std::vector<uint32_t> numbers;
    const auto take = [&] {
        std::vector<std::byte> some(1 << 20);
        const ssize_t got = ::read(reader, some.data(), some.size());
        if (got > 0) scanner.add(std::span(some).first(static_cast<size_t>(got)));
        while (const auto frame = scanner.next())
            numbers.push_back(frame->number);
    };
    take();
    EXPECT_EQ(numbers.size(), static_cast<size_t>(whole));
    ASSERT_TRUE(send_packet(*line, "small"));
    take();
    scanner.give_up_begun();
    while (const auto frame = scanner.next())
        numbers.push_back(frame->number);
    ASSERT_EQ(numbers.size(), static_cast<size_t>(whole) + 1);
    EXPECT_EQ(numbers.back(), static_cast<uint32_t>(whole) + 2);
    ::close(reader);
}

/* It is waited for once, and then each try takes no time until somebody reads again. */
TEST_F(SerialLineTest, DoesNotWaitForWhoeverDoesNotReadAgainAndAgain) {
    const auto seconds_of = [](const auto& what) {
        const auto begun = std::chrono::steady_clock::now();
        what();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    };
    const int reader = make_pipe();
    const auto line = open();
    Status status = ok();
    const double waited = seconds_of([&] {
        while (status)
            status = send_packet(*line, std::string(30'000, 'r'));
    });
    EXPECT_EQ(status.error().message(), path_ + " takes nothing: does anybody read on the other side?");
    EXPECT_EQ(status.error().number(), ETIMEDOUT);
    EXPECT_GT(waited, 2);
    EXPECT_LT(seconds_of([&] {
                  for (int i = 0; i < 100; i++)
                      EXPECT_EQ(send_packet(*line, "records").error().number(), ETIMEDOUT);
              }),
              2);
    std::vector<std::byte> some(1 << 20);
    ASSERT_GT(::read(reader, some.data(), some.size()), 0);
    EXPECT_TRUE(send_packet(*line, "records"));
    ::close(reader);
}

} // namespace
} // namespace plumb
