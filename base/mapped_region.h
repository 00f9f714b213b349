/*
 * A file mapped shared, which another program may shorten at any moment. Whoever touches a page that the file no longer
 * has gets SIGBUS, which ends the process. Instead such a page, and all behind it, become zeros of our own, and the
 * region says that it was truncated: readers here believe nothing that they read anyway, and who owns the region looks
 * at that once in a while.
 *
 * A SIGBUS anywhere else is what it always was. The handler is installed with the first region.
 */
#ifndef PLUMB_BASE_MAPPED_REGION_H
#define PLUMB_BASE_MAPPED_REGION_H

#include "base/file.h"
#include "base/result.h"

#include <boost/interprocess/mapped_region.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace plumb {

class MappedRegion {
public:
    MappedRegion() = default;
    MappedRegion(MappedRegion&& other) noexcept
        : region_(std::move(other.region_)), guard_(std::exchange(other.guard_, nullptr)) {}
    MappedRegion& operator=(MappedRegion&& other) noexcept {
        std::swap(region_, other.region_);
        std::swap(guard_, other.guard_);
        return *this;
    }
    ~MappedRegion();

    void* get_address() const { return region_.get_address(); }
    std::size_t get_size() const { return region_.get_size(); }
    /* Whether somebody touched a part that the file did not have any more. */
    bool was_truncated() const;

    struct Guard;

private:
    friend Result<MappedRegion> map_file(const FileDescriptor&, std::size_t, bool, const std::string&);
    explicit MappedRegion(boost::interprocess::mapped_region region);

    boost::interprocess::mapped_region region_;
    Guard* guard_ = nullptr; /* nullptr: nothing is mapped */
};

/* Maps `bytes` of an open file, shared. `path` is for messages. */
Result<MappedRegion> map_file(const FileDescriptor& file, std::size_t bytes, bool writable,
                              const std::string& path);

/* What SIGBUS did before the handler: for a child that runs another program, which inherits whether it is ignored. */
void restore_bus_error_action();

} // namespace plumb

#endif
