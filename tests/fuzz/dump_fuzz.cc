// cmake-link: plumb_test_support plumb_static
// Dumps of memory of which anything was changed anywhere: a machine of a few pages with a channel in it. Input: a byte, which
// kind of file; then, again and again:
//
//   u16: which 8 bytes of the file, most often of the kernel's own pages or the file's header; u64: what they become
#include "consumerd/dump/dumped_channels.h"
#include "consumerd/dump/memory_dump.h"
#include "tests/support/channel_builder.h"
#include "tests/support/small_machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

std::vector<std::vector<std::byte>> make_dumps() {
    plumb::test::BuilderConfig config;
    config.subbuf_count = 2;
    config.ring_count = 1;
    config.event_slots = 8;
    config.entry_slots = 8;
    config.heap_bytes = 4096;
    plumb::test::ChannelBuilder channel(config);
    channel.control(0).memory = 8192;
    plumb::test::SmallMachine machine(128);
    machine.add_file(channel.bytes());
    const std::vector<std::byte> packed =
        plumb::test::compressed_dump(machine.memory(), plumb::test::Packing::zlib);
    return {machine.dump(), packed, plumb::test::flattened(packed)};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
    static const std::vector<std::vector<std::byte>> sound = make_dumps();
    if (bytes == 0) return 0;
    std::vector<std::byte> content = sound[data[0] % sound.size()];
    constexpr size_t step = 10;
    for (size_t at = 1; at + step <= bytes; at += step) {
        uint16_t word;
        std::memcpy(&word, data + at, sizeof(word));
        const size_t place = size_t{word} * 8 % (word % 4 == 0 ? content.size() : 12 * 4096);
        std::memcpy(content.data() + (place < content.size() - 8 ? place : 0), data + at + 2, 8);
    }
    plumb::FileDescriptor file(memfd_create("dump", MFD_CLOEXEC));
    if (pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
        abort();
    const auto dump = plumb::MemoryDump::open(std::move(file), "dump");
    if (!dump) return 0;
    const auto found = plumb::DumpedChannels::find(*dump);
    for (size_t i = 0; found && i < found->count(); i++)
        (void)found->copy(i);
    return 0;
}
