// A state file that anybody may have written over: whatever stands in it, a controller opens it or refuses
// it, reads rules and processes, edits it and cleans up, and stays within its bounds.
//
// The input is a list of patches to a sound file: two bytes of place, two of length, then the bytes. A place
// counts in steps of 8 bytes over the header, the first set and the first slots, where everything is decided.
#include "consumerd/control/state.h"
#include "consumerd/control/traced_processes.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

using namespace plumb;

namespace {

// One directory for the whole run, gone at its end.
class Place {
public:
    Place() : path_("/dev/shm/plumb-fuzz-XXXXXX") {
        if (::mkdtemp(path_.data()) == nullptr) std::abort();
    }
    ~Place() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

void apply(std::byte* file, const std::uint8_t* data, std::size_t bytes) {
    while (bytes > 4) {
        std::uint16_t place = 0;
        std::uint16_t length = 0;
        std::memcpy(&place, data, 2);
        std::memcpy(&length, data + 2, 2);
        data += 4;
        bytes -= 4;
        const std::size_t offset = std::size_t{place} * 8 % PLUMB_STATE_TOTAL_BYTES;
        const std::size_t count =
            std::min({std::size_t{length}, bytes, std::size_t{PLUMB_STATE_TOTAL_BYTES} - offset});
        std::memcpy(file + offset, data, count);
        data += count;
        bytes -= count;
    }
}

void use(StateFile& state) {
    const auto rules = state.rule_set();
    if (rules) {
        TracedProcess process{};
        process.process_id = 1;
        process.executable = "/usr/bin/shop";
        EventDescription event{};
        event.provider = "shop";
        event.name = "order";
        for (const std::string& name : sessions_with(**rules, process, event)) {
            if (name.size() >= 64) std::abort();
        }
    }
    for (const ProcessSlot& slot : state.processes()) {
        if (slot.index >= PLUMB_MAX_PROCESSES || slot.content.claim == 0) std::abort();
    }
    const Result<std::uint64_t> edited = state.edit([](plumb_rule_set& set) -> Status {
        if (set.rule_count > PLUMB_MAX_RULES) std::abort();
        return ok();
    });
    if (edited && *edited != state.generation()) std::abort();
    (void)state.clean_up().has_value();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    static const Place place;
    const Result<UserDirectory> directory = UserDirectory::open_existing_at(place.path(), ::geteuid());
    if (!directory) std::abort();
    (void)directory->unlink_file(PLUMB_STATE_FILE).has_value();
    if (!StateFile::open_or_create(*directory)) std::abort();

    const int fd = ::open(directory->path_of_file(PLUMB_STATE_FILE).c_str(), O_RDWR | O_CLOEXEC);
    void* base = ::mmap(nullptr, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (base == MAP_FAILED) std::abort();
    apply(static_cast<std::byte*>(base), data, bytes);
    ::munmap(base, PLUMB_STATE_TOTAL_BYTES);

    Result<StateFile> state = StateFile::open_existing(*directory);
    if (state) use(*state);
    return 0;
}
